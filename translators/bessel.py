"""Decides how Bessel functions, modified ones included, and the Airy function are computed from sin, cos, exp and log.

Imported by translators.installation. Float32 accuracy, absolute near the zeros. The coefficients are least squares at Chebyshev
nodes against values of 30 digits; the forms are those of the asymptotic expansions and of the ascending series.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import polynomial, unary
from neuron_ops.translators.registry import translator

_SERIES = "DLMF 10.25.2 up to 7.75, 10.40.1 beyond; fit"
_HANKEL = "DLMF 10.17.3, 10.8; fit"

# J0 / ((x² - 5.78…)(x² - 30.47…)) and J1 / x / ((x² - 14.68…)(x² - 49.22…)) in x², x ≤ 5.
_J0 = (-2.03526831e-17, 8.16359959e-15, -2.08769509e-12, 3.93516213e-10, -5.31784133e-08, 4.78435462e-06, -0.000251202352, 0.00567469332)  # fmt: skip
_J1 = (-9.89158106e-19, 4.28140165e-16, -1.20982257e-13, 2.55734972e-11, -3.9294521e-09, 4.0859139e-07, -2.5304774e-05, 0.000691922837)  # fmt: skip
_J0_ZEROS = (5.783185962946785, 30.471262343662087)
_J1_ZEROS = (14.681970642123893, 49.218456321694603)
# Y0 - 2/π · log(x) · J0 and (Y1 - 2/π · (log(x) · J1 - 1/x)) / x in x², x ≤ 5.
_Y0 = (3.92120451e-17, -1.61719012e-14, 4.12177828e-12, -7.68926913e-10, 1.03580613e-07, -9.49497764e-06, 0.000538602561, -0.0160739678, 0.177606017, -0.0738042951)  # fmt: skip
_Y1 = (2.05627121e-18, -9.23439533e-16, 2.63923112e-13, -5.64622912e-11, 8.93168404e-09, -9.92672761e-07, 7.16426825e-05, -0.00295530533, 0.0543486882, -0.196057091)  # fmt: skip
# The amplitudes P and Q · x/5 of Hankel's expansion in 25/x², x ≥ 5.
_P0 = (8.40187479e-07, -4.33353723e-06, 1.24225664e-05, -3.57671786e-05, 0.000179316522, -0.00281249276, 1)  # fmt: skip
_Q0 = (-7.29944151e-07, 3.57355869e-06, -9.18515918e-06, 2.12206072e-05, -7.25466753e-05, 0.000585930264, -0.0249999999)  # fmt: skip
_P1 = (-9.3966267e-07, 4.87749288e-06, -1.41924208e-05, 4.23423649e-05, -0.000230573335, 0.00468749203, 1)  # fmt: skip
_Q1 = (8.10344643e-07, -3.98581038e-06, 1.03564245e-05, -2.45404952e-05, 8.86847083e-05, -0.000820304594, 0.0749999999)  # fmt: skip
# K0 + log(x/2) · I0 and x · (K1 - log(x/2) · I1) in x², x ≤ 2; √x · exp(x) · K in 8/x - 2 beyond.
_K0_NEAR = (9.52258233e-10, 1.15312455e-07, 1.02150869e-05, 0.000545188453, 0.0144185062, 0.105696084, -0.577215665)  # fmt: skip
_K1_NEAR = (-1.10669382e-08, -1.08389981e-06, -7.49450318e-05, -0.00283709146, -0.0420490347, 0.0386078359, 1)  # fmt: skip
_K0_FAR = (-8.4412719e-10, 4.28675391e-09, -1.57052823e-08, 1.04046648e-07, -7.75552206e-07, 6.23059786e-06, -5.99692693e-05, 0.000758218793, -0.0155357313, 1.21859534)  # fmt: skip
_K1_FAR = (1.02387809e-09, -5.17302156e-09, 1.9490532e-08, -1.33713859e-07, 1.02994914e-06, -8.73386211e-06, 9.19627066e-05, -0.00139167758, 0.0516748695, 1.36315189)  # fmt: skip
# √x · exp(-x) · I in 32/x - 2, x ≥ 8 (I0, I1).
_I0_FAR = (
    6.07723099e-12, 2.4703307e-10, 1.64949833e-09, 9.60411352e-09, 9.23787771e-08, 1.392477e-06, 3.40541938e-05,
    0.00168027612, 0.402176509,
)  # fmt: skip
_I1_FAR = (
    -9.07414675e-12, -2.7948499e-10, -1.8450969e-09, -1.12009493e-08, -1.14287154e-07, -1.87940847e-06, -5.48091362e-05,
    -0.00487478873, 0.389398459,
)  # fmt: skip
_I0_SERIES = tuple(1 / math.factorial(k) ** 2 for k in range(18, -1, -1))
_I1_SERIES = tuple(1 / (math.factorial(k) * math.factorial(k + 1)) for k in range(18, -1, -1))
# Ai: times exp(ζ) · x^¼ in 1/ζ, x ≥ 2.09, ζ = ⅔ x^1.5; times exp(x) in x up to there; in x down to -2.09; amplitudes in 1/ζ².
_AI_RIGHT = (-0.0130270851, 0.0375754167, -0.0496362393, 0.0413606098, -0.0263113168, 0.0155679709, -0.0106715497, 0.010473543, -0.0195898934, 0.282094792)  # fmt: skip
_AI_NEAR = (-1.82423712e-06, 7.76813268e-06, 9.06869285e-05, -0.000695163906, 0.000270992123, 0.00921330615, -0.0110517965, -0.0813079159, 0.0962088132, 0.355028052)  # fmt: skip
_AI_LEFT = (1.64937251e-05, 0.000174591866, 0.000462268443, 0.000340309001, 0.00296148388, 0.000725818688, -0.0212396144, 0.0592573169, 1.14021753e-05, -0.258818823, 0.355028059)  # fmt: skip
_AI_P = (-6.85562812, 7.50493333, -3.56668928, 1.01420894, -0.220316532, 0.0560920236, -0.0371186837, 0.999999975)  # fmt: skip
_AI_Q = (-22.6740839, 24.4495471, -11.3035684, 3.03912149, -0.581398053, 0.109891207, -0.0379351647, 0.0694443478)  # fmt: skip


def _scaled_i(order: int, a: torch.Tensor) -> torch.Tensor:
    """Return exp(-a) · I of order 0 or 1 for a ≥ 0."""
    series, far = (_I0_SERIES, _I0_FAR) if order == 0 else (_I1_SERIES, _I1_FAR)
    near = torch.clamp_max(a, 8)
    quarter = near * near / 4
    low = polynomial(quarter, series) * torch.exp(-near)
    low = low * (near / 2) if order else low
    high = torch.clamp_min(a, 8)
    return torch.where(a <= 8, low, polynomial(32 / high - 2, far) / torch.sqrt(high))


def _i(order: int, a: torch.Tensor) -> torch.Tensor:
    """Return I of order 0 or 1 for a ≥ 0; NaN at infinity, as ATen.

    exp is applied in halves, so that it overflows only where the result does.
    """
    half = torch.exp(a / 2)
    return _scaled_i(order, a) * half * half


def _odd(size: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.where(x < 0, -size, size)


@translator("aten.i0.default", "aten.special_modified_bessel_i0.default", source=_SERIES)
@unary
def i0(self: torch.Tensor) -> torch.Tensor:
    """Return I0."""
    return _i(0, self.abs())


@translator("aten.special_i0e.default", source=_SERIES)
@unary
def special_i0e(self: torch.Tensor) -> torch.Tensor:
    """Return exp(-|x|) · I0."""
    return _scaled_i(0, self.abs())


@translator("aten.special_i1.default", "aten.special_modified_bessel_i1.default", source=_SERIES)
@unary
def special_i1(self: torch.Tensor) -> torch.Tensor:
    """Return I1."""
    return _odd(_i(1, self.abs()), self)


@translator("aten.special_i1e.default", source=_SERIES)
@unary
def special_i1e(self: torch.Tensor) -> torch.Tensor:
    """Return exp(-|x|) · I1."""
    return _odd(_scaled_i(1, self.abs()), self)


def _k(order: int, x: torch.Tensor, *, scaled: bool) -> torch.Tensor:
    """Return K of order 0 or 1, times exp(x) if scaled: infinite at zero, NaN below."""
    near, far = torch.clamp(x, 0, 2), torch.clamp_min(x, 2)
    square = near * near
    i, log = _i(order, near), torch.log(near / 2)
    low = polynomial(square, _K0_NEAR) - log * i if order == 0 else log * i + polynomial(square, _K1_NEAR) / near
    high = polynomial(8 / far - 2, _K0_FAR if order == 0 else _K1_FAR) / torch.sqrt(far)
    low, high = (low * torch.exp(near), high) if scaled else (low, high * torch.exp(-far))
    value = torch.where(x <= 2, low, high)
    return torch.where(x == 0, math.inf, torch.where(x < 0, math.nan, value))


@translator("aten.special_modified_bessel_k0.default", source="DLMF 10.31.2, 10.40.2; fit")
@unary
def special_modified_bessel_k0(self: torch.Tensor) -> torch.Tensor:
    """Return K0."""
    return _k(0, self, scaled=False)


@translator("aten.special_modified_bessel_k1.default", source="DLMF 10.31.1, 10.40.2; fit")
@unary
def special_modified_bessel_k1(self: torch.Tensor) -> torch.Tensor:
    """Return K1."""
    return _k(1, self, scaled=False)


@translator("aten.special_scaled_modified_bessel_k0.default", source="DLMF 10.31.2, 10.40.2; fit")
@unary
def special_scaled_modified_bessel_k0(x: torch.Tensor) -> torch.Tensor:
    """Return exp(x) · K0."""
    return _k(0, x, scaled=True)


@translator("aten.special_scaled_modified_bessel_k1.default", source="DLMF 10.31.1, 10.40.2; fit")
@unary
def special_scaled_modified_bessel_k1(x: torch.Tensor) -> torch.Tensor:
    """Return exp(x) · K1."""
    return _k(1, x, scaled=True)


def _waves(order: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return J and Y of order 0 or 1 for x ≥ 5."""
    z = 25 / (x * x)
    p, q = (_P0, _Q0) if order == 0 else (_P1, _Q1)
    p_value, q_value = polynomial(z, p), polynomial(z, q) * (5 / x)
    angle = x - (0.25 + 0.5 * order) * math.pi
    cosine, sine = torch.cos(angle), torch.sin(angle)
    size = math.sqrt(2 / math.pi) / torch.sqrt(x)
    return size * (p_value * cosine - q_value * sine), size * (p_value * sine + q_value * cosine)


