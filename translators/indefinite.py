"""Decides how symmetric indefinite matrices are factorised and solved: by Bunch and Kaufman's pivots of one or two rows.

Imported by translators.families. Which pivot a step takes is decided on the device by selecting: every matrix of a batch goes
through all steps, and a step that is the second row of a pivot changes nothing. Costs some 70 device calls a row.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import translator
from neuron_ops.translators.triangular import columns, permuted

_BUNCH_KAUFMAN = "Bunch and Kaufman 1977, with LAPACK's layout (sytrf, lower)"
_ALPHA = (1 + math.sqrt(17)) / 8


class _Pivot(NamedTuple):
    """The pivot of a step, for each matrix [..., 1]: the row to exchange, whether it has two rows, whether there is any."""

    row: torch.Tensor
    two: torch.Tensor
    none: torch.Tensor


def _symmetric(lower: torch.Tensor) -> torch.Tensor:
    """Return the symmetric matrices of which the lower triangle is given; no sum, which would lose the sign of zeros."""
    at = torch.arange(lower.size(-1), device=lower.device)
    return torch.where(at.unsqueeze(-1) >= at, lower, lower.mT)


def _pivot(work: torch.Tensor, k: int) -> _Pivot:
    """Return which rows of the rest of symmetric matrices (…, n, n) come next."""
    n = work.size(-1)
    head = torch.abs(work[..., k, k]).unsqueeze(-1)
    here = torch.full_like(head, k, dtype=torch.int64)
    if k == n - 1:
        return _Pivot(here, torch.zeros_like(head, dtype=torch.bool), (head == 0) | torch.isnan(head))
    column = torch.abs(work[..., k + 1 :, k])
    most = torch.amax(column, -1, keepdim=True)
    place = torch.argmax(column, -1, keepdim=True) + (k + 1)
    row = torch.gather(work, -2, place.unsqueeze(-1).expand(*place.shape, n)).squeeze(-2)
    at = torch.arange(n, device=work.device)
    others = torch.amax(torch.where((at == place) | (at < k), 0.0, torch.abs(row)), -1, keepdim=True)
    diagonal = torch.abs(torch.gather(row, -1, place))
    none = ((head == 0) & (most == 0)) | torch.isnan(head)
    safe = torch.where(others == 0, 1.0, others)
    stay = none | (head >= most * _ALPHA) | (head >= most * _ALPHA * (most / safe))
    two = ~stay & ~(diagonal >= others * _ALPHA)
    return _Pivot(torch.where(stay, here, place), two, none)


def _swapped(one: torch.Tensor, other: torch.Tensor, n: int) -> torch.Tensor:
    """Return the order of n rows in which two, [..., 1], are exchanged."""
    at = torch.arange(n, device=one.device)
    return torch.where(at == one, other, torch.where(at == other, one, at))


def _weights(work: torch.Tensor, k: int, pivot: _Pivot) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the factor's columns k and k + 1 below row k, [..., n - k - 1, 1]; the second is 0 for pivots of one row."""
    one, two = work[..., k + 1 :, k : k + 1], pivot.two.unsqueeze(-1)
    head = work[..., k : k + 1, k : k + 1]
    single = one * torch.reciprocal(torch.where(pivot.none.unsqueeze(-1), 1.0, head))
    if one.size(-2) == 0:
        return single, single
    other = work[..., k + 1 :, k + 1 : k + 2]
    off, below = one[..., :1, :], other[..., :1, :]
    off = torch.where(two, off, 1.0)
    d11, d22 = below / off, head / off
    scale = torch.reciprocal(torch.where(two, d11 * d22 - 1, 1.0)) / off
    first = torch.where(two, scale * (d11 * one - other), single)
    return first, torch.where(two, scale * (d22 * other - one), 0.0)


def _step(work: torch.Tensor, k: int, pivot: _Pivot) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the rest after one pivot, and the two columns (…, n, 1) of the packed factor that it gives."""
    first, second = _weights(work, k, pivot)
    two, n = pivot.two.unsqueeze(-1), work.size(-1)
    inner = torch.arange(n - k - 1, device=work.device).unsqueeze(-1) == 0
    corner = inner & two  # row k + 1 belongs to a pivot of two rows and is not eliminated
    one, other = (torch.where(corner, 0.0, work[..., k + 1 :, c : c + 1]) for c in (k, min(k + 1, n - 1)))
    w1, w2 = torch.where(corner, 0.0, first), torch.where(corner, 0.0, second)
    change = one * w1.mT + torch.where(two, other, 0.0) * w2.mT
    rest = work.clone()
    done = pivot.none.unsqueeze(-1)
    rest[..., k + 1 :, k + 1 :] -= torch.where(done, 0.0, change)
    above = torch.zeros_like(work[..., :k, :1])
    left = torch.where(corner | done, work[..., k + 1 :, k : k + 1], first)
    left = torch.cat([above, work[..., k : k + 1, k : k + 1], left], -2)
    if k == n - 1:
        return rest, left, left
    right = torch.where(corner, work[..., k + 1 :, k + 1 : k + 2], w2)
    return _symmetric(rest), left, torch.cat([above, torch.zeros_like(work[..., :1, :1]), right], -2)


@translator("aten.linalg_ldl_factor_ex.default", source=_BUNCH_KAUFMAN)
def linalg_ldl_factor_ex(
    self: torch.Tensor, *, hermitian: bool = False, check_errors: bool = False  # noqa: ARG001 - real matrices
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the packed factors, the pivots' rows from 1 (negative for pivots of two rows), and info."""
    refuse_complex(self)
    n, work = self.size(-1), _symmetric(self)
    column = [*self.shape[:-2], 1]
    second = torch.zeros(column, dtype=torch.bool, device=self.device)
    info = torch.zeros(column, dtype=torch.int32, device=self.device)
    pending, before = torch.zeros([*column, 1], dtype=self.dtype, device=self.device), info
    factors, pivots = [], []
    for k in range(n):
        found = _pivot(work, k)
        here = torch.full_like(found.row, k)
        found = _Pivot(torch.where(second, here, found.row), found.two & ~second, found.none & ~second)
        order = _swapped(here + found.two.to(torch.int64), found.row, n)
        moved = permuted(permuted(work, order).mT, order)
        rest, left, right = _step(moved, k, found)
        skip = second.unsqueeze(-1)
        factors.append(torch.where(skip, pending, left))
        number = torch.where(found.two, -found.row - 1, found.row + 1).to(torch.int32)
        pivots.append(torch.where(second, before, number))
        info = torch.where((info == 0) & found.none, k + 1, info).to(torch.int32)
        work, pending, before, second = torch.where(skip, work, rest), right, number, found.two
    packed = torch.cat(factors, -1) if n else self.clone()
    order = torch.cat(pivots, -1) if n else torch.zeros([*self.shape[:-2], 0], dtype=torch.int32, device=self.device)
    return columns(torch.tril(packed)), order, info.squeeze(-1)


