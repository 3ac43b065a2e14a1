"""Axes that change where the elements of a call's tensors lie, or how many there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.axes.arguments import Arguments, Call, Slot, emptied

if TYPE_CHECKING:
    from collections.abc import Callable

DIMENSION_NAMES = frozenset({"dim", "dim0", "dim1", "dim2", "dims", "axis", "source", "destination", "axis0", "axis1"})
_SIZE_NAMES = frozenset({"size", "sizes", "self_sizes", "input_sizes", "normalized_shape", "input_size", "shape"})

LARGEST_CALL = 200_000
"""Elements of all tensors of a call after it was enlarged (three of 65537): a threshold shows with one long dimension."""

RESIZINGS = ("row", "column", "last", "first", "only", "all")
"""How one dimension of a call gets another size: along which dimension, and of which tensors.

``last``: the last of every tensor where it is as long as the first tensor's; ``first``: likewise the first; ``only``: the
first of the first tensor; ``all``: every dimension that is as long as the first tensor's last. ``row`` and ``column`` are
``last`` and ``first`` with all other dimensions of these tensors cut to one.
"""


# --- the same elements elsewhere in memory ---------------------------------------------------------------------------


def transposed(call: Call, detail: str) -> Arguments | None:
    """Return tensors whose first and last dimension (of those above one) lie in memory in the other order."""
    del detail

    def change(_: Slot, tensor: torch.Tensor) -> torch.Tensor:
        long = [d for d, size in enumerate(tensor.shape) if size > 1]
        if len(long) < 2 or not tensor.numel():
            return tensor
        turned = tensor.transpose(long[0], long[-1]).contiguous().transpose(long[0], long[-1])
        return turned if turned.stride() != tensor.stride() else tensor

    return call.mapped(change)


def sliced(call: Call, detail: str) -> Arguments | None:
    """Return tensors that start at the fourth element of a larger buffer and take every second element of it.

    The gaps hold other values that are legal where the tensor's own are.
    """
    del detail
    return call.mapped(lambda _, tensor: _gapped(tensor) if tensor.numel() else tensor)


def _gapped(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.resolve_conj().resolve_neg().reshape(-1)
    between = flat.roll(1)
    if flat.is_floating_point() or flat.is_complex():
        between = between + 1
    pairs = torch.stack([flat, between], -1).reshape(-1)
    buffer = torch.cat([pairs[1:2].expand(3), pairs, pairs[1:2]])
    strides = [2 * step for step in torch.empty(tensor.shape, device="meta").stride()]
    return buffer.as_strided(tensor.shape, strides, 3)


def expanded(call: Call, detail: str) -> Arguments | None:
    """Return inputs whose last dimension above one is one element, repeated with stride 0. Indices stay."""
    del detail

    def change(slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
        long = [d for d, size in enumerate(tensor.shape) if size > 1]
        if slot.written or slot.where or not long or not tensor.numel():
            return tensor
        return tensor.narrow(long[-1], 0, 1).contiguous().expand_as(tensor)

    return call.mapped(change)


def channels_last(call: Call, detail: str) -> Arguments | None:
    """Return tensors of four and five dimensions with the second dimension last in memory."""
    del detail
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}

    def change(_: Slot, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() not in formats or not tensor.numel():
            return tensor
        turned = tensor.contiguous(memory_format=formats[tensor.dim()])
        return turned if turned.stride() != tensor.stride() else tensor

    return call.mapped(change)


# --- fewer or more elements ------------------------------------------------------------------------------------------


def zero_dim(call: Call, detail: str) -> Arguments | None:
    """Return every tensor as a 0-dim one of its first element, dimensions that are named become 0; ``out=`` is empty."""
    del detail

    def change(slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
        if slot.out:
            return emptied(slot, tensor)
        return tensor.reshape(-1)[0].clone() if tensor.dim() and tensor.numel() else tensor

    if call.main is None:
        return None
    changed = call.mapped(change)
    if changed is None:
        return None
    zeros: dict[int | str, Any] = {
        slot.place: [0] * min(len(slot.value), 1) if isinstance(slot.value, list) else 0
        for slot in call.slots()
        if slot.name in DIMENSION_NAMES and type(slot.value) in (int, list)
    }
    return Call(call.op, *changed).replaced(zeros)


def empty(call: Call, detail: str) -> Arguments | None:
    """Return the call with one dimension set to 0, chosen by one of RESIZINGS; ``out=`` is empty."""
    return resized(call, detail or "last", 0)


def large(call: Call, detail: str) -> Arguments | None:
    """Return the call with one dimension as long as the detail says (``65537,row``), its elements repeated."""
    length, _, how = detail.partition(",")
    size = int(length or "17")
    main = call.main
    if main is None or max(main.shape) >= size or (how == "column" and main.dim() == 1):  # as good as a row
        return None
    return resized(call, how or "last", size)


def longer(call: Call, how: str) -> Arguments | None:
    """Return the call with one dimension longer by one, its elements repeated."""
    main = call.main
    if main is None:
        return None
    return resized(call, how, (main.shape[0] if how in ("first", "only", "column") else main.shape[-1]) + 1)


def resized(call: Call, how: str, size: int) -> Arguments | None:
    """Return the call with one dimension of the given size, chosen by one of RESIZINGS; None where that is no change."""
    main = call.main
    if main is None or how not in RESIZINGS:
        return None
    dimensions = _chooser(how, main)
    planned = sum(_elements(t, dimensions(t), size, how) for slot, t in call.tensors() if not slot.out)
    if planned > LARGEST_CALL:
        return None

    def change(slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
        if slot.out:
            return emptied(slot, tensor)
        chosen = dimensions(tensor)
        if how in ("row", "column") and chosen:
            for d in range(tensor.dim()):
                tensor = tensor if d in chosen else tensor.narrow(d, 0, 1)
        for d in chosen:
            tensor = _of_length(tensor, d, size)
        return tensor

    changed = call.mapped(change)
    return None if changed is None else _with_sizes(Call(call.op, *changed), how, main, size)


def _chooser(how: str, main: torch.Tensor) -> Callable[[torch.Tensor], list[int]]:
    last, first = main.shape[-1], main.shape[0]

    def choose(tensor: torch.Tensor) -> list[int]:
        if not tensor.dim() or not tensor.numel():
            return []
        if how in ("row", "last"):
            return [tensor.dim() - 1] if tensor.shape[-1] == last else []
        if how in ("column", "first"):
            return [0] if tensor.shape[0] == first else []
        if how == "only":
            return [0] if tensor is main else []
        return [d for d, length in enumerate(tensor.shape) if length == last]

    return choose


def _elements(tensor: torch.Tensor, chosen: list[int], size: int, how: str) -> int:
    thin = how in ("row", "column") and bool(chosen)
    count = 1
    for d, length in enumerate(tensor.shape):
        count *= size if d in chosen else 1 if thin else length
    return count


def _of_length(tensor: torch.Tensor, dim: int, size: int) -> torch.Tensor:
    places = torch.arange(size) % tensor.shape[dim]
    return tensor.resolve_conj().resolve_neg().index_select(dim, places)


def _with_sizes(call: Call, how: str, main: torch.Tensor, size: int) -> Arguments:
    """Return the arguments with size lists that named the old length naming the new one."""
    old = main.shape[0] if how in ("first", "only", "column") else main.shape[-1]
    changes: dict[int | str, Any] = {}
    for slot in call.slots():
        if slot.name not in _SIZE_NAMES or not isinstance(slot.value, list) or not slot.value:
            continue
        place = 0 if how in ("first", "only", "column") else len(slot.value) - 1
        changes[slot.place] = [
            size if length == old and (how == "all" or d == place) else length for d, length in enumerate(slot.value)
        ]
    return call.replaced(changes)
