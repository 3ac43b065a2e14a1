"""Decides how systems are solved: triangular ones by substitution, general ones by LU with partial pivoting, row after row.

Imported by translators.families. Every step is some device calls, so that costs grow with the size of the matrix; nothing is
read back, and `info` is computed on the device.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from neuron_ops.translators.pair_systems import lu_pairs, solved_pairs, total
from neuron_ops.translators.promotion import joined, parts
from neuron_ops.translators.registry import translator

_SUBSTITUTION = "Golub and Van Loan §3.1, substitution"
_GAUSS = "Golub and Van Loan §3.4, LU with partial pivoting"


def columns(x: torch.Tensor) -> torch.Tensor:
    """Return the matrices with columns contiguous in memory, as LAPACK leaves them."""
    return x.mT.contiguous().mT


class LU(NamedTuple):
    """Factors packed in one matrix, row exchanges counted from 1 (int32), and the first zero pivot's number or 0 (int32)."""

    factors: torch.Tensor
    pivots: torch.Tensor
    info: torch.Tensor


def lu(a: torch.Tensor, pivot: bool = True) -> LU:
    """Return the factorisation of matrices (…, m, n)."""
    if a.dtype.is_complex:
        packed, chosen, zero = lu_pairs(parts(a), pivot)
        return LU(joined(packed, a), _counted(chosen, a), _first(zero))
    m, n = a.shape[-2:]
    work, rows, pivots = a.clone(), torch.arange(m, device=a.device), []
    for j in range(min(m, n)):
        if pivot:
            best = torch.argmax(work[..., j:, j].abs(), -1, keepdim=True) + j
            order = torch.where(rows == best, j, torch.where(rows == j, best, rows))
            work = torch.gather(work, -2, order.unsqueeze(-1).expand(work.shape))
        else:
            best = torch.full([*a.shape[:-2], 1], j, dtype=torch.int64, device=a.device)
        pivots.append(best)
        head = work[..., j : j + 1, j : j + 1]
        below = work[..., j + 1 :, j : j + 1]
        below = torch.where(head == 0, below, below / torch.where(head == 0, 1.0, head))
        work[..., j + 1 :, j : j + 1] = below
        work[..., j + 1 :, j + 1 :] -= below * work[..., j : j + 1, j + 1 :]
    return LU(work, _counted(pivots, a), _first(torch.diagonal(work, dim1=-2, dim2=-1) == 0))


def _counted(pivots: list[torch.Tensor], a: torch.Tensor) -> torch.Tensor:
    none = torch.zeros([*a.shape[:-2], 0], dtype=torch.int32, device=a.device)
    return (torch.cat(pivots, -1) + 1).to(torch.int32) if pivots else none


def eye(rows: int, cols: int, like: torch.Tensor) -> torch.Tensor:
    """Return the identity in the dtype of `like`; of complex numbers it is converted from real ones."""
    return torch.eye(rows, cols, device=like.device).to(like.dtype)


def conjugate(x: torch.Tensor) -> torch.Tensor:
    """Return the conjugates; real numbers come back as they are."""
    if not x.dtype.is_complex:
        return x
    real, imaginary = parts(x)
    return joined((real, -imaginary), x)


def _first(bad: torch.Tensor) -> torch.Tensor:
    """Return the number, counted from 1, of the first set place along the last dimension, or 0; int32."""
    if bad.size(-1) == 0:
        return torch.zeros(bad.shape[:-1], dtype=torch.int32, device=bad.device)
    flags = bad.to(torch.int32)
    return torch.where(torch.amax(flags, -1) > 0, torch.argmax(flags, -1) + 1, 0).to(torch.int32)


def solved(a: torch.Tensor, b: torch.Tensor, *, upper: bool, unit: bool = False) -> torch.Tensor:
    """Return x of a · x = b for triangular a (…, n, n) and b (…, n, k); batches broadcast."""
    n = a.size(-1)
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = a.expand(*batch, n, n), b.expand(*batch, *b.shape[-2:])
    if a.dtype.is_complex:
        like = torch.empty(b.shape, dtype=a.dtype, device=a.device)
        return joined(solved_pairs(parts(a), parts(b), upper=upper, unit=unit), like)
    x = torch.zeros_like(b, memory_format=torch.contiguous_format)
    for i in reversed(range(n)) if upper else range(n):
        done = slice(i + 1, n) if upper else slice(0, i)
        row = b[..., i : i + 1, :]
        if done.stop > done.start:
            row = row - torch.matmul(a[..., i : i + 1, done], x[..., done, :])
        x[..., i : i + 1, :] = row if unit else row / a[..., i : i + 1, i : i + 1]
    return x


