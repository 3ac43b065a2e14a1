"""Decides how comparisons of two tensors, remainders, shifts and operations on a number's bits are computed.

Imported by translators.installation.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from neuron_ops.translators.promotion import binary, pair, refuse_complex, together, unary
from neuron_ops.translators.registry import Refused, translator

_DEFINITION = "definition"
_BITS = {torch.float32: torch.int32, torch.bfloat16: torch.int16, torch.float16: torch.int16}
_EUCLID_STEPS = {torch.uint8: 13, torch.int8: 12, torch.int16: 24, torch.int32: 47, torch.int64: 92}
"""Steps after which Euclid's algorithm has ended for the widest pair: consecutive Fibonacci numbers (Lamé 1844)."""


def _promoted(self: Any, other: Any) -> tuple[torch.Tensor, torch.Tensor, torch.dtype]:
    refuse_complex(self, other)
    result = torch.result_type(self, other)
    self, other = together(self, other)
    return self.to(result), other.to(result), result


@translator("aten.maximum.default", source="definition, by clamp")
def maximum(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the larger of both; NaN where either is."""
    a, b, dtype = _promoted(self, other)
    return torch.logical_or(a, b) if dtype == torch.bool else torch.clamp_min(a, b)


@translator("aten.minimum.default", source="definition, by clamp")
def minimum(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the smaller of both; NaN where either is."""
    a, b, dtype = _promoted(self, other)
    return torch.logical_and(a, b) if dtype == torch.bool else torch.clamp_max(a, b)


@translator("aten.fmax.default", source=_DEFINITION)
def fmax(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the larger of both; where one is NaN the other."""
    a, b, _ = _promoted(self, other)
    return torch.where((a >= b) | torch.isnan(b), a, b)


@translator("aten.fmin.default", source=_DEFINITION)
def fmin(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the smaller of both; where one is NaN the other."""
    a, b, _ = _promoted(self, other)
    return torch.where((a <= b) | torch.isnan(b), a, b)


@translator("aten.fmod.Tensor", source="definition, from the remainder of the absolute values")
def fmod(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the remainder of division towards zero: it has the sign of the dividend."""
    a, b, dtype = _promoted(self, other)
    if dtype == torch.bool:
        raise Refused("fmod is not defined for bool")
    if dtype.is_floating_point:
        a, b, _ = pair(a, b)
        rest = torch.remainder(a.abs(), b.abs())
        return torch.where(torch.signbit(a), -rest, rest).to(dtype)
    rest = torch.remainder(a, b)
    return torch.where((rest != 0) & ((rest < 0) != (a < 0)), rest - b, rest)


@translator("aten.fmod.Scalar", source=_DEFINITION)
def fmod_scalar(self: torch.Tensor, other: Any) -> torch.Tensor:
    """Return fmod by one number."""
    refuse_complex(self, other)
    dtype = torch.result_type(self, other)
    return fmod(self.to(dtype), torch.full((), other, dtype=dtype, device=self.device))


@translator("aten.remainder.Scalar_Tensor", source=_DEFINITION)
def remainder_of_scalar(self: Any, other: torch.Tensor) -> torch.Tensor:
    """Return the remainder of one number by each element."""
    dtype = torch.result_type(self, other)
    return torch.remainder(torch.full((), self, dtype=dtype, device=other.device), other.to(dtype))


@translator("aten.pow.Scalar", source=_DEFINITION)
def pow_of_scalar(self: Any, exponent: torch.Tensor) -> torch.Tensor:
    """Return one number to the power of each element."""
    refuse_complex(self, exponent)
    dtype = torch.result_type(self, exponent)
    return torch.pow(torch.full((), self, dtype=dtype, device=exponent.device), exponent.to(dtype)).contiguous()


def _gcd(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    for _ in range(_EUCLID_STEPS[a.dtype]):
        done = b == 0
        a, b = torch.where(done, a, b), torch.where(done, b, torch.remainder(a, torch.where(done, 1, b)))
    return a.abs() if a.dtype != torch.uint8 else a


@translator("aten.gcd.default", source="Euclid's algorithm, as many steps as the widest pair needs")
def gcd(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the greatest common divisor, not negative."""
    a, b, dtype = _promoted(self, other)
    if dtype not in _EUCLID_STEPS:
        raise Refused(f"gcd is not defined for {dtype}")
    return _gcd(*torch.broadcast_tensors(a, b))


@translator("aten.lcm.default", source="definition: |a / gcd · b|")
def lcm(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the least common multiple, not negative; zero where either is."""
    a, b, dtype = _promoted(self, other)
    if dtype not in _EUCLID_STEPS:
        raise Refused(f"lcm is not defined for {dtype}")
    divisor = _gcd(*torch.broadcast_tensors(a, b))
    if dtype in (torch.int8, torch.int16):
        a, b = a.abs(), b.abs()  # ATen takes the absolute value in 32 bits, before the product is cut to the dtype
    multiple = torch.floor_divide(a, torch.where(divisor == 0, 1, divisor)) * b
    return multiple.abs() if dtype in (torch.int32, torch.int64) else multiple


def _bits_of(dtype: torch.dtype) -> torch.dtype:
    if dtype not in _BITS:
        raise Refused(f"the bits of {dtype} do not fit the integers that the device computes with")
    return _BITS[dtype]


@translator("aten.nextafter.default", source="IEEE 754: neighbours differ by one as integers of the same bits")
def nextafter(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the next number from self towards other."""
    a, b, dtype = _promoted(self, other)
    integers = _bits_of(dtype)
    a, b = torch.broadcast_tensors(a, b)
    a = a.contiguous()
    bits = a.view(integers)
    step = torch.where((b > a) == (a > 0), 1, -1).to(integers)
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    near = torch.where(b > 0, smallest, -smallest).to(dtype)
    moved = torch.where(a == 0, near, (bits + step).view(dtype))
    moved = torch.where(a == b, b, moved)
    return torch.where(torch.isnan(a) | torch.isnan(b), math.nan, moved).to(dtype)


@translator("aten.frexp.Tensor", source="IEEE 754: exponent field of the bits")
def frexp(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mantissas in ±[0.5, 1) and int32 exponents."""
    refuse_complex(self)
    x = self.to(torch.float32) if self.dtype != torch.float64 else self
    _bits_of(x.dtype)
    small = x.abs() < torch.finfo(torch.float32).smallest_normal
    scaled = torch.where(small, x * 2.0**24, x).contiguous()
    bits = scaled.view(torch.int32)
    field = torch.bitwise_and(torch.bitwise_right_shift(bits, 23), 255)
    still = (x == 0) | torch.isinf(x) | torch.isnan(x)
    exponent = torch.where(still, 0, field - 126 - torch.where(small, 24, 0)).to(torch.int32)
    bits = torch.bitwise_or(torch.bitwise_and(bits, ~(255 << 23)), 126 << 23)
    return torch.where(still, x, bits.view(torch.float32)).to(self.dtype), exponent


def _shift(self: torch.Tensor, other: Any, *, left: bool) -> torch.Tensor:
    refuse_complex(self, other)
    if torch.result_type(self, other).is_floating_point:
        dtype = torch.result_type(self, other)
        exponent = other.to(dtype) if isinstance(other, torch.Tensor) else torch.full_like(self, other, dtype=dtype)
        return self * torch.exp2(exponent if left else -exponent)
    return torch.bitwise_left_shift(self, other) if left else torch.bitwise_right_shift(self, other)


@translator("aten.__lshift__.Tensor", source=_DEFINITION)
def lshift(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return self shifted left; floats are multiplied by powers of two."""
    return _shift(self, other, left=True)


@translator("aten.__lshift__.Scalar", source=_DEFINITION)
def lshift_scalar(self: torch.Tensor, other: Any) -> torch.Tensor:
    """Return self shifted left by one number."""
    return _shift(self, other, left=True)


@translator("aten.__rshift__.Tensor", source=_DEFINITION)
def rshift(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return self shifted right; floats are divided by powers of two."""
    return _shift(self, other, left=False)


@translator("aten.__rshift__.Scalar", source=_DEFINITION)
def rshift_scalar(self: torch.Tensor, other: Any) -> torch.Tensor:
    """Return self shifted right by one number."""
    return _shift(self, other, left=False)


@translator("aten.__ilshift__.Tensor", source=_DEFINITION)
def ilshift(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Shift self left in place."""
    return self.copy_(_shift(self, other, left=True))


@translator("aten.__ilshift__.Scalar", source=_DEFINITION)
def ilshift_scalar(self: torch.Tensor, other: Any) -> torch.Tensor:
    """Shift self left in place by one number."""
    return self.copy_(_shift(self, other, left=True))


@translator("aten.__irshift__.Tensor", source=_DEFINITION)
def irshift(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Shift self right in place."""
    return self.copy_(_shift(self, other, left=False))


@translator("aten.__irshift__.Scalar", source=_DEFINITION)
def irshift_scalar(self: torch.Tensor, other: Any) -> torch.Tensor:
    """Shift self right in place by one number."""
    return self.copy_(_shift(self, other, left=False))


@translator("aten.heaviside.default", source=_DEFINITION)
def heaviside(self: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Return 0 below zero, 1 above, `values` at zero."""
    a, b, dtype = _promoted(self, values)
    return torch.where(a == 0, b, (a > 0).to(dtype))


@translator("aten.copysign.Tensor", source=_DEFINITION)
@binary
def copysign(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return the size of self with the sign of other."""
    size = self.abs()
    return torch.where(torch.signbit(other), -size, size)


@translator("aten.xlogy.Tensor", source=_DEFINITION)
@binary
def xlogy(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return a · log(b), zero where a is zero unless b is NaN."""
    value = torch.where(self == 0, torch.zeros_like(self), self * torch.log(other))
    return torch.where(torch.isnan(other), other, value)


@translator("aten.sinc.default", source=_DEFINITION)
@unary
def sinc(self: torch.Tensor) -> torch.Tensor:
    """Return sin(πx) / (πx), one at zero."""
    x = self * math.pi
    return torch.where(x == 0, 1.0, torch.sin(x) / x)


@translator("aten.isposinf.default", source=_DEFINITION)
def isposinf(self: torch.Tensor) -> torch.Tensor:
    """Return where self is +infinity."""
    refuse_complex(self)
    return self == math.inf


@translator("aten.equal.default", source="definition; the answer is a Python bool, so one element is read")
def equal(self: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether shapes and all elements are the same, compared in the dtype that both promote to."""
    return self.shape == other.shape and bool(torch.all(torch.eq(self, other)).item())


@translator("aten.nan_to_num.default", source=_DEFINITION)
def nan_to_num(
    self: torch.Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> torch.Tensor:
    """Return self with NaN and infinities replaced; by 0 and the dtype's bounds unless told otherwise."""
    refuse_complex(self)
    if not self.dtype.is_floating_point:
        return self.clone()
    bounds = torch.finfo(self.dtype)
    filled = torch.where(torch.isnan(self), 0.0 if nan is None else nan, self)
    filled = torch.where(self == math.inf, bounds.max if posinf is None else posinf, filled)
    return torch.where(self == -math.inf, bounds.min if neginf is None else neginf, filled)


@translator("aten.rsub.Tensor", source=_DEFINITION)
def rsub(self: torch.Tensor, other: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    """Return other - alpha · self."""
    return torch.sub(other, self, alpha=alpha)


@translator("aten.floor_divide_.Tensor", source="definition; the functional form has another overload name")
def floor_divide_(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Divide self in place, rounded down."""
    return self.copy_(torch.floor_divide(self, other))
