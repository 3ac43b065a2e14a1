"""Decides how matrices are factorised: Cholesky by columns, QR by Householder reflections.

Imported by translators.families. See triangular.py for what that costs.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import translator
from neuron_ops.translators.triangular import _first, columns, solved

_CHOLESKY = "Golub and Van Loan §4.2, Cholesky by columns"
_HOUSEHOLDER = "Golub and Van Loan §5.1, reflections with LAPACK's signs"


def cholesky(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the lower factor of symmetric matrices, of which the lower triangle is read, and info."""
    refuse_complex(a)
    n = a.size(-1)
    lower = torch.zeros_like(a, memory_format=torch.contiguous_format)
    bad = []
    for j in range(n):
        rest = a[..., j:, j : j + 1]
        if j:
            rest = rest - torch.matmul(lower[..., j:, :j], lower[..., j : j + 1, :j].mT)
        head = rest[..., :1, :]
        bad.append(~(head[..., 0] > 0))
        lower[..., j:, j : j + 1] = rest / torch.sqrt(head)
    info = _first(torch.cat(bad, -1)) if bad else torch.zeros(a.shape[:-2], dtype=torch.int32, device=a.device)
    return lower, info


@translator("aten.linalg_cholesky_ex.default", source=_CHOLESKY)
def linalg_cholesky_ex(
    self: torch.Tensor, *, upper: bool = False, check_errors: bool = False  # noqa: ARG001
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the factor and info."""
    lower, info = cholesky(self.mT if upper else self)
    return columns(lower.mT if upper else lower), info


@translator("aten.cholesky.default", source=_CHOLESKY)
def cholesky_factor(self: torch.Tensor, upper: bool = False) -> torch.Tensor:
    """Return the factor; that a matrix is not positive definite shows as NaN and not as an error."""
    if self.numel() == 0:
        return torch.empty_like(self)
    lower, _ = cholesky(self.mT if upper else self)
    return columns(lower.mT if upper else lower)


def _both(factor: torch.Tensor, b: torch.Tensor, upper: bool) -> torch.Tensor:
    """Return x of l · lᵀ · x = b."""
    lower = factor.mT if upper else factor
    return solved(lower.mT, solved(lower, b, upper=False), upper=True)


@translator("aten._cholesky_solve_helper.default", source=_CHOLESKY)
def cholesky_solve_helper(self: torch.Tensor, A: torch.Tensor, upper: bool) -> torch.Tensor:  # noqa: N803
    """Return the solution from a Cholesky factor."""
    refuse_complex(self)
    return columns(_both(A, self, upper)) if A.numel() else columns(self.clone())


@translator("aten.cholesky_inverse.default", source=_CHOLESKY)
def cholesky_inverse(self: torch.Tensor, upper: bool = False) -> torch.Tensor:
    """Return the inverse of the matrix whose Cholesky factor is given."""
    refuse_complex(self)
    eye = torch.eye(self.size(-1), dtype=self.dtype, device=self.device).expand(self.shape)
    return columns(_both(self, eye, upper))


def reflections(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return LAPACK's geqrf of matrices (…, m, n): R above the diagonal, the reflections' vectors below it, and their factors."""
    refuse_complex(a)
    m, n = a.shape[-2:]
    work, taus = a.clone(memory_format=torch.contiguous_format), []
    for j in range(min(m, n)):
        head, below = work[..., j : j + 1, j : j + 1], work[..., j + 1 :, j : j + 1]
        rest = torch.sum(below * below, -2, keepdim=True)
        none = rest == 0
        size = torch.sqrt(head * head + rest)
        beta = torch.where(none, head, torch.where(head >= 0, -size, size))
        tau = torch.where(none, 0.0, (beta - head) / torch.where(beta == 0, 1.0, beta))
        vector = torch.where(none, 0.0, below / torch.where(none, 1.0, head - beta))
        right = work[..., j:, j + 1 :]
        if right.numel():
            whole = torch.cat([torch.ones_like(head), vector], -2)
            right -= tau * whole * torch.matmul(whole.mT, right)
        work[..., j : j + 1, j : j + 1] = beta
        work[..., j + 1 :, j : j + 1] = vector
        taus.append(tau[..., 0])
    none_at_all = torch.zeros([*a.shape[:-2], 0], dtype=a.dtype, device=a.device)
    return work, torch.cat(taus, -1) if taus else none_at_all


def reflected(vectors: torch.Tensor, taus: torch.Tensor, x: torch.Tensor, *, transpose: bool = False) -> torch.Tensor:
    """Return Q · x, or Qᵀ · x, for the product Q of reflections."""
    x = x.clone(memory_format=torch.contiguous_format)
    numbers = range(taus.size(-1))
    for j in numbers if transpose else reversed(numbers):
        below = vectors[..., j + 1 :, j : j + 1]
        whole = torch.cat([torch.ones_like(vectors[..., :1, :1]), below], -2)
        part = x[..., j:, :]
        x[..., j:, :] = part - taus[..., j].unsqueeze(-1).unsqueeze(-1) * whole * torch.matmul(whole.mT, part)
    return x


def _eye(like: torch.Tensor, rows: int, cols: int) -> torch.Tensor:
    return torch.eye(rows, cols, dtype=like.dtype, device=like.device).expand(*like.shape[:-2], rows, cols)


@translator("aten.geqrf.default", source=_HOUSEHOLDER)
def geqrf(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the packed factorisation and the reflections' factors."""
    work, taus = reflections(self)
    return columns(work), taus


@translator("aten.linalg_householder_product.default", source=_HOUSEHOLDER)
def linalg_householder_product(input: torch.Tensor, tau: torch.Tensor) -> torch.Tensor:  # noqa: A002
    """Return the first columns of the product of reflections."""
    refuse_complex(input)
    return columns(reflected(input, tau, _eye(input, *input.shape[-2:])))


@translator("aten.ormqr.default", source=_HOUSEHOLDER)
def ormqr(
    self: torch.Tensor, input2: torch.Tensor, input3: torch.Tensor, left: bool = True, transpose: bool = False
) -> torch.Tensor:
    """Return the product of reflections, or its transpose, times a matrix, or the matrix times it."""
    refuse_complex(self)
    if left:
        return columns(reflected(self, input2, input3, transpose=transpose))
    return columns(reflected(self, input2, input3.mT, transpose=not transpose).mT)


@translator("aten.linalg_qr.default", source=_HOUSEHOLDER)
def linalg_qr(A: torch.Tensor, mode: str = "reduced") -> tuple[torch.Tensor, torch.Tensor]:  # noqa: N803
    """Return Q and R; with mode "r" Q is empty."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    m, n = A.shape[-2:]
    work, taus = reflections(A)
    if mode == "r":
        return torch.empty((0,), dtype=A.dtype, device=A.device), columns(torch.triu(work[..., : min(m, n), :]))
    rows = m if mode == "complete" else min(m, n)
    q = reflected(work, taus, _eye(A, m, rows))
    return columns(q), columns(torch.triu(work[..., :rows, :]))