def order_of(pivots: torch.Tensor, rows: int) -> torch.Tensor:
    """Return the permutation (…, rows) that the row exchanges amount to: row i of the product is row order[i] of the matrix."""
    order = torch.arange(rows, device=pivots.device).expand(*pivots.shape[:-1], rows)
    place = torch.arange(rows, device=pivots.device)
    for j in range(pivots.size(-1)):
        other = pivots[..., j : j + 1].to(torch.int64) - 1
        mine, theirs = order[..., j : j + 1], torch.gather(order, -1, other)
        order = torch.where(place == j, theirs, torch.where(place == other, mine, order))
    return order


def permuted(x: torch.Tensor, order: torch.Tensor) -> torch.Tensor:
    """Return the rows of matrices in another order; batches broadcast."""
    batch = torch.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    x = x.expand(*batch, *x.shape[-2:])
    places = order.expand(*batch, order.size(-1)).unsqueeze(-1).expand(x.shape)
    if x.dtype.is_complex:
        real, imaginary = parts(x)
        like = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        return joined((torch.gather(real, -2, places), torch.gather(imaginary, -2, places)), like)
    return torch.gather(x, -2, places)


def backsolved(found: LU, b: torch.Tensor, *, transposed: bool = False) -> torch.Tensor:
    """Return x of a · x = b, or with `transposed` of aᵀ · x = b, from a's factors."""
    factors, order = found.factors, order_of(found.pivots, found.factors.size(-1))
    if transposed:
        y = solved(factors.mT, b, upper=False)
        z = solved(factors.mT, y, upper=True, unit=True)
        return permuted(z, torch.argsort(order, -1))
    return solved(factors, solved(factors, permuted(b, order), upper=False, unit=True), upper=True)


@translator("aten.linalg_solve_triangular.default", source=_SUBSTITUTION)
def linalg_solve_triangular(
    self: torch.Tensor, B: torch.Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False  # noqa: N803
) -> torch.Tensor:  # fmt: skip
    """Return x of self · x = B, or x · self = B."""
    B = B.to(self.dtype)  # noqa: N806 - as ATen, which copies B into a result of self's dtype
    if left:
        return columns(solved(self, B, upper=upper, unit=unitriangular))
    return columns(solved(self.mT, B.mT, upper=not upper, unit=unitriangular).mT)


