"""Decides how sums, means and maxima over bags of embeddings, and their gradients, are computed.

Imported by translators.families. Bags are rows in a row, so a maximum is a scan in steps of doubling length.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import Refused, translator

_SOURCE = "definition"
_SUM, _MEAN, _MAX = 0, 1, 2
_Four = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def _together(indices: torch.Tensor, offsets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    kind = torch.promote_types(indices.dtype, offsets.dtype)
    return indices.to(kind), offsets.to(kind)


def _bags(indices: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Return [N], the bag of each index."""
    starts = _counts(offsets, indices.size(0) + 1).to(offsets.dtype)
    return (torch.cumsum(starts, 0, dtype=offsets.dtype) - 1)[: indices.size(0)]


def _counts(indices: torch.Tensor, size: int, what: torch.Tensor | None = None) -> torch.Tensor:
    """Return [size] in float32: how often each index comes, or comes where `what` is true."""
    if indices.size(0) >= 1 << 24:
        raise Refused("float32 counts up to 2 ** 24, and the device adds no integers at places")
    ones = torch.ones(indices.shape, dtype=torch.float32, device=indices.device) if what is None else what.float()
    return torch.index_add(torch.zeros((size,), dtype=torch.float32, device=indices.device), 0, indices, ones)


def _sizes(indices: torch.Tensor, starts: torch.Tensor) -> torch.Tensor:
    """Return [bags], how many indices each has."""
    end = torch.full((1,), indices.size(0), dtype=starts.dtype, device=starts.device)
    return torch.cat([starts[1:], end])[: starts.size(0)] - starts


def _shifted(x: torch.Tensor, step: int, value: float) -> torch.Tensor:
    return torch.constant_pad_nd(x, [0, 0] * (x.dim() - 1) + [step, 0], value)[: x.size(0)]


