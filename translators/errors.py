"""Decides how the error function's relatives are computed from exp, log, erf and erfinv.

Imported by translators.installation. Float32 accuracy.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import polynomial, unary
from neuron_ops.translators.registry import translator

# (1 + 2x) · erfcx(x) as a polynomial in (x - 3.75) / (x + 3.75), x ≥ 0: Shepherd & Laframboise 1981; fit to 30 digits.
_ERFCX = (
    -6.33636765e-06, 1.84972549e-05, 4.42318194e-05, -0.000284234386, 0.000299650446, 0.0017510616, -0.00974927011,
    0.028364161, -0.0586927306, 0.0923039218, -0.108804012, 0.0822767759, 0.00358541926, -0.1402406, 1.23751263,
)  # fmt: skip
# |ndtri(p)| / y in 1/y - 1/4 with y = √(-2 log p), p ≤ 0.1; fit.
_NDTRI = (-306.235261, 162.751591, -28.1090853, 5.98539936, -3.95497247, 2.1426595, -1.25879312, 0.972597351, -1.08983646, -0.972391477, 0.850298149)  # fmt: skip
_SHEPHERD = "Shepherd & Laframboise 1981"
_HALF_ROOT = math.sqrt(0.5)


def _erfcx_right(x: torch.Tensor) -> torch.Tensor:
    """Return exp(x²) · erfc(x) for x ≥ 0."""
    t = torch.where(torch.isinf(x), 1.0, (x - 3.75) / (x + 3.75))
    return polynomial(t, _ERFCX) / (1 + 2 * x)


def _gaussian(x: torch.Tensor, sign: float) -> torch.Tensor:
    """Return exp(sign · x²) for x ≥ 0: x² of 24 digits would lose up to 7 bits, so a part of 12 digits is squared apart."""
    coarse = torch.trunc(x * 128) / 128
    return torch.exp(sign * coarse * coarse) * torch.exp(sign * (x - coarse) * (x + coarse))


@translator("aten.erfc.default", source=_SHEPHERD)
@unary
def erfc(self: torch.Tensor) -> torch.Tensor:
    """Return 1 - erf(x), with all digits in the right tail."""
    x = torch.clamp(self, 0, 30)
    return torch.where(self > 0.5, _gaussian(x, -1.0) * _erfcx_right(x), 1 - torch.erf(self))


@translator("aten.special_erfcx.default", source=_SHEPHERD)
@unary
def special_erfcx(self: torch.Tensor) -> torch.Tensor:
    """Return exp(x²) · erfc(x)."""
    a = self.abs()
    right = _erfcx_right(a)
    return torch.where(self < 0, 2 * _gaussian(torch.clamp_max(a, 30), 1.0) - right, right)


@translator("aten.special_log_ndtr.default", source="definition")
@unary
def special_log_ndtr(self: torch.Tensor) -> torch.Tensor:
    """Return the logarithm of the normal distribution function."""
    t = self * _HALF_ROOT
    tail = torch.log(_erfcx_right(t.abs()) / 2) - t * t
    return torch.where(self < -1, tail, torch.log1p(-torch.erfc(t) / 2))


@translator("aten.special_ndtri.default", source="erfinv in the middle, fit in the tails")
@unary
def special_ndtri(self: torch.Tensor) -> torch.Tensor:
    """Return the quantile of the normal distribution."""
    upper = self > 0.5
    tail = torch.where(upper, 1 - self, self)
    y = torch.sqrt(-2 * torch.log(tail))
    size = y * polynomial(1 / y - 0.25, _NDTRI)
    middle = math.sqrt(2) * torch.erfinv(2 * self - 1)
    value = torch.where(tail > 0.1, middle, torch.where(upper, size, -size))
    return torch.where(self == 0, -math.inf, torch.where(self == 1, math.inf, value))
