"""Decides how the regularized incomplete gamma functions are computed: series, continued fraction, uniform expansion.

Imported by translators.installation. All three are computed for every element, each with arguments held in its own region, and
each element takes the one of its region: no value is read. About 550 launches, so a transfer may be cheaper for few elements.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import binary, polynomial
from neuron_ops.translators.registry import translator

_SOURCE = "DLMF 8.7.1, 8.9.2, 8.12.7 (Temme 1979); regions as in Cephes"
_SERIES_TERMS = 48
_FRACTION_TERMS = 44
_SMALL_TERMS = 13
_NEAR = 0.4
"""Temme's expansion serves a ≥ 10 with |x - a| up to this part of a: there the others are slow."""

# Coefficients c_k(η) of Temme's expansion, k = 0 … 3, highest power of η first (exact rationals, rounded).
_TEMME = (
    (-1.85406221e-06, -2.18544851e-06, 3.91926318e-05, -0.000178755144, 0.000352733686, 0.00115740741, -0.0148148148, 0.0833333333, -0.333333333),
    (7.64916092e-06, -1.80985503e-05, -4.01877572e-07, 0.000205761317, -0.000990226337, 0.0026455026455, -0.00347222222, -0.00185185185),
    (-1.27606352e-05, 5.29234488e-05, -0.000107366532, 2.00938786e-06, 0.000771604938, -0.00268132716, 0.0041335978836),
    (-7.56180167e-05, 0.000267720632, -0.000469189494, 0.000229472094, 0.000649434156),
)  # fmt: skip
_SQUARED_GAP = tuple((-1.0) ** k / k for k in range(17, 1, -1))
"""(μ - log(1 + μ)) / μ² in μ."""


def _gap(mu: torch.Tensor) -> torch.Tensor:
    """Return μ - log(1 + μ) without cancellation near zero."""
    near = torch.clamp(mu, -_NEAR, _NEAR)
    return torch.where(mu.abs() <= _NEAR, near * near * polynomial(near, _SQUARED_GAP), mu - torch.log1p(mu))


def poisson_weight(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return x^a · exp(-x) / Γ(a + 1), x > 0: the chance of a where x are expected."""
    large = torch.clamp_min(a, 10)
    inverse = 1 / large
    correction = inverse / 12 - inverse * inverse * inverse / 360
    far = torch.exp(-large * _gap((x - large) / large) - correction) / torch.sqrt(2 * math.pi * large)
    small = torch.clamp_max(a, 10)
    return torch.where(a >= 10, far, torch.exp(small * torch.log(x) - x - torch.lgamma(small + 1)))


def _lower_series(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return P for x up to about a."""
    ratio = torch.minimum(x, a + 1)
    term, total = torch.ones_like(a), torch.ones_like(a)
    for n in range(1, _SERIES_TERMS):
        term = term * (ratio / (a + n))
        total = total + term
    return total * poisson_weight(a, x)


def _upper_fraction(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return Q for x above a and 1, by Lentz's method."""
    held = torch.maximum(x, torch.clamp_min(a, 1))
    b = held + 1 - a
    c = torch.full_like(b, 1e30)
    d = 1 / b
    total = d
    for i in range(1, _FRACTION_TERMS):
        factor = (a - i) * i
        b = b + 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        total = total * d * c
    return total * a * poisson_weight(a, x)


def _upper_small(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return Q for x ≤ 1.1 and small a, where 1 - P would lose digits."""
    held = torch.clamp_max(x, 1.1)
    factor, total = torch.ones_like(held), torch.zeros_like(held + a)
    for n in range(1, _SMALL_TERMS):
        factor = factor * (-held / n)
        total = total + factor / (a + n)
    power = a * torch.log(held)
    return -torch.expm1(power - torch.lgamma(a + 1)) - torch.exp(power - torch.lgamma(a)) * total


def _uniform(a: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return P and Q for a ≥ 10 with x near a."""
    a = torch.clamp_min(a, 10)
    mu = torch.clamp((x - a) / a, -_NEAR, _NEAR)
    gap = _gap(mu)
    eta = torch.where(mu < 0, -1.0, 1.0) * torch.sqrt(2 * gap)
    total = polynomial(eta, _TEMME[3])
    for coefficients in _TEMME[2::-1]:
        total = total / a + polynomial(eta, coefficients)
    rest = torch.exp(-a * gap) / torch.sqrt(2 * math.pi * a) * total
    z = eta * torch.sqrt(a / 2)
    return torch.erfc(-z) / 2 - rest, torch.erfc(z) / 2 + rest


def _both(a: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return P and Q."""
    a, x = torch.broadcast_tensors(a, x)
    usual = (a > 0) & (x > 0) & ~torch.isinf(a) & ~torch.isinf(x)
    s, t = torch.where(usual, a, 1.0), torch.where(usual, x, 1.0)
    lower, upper = _lower_series(s, t), _upper_fraction(s, t)
    above = (t > 1) & (t > s)
    p, q = torch.where(above, 1 - upper, lower), torch.where(above, upper, 1 - lower)
    # Cephes: 1 - P keeps its digits only where P is well below one.
    small = (t <= 1.1) & torch.where(t <= 0.5, -0.4 / torch.log(t) >= s, t * 1.1 >= s)
    q = torch.where(small, _upper_small(s, t), q)
    near = (s >= 10) & ((t - s).abs() <= _NEAR * s)
    p_near, q_near = _uniform(s, t)
    p, q = torch.where(near, p_near, p), torch.where(near, q_near, q)
    return _at_the_edges(a, x, torch.where(usual, p, math.nan), 0.0), _at_the_edges(
        a, x, torch.where(usual, q, math.nan), 1.0
    )


def _at_the_edges(a: torch.Tensor, x: torch.Tensor, value: torch.Tensor, empty: float) -> torch.Tensor:
    """Return the value with zeros, infinities and negative arguments as in ATen; `empty` is the result at x = 0."""
    value = torch.where(torch.isinf(x), 1 - empty, value)
    value = torch.where(torch.isinf(a), torch.where(torch.isinf(x), math.nan, empty), value)
    value = torch.where(x == 0, empty, value)
    value = torch.where(a == 0, torch.where(x > 0, 1 - empty, math.nan), value)
    return torch.where((a < 0) | (x < 0), math.nan, value)


@translator("aten.igamma.default", source=_SOURCE)
@binary
def igamma(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the lower function P(self, other)."""
    return _both(self, other)[0]


@translator("aten.igammac.default", source=_SOURCE)
@binary
def igammac(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the upper function Q(self, other)."""
    return _both(self, other)[1]