def _j_near(order: int, x: torch.Tensor) -> torch.Tensor:
    """Return J of order 0 or 1 for |x| ≤ 5."""
    z = x * x
    first, second = _J0_ZEROS if order == 0 else _J1_ZEROS
    value = (z - first) * (z - second) * polynomial(z, _J0 if order == 0 else _J1)
    return value * x if order else value


def _j(order: int, x: torch.Tensor) -> torch.Tensor:
    a = x.abs()
    value = torch.where(a <= 5, _j_near(order, torch.clamp_max(a, 5)), _waves(order, torch.clamp_min(a, 5))[0])
    return _odd(value, x) if order else value


@translator("aten.special_bessel_j0.default", source=_HANKEL)
@unary
def special_bessel_j0(self: torch.Tensor) -> torch.Tensor:
    """Return J0."""
    return _j(0, self)


@translator("aten.special_bessel_j1.default", source=_HANKEL)
@unary
def special_bessel_j1(self: torch.Tensor) -> torch.Tensor:
    """Return J1."""
    return _j(1, self)


def _y(order: int, x: torch.Tensor) -> torch.Tensor:
    """Return Y of order 0 or 1: -infinity at zero, NaN below."""
    near = torch.clamp(x, 0, 5)
    z, log = near * near, torch.log(near)
    if order == 0:
        low = polynomial(z, _Y0) + (2 / math.pi) * log * _j_near(0, near)
    else:
        low = near * polynomial(z, _Y1) + (2 / math.pi) * (log * _j_near(1, near) - 1 / near)
    value = torch.where(x <= 5, low, _waves(order, torch.clamp_min(x, 5))[1])
    return torch.where(x == 0, -math.inf, torch.where(x < 0, math.nan, value))