def _maxima(
    rows: torch.Tensor, indices: torch.Tensor, bag: torch.Tensor, counts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return [N, D]: the maximum of each bag up to each row, and its index; -1 where nothing counts yet.

    The first of equals wins. A NaN counts where it is the first of its bag, and then nothing exceeds it, else it does not.
    """
    rank = torch.cumsum(counts.to(indices.dtype), 0)
    start = _shifted(bag, 1, -1) != bag
    # Rows that count before the bag's first: carried along the bag as the rank at its start.
    base = torch.where(start, rank - counts.to(rank.dtype), -1)
    step = 1
    while step < base.size(0):
        earlier = _shifted(base, step, -1)
        base = torch.where(base < 0, earlier, base)
        step *= 2
    first = (counts & (rank - base == 1)).unsqueeze(1)
    real = first | (counts.unsqueeze(1) & (rows == rows))
    best, where = rows, torch.where(real, indices.unsqueeze(1), -1)
    step = 1
    while step < rows.size(0):
        value, index = _shifted(best, step, 0), _shifted(where, step, -1)
        same = (_shifted(bag, step, -1) == bag).unsqueeze(1)
        take = same & (index >= 0) & ~((where >= 0) & (best > value))
        best, where = torch.where(take, value, best), torch.where(take, index, where)
        step *= 2
    return best, where


def _max_bags(
    rows: torch.Tensor, indices: torch.Tensor, bag: torch.Tensor, counts: torch.Tensor, starts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return [bags, D], the maximum of each bag and its index; zeros where nothing counts."""
    size = _sizes(indices, starts)
    shape = (starts.size(0), rows.size(1))
    if not rows.size(0):
        return rows.new_zeros(shape), torch.zeros(shape, dtype=indices.dtype, device=indices.device)
    best, where = _maxima(rows, indices, bag, counts)
    last = torch.where(size > 0, starts + size - 1, 0)
    best, where = torch.index_select(best, 0, last), torch.index_select(where, 0, last)
    none = (size <= 0).unsqueeze(1) | (where < 0)
    return torch.where(none, 0.0, best), torch.where(none, 0, where)


def _is_plain(weight: torch.Tensor, per_sample_weights: torch.Tensor | None, padding_idx: int) -> bool:
    """Return whether ATen sums without knowing the bag of each index, and so returns none."""
    kind = weight.dtype in (torch.float32, torch.float16, torch.bfloat16)
    scale = per_sample_weights is None or per_sample_weights.stride(0) == 1
    return kind and scale and weight.stride(1) == 1 and padding_idx < 0


def _embedding_bag(
    weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, mode: int,
    per_sample_weights: torch.Tensor | None, include_last_offset: bool, padding_idx: int, trains: bool,
) -> _Four:  # fmt: skip
    refuse_complex(weight)
    indices, offsets = _together(indices, offsets)
    starts = offsets[:-1] if include_last_offset else offsets
    bag, counts, kind = _bags(indices, starts), indices != padding_idx, weight.dtype
    rows = torch.index_select(weight, 0, indices).to(computing(kind))
    sizes = _sizes(indices, starts)
    sizes = sizes - _counts(bag, starts.size(0), ~counts).to(sizes.dtype) if padding_idx >= 0 else sizes
    if mode == _MAX:
        result, most = _max_bags(rows, indices, bag, counts, starts)
        return result.to(kind), bag, sizes, most
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.to(rows.dtype).unsqueeze(1)
    rows = torch.where(counts.unsqueeze(1), rows, 0.0) if padding_idx >= 0 else rows
    zeros = torch.zeros((starts.size(0), weight.size(1)), dtype=rows.dtype, device=rows.device)
    result = torch.index_add(zeros, 0, bag, rows).to(kind)
    if mode == _MEAN:
        result = result / torch.clamp_min(sizes, 1).to(kind).unsqueeze(1)
        return result, bag, sizes, sizes.clone()
    none = torch.zeros_like(starts if trains else offsets)
    plain = _is_plain(weight, per_sample_weights, padding_idx)
    return result, bag[:0].clone() if plain else bag, none, none.clone()


@translator("aten._embedding_bag.default", source=_SOURCE)
def embedding_bag(
    weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: torch.Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> _Four:  # fmt: skip
    """Return the bags' embeddings, the bag of each index, the bags' sizes and the indices of maxima."""
    del scale_grad_by_freq, sparse  # the gradient's
    return _embedding_bag(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, True)


@translator("aten._embedding_bag_forward_only.default", source=_SOURCE)
def embedding_bag_forward_only(
    weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: torch.Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int = -1,
) -> _Four:  # fmt: skip
    """Return what embedding_bag returns, where no gradient will be asked for."""
    del scale_grad_by_freq, sparse
    return _embedding_bag(weight, indices, offsets, mode, per_sample_weights, include_last_offset, padding_idx, False)


# --- gradients -------------------------------------------------------------------------------------------------------


@translator("aten._embedding_bag_dense_backward.default", source="transpose of the sums")
def embedding_bag_dense_backward(
    grad: torch.Tensor, indices: torch.Tensor, offset2bag: torch.Tensor, bag_size: torch.Tensor,
    maximum_indices: torch.Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int,
    per_sample_weights: torch.Tensor | None, padding_idx: int = -1,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of the table, [num_weights, D]."""
    refuse_complex(grad)
    wide = grad.to(computing(grad.dtype))
    table = torch.zeros((num_weights, grad.size(1)), dtype=wide.dtype, device=grad.device)
    if mode == _MAX:
        kept = torch.where(bag_size.unsqueeze(1) != 0, wide, 0.0)
        return torch.scatter_add(table, 0, maximum_indices.to(torch.int64), kept).to(grad.dtype)
    rows = torch.index_select(wide, 0, offset2bag)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.to(rows.dtype).unsqueeze(1)
    if scale_grad_by_freq:
        often = torch.index_select(_counts(indices, num_weights), 0, indices)
        rows = rows / often.to(rows.dtype).unsqueeze(1)
    if mode == _MEAN:
        size = torch.index_select(bag_size, 0, offset2bag)
        rows = rows / torch.where(size == 0, 1, size).to(rows.dtype).unsqueeze(1)
    if padding_idx >= 0:
        rows = torch.where((indices != padding_idx).unsqueeze(1), rows, 0.0)
    return torch.index_add(table, 0, indices, rows).to(grad.dtype)


@translator("aten._embedding_bag_backward.default", source="transpose of the sums")
def embedding_bag_backward(
    grad: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, offset2bag: torch.Tensor, bag_size: torch.Tensor,
    maximum_indices: torch.Tensor, num_weights: int, scale_grad_by_freq: bool, mode: int, sparse: bool,
    per_sample_weights: torch.Tensor | None, padding_idx: int = -1,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of the table, [num_weights, D]."""
    if sparse:
        raise Refused("a sparse gradient needs a sparse tensor, which the device has not")
    indices, offsets = _together(indices, offsets)
    bag = _bags(indices, offsets) if indices.numel() and not offset2bag.numel() else offset2bag
    return embedding_bag_dense_backward(
        grad, indices, bag, bag_size, maximum_indices, num_weights, scale_grad_by_freq, mode, per_sample_weights,
        padding_idx,
    )  # fmt: skip


@translator("aten._embedding_bag_per_sample_weights_backward.default", source="derivative")
def embedding_bag_per_sample_weights_backward(
    grad: torch.Tensor, weight: torch.Tensor, indices: torch.Tensor, offsets: torch.Tensor, offset2bag: torch.Tensor,
    mode: int, padding_idx: int = -1,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of the weight of each index, [N]."""
    refuse_complex(grad)
    if mode != _SUM:
        raise Refused("only sums have weights")
    indices, offsets = _together(indices, offsets)
    bag = _bags(indices, offsets) if indices.numel() and not offset2bag.numel() else offset2bag
    wide = computing(grad.dtype)
    products = torch.index_select(grad.to(wide), 0, bag) * torch.index_select(weight, 0, indices).to(wide)
    return torch.where(indices != padding_idx, torch.sum(products, 1), 0.0).to(grad.dtype)


# --- norms -----------------------------------------------------------------------------------------------------------


@translator("aten.embedding_renorm_.default", source=_SOURCE)
def embedding_renorm_(
    self: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> torch.Tensor:  # fmt: skip
    """Return the table, in which rows of these indices with a larger norm have been scaled to max_norm."""
    refuse_complex(self)
    index = indices.reshape(-1)
    rows = torch.index_select(self, 0, index)
    norm = torch.linalg.vector_norm(rows, norm_type, 1, keepdim=True).to(computing(self.dtype))
    scale = max_norm / (norm + 1e-7)
    # Every row is read before any is written, so an index that comes twice writes the same twice.
    scaled = torch.where(norm > max_norm, (rows.to(scale.dtype) * scale).to(rows.dtype), rows)
    return self.index_copy_(0, index.to(torch.int64), scaled)


@translator("aten.embedding_renorm.default", source=_SOURCE)
def embedding_renorm(
    self: torch.Tensor, indices: torch.Tensor, max_norm: float, norm_type: float
) -> torch.Tensor:  # fmt: skip
    """Return a copy of the table, in which rows of these indices with a larger norm are scaled to max_norm."""
    return embedding_renorm_(self.clone(), indices, max_norm, norm_type)
