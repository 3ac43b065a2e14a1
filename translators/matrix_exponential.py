"""Decides how exponentials of matrices are computed: scaled, by a Taylor polynomial, and squared back.

Imported by translators.families. How often to square depends on the norm; that is decided on the device by selecting, so that
every call has the same number of steps and nothing is read back.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import refuse_complex, widened
from neuron_ops.translators.registry import translator

_NORM = 3.0
"""Matrices are scaled to this 1-norm or less. Each squaring doubles the error, so that few are better than short polynomials."""
_DEGREE = {torch.float32: 18, torch.float64: 24}
"""Degrees, multiples of 3, at which the next term of norm 3 is below half a unit in the last place of its sum."""
_SQUARINGS = 24
"""Norms up to 3 · 2**24; beyond that float32 holds no correct digit of the result."""


def _taylor(a: torch.Tensor, degree: int) -> torch.Tensor:
    """Return Σ aᵏ / k! up to the degree, for a degree that 3 divides (Paterson and Stockmeyer: powers to 3, then Horner in a³)."""
    eye = torch.eye(a.size(-1), dtype=a.dtype, device=a.device)
    square = torch.matmul(a, a)
    cube = torch.matmul(square, a)

    def block(first: int) -> torch.Tensor:
        c = [1 / math.factorial(first + k) for k in range(3)]
        return eye * c[0] + a * c[1] + square * c[2]

    total = block(degree - 3) + cube * (1 / math.factorial(degree))
    for first in range(degree - 6, -1, -3):
        total = block(first) + torch.matmul(cube, total)
    return total


@translator(
    "aten.linalg_matrix_exp.default", source="Moler and Van Loan 2003, scaling and squaring with Taylor polynomials"
)
@widened
def linalg_matrix_exp(self: torch.Tensor) -> torch.Tensor:
    """Return the exponentials of matrices (…, n, n)."""
    refuse_complex(self)
    n = self.size(-1)
    if self.numel() == 0:
        return torch.empty_like(self, memory_format=torch.contiguous_format)
    if n == 1:
        return torch.exp(self)
    norm = torch.amax(torch.sum(torch.abs(self), -2, keepdim=True), -1, keepdim=True)
    total, steps = self, []
    for _ in range(_SQUARINGS):  # halves until the norm is small: exact, unlike a power of a rounded logarithm
        large = norm > _NORM
        steps.append(large)
        norm, total = torch.where(large, norm * 0.5, norm), torch.where(large, total * 0.5, total)
    result = _taylor(total, _DEGREE.get(self.dtype, 18))
    for large in steps:  # as often as it was halved; which of the steps those are does not matter
        result = torch.where(large, torch.matmul(result, result), result)
    return result
