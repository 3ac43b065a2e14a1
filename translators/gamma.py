"""Decides how the gamma function's relatives are computed: lgamma, digamma, polygamma, the Hurwitz zeta function.

Imported by translators.installation. Float32 accuracy. Polynomials named "fit" are least squares at Chebyshev nodes against 30
digits; their largest relative error is below 1e-8.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from neuron_ops.translators.promotion import pair, polynomial, unary
from neuron_ops.translators.registry import translator

# lgamma(1 + z) / z and lgamma(2 + z) / z on [-0.5, 0.5]; lgamma(3.75 + z) on ±1.25, lgamma(6.5 + z) on ±1.5.
_NEAR_ONE = (
    -0.146977577, 0.175058387, -0.0496449912, 0.038192514, -0.09433885, 0.109287344, -0.111327357, 0.124544995,
    -0.144018619, 0.169608022, -0.207387767, 0.270579648, -0.40068559, 0.822467041, -0.577215665,
)  # fmt: skip
_NEAR_TWO = (
    0.00012073365, -0.000253787722, 0.000502431712, -0.00118587469, 0.00289156164, -0.00738617187, 0.0205807462,
    -0.0673522816, 0.322467034, 0.422784335,
)  # fmt: skip
_NEAR_FOUR = (
    -1.32903868e-06, 4.69790989e-06, -1.62312951e-05, 8.12822502e-05, -0.000417474499, 0.00232164941, -0.0154239332,
    0.152669826, 1.18253734, 1.48681558,
)  # fmt: skip
_NEAR_SEVEN = (
    6.91797916e-08, -5.27575129e-07, 4.11755312e-06, -3.76468238e-05, 0.000380599559, -0.00459802809, 0.0831422559,
    1.79291134, 5.66256206,
)  # fmt: skip


def _lgamma_above_half(x: torch.Tensor) -> torch.Tensor:
    """Return log Γ for x ≥ 0.5: polynomials about 1, 2, 3.75 and 6.5, Stirling's series (DLMF 5.11.1) from 8."""
    one, two, inverse = x - 1, x - 2, 1 / x
    square = inverse * inverse
    stirling = inverse * (1 / 12 - square * (1 / 360 - square / 1260))
    far = (x - 0.5) * torch.log(x) - x + (stirling + 0.5 * math.log(2 * math.pi))
    value = torch.where(x < 8, polynomial(x - 6.5, _NEAR_SEVEN), far)
    value = torch.where(x < 5, polynomial(x - 3.75, _NEAR_FOUR), value)
    value = torch.where(x < 2.5, two * polynomial(two, _NEAR_TWO), value)
    return torch.where(x < 1.5, one * polynomial(one, _NEAR_ONE), value)


def _sine_of_pi(x: torch.Tensor) -> torch.Tensor:
    """Return sin(πx) up to its sign: zero at the integers exactly."""
    return torch.sin((x - torch.round(x)) * math.pi)


@translator("aten.lgamma.default", source="DLMF 5.5.3, 5.11.1; fit")
@unary
def lgamma(self: torch.Tensor) -> torch.Tensor:
    """Return log |Γ(x)|: infinite at the poles."""
    a = self.abs()
    near = a < 0.5
    inner = torch.where(near, self + 1, a)
    value = _lgamma_above_half(inner)
    sine = _sine_of_pi(a).abs()
    mirrored = math.log(math.pi) - torch.log(a * sine) - value
    value = torch.where(near, value - torch.log(a), torch.where(self < 0, mirrored, value))
    pole = torch.isinf(self) | ((sine == 0) & (self <= 0))
    return torch.where(pole, math.inf, value) + 0.0  # no -0 at 1 and 2


