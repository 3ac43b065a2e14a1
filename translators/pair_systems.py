"""Decides how systems of complex numbers are solved on their real and imaginary parts, with LAPACK's choice of pivots.

Imported by translators.triangular, which holds the overloads; see there for what a step costs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from neuron_ops.translators.promotion import Pair


def times(z: Pair, w: Pair) -> Pair:
    """Return z · w, element by element."""
    return z[0] * w[0] - z[1] * w[1], z[0] * w[1] + z[1] * w[0]


def product(z: Pair, w: Pair) -> Pair:
    """Return the matrix product."""
    return (
        torch.matmul(z[0], w[0]) - torch.matmul(z[1], w[1]),
        torch.matmul(z[0], w[1]) + torch.matmul(z[1], w[0]),
    )


def quotient(z: Pair, w: Pair) -> Pair:
    """Return z / w, scaled by the larger part of w (Smith 1962)."""
    (a, b), (c, d) = z, w
    swap = c.abs() < d.abs()
    big, low = torch.where(swap, d, c), torch.where(swap, c, d)
    ratio = low / big
    total = big + low * ratio
    real = torch.where(swap, a * ratio + b, a + b * ratio) / total
    return real, torch.where(swap, b * ratio - a, b - a * ratio) / total


def total(z: Pair) -> Pair:
    """Return the product along the last dimension, which halves at each step; of nothing it is one."""
    while z[0].size(-1) > 1:
        half, rest = z[0].size(-1) // 2, z[0].size(-1) % 2
        first, second = (tuple(part.narrow(-1, start, half) for part in z) for start in (0, half))
        both = times((first[0], first[1]), (second[0], second[1]))
        z = both if not rest else (torch.cat([both[0], z[0][..., -1:]], -1), torch.cat([both[1], z[1][..., -1:]], -1))
    if z[0].size(-1) == 0:
        return torch.ones_like(z[0].sum(-1)), torch.zeros_like(z[0].sum(-1))
    return z[0].squeeze(-1), z[1].squeeze(-1)


def lu_pairs(a: Pair, pivot: bool) -> tuple[Pair, list[torch.Tensor], torch.Tensor]:
    """Return packed factors of matrices (…, m, n), the row that each step exchanged, and where the diagonal is zero.

    The pivot is the first largest |real| + |imaginary|, as in LAPACK's icamax.
    """
    m, n = a[0].shape[-2:]
    work, rows, pivots = torch.stack(a), torch.arange(m, device=a[0].device), []
    for j in range(min(m, n)):
        best = torch.full([*a[0].shape[:-2], 1], j, dtype=torch.int64, device=a[0].device)
        if pivot:
            best = torch.argmax(work[..., j:, j].abs().sum(0), -1, keepdim=True) + j
            order = torch.where(rows == best, j, torch.where(rows == j, best, rows))
            work = torch.gather(work, -2, order.unsqueeze(-1).expand(work.shape))
        pivots.append(best)
        head = work[..., j : j + 1, j : j + 1]
        none = (head == 0).all(0)
        below = work[..., j + 1 :, j : j + 1]
        shares = quotient((below[0], below[1]), (torch.where(none, 1.0, head[0]), head[1]))
        work[..., j + 1 :, j : j + 1] = torch.stack(shares)
        right = work[..., j : j + 1, j + 1 :]
        work[..., j + 1 :, j + 1 :] -= torch.stack(times(shares, (right[0], right[1])))
    diagonal = torch.diagonal(work, dim1=-2, dim2=-1)
    return (work[0], work[1]), pivots, (diagonal == 0).all(0)


def solved_pairs(a: Pair, b: Pair, *, upper: bool, unit: bool) -> Pair:
    """Return x of a · x = b for triangular a (…, n, n) and b (…, n, k) of equal batches."""
    n = a[0].size(-1)
    x = (
        torch.zeros_like(b[0], memory_format=torch.contiguous_format),
        torch.zeros_like(b[1], memory_format=torch.contiguous_format),
    )
    for i in reversed(range(n)) if upper else range(n):
        done = slice(i + 1, n) if upper else slice(0, i)
        row = b[0][..., i : i + 1, :], b[1][..., i : i + 1, :]
        if done.stop > done.start:
            known = product(
                (a[0][..., i : i + 1, done], a[1][..., i : i + 1, done]), (x[0][..., done, :], x[1][..., done, :])
            )
            row = row[0] - known[0], row[1] - known[1]
        if not unit:
            row = quotient(row, (a[0][..., i : i + 1, i : i + 1], a[1][..., i : i + 1, i : i + 1]))
        x[0][..., i : i + 1, :], x[1][..., i : i + 1, :] = row[0], row[1]
    return x
