"""Decides how distances between rows are computed: from all differences, or from one product of matrices where ATen does so.

Imported by translators.families. The p-norms' limits (0, 1, 2 and infinity) have formulas of their own, as in ATen.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import translator

_NORM = "definition"
_PRODUCT_ROWS = 25
"""ATen computes Euclidean distances of more rows than this by a product of matrices, unless told otherwise."""


def _norm(difference: torch.Tensor, p: float) -> torch.Tensor:
    """Return the p-norms along the last dimension; of nothing 0."""
    size = torch.abs(difference)
    if difference.size(-1) == 0:
        return torch.zeros(difference.shape[:-1], dtype=difference.dtype, device=difference.device)
    if p == 0:
        return torch.sum(torch.clamp_max(torch.ceil(size), 1), -1)
    if p == 1:
        return torch.sum(size, -1)
    if p == 2:
        return torch.sqrt(torch.sum(size * size, -1))
    if math.isinf(p):
        return torch.amax(size, -1)
    return torch.pow(torch.sum(torch.pow(size, p), -1), 1 / p)


def _gradient(grad: torch.Tensor, difference: torch.Tensor, distance: torch.Tensor, p: float) -> torch.Tensor:
    """Return the gradient of each difference, multiplied in ATen's order; 0 where the distance is 0.

    `grad` and `distance` are those of the p-norms, with a last size of 1.
    """
    size, sign = torch.abs(difference), torch.sign(difference)
    if p == 1:
        return grad * sign
    if math.isinf(p):
        return grad * sign * torch.where(size == distance, 1.0, 0.0).to(size.dtype)
    none = distance == 0
    safe = torch.where(none, 1.0, distance)
    if p == 2:
        return torch.where(none, 0.0, grad * difference / safe)
    power = sign * torch.pow(size, p - 1) if p < 2 else difference * torch.pow(size, p - 2)
    slope = power * grad / torch.pow(safe, p - 1)
    # Below p = 1 a difference of 0 has an infinite slope: ATen says 0.
    return torch.where(none | (size == 0), 0.0, slope) if p < 1 else torch.where(none, 0.0, slope)


def _euclidean(x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
    """Return distances by |x|² + |y|² - 2xy as one product, as ATen does: what cancels below zero is zero."""
    squares1, squares2 = (torch.sum(x * x, -1, keepdim=True) for x in (x1, x2))
    left = torch.cat([x1 * -2, squares1, torch.ones_like(squares1)], -1)
    right = torch.cat([x2, torch.ones_like(squares2), squares2], -1)
    return torch.sqrt(torch.clamp_min(torch.matmul(left, right.mT), 0))


def _paired(x1: torch.Tensor, x2: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    batch = torch.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return x1.expand(*batch, *x1.shape[-2:]), x2.expand(*batch, *x2.shape[-2:])


@translator("aten._cdist_forward.default", source=_NORM)
def cdist_forward(x1: torch.Tensor, x2: torch.Tensor, p: float, compute_mode: int | None) -> torch.Tensor:
    """Return the distances (…, rows of x1, rows of x2)."""
    refuse_complex(x1)
    x1, x2 = _paired(x1, x2)
    many = x1.size(-2) > _PRODUCT_ROWS or x2.size(-2) > _PRODUCT_ROWS
    if p == 2 and x1.size(-1) and (compute_mode == 1 or (compute_mode in (None, 0) and many)):
        return _euclidean(x1, x2)
    return _norm(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


@translator("aten._cdist_backward.default", source=_NORM)
def cdist_backward(
    grad: torch.Tensor, x1: torch.Tensor, x2: torch.Tensor, p: float, cdist: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of x1."""
    refuse_complex(x1)
    x1, x2 = _paired(x1, x2)
    if x1.numel() == 0 or x2.numel() == 0 or p == 0:
        return torch.zeros(x1.shape, dtype=x1.dtype, device=x1.device)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return torch.sum(_gradient(grad.unsqueeze(-1), difference, cdist.unsqueeze(-1), p), -2)


def _triangle(x: torch.Tensor, rows: int) -> torch.Tensor:
    """Return the elements above the diagonal of x (rows, rows, …), row after row."""
    return torch.cat([x[i, i + 1 :] for i in range(rows - 1)])


@translator("aten._pdist_forward.default", source=_NORM)
def pdist_forward(self: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    """Return the distances of each pair of rows, [rows · (rows - 1) / 2]."""
    refuse_complex(self)
    rows = self.size(0)
    if rows < 2:
        return torch.zeros((0,), dtype=self.dtype, device=self.device)
    return _triangle(_norm(self.unsqueeze(1) - self.unsqueeze(0), p), rows)


@translator("aten._pdist_backward.default", source=_NORM)
def pdist_backward(grad: torch.Tensor, self: torch.Tensor, p: float, pdist: torch.Tensor) -> torch.Tensor:
    """Return the gradient of the rows."""
    refuse_complex(self)
    rows = self.size(0)
    if rows < 2 or self.numel() == 0 or p == 0:
        return torch.zeros(self.shape, dtype=self.dtype, device=self.device)
    # Each row's own sum over all others: an index_add may add in any order, and a product with zeros makes NaN of infinities.
    place = torch.arange(rows, device=self.device)
    down, across = place.unsqueeze(-1), place
    low, high = torch.where(down < across, down, across), torch.where(down < across, across, down)
    number = torch.div(low * (2 * rows - low - 1), 2, rounding_mode="floor") + high - low - 1
    same = down == across
    pair = torch.where(same, 0, number).reshape(-1)
    square = [torch.index_select(x, 0, pair).view(rows, rows, 1) for x in (grad, pdist)]
    part = _gradient(square[0], self.unsqueeze(1) - self.unsqueeze(0), square[1], p)
    return torch.sum(torch.where(same.unsqueeze(-1), 0.0, part), 1)
