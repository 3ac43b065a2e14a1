"""Decides how eigenvalues of general matrices are computed: all at once as roots, by Ehrlich and Aberth's iteration.

Imported by translators.families. The characteristic polynomial is never formed: its logarithmic derivative at z is the trace of
(z - a)⁻¹. Complex numbers are matrices of twice the size. The number of steps is fixed, so that nothing is read back; each
is one LU of all shifted matrices: thousands of device calls for what a host does in microseconds. It pays where a read back
must not happen, not for speed.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import Refused, translator
from neuron_ops.translators.triangular import backsolved, lu
from neuron_ops.translators.variants import resize_out

_EHRLICH_ABERTH = "Aberth 1973, on matrices as Bini, Gemignani and Tisseur 2005"
_STEPS = {torch.float32: 32, torch.float64: 48}
"""Steps; 24 converge for matrices of 12 rows in float32."""
_REFINEMENTS = 3


def _shifted(a: torch.Tensor, z: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Return z - a for each z (…, n) of matrices (…, n, n), [..., n, 2n, 2n]: rows of real, then of imaginary parts."""
    eye = torch.eye(a.size(-1), dtype=a.dtype, device=a.device)
    real, imaginary = (part.unsqueeze(-1).unsqueeze(-1) * eye for part in z)
    real = real - a.unsqueeze(-3)
    return torch.cat([torch.cat([real, -imaginary], -1), torch.cat([imaginary, real], -1)], -2)


def _divided(x: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 1 / x, and 0 where x is 0 or not finite."""
    square = x[0] * x[0] + x[1] * x[1]
    good = (square > 0) & torch.isfinite(square)
    square = torch.where(good, square, 1.0)
    return torch.where(good, x[0] / square, 0.0), torch.where(good, -x[1] / square, 0.0)


def _step(a: torch.Tensor, z: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the next approximations; a step is no longer than 1, the size of the matrix."""
    n = a.size(-1)
    found = lu(_shifted(a, z))
    eye = torch.eye(2 * n, n, dtype=a.dtype, device=a.device).expand(*found.factors.shape[:-1], n)
    inverse = backsolved(found, eye)
    newton = tuple(torch.sum(torch.diagonal(part, dim1=-2, dim2=-1), -1) for part in inverse.split(n, -2))
    apart = _divided((z[0].unsqueeze(-1) - z[0].unsqueeze(-2), z[1].unsqueeze(-1) - z[1].unsqueeze(-2)))
    change = _divided((newton[0] - torch.sum(apart[0], -1), newton[1] - torch.sum(apart[1], -1)))
    size = torch.sqrt(change[0] * change[0] + change[1] * change[1])
    scale = torch.reciprocal(torch.clamp_min(size, 1))
    return z[0] - change[0] * scale, z[1] - change[1] * scale


def _circle(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return as many points as rows around 0, as far away as the largest eigenvalue or a little further."""
    n = a.size(-1)
    power = torch.matmul(a, a)
    power = torch.matmul(power, power)
    radius = torch.pow(torch.sum(power * power, (-2, -1)), 1 / 8).unsqueeze(-1)
    angle = (torch.arange(n, device=a.device).to(a.dtype) + 0.3) * (
        2 * math.pi / n
    )  # 0.3: not symmetric to the real line
    radius = torch.clamp_min(radius, 1e-3)
    return radius * torch.cos(angle), radius * torch.sin(angle)


def eigenvalues(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the parts of the eigenvalues (…, n) of real matrices, in any order."""
    n = a.size(-1)
    middle = torch.mean(torch.diagonal(a, dim1=-2, dim2=-1), -1, keepdim=True)
    centred = a - middle.unsqueeze(-1) * torch.eye(n, dtype=a.dtype, device=a.device)
    largest = torch.amax(torch.abs(centred), (-2, -1), keepdim=True)
    scaled = centred / torch.where(largest == 0, 1.0, largest)
    norm = torch.sqrt(torch.sum(scaled * scaled, (-2, -1), keepdim=True))
    scaled = scaled / torch.where(norm == 0, 1.0, norm)
    z = _circle(scaled)
    for _ in range(_STEPS.get(a.dtype, 32)):
        z = _step(scaled, z)
    noise = torch.finfo(a.dtype).eps * n  # of a norm of 1: a real eigenvalue's imaginary part is rounding
    z = z[0], torch.where(torch.abs(z[1]) <= noise, 0.0, z[1])
    size = (largest * norm).squeeze(-1)
    return z[0] * size + middle, z[1] * size


def eigenvectors(a: torch.Tensor, z: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Return the parts of eigenvectors of length 1 in columns, [..., 2n, n], by inverse iteration."""
    n = a.size(-1)
    found = lu(_shifted(a, z))
    floor = torch.finfo(a.dtype).eps * torch.amax(torch.abs(a), (-2, -1), keepdim=True).unsqueeze(-1)
    floor = torch.where(floor == 0, 1.0, floor)
    diagonal = torch.eye(2 * n, dtype=torch.bool, device=a.device)
    small = diagonal & (torch.abs(found.factors) < floor)
    found = found._replace(factors=torch.where(small, floor, found.factors))
    place = torch.arange(n, device=a.device).to(a.dtype)
    # A start of its own for each: equal eigenvalues must not get equal vectors.
    start = torch.eye(n, dtype=a.dtype, device=a.device) + 0.3 * torch.cos(place.unsqueeze(-1) * place * 1.7 + 1)
    x = torch.cat([start, torch.zeros_like(start)], -1).unsqueeze(-1).expand(*found.factors.shape[:-1], 1)
    for _ in range(_REFINEMENTS):
        x = backsolved(found, x)
        x = x / torch.amax(torch.abs(x), -2, keepdim=True)
        x = x / torch.sqrt(torch.sum(x * x, -2, keepdim=True))
    return x.squeeze(-1).mT


def _complex(real: torch.Tensor, imaginary: torch.Tensor) -> torch.Tensor:
    return torch.view_as_complex(torch.stack([real, imaginary], -1))


def _refuse(a: torch.Tensor) -> None:
    refuse_complex(a)
    if not a.dtype.is_floating_point:
        raise Refused("eigenvalues are of floating-point matrices")


@translator("aten._linalg_eigvals.default", source=_EHRLICH_ABERTH)
def linalg_eigvals(self: torch.Tensor) -> torch.Tensor:
    """Return the eigenvalues."""
    _refuse(self)
    return _complex(*eigenvalues(self)) if self.numel() else _complex(self.sum(-1), self.sum(-1))


@translator("aten.linalg_eigvals.out", source=_EHRLICH_ABERTH)
def linalg_eigvals_out(self: torch.Tensor, *, out: torch.Tensor) -> torch.Tensor:
    """Write the eigenvalues. By hand: the functional form is a composite with a gradient, which keeps its own kernel."""
    result = linalg_eigvals(self)
    resize_out(out, result)
    return out.copy_(result)


@translator("aten.linalg_eig.default", source=_EHRLICH_ABERTH + ", and inverse iteration")
def linalg_eig(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return eigenvalues and eigenvectors of length 1."""
    _refuse(self)
    n = self.size(-1)
    if self.numel() == 0:
        return _complex(self.sum(-1), self.sum(-1)), _complex(self, self)
    z = eigenvalues(self)
    vectors = eigenvectors(self, z).split(n, -2)
    return _complex(*z), _complex(vectors[0].mT, vectors[1].mT).mT