@translator("aten.digamma.default", source="DLMF 5.5.2, 5.5.4, 5.11.2")
@unary
def digamma(self: torch.Tensor) -> torch.Tensor:
    """Return ψ(x): -infinity at 0, +infinity at -0, NaN at the negative integers."""
    mirrored = self < 0
    x = torch.where(mirrored, 1 - self, self)
    shifted = x
    below = torch.zeros_like(x)
    for _ in range(8):
        small = shifted < 8
        below = below + torch.where(small, 1 / shifted, 0.0)
        shifted = torch.where(small, shifted + 1, shifted)
    square = 1 / (shifted * shifted)
    tail = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    value = torch.log(shifted) - 0.5 / shifted - tail - below
    part = (self - torch.round(self)) * math.pi
    value = torch.where(mirrored, value - math.pi * torch.cos(part) / torch.sin(part), value)
    pole = torch.where(self == 0, torch.where(torch.signbit(self), math.inf, -math.inf), math.nan)
    return torch.where((self <= 0) & (self == torch.round(self)), pole, value)


_ZETA_TERMS = 10
# Ratios of consecutive terms B_2k / (2k)! of Euler and Maclaurin's formula: 1/12, -1/720, 1/30240, …
_ZETA_RATIOS = (-1 / 60, -1 / 42, -1 / 40, -10 / 396, -691 / 27300)


def _zeta_right(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return Σ (q + k)^-x for x > 1, q > 0 by Euler and Maclaurin's formula after ten terms (DLMF 25.11.7)."""
    total = torch.pow(q, -x)
    for k in range(1, _ZETA_TERMS):
        total = total + torch.pow(q + k, -x)
    w = q + _ZETA_TERMS
    last = torch.pow(w, -x)
    term = last * (x / w) / 12
    total = total + w * last / (x - 1) + last / 2 + term
    for k, ratio in enumerate(_ZETA_RATIOS):
        term = term * ((x + (2 * k + 1)) / w) * ((x + (2 * k + 2)) / w) * ratio
        total = total + term
    return torch.where(torch.isinf(q), 0.0, total)


def hurwitz(x: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    """Return ζ(x, q) for floats: NaN for x < 1 and for q < 0 with x no integer, infinite at x = 1 and the poles.

    For q < 0 the terms below zero are those of two series on the right side: with f the fraction of q,
    ζ(x, q) = ζ(x, f) + (-1)^x · (ζ(x, 1 - f) - ζ(x, 1 - q)).
    """
    x, q = torch.broadcast_tensors(x, q)
    fraction = q - torch.floor(q)
    left = q < 0
    first = _zeta_right(x, torch.where(left, fraction, q))
    even = torch.remainder(x, 2) == 0
    between = _zeta_right(x, 1 - fraction) - _zeta_right(x, torch.where(left, 1 - q, 1.0))
    value = torch.where(left, first + torch.where(even, between, -between), first)
    value = torch.where(left & (x != torch.round(x)), math.nan, value)
    value = torch.where((q <= 0) & (fraction == 0), math.inf, value)
    value = torch.where(x < 1, math.nan, torch.where(x == 1, math.inf, value))
    return torch.where(torch.isnan(x) | torch.isnan(q), math.nan, value)


@translator("aten.special_zeta.default", source="DLMF 25.11.7")
def special_zeta(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the Hurwitz zeta function of self at other."""
    x, q, dtype = pair(self, other, to_float=True)
    return hurwitz(x, q).to(dtype)


@translator("aten.special_zeta.self_scalar", source="DLMF 25.11.7")
def special_zeta_self_scalar(self: Any, other: torch.Tensor) -> torch.Tensor:
    """Return the Hurwitz zeta function of one number at other."""
    return special_zeta(_full(self, other), other)


@translator("aten.special_zeta.other_scalar", source="DLMF 25.11.7")
def special_zeta_other_scalar(self: torch.Tensor, other: Any) -> torch.Tensor:
    """Return the Hurwitz zeta function of self at one number."""
    return special_zeta(self, _full(other, self))


def _full(value: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.full((), value, dtype=torch.result_type(like, value), device=like.device)


@translator("aten.polygamma.default", source="DLMF 5.15, 25.11.12")
def polygamma(n: int, self: torch.Tensor) -> torch.Tensor:
    """Return the n-th derivative of digamma."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return torch.digamma(self)
    return _derivative(self, n)


@unary
def _derivative(self: torch.Tensor, n: int) -> torch.Tensor:
    factor = math.exp(math.lgamma(n + 1)) * (1 if n % 2 else -1)
    order = torch.full((), float(n + 1), dtype=self.dtype, device=self.device)
    return hurwitz(order, self) * factor
