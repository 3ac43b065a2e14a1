"""Decides how a permutation that sorts is found on a device without a sort: by counting, or by a bitonic network.

Imported by translators.sorting and translators.selection. The order is ATen's: NaN is above every number, equal elements
keep their order, in both directions.
"""

from __future__ import annotations

import math

import torch

_MOST_COMPARISONS = 2**24
"""Up to this many comparisons (elements × row length) ranks are counted: 12 launches; beyond, the network's log² do."""


def sort_last(x: torch.Tensor, *, descending: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return values and int64 indices, both contiguous, sorted stably along the last dimension of x (dim ≥ 1)."""
    n = x.size(-1)
    if n <= 1 or x.numel() == 0:
        return x.clone(memory_format=torch.contiguous_format), torch.zeros_like(
            x, dtype=torch.int64, memory_format=torch.contiguous_format
        )
    keys = x.to(torch.uint8) if x.dtype == torch.bool else x
    find = _by_counting if x.numel() * n <= _MOST_COMPARISONS else _by_network
    order = find(keys, descending)
    return torch.gather(x, -1, order), order


def _below(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return where a comes strictly before b in ascending order."""
    if not a.dtype.is_floating_point:
        return a < b
    return (a < b) | (torch.isnan(b) & ~torch.isnan(a))


def _by_counting(x: torch.Tensor, descending: bool) -> torch.Tensor:
    """Return the order: an element's place is the number of those before it, earlier equals included."""
    n = x.size(-1)
    own, others = x.unsqueeze(-1), x.unsqueeze(-2)
    others_first, own_first = _below(others, own), _below(own, others)
    if descending:
        others_first, own_first = own_first, others_first
    places = torch.arange(n, dtype=torch.int32, device=x.device)
    earlier = places.unsqueeze(0) < places.unsqueeze(1)
    rank = (others_first | (earlier & ~own_first)).sum(-1)
    origin = torch.arange(n, dtype=torch.int64, device=x.device).expand(x.shape)
    return torch.zeros_like(rank).scatter(-1, rank, origin)


def _filling(x: torch.Tensor, count: int, descending: bool) -> torch.Tensor:
    """Return `count` columns of the value that comes last in each row's order."""
    shape = (*x.shape[:-1], count)
    if x.dtype.is_floating_point:
        return x.new_full(shape, -math.inf if descending else math.nan)
    # Not the bound of the dtype: a device that computes int64 as int32 would read 2^63 - 1 as -1.
    return (torch.amin(x, -1, True) if descending else torch.amax(x, -1, True)).expand(shape)


def _by_network(x: torch.Tensor, descending: bool) -> torch.Tensor:
    """Return the order by Batcher's bitonic network (1968) on pairs of value and index, so equal values keep theirs."""
    n = x.size(-1)
    size = 1 << (n - 1).bit_length()
    # The filling has the last value of the order and the highest indices: it ends up behind everything.
    keys = torch.cat((x, _filling(x, size - n, descending)), -1)
    index = torch.arange(size, dtype=torch.int32, device=x.device).expand(keys.shape)
    block = 2
    while block <= size:
        gap = block // 2
        while gap:
            keys, index = _compared(keys, index, block, gap, descending)
            gap //= 2
        block *= 2
    return index[..., :n].to(torch.int64)


def _compared(
    keys: torch.Tensor, index: torch.Tensor, block: int, gap: int, descending: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both after one step: elements `gap` apart are exchanged where out of order, every other block reversed."""
    shape = (*keys.shape[:-1], -1, 2, gap)
    a, b = keys.view(shape).unbind(-2)
    i, j = index.reshape(shape).unbind(-2)
    a_first, b_first = _below(a, b), _below(b, a)
    if descending:
        a_first, b_first = b_first, a_first
    wrong = b_first | (~a_first & (j < i))
    pairs = torch.arange(a.size(-2), dtype=torch.int32, device=keys.device).unsqueeze(-1)
    upward = torch.remainder(torch.floor_divide(pairs * (2 * gap), block), 2) == 0
    swap = wrong == upward
    keys = torch.stack((torch.where(swap, b, a), torch.where(swap, a, b)), -2).view(keys.shape)
    index = torch.stack((torch.where(swap, j, i), torch.where(swap, i, j)), -2).view(index.shape)
    return keys, index
