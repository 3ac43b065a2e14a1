"""What faults do to tensors: changes of CPU tensors, and of the memory behind device tensors."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.targets.sim import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Tensor = torch.Tensor


def each(change: Callable[[Tensor], Tensor], *, form: bool = False) -> Callable[[Any], Any]:
    """Return a function that changes every device tensor in an output and returns the output.

    Values are changed in place, so that in-place and ``out=`` calls are spoilt too; with `form`, the output is another
    tensor, whose dtype, shape or strides may differ.
    """

    def spoil(value: Any) -> Any:
        if memory.is_device(value):
            host = memory.to_host(value)
            changed = change(host)
            if form:
                return memory.to_device(changed)
            if changed is not host:
                host.copy_(changed)
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(spoil(item) for item in value)
        return value

    return spoil


def device_tensors(values: Any) -> Iterator[Tensor]:
    """Yield the device tensors among arguments, those in lists included."""
    for value in values:
        if memory.is_device(value):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from device_tensors(value)


def replaced(values: Any, change: Callable[[Tensor], Tensor], keep: set[int]) -> Any:
    """Return arguments with every device tensor whose id is not in `keep` replaced by what `change` makes of it."""
    if memory.is_device(values):
        return values if id(values) in keep else change(values)
    if isinstance(values, (list, tuple)) and not isinstance(values, torch.Size):
        return type(values)(replaced(value, change, keep) for value in values)
    if isinstance(values, dict):
        return {name: replaced(value, change, keep) for name, value in values.items()}
    return values


def base_of(tensor: Tensor) -> Tensor:
    """Return a CPU alias of the whole storage of a device tensor, as one row."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    whole = memory.to_device(torch.empty(0, dtype=tensor.dtype))
    memory.set_geometry(whole, tensor.untyped_storage(), 0, (count,), (1,))
    return memory.to_host(whole)


def is_float(tensor: Tensor) -> bool:
    """Return whether the numbers have a fraction: floating-point or complex."""
    return tensor.is_floating_point() or tensor.is_complex()


# --- changes of values -----------------------------------------------------------------------------------------------


def other_value(tensor: Tensor) -> Tensor:
    """Return every element changed: by a quarter and three quarters, by one, inverted."""
    if tensor.dtype == torch.bool:
        return ~tensor
    return tensor * 1.25 + 0.75 if is_float(tensor) else tensor + 1


def one_element(name: str) -> Callable[[Tensor], Tensor]:
    """Return a change of one element at a place that the name decides, by a hundredth (a tenth in half precision)."""

    def change(tensor: Tensor) -> Tensor:
        wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
        places = wide.isfinite().flatten().nonzero().flatten()
        if not len(places):
            return tensor
        place = int(places[zlib.crc32(name.encode()) % len(places)])
        index = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), tensor.shape)) if tensor.dim() else ()
        changed = tensor.clone()
        if not is_float(tensor):
            changed[index] = not tensor[index] if tensor.dtype == torch.bool else tensor[index] + 1
            return changed
        size = float(wide.where(wide.isfinite(), 0.0).abs().max())
        changed[index] = (wide[index] + (0.01 if tensor.element_size() > 2 else 0.1) * (size or 1.0)).to(tensor.dtype)
        return changed

    return change


def first_element(value: float) -> Callable[[Tensor], Tensor]:
    """Return a change of the first element of a floating-point tensor to the value."""

    def change(tensor: Tensor) -> Tensor:
        if not tensor.numel() or not is_float(tensor):
            return tensor
        changed = tensor.clone()
        changed[(0,) * tensor.dim()] = value
        return changed

    return change


def where(mask: Callable[[Tensor], Tensor], change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a change of the elements of floating-point tensors that the mask picks."""

    def both(tensor: Tensor) -> Tensor:
        return torch.where(mask(tensor), change(tensor), tensor) if tensor.is_floating_point() else tensor

    return both


def tail_zero(first: int, step: int = 1) -> Callable[[Tensor], Tensor]:
    """Return a change that sets every `step`-th element from `first` on to zero, counted in logical order."""

    def change(tensor: Tensor) -> Tensor:
        flat = tensor.flatten().clone()
        flat[first::step] = 0
        return torch.empty_like(tensor).copy_(flat.reshape(tensor.shape))

    return change


def through(dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """Return a change that passes integers through the dtype and back."""

    def change(tensor: Tensor) -> Tensor:
        return tensor if is_float(tensor) or tensor.dtype == torch.bool else tensor.to(dtype).to(tensor.dtype)

    return change


def coarse(tensor: Tensor) -> Tensor:
    """Return floating-point values with fewer bits: 10 of float32's 23 (as TF32), 2 of a half's, bfloat16's of float64."""
    if tensor.is_complex():
        return torch.view_as_complex(coarse(torch.view_as_real(tensor)).contiguous())
    if tensor.dtype == torch.float32:
        return (tensor.contiguous().view(torch.int32) & ~0x1FFF).view(torch.float32)
    thin = {torch.float64: torch.bfloat16, torch.float16: torch.float8_e5m2, torch.bfloat16: torch.float8_e5m2}
    return tensor.to(thin[tensor.dtype]).to(tensor.dtype) if tensor.dtype in thin else tensor


def added_up(tensor: Tensor) -> Tensor:
    """Return the sum of all elements with every partial sum rounded to the dtype."""
    total = torch.zeros((), dtype=tensor.dtype)
    for value in tensor.flatten():
        total = total + value
    return total


# --- changes of form -------------------------------------------------------------------------------------------------


def other_dtype(tensor: Tensor) -> Tensor:
    """Return the values in another dtype."""
    return tensor.to(torch.float64 if tensor.dtype == torch.float32 else torch.float32)


def other_stride(tensor: Tensor) -> Tensor:
    """Return the values in another order in memory; a vector gets a gap between its elements."""
    if tensor.dim() < 2:
        return torch.stack([tensor, tensor], -1)[..., 0] if tensor.dim() else tensor
    if tensor.stride(0) > tensor.stride(-1):
        return tensor.transpose(0, -1).contiguous().transpose(0, -1)
    return tensor.contiguous()


def as_if_contiguous(tensor: Tensor) -> Tensor:
    """Return what a kernel reads from a device tensor that takes no notice of its strides."""
    if tensor.is_contiguous() or not tensor.numel():
        return tensor
    base = base_of(tensor)
    places = (torch.arange(tensor.numel()) + int(tensor.storage_offset())) % base.numel()
    return memory.to_device(base[places].reshape(tensor.shape))


def as_if_at_the_start(tensor: Tensor) -> Tensor:
    """Return what a kernel reads from a device tensor that takes no notice of its storage offset."""
    if not tensor.storage_offset():
        return tensor
    return memory.to_device(base_of(tensor).as_strided(tensor.shape, tensor.stride(), 0).clone())


def host_copy(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return a function that gives the device a changed copy of a device tensor."""
    return lambda tensor: memory.to_device(change(memory.to_host(tensor)).clone())
