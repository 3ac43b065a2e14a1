"""What can be seen after a call: one frozen record of outputs and arguments, with values copied to the CPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RAW_DTYPES = frozenset(
    value
    for name, value in vars(torch).items()
    if isinstance(value, torch.dtype)
    and (name.startswith(("bits", "float4")) or (name.lstrip("u").startswith("int") and value.itemsize == 1))
    and value not in {torch.int8, torch.uint8}
)
"""Dtypes with hardly any CPU kernel (int1…int7, uint1…uint7, bits*, float4*): observed and compared as bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class SeenTensor:
    """One tensor as it was after the call; every tensor in here is a copy on the CPU.

    `name` is ``output 0``, ``output 1[2]``, ``argument 0`` or ``argument out``. `same_as` names the earlier tensor that
    is the same object and `shares` the earliest one on the same storage (arguments come before outputs; None for a
    storage of no bytes). `values` has the tensor's dtype, shape and strides, conjugation and negation resolved (bytes
    for `RAW_DTYPES`, dense for other layouts); it is None where nothing can be read: meta and fake tensors, a view that
    reaches beyond its storage. `memory` is the whole storage as one row (without conjugation or negation) and `values`
    is a view of it; it is None where the device shows no storage. `stride` is None where the layout has none.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...] | None
    offset: int
    layout: str
    device: str
    same_as: str | None
    shares: str | None
    values: torch.Tensor | None
    memory: torch.Tensor | None


@dataclass(frozen=True, slots=True)
class SeenValue:
    """One output that is no tensor: None, a Python number (`item`), a dtype, anything else."""

    name: str
    value: object


Seen: TypeAlias = SeenTensor | SeenValue


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """What a call left: the form of its outputs (``(tensor, [tensor, None])``), its outputs, its tensor arguments.

    `plain` are its other arguments by place (``1``, ``dim``), as they were given.
    """

    structure: str
    outputs: tuple[Seen, ...]
    arguments: tuple[SeenTensor, ...]
    plain: Mapping[str, object] = field(default_factory=dict)


def observe(outputs: object, args: Sequence[object], kwargs: Mapping[str, object]) -> Observation:
    """Return what is there right after an overload was called, on any device, with all values copied to the CPU.

    Values cross to the CPU as whole storages in one flat row of unchanged dtype: a device whose strided or converting
    copy is broken cannot hide another fault behind it. Reading memory runs the device's own copy, so read the operators
    seen before this. Raises whatever the device raises when its memory is read, such as an error it latched earlier.
    """
    reader = _Reader()
    places = [*enumerate(args), *kwargs.items()]
    arguments = [
        reader.see(name, value)
        for place, argument in places
        for name, value in _leaves(f"argument {place}", argument)
        if isinstance(value, torch.Tensor)
    ]
    tops = enumerate(outputs) if isinstance(outputs, list | tuple) else [(0, outputs)]
    seen: list[Seen] = [
        reader.see(name, value) if isinstance(value, torch.Tensor) else SeenValue(name, value)
        for place, output in tops
        for name, value in _leaves(f"output {place}", output)
    ]
    plain = {str(place): argument for place, argument in places if not isinstance(argument, torch.Tensor)}
    return Observation(_structure(outputs), tuple(seen), tuple(arguments), plain)


def _leaves(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        for index, item in enumerate(value):
            yield from _leaves(f"{name}[{index}]", item)
    else:
        yield name, value


def _structure(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        # list against tuple is not told apart: which of the two a Python kernel hands back means nothing
        return f"({', '.join(map(_structure, value))})"
    return "None" if value is None else type(value).__name__


class _Reader:
    """Reads tensors one by one; remembers objects and storages, so that aliases are named and memory is copied once."""

    def __init__(self) -> None:
        self._objects: dict[int, str] = {}
        self._storages: dict[int, str] = {}
        self._copies: dict[tuple[int, int, torch.dtype], torch.Tensor] = {}

    def see(self, name: str, tensor: torch.Tensor) -> SeenTensor:
        same_as = self._objects.setdefault(id(tensor), name)
        shape, stride, offset = _geometry(tensor)
        plain = tensor.detach()
        storage = None if stride is None or type(plain) is not torch.Tensor else _storage(plain)
        shares: str | None = None
        memory: torch.Tensor | None = None
        if storage is None:
            values = _opaque_values(plain)
        else:
            pointer, size = storage
            shares = self._storages.setdefault(pointer, name) if pointer else None
            memory = self._memory(plain, pointer, size)
            values = _view(memory, plain, offset)
        return SeenTensor(
            name, tensor.dtype, shape, stride, offset, str(tensor.layout).removeprefix("torch."), tensor.device.type,
            None if same_as == name else same_as, None if shares == name else shares, values, memory,
        )  # fmt: skip

    def _memory(self, plain: torch.Tensor, pointer: int, size: int) -> torch.Tensor:
        key = (pointer, size, plain.dtype)
        if pointer and (known := self._copies.get(key)) is not None:
            return known
        base = plain.conj() if plain.is_conj() else plain  # conj() of a conjugated view is the view without it
        base = torch._neg_view(base) if base.is_neg() else base
        flat = base.as_strided((size // base.element_size(),), (1,), 0)
        if flat.device.type == "cpu":
            copy = flat.clone()
        else:
            copy = flat.cpu()
            if (
                size and copy.data_ptr() == pointer
            ):  # a simulated device over host memory may hand out the memory itself
                copy = copy.clone()
        if pointer:
            self._copies[key] = copy
        return copy


def _geometry(tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...] | None, int]:
    if tensor.is_nested:
        return (tensor.size(0),), None, 0
    if tensor.layout is not torch.strided:
        return tuple(tensor.shape), None, 0
    return tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())


def _storage(plain: torch.Tensor) -> tuple[int, int] | None:
    """Return address and bytes of the storage, or None where it cannot be read as one row of elements."""
    if plain.device.type == "meta" or plain.is_quantized or plain.dtype in RAW_DTYPES:
        return None
    try:
        storage = plain.untyped_storage()
        pointer, size = storage.data_ptr(), storage.nbytes()
    except (NotImplementedError, RuntimeError):  # lazy devices (XLA) have tensors with no storage
        return None
    if not size and plain.numel() and plain.device.type != "cpu":
        return None  # ... or with a placeholder of no bytes
    return pointer, size


def _view(memory: torch.Tensor, plain: torch.Tensor, offset: int) -> torch.Tensor | None:
    shape, stride = plain.shape, plain.stride()
    last = offset + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
    if plain.numel() and last >= memory.numel():
        return None
    if not plain.numel():
        return memory.new_empty(shape)
    values = memory.as_strided(shape, stride, offset)
    values = torch.conj_physical(values) if plain.is_conj() else values
    return torch.neg(values) if plain.is_neg() else values


def _opaque_values(plain: torch.Tensor) -> torch.Tensor | None:
    """Return the values of a tensor that shows no storage (sparse, quantized, nested, raw bits, lazy), or None."""
    if plain.device.type == "meta" or type(plain) is not torch.Tensor:
        return None
    if plain.dtype in RAW_DTYPES and plain.dim() and plain.is_contiguous():
        plain = plain.view(torch.uint8)
    host = plain if plain.device.type == "cpu" else plain.cpu()
    if host.is_nested:
        parts = [part.detach().flatten() for part in host.unbind()]
        return torch.cat(parts) if parts else None
    if host.layout is not torch.strided:
        return host.to_dense()
    if host.is_quantized:
        return host.dequantize()
    if host.dtype in RAW_DTYPES:
        return None
    host = host.resolve_conj().resolve_neg()
    return host.clone() if plain.device.type == "cpu" else host
