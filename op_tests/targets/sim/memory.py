"""Decides how a tensor of the simulated device shares memory with a CPU tensor.

A DLPack capsule of a CPU tensor names its device in one integer pair. Rewriting that pair to the device type that DLPack
reserves for extensions gives a PrivateUse1 tensor over the same memory, and the reverse gives a CPU alias: plain tensors
with real storage, real strides and real aliasing, and no compiler (DLPack's dlpack.h, ``DLManagedTensor``).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEVICE = "neuron"

_CPU_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
_DL_CPU, _DL_EXTENSION = 1, 12  # kDLCPU and kDLExtDev; with device id 0 the pair is this one 64-bit integer
_DEVICE_OFFSET = 8  # DLTensor: void* data, then DLDevice {int32 type, int32 id}

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

_alias = torch.ops.aten.alias.default
_conj = torch.ops.aten._conj.default
_neg_view = torch.ops.aten._neg_view.default
_set = torch.ops.aten.set_.source_Storage_storage_offset


def _relabel(tensor: torch.Tensor, device_type: int) -> torch.Tensor:
    # The capsule holds the TensorImpl. A later set_ or resize_ of it would free the memory under the new tensor, so a
    # fresh alias goes in, never the tensor itself.
    capsule = torch._C._to_dlpack(_alias.redispatch(_CPU_KEY, tensor))
    address = _capsule_pointer(capsule, b"dltensor")
    ctypes.c_int64.from_address(address + _DEVICE_OFFSET).value = device_type
    relabelled: torch.Tensor = torch._C._from_dlpack(capsule)
    return relabelled


def is_device(value: object) -> bool:
    """Return whether the value is a tensor of the simulated device."""
    return isinstance(value, torch.Tensor) and value.device.type == DEVICE


def to_host(tensor: torch.Tensor) -> torch.Tensor:
    """Return a CPU tensor over the same memory; conjugate and negative bits are kept."""
    # Conjugate and Negative fall through for many operators, so the bits reach the backend. DLPack refuses them: they
    # are stripped below and put back on the alias.
    if tensor.is_conj():
        return torch._conj(to_host(_conj.redispatch(_CPU_KEY, tensor)))
    if tensor.is_neg():
        return torch._neg_view(to_host(_neg_view.redispatch(_CPU_KEY, tensor)))
    if tensor._is_zerotensor():  # has no memory at all
        return torch.zeros(tensor.shape, dtype=tensor.dtype)
    return _relabel(tensor, _DL_CPU)


def to_device(tensor: torch.Tensor) -> torch.Tensor:
    """Return a device tensor over the memory of a CPU tensor (a copy where conjugate or negative bits must be resolved)."""
    tensor = tensor.detach()
    if tensor._is_zerotensor():
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype)
    return _relabel(tensor.resolve_conj().resolve_neg(), _DL_EXTENSION)


def adopt(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Give a device tensor the memory and geometry of a CPU tensor, in place."""
    source = to_device(host)
    set_geometry(tensor, source.untyped_storage(), int(source.storage_offset()), source.shape, source.stride())


def set_geometry(
    tensor: torch.Tensor, storage: torch.UntypedStorage, offset: int, shape: Sequence[int], stride: Sequence[int]
) -> None:
    """Make a device tensor read `storage` with the given offset, shape and strides (in elements), in place."""
    _set.redispatch(_CPU_KEY, tensor, storage, offset, shape, stride)


def new_storage(size: int) -> torch.UntypedStorage:
    """Return an uninitialised device storage of `size` bytes."""
    return to_device(torch.empty(size, dtype=torch.uint8)).untyped_storage()


def patch_storages() -> None:
    """Make `UntypedStorage.clone` and `UntypedStorage(n, device="neuron")` work.

    A Python-only backend has no C++ allocator: both read a null pointer in torch 2.13 (deepcopy and load use them).
    """
    clone: Callable[..., torch.UntypedStorage] = torch.UntypedStorage.clone
    make: Callable[..., torch.UntypedStorage] = torch.UntypedStorage.__new__

    def clone_any(storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.device.type != DEVICE:
            return clone(storage)
        copy = new_storage(storage.nbytes())
        copy.copy_(storage)
        return copy

    def new_any(cls: type[torch.UntypedStorage], *args: object, **kwargs: object) -> torch.UntypedStorage:
        device = kwargs.get("device")
        if device is None or torch.device(device).type != DEVICE:  # type: ignore[call-overload]
            made: torch.UntypedStorage = make(cls, *args, **kwargs)
            return made
        return new_storage(int(args[0]) if args else 0)  # type: ignore[call-overload]

    torch.UntypedStorage.clone = clone_any  # type: ignore[method-assign, assignment]
    torch.UntypedStorage.__new__ = new_any  # type: ignore[assignment]
