"""Decides how elements are taken, put, filled, rolled and reduced by index.

Imported by translators.installation. Reductions by index other than sums compare every index with every place: memory grows with
the product of both, and no host synchronization is needed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator
from neuron_ops.translators.scans import product

if TYPE_CHECKING:
    from collections.abc import Sequence

_DEFINITION = "definition"
_ALL_PAIRS = "definition: all pairs of index and place"


def _wrapped(index: torch.Tensor, size: int) -> torch.Tensor:
    return torch.where(index < 0, index + size, index)


@translator("aten.take.default", source=_DEFINITION)
def take(self: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Return elements of the flattened self, in index's shape."""
    flat = self.reshape(-1)
    if flat.numel() == 0 and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    return torch.index_select(flat, 0, _wrapped(index.reshape(-1), flat.numel())).view(index.shape)


@translator("aten.put_.default", source=_DEFINITION)
def put_(self: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    """Write source into places of the flattened self."""
    return self.copy_(put(self, index, source, accumulate))


@translator("aten.put.default", source=_DEFINITION)
def put(self: torch.Tensor, index: torch.Tensor, source: torch.Tensor, accumulate: bool = False) -> torch.Tensor:
    """Return self with source written (or added) into places of the flattened tensor."""
    flat = self.reshape(-1)
    places, values = _wrapped(index.reshape(-1), flat.numel()), source.reshape(-1)
    if places.numel() == 0:
        return self.clone()
    if not accumulate:
        written = torch.scatter(flat, 0, places, values)
    elif flat.dtype.is_floating_point:
        written = torch.scatter_add(flat, 0, places, values)
    else:  # the device's scatter adds no integers
        written = _reduced(flat, places, values, "sum", include_self=True)
    return torch.empty_like(self).copy_(written.view(self.shape))


def _value(value: Any, like: torch.Tensor) -> torch.Tensor:
    """Return a 0-dim tensor beside `like`; a Python kernel receives a number where the tensor was made of one."""
    if isinstance(value, torch.Tensor):
        return value.to(device=like.device, dtype=like.dtype)
    return torch.full((), value, dtype=like.dtype, device=like.device)


@translator("aten.masked_fill.Tensor", source=_DEFINITION)
def masked_fill(self: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Return self with the value where the mask is set."""
    return torch.where(mask, _value(value, self), self).contiguous()


@translator("aten.masked_fill_.Tensor", source=_DEFINITION)
def masked_fill_(self: torch.Tensor, mask: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Write the value into self where the mask is set."""
    return self.copy_(torch.where(mask, _value(value, self), self))


def _index_filled(self: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> torch.Tensor:
    if self.dim() == 0:
        hit = (index == 0).any() if index.numel() != 1 else torch.ones((), dtype=torch.bool, device=self.device)
        return torch.where(hit, value, self)
    n = self.size(dim)
    places = _wrapped(index.reshape(-1).to(torch.int64), n)
    marked = torch.zeros(n, dtype=torch.float32, device=self.device).scatter(0, places, 1.0)
    shape = [1] * self.dim()
    shape[dim] = n
    return torch.where(marked.view(shape) != 0, value, self)


@translator("aten.index_fill_.int_Scalar", source=_DEFINITION)
def index_fill_scalar(self: torch.Tensor, dim: int, index: torch.Tensor, value: Any) -> torch.Tensor:
    """Write one number into the slices of self that index names."""
    return self.copy_(_index_filled(self, dim, index, _value(value, self)))


@translator("aten.index_fill_.int_Tensor", source=_DEFINITION)
def index_fill_tensor(self: torch.Tensor, dim: int, index: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Write a 0-dim tensor's value into the slices of self that index names."""
    if isinstance(value, torch.Tensor) and value.dim():
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s)."
        )
    return self.copy_(_index_filled(self, dim, index, _value(value, self)))


def _masked_scattered(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    if self.dtype != source.dtype:
        raise RuntimeError("masked_scatter expected self and source to have same dtypes")
    if source.numel() == 0 or self.numel() == 0:
        return self.clone()
    chosen = mask.expand(self.shape).reshape(-1)
    places = torch.cumsum(chosen.to(torch.int32), 0, dtype=torch.int64) - 1
    values = torch.index_select(source.reshape(-1), 0, torch.clamp(places, 0, source.numel() - 1))
    return torch.where(chosen.view(self.shape), values.view(self.shape), self)


@translator("aten.masked_scatter.default", source="definition, places by a running count")
def masked_scatter(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Return self with the elements of source, in order, where the mask is set."""
    self, mask = torch.broadcast_tensors(self, mask)
    return _masked_scattered(self, mask, source)


@translator("aten.masked_scatter_.default", source="definition, places by a running count")
def masked_scatter_(self: torch.Tensor, mask: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Write the elements of source, in order, into self where the mask is set."""
    return self.copy_(_masked_scattered(self, mask, source))


@translator("aten.roll.default", source=_DEFINITION)
def roll(self: torch.Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> torch.Tensor:
    """Return self with elements moved along dims, those from the end back at the start; flattened without dims."""
    shifts, dims = _listed(shifts), _listed(dims)
    if not dims and len(shifts) == 1:
        return roll(self.reshape(-1), shifts, [0]).view(self.shape) if self.numel() else self.clone()
    if len(shifts) != len(dims) or not dims:
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    if self.numel() == 0 or self.dim() == 0:
        return self.clone()
    rolled = self
    for shift, dim in zip(shifts, dims, strict=True):
        n = self.size(dim)
        at = (n - shift) % n
        rolled = torch.cat((rolled.narrow(dim, at, n - at), rolled.narrow(dim, 0, at)), dim)
    return rolled.clone(memory_format=torch.contiguous_format)


def _listed(values: Any) -> list[int]:
    return [values] if isinstance(values, int) else list(values)


def _neutral(own: torch.Tensor, source: torch.Tensor, kind: str) -> torch.Tensor:
    """Return the 0-dim value that changes nothing in a reduction of both."""
    if kind in ("sum", "mean", "prod"):
        return torch.full((), int(kind == "prod"), dtype=own.dtype, device=own.device)
    if own.dtype.is_floating_point:
        return torch.full((), -math.inf if kind == "amax" else math.inf, dtype=own.dtype, device=own.device)
    # Not the bound of the dtype: a device that computes int64 as int32 would read -2^63 as 0.
    both = torch.cat((own.reshape(-1), source.reshape(-1)))
    return torch.amin(both) if kind == "amax" else torch.amax(both)


def _folded(rows: torch.Tensor, kind: str) -> torch.Tensor:
    """Return the last dimension of rows reduced."""
    if kind == "prod":
        return product(rows, rows.dim() - 1).squeeze(-1)
    if kind in ("sum", "mean"):
        return torch.sum(rows, -1, dtype=rows.dtype)
    return torch.amax(rows, -1) if kind == "amax" else torch.amin(rows, -1)


def _reduced(
    own: torch.Tensor, index: torch.Tensor, source: torch.Tensor, kind: str, *, include_self: bool
) -> torch.Tensor:
    """Return own [..., n] joined with those elements of source [..., m] whose index [..., m] names the place."""
    dtype = own.dtype
    own, source = own.to(computing(dtype)), source.to(computing(dtype))
    places = torch.arange(own.size(-1), dtype=index.dtype, device=own.device)
    hit = index.unsqueeze(-2) == places.unsqueeze(-1)
    neutral = _neutral(own, source, kind)
    rows = torch.where(hit, source.unsqueeze(-2), neutral)
    count = hit.sum(-1)
    kept = own.unsqueeze(-1)
    if not include_self:
        kept = torch.where((count > 0).unsqueeze(-1), neutral, kept)
    total = _folded(torch.cat((rows, kept.expand(*rows.shape[:-1], 1)), -1), kind)
    if kind == "mean":
        share = torch.clamp_min(count + (1 if include_self else 0), 1)
        mode = None if own.dtype.is_floating_point else "floor"
        total = torch.div(total, share.to(own.dtype), rounding_mode=mode)
    return total.to(dtype)


@translator("aten.scatter_reduce.two", source=_ALL_PAIRS)
def scatter_reduce(
    self: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    src: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """Return self with the elements of src reduced into the places that index names along dim."""
    refuse_complex(self)
    if self.dim() == 0:
        return scatter_reduce(
            self.view(1), 0, index.reshape(1), src.reshape(1), reduce, include_self=include_self
        ).view(())
    if index.numel() == 0:
        return self.clone(memory_format=torch.contiguous_format)
    dim %= self.dim()
    part = tuple(slice(0, index.size(d)) if d != dim else slice(None) for d in range(self.dim()))
    used = src[tuple(slice(0, n) for n in index.shape)]
    own = self[part].movedim(dim, -1)
    joined = _reduced(own, index.movedim(dim, -1), used.movedim(dim, -1), reduce, include_self=include_self)
    result = self.clone(memory_format=torch.contiguous_format)
    result[part].copy_(joined.movedim(-1, dim))
    return result


@translator("aten.index_reduce.default", source=_ALL_PAIRS)
def index_reduce(
    self: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """Return self with the slices of source reduced into the slices that index names along dim."""
    refuse_complex(self)
    if self.dim() == 0:
        return index_reduce(
            self.view(1), 0, index.reshape(-1), source.reshape(-1), reduce, include_self=include_self
        ).view(())
    if index.numel() == 0 or self.numel() == 0:
        return self.clone()
    kind = {"mean": "mean", "prod": "prod", "amax": "amax", "amin": "amin"}[reduce]
    own, other = self.movedim(dim, -1), source.movedim(dim, -1)
    joined = _reduced(own, index.reshape(-1).expand(other.shape), other, kind, include_self=include_self)
    return torch.empty_like(self).copy_(joined.movedim(-1, dim))


@translator("aten.unfold_backward.default", source="definition: windows added, one place of the window at a time")
def unfold_backward(grad_in: torch.Tensor, input_sizes: Sequence[int], dim: int, size: int, step: int) -> torch.Tensor:
    """Return the gradient of unfold's input: each window's gradient added where it was taken."""
    grad = grad_in.new_zeros(list(input_sizes))
    if grad.dim() == 0:
        return grad_in.reshape(()).clone()
    windows = grad_in.size(dim)
    for place in range(size):
        taken = torch.ops.aten.slice.Tensor(grad, dim, place, place + (windows - 1) * step + 1, step)
        taken.add_(grad_in.select(-1, place))
    return grad


@translator("aten.select_backward.default", source="definition")
def select_backward(grad_output: torch.Tensor, input_sizes: Sequence[int], dim: int, index: int) -> torch.Tensor:
    """Return zeros of the input's size with the gradient in the slice that was selected."""
    grad = grad_output.new_zeros(list(input_sizes))
    grad.select(dim, index).copy_(grad_output)
    return grad
