"""How far a result is from the same call in float64: absolute, relative, in units in the last place, and as NMSE."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.records import Figures

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, eq=False)
class Distances:
    """Element-wise, float64, of the result's shape: error, error in ulp, size of the exact value, scale.

    The scale is the size of the exact value or of the result, the larger one, and at least the smallest normal number.

    A complex number's error is the modulus of the difference. A part that is NaN or infinite on either side counts as
    zero on both: where those stand is judged before any distance is.
    """

    error: torch.Tensor
    ulps: torch.Tensor
    size: torch.Tensor
    scale: torch.Tensor


def widen(values: torch.Tensor) -> torch.Tensor:
    """Return the values as float64 or complex128; integers beyond 2**53 lose bits, so compare those before."""
    if values.dtype is torch.complex32:  # has next to no kernels
        return torch.view_as_complex(torch.view_as_real(values.contiguous()).to(torch.float64).contiguous())
    return values.to(torch.complex128 if values.is_complex() else torch.float64)


def parts(values: torch.Tensor) -> torch.Tensor:
    """Return real values as they are and complex ones of shape (...) as real ones of shape (..., 2)."""
    return torch.view_as_real(values) if values.is_complex() else values


def both_finite(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both with every part that is not finite on either side set to zero on both."""
    one, other = parts(left), parts(right)
    finite = one.isfinite() & other.isfinite()
    if bool(finite.all()):
        return left, right
    one, other = one.where(finite, 0.0), other.where(finite, 0.0)
    if left.is_complex():
        return torch.view_as_complex(one.contiguous()), torch.view_as_complex(other.contiguous())
    return one, other


def distances(result: torch.Tensor, exact: torch.Tensor, dtype: torch.dtype) -> Distances:
    """Return how far `result` is from `exact`, both widened and of one shape; ulp are those of `dtype`.

    One ulp is taken at the larger of both sizes: an error where the exact value is zero then counts as a full mantissa,
    not as the number of subnormals below it.
    """
    result, exact = both_finite(result, exact)
    info = torch.finfo(dtype.to_real() if dtype.is_complex else dtype)
    error, size = (result - exact).abs().clamp(max=sys.float_info.max), exact.abs()
    scale = torch.maximum(size, result.abs()).clamp(min=info.smallest_normal)
    ulp = torch.exp2((torch.frexp(scale).exponent - 1).to(torch.float64)) * info.eps
    return Distances(error, error / ulp, size, scale)


def summary(far: Distances) -> Figures | None:
    """Return the four figures of one output, or None when it has no elements.

    `max_rel` is over elements whose exact value is not zero. `nmse` is 1 where the exact values are all zero and the
    result is not, as for an answer that is all error.
    """
    if not far.error.numel():
        return None
    relative = torch.where(far.size > 0, far.error / far.size, 0.0)
    top = float(far.size.max())
    worst = float(far.error.max())
    if top:
        scaled = (far.error / top).square().sum() / (far.size / top).square().sum()
        nmse = min(float(scaled), sys.float_info.max)
    else:
        nmse = float(worst > 0)
    return Figures(worst, _finite(relative), _finite(far.ulps), nmse)


def largest(figures: Iterable[Figures | None]) -> Figures | None:
    """Return each figure's largest value over all outputs, or None when no output has figures."""
    known = [f for f in figures if f is not None]
    if not known:
        return None
    return Figures(
        max(f.max_abs for f in known),
        max(f.max_rel for f in known),
        max(f.max_ulp for f in known),
        max(f.nmse for f in known),
    )


def _finite(values: torch.Tensor) -> float:
    return min(float(values.max()), sys.float_info.max)