@translator("aten.special_bessel_y0.default", source=_HANKEL)
@unary
def special_bessel_y0(self: torch.Tensor) -> torch.Tensor:
    """Return Y0."""
    return _y(0, self)


@translator("aten.special_bessel_y1.default", source=_HANKEL)
@unary
def special_bessel_y1(self: torch.Tensor) -> torch.Tensor:
    """Return Y1."""
    return _y(1, self)


@translator("aten.special_spherical_bessel_j0.default", source="DLMF 10.49.3; its series near zero")
@unary
def special_spherical_bessel_j0(x: torch.Tensor) -> torch.Tensor:
    """Return sin(x) / x."""
    z = x * x
    near = 1 - z / 6 * (1 - z / 20 * (1 - z / 42))
    return torch.where(torch.isinf(x), 0.0, torch.where(x.abs() < 0.5, near, torch.sin(x) / x))


@translator("aten.special_airy_ai.default", source="DLMF 9.7.5, 9.7.9; fit")
@unary
def special_airy_ai(x: torch.Tensor) -> torch.Tensor:
    """Return the Airy function Ai; NaN at the infinities, as ATen."""
    a = torch.clamp_min(x.abs(), 2)
    root = torch.sqrt(a)
    zeta = a * root * (2 / 3)
    quarter = torch.sqrt(root)
    right = torch.exp(-zeta) / quarter * polynomial(1 / zeta, _AI_RIGHT)
    z = 1 / (zeta * zeta)
    angle = zeta + math.pi / 4
    p_value, q_value = polynomial(z, _AI_P), polynomial(z, _AI_Q) / zeta
    left = (p_value * torch.sin(angle) - q_value * torch.cos(angle)) / (quarter * math.sqrt(math.pi))
    near = torch.clamp(x, -2.09, 2.09)
    value = torch.where(x < 0, polynomial(near, _AI_LEFT), torch.exp(-near) * polynomial(near, _AI_NEAR))
    value = torch.where(x >= 2.09, right, torch.where(x < -2.09, left, value))
    return torch.where(torch.isinf(x), math.nan, value)
