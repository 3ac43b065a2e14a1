"""Decides how elementary functions that a device lacks are computed from exp, log, sin, cos, sqrt and arithmetic.

Imported by translators.installation. Accuracy: a few units in the last place of float32; float64 inputs are served with the
accuracy of the polynomials, about 1e-7, where one is used (the device computes float64 as float32).
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import binary, polynomial, unary
from neuron_ops.translators.registry import translator

_KAHAN = "Kahan's correction of the rounding error of 1 + x (Goldberg 1991, theorem 4)"
_CEPHES = "Cephes mathematical library, single precision (Moshier 1989)"
_DLMF = "DLMF 4"

_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)


@translator("aten.log1p.default", source=_KAHAN)
@unary
def log1p(self: torch.Tensor) -> torch.Tensor:
    """Return log(1 + x) without cancellation near zero."""
    u = 1 + self
    log = torch.log(u)
    corrected = log * (self / (u - 1))
    return torch.where(u == 1, self, torch.where(torch.isinf(u), log, corrected))


@translator("aten.expm1.default", source=_KAHAN)
@unary
def expm1(self: torch.Tensor) -> torch.Tensor:
    """Return exp(x) - 1 without cancellation near zero."""
    u = torch.exp(self)
    less = u - 1
    # Beyond one in size nothing cancels, and log(u) would meet 0 and infinity there.
    corrected = torch.where(self.abs() > 1, less, less * (self / torch.log(u)))
    return torch.where(u == 1, self, corrected)


@translator("aten.log2.default", source=_DLMF)
@unary
def log2(self: torch.Tensor) -> torch.Tensor:
    """Return the logarithm to base 2."""
    return torch.log(self) * (1 / math.log(2))


@translator("aten.log10.default", source=_DLMF)
@unary
def log10(self: torch.Tensor) -> torch.Tensor:
    """Return the logarithm to base 10."""
    return torch.log(self) * (1 / math.log(10))


@translator("aten.exp2.default", source="definition")
@unary
def exp2(self: torch.Tensor) -> torch.Tensor:
    """Return 2 to the power x."""
    return torch.pow(torch.full_like(self, 2.0), self)


@translator("aten.sinh.default", source=_DLMF)
@unary
def sinh(self: torch.Tensor) -> torch.Tensor:
    """Return the hyperbolic sine; exp is taken of half the argument where exp of the whole would overflow."""
    a = self.abs()
    t = torch.expm1(a)
    half = torch.exp(a / 2)
    size = torch.where(a > 20, half / 2 * half, (t + t / (t + 1)) / 2)
    return torch.where(a < 1e-4, self, torch.where(self < 0, -size, size))


@translator("aten.cosh.default", source=_DLMF)
@unary
def cosh(self: torch.Tensor) -> torch.Tensor:
    """Return the hyperbolic cosine."""
    a = self.abs()
    e = torch.exp(a)
    half = torch.exp(a / 2)
    return torch.where(a > 20, half / 2 * half, (e + 1 / e) / 2)


@translator("aten.tan.default", source=_DLMF)
@unary
def tan(self: torch.Tensor) -> torch.Tensor:
    """Return sin / cos."""
    return torch.sin(self) / torch.cos(self)


def _asin_size(a: torch.Tensor) -> torch.Tensor:
    """Return asin for a in [0, 1]; NaN beyond."""
    large = a > 0.5
    z = torch.where(large, (1 - a) / 2, a * a)
    x = torch.where(large, torch.sqrt(z), a)
    y = x + x * z * polynomial(z, _ASIN)
    return torch.where(large, math.pi / 2 - 2 * y, y)


@translator("aten.asin.default", source=_CEPHES)
@unary
def asin(self: torch.Tensor) -> torch.Tensor:
    """Return the arcsine in [-π/2, π/2]."""
    size = _asin_size(self.abs())
    return torch.where(torch.signbit(self), -size, size)


@translator("aten.acos.default", source=_CEPHES)
@unary
def acos(self: torch.Tensor) -> torch.Tensor:
    """Return the arccosine in [0, π]; near ±1 from the sine of half the angle."""
    a = self.abs()
    large = a > 0.5
    z = torch.where(large, (1 - a) / 2, self * self)
    x = torch.where(large, torch.sqrt(z), self)
    y = x + x * z * polynomial(z, _ASIN)
    return torch.where(large, torch.where(self < 0, math.pi - 2 * y, 2 * y), math.pi / 2 - y)


def _atan_size(a: torch.Tensor) -> torch.Tensor:
    """Return atan for a ≥ 0."""
    far, middle = a > 2.414213562373095, a > 0.4142135623730951
    x = torch.where(far, -1 / a, torch.where(middle, (a - 1) / (a + 1), a))
    z = x * x
    y = polynomial(z, _ATAN) * z * x + x
    return torch.where(far, y + math.pi / 2, torch.where(middle, y + math.pi / 4, y))


@translator("aten.atan.default", source=_CEPHES)
@unary
def atan(self: torch.Tensor) -> torch.Tensor:
    """Return the arctangent in [-π/2, π/2]."""
    size = _atan_size(self.abs())
    return torch.where(torch.signbit(self), -size, size)


@translator("aten.atan2.default", source="DLMF 4.23, quadrants as in C")
@binary
def atan2(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the angle of the point (other, self); zeros and infinities as in C."""
    y, x = torch.broadcast_tensors(self.abs(), other.abs())
    small, large = torch.where(y > x, x, y), torch.where(y > x, y, x)
    ratio = torch.where(large == 0, small, small / large)
    ratio = torch.where(torch.isinf(small) & torch.isinf(large), 1.0, ratio)
    z = _atan_size(ratio)
    z = torch.where(y > x, math.pi / 2 - z, z)
    z = torch.where(torch.signbit(other), math.pi - z, z)
    z = torch.where(torch.isnan(other) | torch.isnan(self), math.nan, z)
    return torch.where(torch.signbit(self), -z, z)


