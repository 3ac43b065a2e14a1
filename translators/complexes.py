"""Decides how complex numbers are read and written on a device that only stores them: as pairs of real numbers.

Imported by translators.families. Views of a storage need no kernel; arithmetic happens on the two parts.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import floating
from neuron_ops.translators.registry import translator

_REAL = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}
_COMPLEX = {real: both for both, real in _REAL.items()}


@translator("aten.view_as_real.default", source="definition, a view of the storage in another dtype")
def view_as_real(self: torch.Tensor) -> torch.Tensor:
    """Return a view of the numbers as pairs (…, 2) of real and imaginary parts."""
    real = _REAL.get(self.dtype)
    if real is None:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    pairs: torch.Tensor = torch.ops.aten.view.dtype(self.unsqueeze(-1), real)
    return pairs


@translator("aten.view_as_complex.default", source="definition, a view of the storage in another dtype")
def view_as_complex(self: torch.Tensor) -> torch.Tensor:
    """Return a view of pairs (…, 2) of real and imaginary parts as complex numbers."""
    both = _COMPLEX.get(self.dtype)
    if both is None:
        raise RuntimeError(
            f"view_as_complex is only supported for half, float and double tensors, but got a tensor of scalar type: {self.dtype}"
        )
    if self.dim() == 0 or self.size(-1) != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    numbers: torch.Tensor = torch.ops.aten.view.dtype(self, both)
    return numbers.squeeze(-1)


@translator("aten._conj_physical.default", source="definition")
def conj_physical(self: torch.Tensor) -> torch.Tensor:
    """Return the conjugates, laid out in memory as the numbers are."""
    if not self.dtype.is_complex:
        return self.clone()
    result = torch.empty_like(self)
    to, parts = torch.view_as_real(result), torch.view_as_real(self)
    to[..., 0].copy_(parts[..., 0])
    to[..., 1].copy_(-parts[..., 1])
    return result


@translator("aten.conj_physical_.default", source="definition")
def conj_physical_(self: torch.Tensor) -> torch.Tensor:
    """Write the conjugates into self: the imaginary parts change sign where they are."""
    if self.dtype.is_complex:
        imaginary = torch.view_as_real(self)[..., 1]
        imaginary.copy_(-imaginary)
    return self


@translator("aten.angle.default", source="definition")
def angle(self: torch.Tensor) -> torch.Tensor:
    """Return the angles: of real numbers 0, π where negative, NaN of NaN."""
    if self.dtype.is_complex:
        parts = torch.view_as_real(self)
        return torch.atan2(parts[..., 1], parts[..., 0]).contiguous()  # as ATen, whatever the layout of the numbers
    x = self.to(floating(self.dtype))
    return torch.where(torch.isnan(x), x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))
