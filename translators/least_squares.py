"""Decides how least squares are solved: by QR where the rank is full by contract, by singular values where it is to be found.

Imported by translators.families. Whether residuals exist depends on the rank for two of LAPACK's four drivers: a shape that
depends on values, which no device knows ahead; those calls stay with the host.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.factorization import reflected, reflections
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import Refused, translator
from neuron_ops.translators.spectral import svd
from neuron_ops.translators.triangular import columns, solved

_DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _by_reflections(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the solution for a of full rank, and the squared residuals, one a column of b, where a is tall."""
    m, n = a.shape[-2:]
    if m >= n:
        work, taus = reflections(a)
        turned = reflected(work, taus, b, transpose=True)
        x = solved(work[..., :n, :], turned[..., :n, :], upper=True)
        return x, torch.sum(turned[..., n:, :] * turned[..., n:, :], -2)
    work, taus = reflections(a.mT)
    y = solved(work[..., :m, :].mT, b, upper=False)
    return reflected(work, taus, torch.constant_pad_nd(y, [0, 0, 0, n - m])), b[..., :0]


def _by_singular_values(
    a: torch.Tensor, b: torch.Tensor, rcond: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the shortest solution, the rank and the singular values; those below rcond times the largest count as zero."""
    m, n = a.shape[-2:]
    left, values, right = svd(a.mT if m < n else a)
    if m < n:
        left, right = right, left
    if values.size(-1) == 0:
        x = torch.zeros([*b.shape[:-2], n, b.size(-1)], dtype=b.dtype, device=b.device)
        return x, torch.zeros(a.shape[:-2], dtype=torch.int64, device=a.device), values
    good = values > values[..., :1] * rcond
    inverse = torch.where(good, torch.reciprocal(torch.where(good, values, 1.0)), 0.0).unsqueeze(-1)
    x = torch.matmul(right, inverse * torch.matmul(left.mT, b))
    return x, torch.sum(good.to(torch.int64), -1), values


def _small(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return matrices whose squares do not overflow, and the power of two, [..., 1, 1], that they were multiplied by."""
    if x.numel() == 0:
        return x, torch.ones([*x.shape[:-2], 1, 1], dtype=x.dtype, device=x.device)
    large = torch.amax(torch.abs(x), (-2, -1), keepdim=True) > 2.0**40
    scale = torch.where(large, 2.0**-100, 1.0).to(x.dtype)
    return x * scale, scale


def _rows_of(x: torch.Tensor, rows: int, vector: bool) -> torch.Tensor:
    """Return x in memory that has `rows` rows, as LAPACK leaves it over the right-hand side."""
    n = x.size(-2)
    placed = columns(torch.constant_pad_nd(x, [0, 0, 0, rows - n]))[..., :n, :]
    return placed.squeeze(-1) if vector else placed


@translator("aten.linalg_lstsq.default", source="Golub and Van Loan §5.3 (gels) and §5.5 (the other drivers)")
def linalg_lstsq(
    self: torch.Tensor, b: torch.Tensor, rcond: float | None = None, *, driver: str | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the solution, residuals, rank and singular values; empty where the driver does not compute them."""
    refuse_complex(self)
    if driver is not None and driver not in _DRIVERS:
        raise RuntimeError(f"torch.linalg.lstsq: parameter `driver` should be one of {_DRIVERS}, but got {driver}")
    m, n = self.shape[-2:]
    if driver in ("gelsd", "gelss") and m > n:
        raise Refused("whether there are residuals depends on the rank: a shape that depends on values")
    vector = b.dim() == 1 or (self.dim() - 1 == b.dim() and b.shape == self.shape[:-1])
    right, of_b = _small(b.unsqueeze(-1) if vector else b)
    matrix, of_a = _small(self)
    residuals = torch.empty((0,), dtype=self.dtype, device=self.device)
    rank = torch.empty((0,), dtype=torch.int64, device=self.device)
    values = torch.empty_like(residuals)
    if driver == "gels":
        x, squares = _by_reflections(matrix, right)
        residuals = squares / (of_b * of_b).squeeze(-1) if m > n else residuals
    else:
        cutoff = torch.finfo(self.dtype).eps * max(m, n) if rcond is None else rcond
        x, rank, found = _by_singular_values(matrix, right, cutoff)
        values = found / of_a.squeeze(-1) if driver in ("gelsd", "gelss") else values
    x = x * of_a / of_b if x.numel() else x
    return _rows_of(x, max(m, n), vector), residuals, rank, values