@translator("aten.asinh.default", source="DLMF 4.37.16, rearranged")
@unary
def asinh(self: torch.Tensor) -> torch.Tensor:
    """Return the inverse hyperbolic sine."""
    a = self.abs()
    square = a * a
    near = torch.log1p(a + square / (1 + torch.sqrt(square + 1)))
    size = torch.where(a > 1e8, torch.log(a) + math.log(2), near)
    return torch.where(torch.signbit(self), -size, size)


@translator("aten.acosh.default", source="DLMF 4.37.19, rearranged")
@unary
def acosh(self: torch.Tensor) -> torch.Tensor:
    """Return the inverse hyperbolic cosine; NaN below one."""
    t = self - 1
    near = torch.log1p(t + torch.sqrt(2 * t + t * t))
    return torch.where(self < 1, math.nan, torch.where(self > 1e8, torch.log(self) + math.log(2), near))


@translator("aten.atanh.default", source="DLMF 4.37.24")
@unary
def atanh(self: torch.Tensor) -> torch.Tensor:
    """Return the inverse hyperbolic tangent; NaN beyond ±1."""
    a = self.abs()
    size = torch.log1p(2 * a / (1 - a)) / 2
    return torch.where(torch.signbit(self), -size, size)


@translator("aten.hypot.default", source="definition, scaled by the larger side")
@binary
def hypot(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the root of the sum of squares; infinite where a side is, even beside NaN."""
    a, b = torch.broadcast_tensors(self.abs(), other.abs())
    large, small = torch.where(a > b, a, b), torch.where(a > b, b, a)
    ratio = torch.where(large == 0, 0.0, small / large)
    size = large * torch.sqrt(1 + ratio * ratio) + 0 * small
    return torch.where(torch.isinf(a) | torch.isinf(b), math.inf, size)


@translator("aten.logaddexp.default", source="definition, shifted by the larger exponent")
@binary
def logaddexp(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return log(exp(a) + exp(b))."""
    top = torch.maximum(self, other)
    rest = torch.log1p(torch.exp(-(self - other).abs()))
    return torch.where(torch.isinf(self) & (self == other), self, top + rest)


@translator("aten.logaddexp2.default", source="definition, shifted by the larger exponent")
@binary
def logaddexp2(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return log2(2^a + 2^b)."""
    top = torch.maximum(self, other)
    rest = torch.log1p(torch.exp(-(self - other).abs() * math.log(2))) * (1 / math.log(2))
    return torch.where(torch.isinf(self) & (self == other), self, top + rest)


@translator("aten.special_xlog1py.default", source="definition")
@binary
def special_xlog1py(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return a · log(1 + b), zero where a is zero unless b is NaN."""
    value = torch.where(self == 0, torch.zeros_like(self), self * torch.log1p(other))
    return torch.where(torch.isnan(other), other, value)