@translator("aten.triangular_solve.default", source=_SUBSTITUTION)
def triangular_solve(
    self: torch.Tensor, A: torch.Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False  # noqa: N803
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the solution and A, batches broadcast."""
    batch = torch.broadcast_shapes(self.shape[:-2], A.shape[:-2])
    matrix = A.mT if transpose else A
    x = solved(matrix, self, upper=upper != transpose, unit=unitriangular)
    return columns(x), columns(A.expand(*batch, *A.shape[-2:]).clone())


@translator("aten.linalg_lu_factor_ex.default", source=_GAUSS)
def linalg_lu_factor_ex(
    A: torch.Tensor, *, pivot: bool = True, check_errors: bool = False  # noqa: ARG001, N803
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return factors, row exchanges and info."""
    found = lu(A, pivot)
    return columns(found.factors), found.pivots, found.info


@translator("aten.lu_unpack.default", source="definition")
def lu_unpack(
    LU_data: torch.Tensor, LU_pivots: torch.Tensor, unpack_data: bool = True, unpack_pivots: bool = True  # noqa: N803
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return P, L and U; those not asked for are empty."""
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    empty = torch.empty((0,), dtype=LU_data.dtype, device=LU_data.device)
    p, lower, upper = empty, torch.empty_like(empty), torch.empty_like(empty)
    if unpack_data:
        lower, upper = _halves(LU_data, k)
    if unpack_pivots:
        order = order_of(LU_pivots[..., :k], m)
        p = (order.unsqueeze(-2) == torch.arange(m, device=order.device).unsqueeze(-1)).to(LU_data.dtype)
    return p, lower, upper


def _halves(packed: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return L and U of packed factors."""
    if packed.dtype.is_complex:
        real, imaginary = (_halves(part, k) for part in parts(packed))
        ones = torch.eye(packed.size(-2), k, device=packed.device)
        lower, upper = (torch.empty(part.shape, dtype=packed.dtype, device=packed.device) for part in real)
        return joined((real[0], torch.where(ones == 1, 0.0, imaginary[0])), lower), joined(
            (real[1], imaginary[1]), upper
        )
    # No sum with the identity: it would lose the sign of zeros.
    ones = torch.eye(packed.size(-2), k, dtype=packed.dtype, device=packed.device)
    lower = torch.where(ones == 1, 1.0, torch.tril(packed[..., :k], -1)).to(packed.dtype)
    return lower, torch.triu(packed[..., :k, :]).contiguous()


@translator("aten.linalg_lu.default", source=_GAUSS)
def linalg_lu(A: torch.Tensor, *, pivot: bool = True) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # noqa: N803
    """Return P, L and U; without pivoting P is empty."""
    found = lu(A, pivot)
    p, lower, upper = lu_unpack(found.factors, found.pivots, True, pivot)
    return p, lower, upper


@translator("aten.linalg_lu_solve.default", source=_GAUSS)
def linalg_lu_solve(
    LU: torch.Tensor, pivots: torch.Tensor, B: torch.Tensor, *, left: bool = True, adjoint: bool = False  # noqa: N803
) -> torch.Tensor:  # fmt: skip
    """Return x of a · x = B (or x · a = B, or with the adjoint of a) from a's factors."""
    found = _factors(LU, pivots)
    B = conjugate(B) if adjoint else B  # noqa: N806
    x = backsolved(found, B if left else B.mT, transposed=left == adjoint)
    x = conjugate(x) if adjoint else x
    return columns(x) if left else x.mT.contiguous()


def _factors(factors: torch.Tensor, pivots: torch.Tensor) -> LU:
    return LU(factors, pivots, pivots[..., :0])


@translator("aten._linalg_solve_ex.default", source=_GAUSS)
def linalg_solve_ex(
    A: torch.Tensor, B: torch.Tensor, *, left: bool = True, check_errors: bool = False  # noqa: ARG001, N803
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the solution, factors, row exchanges and info."""
    found = lu(A)
    vector = B.dim() == 1 or (A.dim() - 1 == B.dim() and B.shape == A.shape[:-1])
    b = B.unsqueeze(-1) if vector else B
    x = backsolved(found, b, transposed=False) if left else backsolved(found, b.mT, transposed=True).mT
    x = columns(x) if left else x.contiguous()
    if vector:
        x = x.squeeze(-1)
        x = columns(x) if left and x.dim() > 1 else x  # ATen lays out rows of vectors as if they were one matrix
    return x, columns(found.factors), found.pivots, found.info


@translator("aten.linalg_inv_ex.default", source=_GAUSS)
def linalg_inv_ex(A: torch.Tensor, *, check_errors: bool = False) -> tuple[torch.Tensor, torch.Tensor]:  # noqa: ARG001, N803
    """Return the inverse and info."""
    found = lu(A)
    return columns(backsolved(found, eye(A.size(-1), A.size(-1), A).expand(A.shape))), found.info


def _parity(pivots: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return 1 or -1, a real number, for an even or odd number of exchanges."""
    place = torch.arange(1, pivots.size(-1) + 1, dtype=pivots.dtype, device=pivots.device)
    real = torch.view_as_real(like).dtype if like.dtype.is_complex else like.dtype
    return torch.prod(torch.where(pivots == place, 1.0, -1.0).to(real), -1)


def _product_of(diagonal: torch.Tensor, parity: torch.Tensor) -> torch.Tensor:
    if not diagonal.dtype.is_complex:
        return torch.prod(diagonal, -1) * parity
    real, imaginary = total(parts(diagonal))
    like = torch.empty(real.shape, dtype=diagonal.dtype, device=diagonal.device)
    return joined((real * parity, imaginary * parity), like)


@translator("aten._linalg_det.default", source=_GAUSS)
def linalg_det(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # noqa: N803
    """Return the determinant, factors and row exchanges; ATen factorises the transpose of a contiguous A."""
    found = lu(A.mT if A.is_contiguous() else A)
    diagonal = torch.diagonal(found.factors, dim1=-2, dim2=-1)
    return _product_of(diagonal, _parity(found.pivots, A)), columns(found.factors), found.pivots


@translator("aten._linalg_slogdet.default", source=_GAUSS)
def linalg_slogdet(A: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # noqa: N803
    """Return sign and logarithm of the determinant, factors and row exchanges."""
    found = lu(A.mT if A.is_contiguous() else A)
    diagonal = torch.diagonal(found.factors, dim1=-2, dim2=-1)
    if diagonal.dtype.is_complex:
        real, imaginary = parts(diagonal)
        size = torch.hypot(real, imaginary)
        whole = torch.where(size == 0, 1.0, size)
        unit = joined((real / whole, imaginary / whole), torch.empty(real.shape, dtype=A.dtype, device=A.device))
    else:
        size, unit = diagonal.abs(), torch.sign(diagonal)
    sign = _product_of(unit, _parity(found.pivots, A))
    return sign, torch.sum(torch.log(size), -1), columns(found.factors), found.pivots
