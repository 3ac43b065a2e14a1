"""Decides how the simulated device makes, fills, copies, resizes and shares its memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.targets.sim import memory

if TYPE_CHECKING:
    from collections.abc import Callable

_WITH_MEMORY = {"cpu", memory.DEVICE}


def _empty(size: list[int], *, dtype: Any = None, memory_format: Any = None, **_: Any) -> torch.Tensor:
    return memory.to_device(torch.empty(size, dtype=dtype, memory_format=memory_format))


def _empty_strided(size: list[int], stride: list[int], *, dtype: Any = None, **_: Any) -> torch.Tensor:
    return memory.to_device(torch.empty_strided(size, stride, dtype=dtype))


def _any_host(tensor: torch.Tensor) -> torch.Tensor:
    return memory.to_host(tensor) if memory.is_device(tensor) else tensor


def _copy_from(source: torch.Tensor, destination: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    _any_host(destination).copy_(_any_host(source), non_blocking=non_blocking)
    return destination


def _copy_from_and_resize(source: torch.Tensor, destination: torch.Tensor) -> torch.Tensor:
    if destination.shape != source.shape:
        if memory.is_device(destination):
            memory.adopt(destination, torch.empty(source.shape, dtype=destination.dtype))
        else:
            destination.resize_(source.shape)
    return _copy_from(source, destination)


def _resize(tensor: torch.Tensor, size: list[int], *, memory_format: Any = None) -> torch.Tensor:
    if tensor.shape == torch.Size(size) and memory_format is None:
        return tensor  # ATen keeps even odd strides where the size stays
    fresh = torch.empty(size, dtype=tensor.dtype, memory_format=memory_format or torch.contiguous_format)
    needed = (tensor.storage_offset() + fresh.numel()) * tensor.element_size()
    storage = tensor.untyped_storage()
    if needed > storage.nbytes():
        # resize_ keeps the bytes of the storage, so the copy is of storage and not of elements.
        grown = torch.empty(needed, dtype=torch.uint8)
        if storage.nbytes():
            whole = memory.to_host(tensor).untyped_storage()
            grown[: whole.nbytes()].copy_(torch.empty(0, dtype=torch.uint8).set_(whole))
        storage = memory.to_device(grown).untyped_storage()
    memory.set_geometry(tensor, storage, int(tensor.storage_offset()), fresh.shape, fresh.stride())
    return tensor


def to_copy(tensor: torch.Tensor, *, non_blocking: bool = False, **options: Any) -> torch.Tensor:
    """Convert without the pinned memory that PyTorch's own kernel asks a backend's C++ hooks for when it need not wait."""
    del non_blocking
    op, key = torch.ops.aten._to_copy.default, torch._C.DispatchKey.CompositeExplicitAutograd
    copied: torch.Tensor = op._op_dk(key, tensor, non_blocking=False, **options)
    return copied


def _item(tensor: torch.Tensor) -> Any:
    return memory.to_host(tensor).item()


def _set_empty(tensor: torch.Tensor) -> torch.Tensor:
    memory.adopt(tensor, torch.empty(0, dtype=tensor.dtype))
    return tensor


def _may_share(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether `.data = other` may turn one into the other, as `Module.to` does: then tied weights stay tied."""
    return tensor.layout is other.layout is torch.strided and {tensor.device.type, other.device.type} <= _WITH_MEMORY


OWN_MEMORY: dict[str, tuple[str, Callable[..., Any], bool]] = {
    "empty.memory_format": ("aten.empty.memory_format", _empty, False),
    "empty_strided": ("aten.empty_strided.default", _empty_strided, False),
    "_copy_from": ("aten.copy_.default", _copy_from, False),
    "_copy_from_and_resize": ("aten._copy_from_and_resize.default", _copy_from_and_resize, False),
    "resize_": ("aten.resize_.default", _resize, False),
    "_local_scalar_dense": ("aten._local_scalar_dense.default", _item, False),
    "set_": ("aten.set_.default", _set_empty, True),
    "_has_compatible_shallow_copy_type": ("aten._has_compatible_shallow_copy_type.default", _may_share, True),
}
"""Registered name → (name in the journal, kernel, only geometry). `copy_` stays composite and arrives as `_copy_from`."""