def _exchanged(
    b: torch.Tensor, k: int, pivots: torch.Tensor, offset: torch.Tensor, active: torch.Tensor
) -> torch.Tensor:
    """Return b with row k + offset and the pivot's row exchanged where active."""
    here = offset + k
    row = torch.where(active, torch.abs(pivots[..., k : k + 1].to(torch.int64)) - 1, here)
    return permuted(b, _swapped(here, row, b.size(-2)))


def _divided(factors: torch.Tensor, b: torch.Tensor, k: int, two: torch.Tensor, active: torch.Tensor) -> torch.Tensor:
    """Return b with rows k, and k + 1 of a pivot of two rows, divided by the pivot."""
    head, top = factors[..., k : k + 1, k : k + 1], b[..., k : k + 1, :]
    single = torch.where(active, top / torch.where(active & ~two, head, 1.0), top)
    if k == b.size(-2) - 1:
        return torch.cat([b[..., :k, :], single], -2)
    below, off = b[..., k + 1 : k + 2, :], torch.where(two, factors[..., k + 1 : k + 2, k : k + 1], 1.0)
    first, last = head / off, factors[..., k + 1 : k + 2, k + 1 : k + 2] / off
    scale = torch.where(two, first * last - 1, 1.0)
    upper = torch.where(two, (last * (top / off) - below / off) / scale, single)
    lower = torch.where(two, (first * (below / off) - top / off) / scale, below)
    return torch.cat([b[..., :k, :], upper, lower, b[..., k + 2 :, :]], -2)


@translator("aten.linalg_ldl_solve.default", source=_BUNCH_KAUFMAN)
def linalg_ldl_solve(
    LD: torch.Tensor, pivots: torch.Tensor, B: torch.Tensor, *, hermitian: bool = False  # noqa: ARG001, N803
) -> torch.Tensor:  # fmt: skip
    """Return x of a · x = B from a's packed factors and pivots; batches broadcast."""
    refuse_complex(LD)
    n = LD.size(-1)
    batch = torch.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    x, flags = B.expand(*batch, *B.shape[-2:]), []
    second = torch.zeros([*pivots.shape[:-1], 1], dtype=torch.bool, device=LD.device)
    for k in range(n):
        two = (pivots[..., k : k + 1] < 0) & ~second
        flags.append((two, second))
        second = two
    for k, (two, skip) in enumerate(flags):
        pair, active = two.unsqueeze(-1), ~skip.unsqueeze(-1)
        x = _exchanged(x, k, pivots, two.to(torch.int64), ~skip)
        if k < n - 1:
            corner = (torch.arange(n - k - 1, device=LD.device).unsqueeze(-1) == 0) & pair
            one = torch.where(corner | ~active, 0.0, LD[..., k + 1 :, k : k + 1])
            other = torch.where(pair & ~corner, LD[..., k + 1 :, k + 1 : k + 2], 0.0)
            rest = x[..., k + 1 :, :] - one * x[..., k : k + 1, :] - other * x[..., k + 1 : k + 2, :]
            x = torch.cat([x[..., : k + 1, :], rest], -2)
        x = _divided(LD, x, k, pair, active)
    for k in reversed(range(n)):
        two, skip = flags[k]
        if k < n - 1:
            corner = (torch.arange(n - k - 1, device=LD.device).unsqueeze(-1) == 0) & two.unsqueeze(-1)
            one = torch.where(corner, 0.0, LD[..., k + 1 :, k : k + 1])
            top = x[..., k : k + 1, :] - torch.matmul(one.mT, x[..., k + 1 :, :])
            x = torch.cat([x[..., :k, :], top, x[..., k + 1 :, :]], -2)
        # A pivot of two rows exchanges its second row, after both rows are done: at its first row, which comes last here.
        x = _exchanged(x, k, pivots, two.to(torch.int64), ~skip)
    return columns(x)
