"""Decides how the arguments of a call become bytes and come back bit for bit, strides and shared memory included."""

from __future__ import annotations

import json
import math
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_STORAGE_BYTES = 2 << 20
"""A call whose tensors span more than this is not kept: it would cost time and disk, and shows nothing that a small one does not."""

ON_HOST: dict[str, tuple[int | str, ...]] = {
    "aten.tensor_split.tensor_indices_or_sections": (1,),
    "aten._pack_padded_sequence.default": (1,),
    "aten._pack_padded_sequence.out": (1, "out1"),
    "aten._pack_padded_sequence_backward.default": (2,),
    "aten._pad_packed_sequence.default": (1,),
    **{f"aten.{kind}.data": (1,) for kind in ("gru", "lstm", "rnn_relu", "rnn_tanh")},
    **{f"aten._foreach_{kind}.{form}": (3,) for kind in ("addcdiv", "addcmul") for form in ("Tensor", "Tensor_out")},
    **{f"aten._foreach_{kind}_.Tensor": (3,) for kind in ("addcdiv", "addcmul")},
    **{f"aten.randint_like.Tensor{form}": (1,) for form in ("", "_out", "_generator", "_generator_out")},
}
"""Overload → positions of tensor arguments that ATen wants on the CPU whatever the device.

torch 2.13 raises otherwise, or reads them through a host pointer (the batch sizes of packed sequences)."""

_WIDE = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}


class Unpackable(ValueError):  # noqa: N818
    """The arguments cannot be kept: generators, sparse or quantised tensors, symbolic sizes, too much data."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Arguments of one call: a JSON tree that refers to storages by number, and the bytes of the storages."""

    tree: Any
    storages: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """Return the sample in one compressed block: header length, JSON header, storages one after another."""
        header = json.dumps([self.tree, [len(s) for s in self.storages]], separators=(",", ":")).encode()
        return zlib.compress(b"".join([struct.pack("<I", len(header)), header, *self.storages]), 1)

    @classmethod
    def from_bytes(cls, data: bytes) -> Sample:
        """Return what `to_bytes` wrote; raises ValueError for anything else."""
        try:
            raw = zlib.decompress(data)
            (length,) = struct.unpack_from("<I", raw)
            tree, sizes = json.loads(raw[4 : 4 + length])
        except (zlib.error, struct.error, ValueError) as error:
            raise ValueError(f"damaged sample: {error}") from error
        position, storages = 4 + length, []
        for size in sizes:
            storages.append(raw[position : position + size])
            position += size
        return cls(tree, tuple(storages))

    def unpack(
        self, device: str = "cpu", *, wide: bool = False, on_host: Sequence[int | str] = ()
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return fresh (args, kwargs) on the device, aliasing among themselves exactly as the recorded ones did.

        With `wide`, floating-point tensors and dtype arguments become float64 and complex ones complex128. Arguments at
        the positions or of the names in `on_host` stay on the CPU.
        """
        there, here = _Unpacker(self, device, wide), _Unpacker(self, "cpu", wide)
        args = [(here if i in on_host else there).decode(node) for i, node in enumerate(self.tree["args"])]
        kwargs = {k: (here if k in on_host else there).decode(node) for k, node in self.tree["kwargs"].items()}
        return args, kwargs

    def tensors(self) -> Iterator[dict[str, Any]]:
        """Yield the description of each tensor: storage, dtype, shape, stride, offset, conj, neg (in elements)."""
        pending = [self.tree]
        while pending:
            node = pending.pop(0)
            if isinstance(node, dict) and "storage" in node:
                yield node
            elif isinstance(node, dict):
                pending.extend(node.values())
            elif isinstance(node, list):
                pending.extend(node)


def pack(args: Sequence[Any], kwargs: dict[str, Any], *, whole: bool = False) -> Sample:
    """Return the arguments as a sample; raises Unpackable.

    Of each storage what the tensors span is kept, with `whole` all of it: storage offsets and what lies behind stay.
    """
    packer = _Packer(whole)
    tree = {"args": [packer.encode(a) for a in args], "kwargs": {k: packer.encode(v) for k, v in kwargs.items()}}
    return Sample(tree, packer.finish())


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the first byte and the byte after the last that the tensor reads in its storage."""
    size = tensor.element_size()
    start = int(tensor.storage_offset()) * size
    if not tensor.numel():
        return start, start
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (reach + 1) * size


class _Packer:
    def __init__(self, whole: bool) -> None:
        self._whole = whole
        self._nodes: dict[int, list[tuple[dict[str, Any], torch.Tensor]]] = {}
        self._keep: list[torch.Tensor] = []

    def encode(self, value: Any) -> Any:
        if value is None or isinstance(value, (bool, str)):
            return value
        if type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if type(value) is complex:
            return {"complex": [self.encode(value.real), self.encode(value.imag)]}
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, (list, tuple)):
            return [self.encode(item) for item in value]
        for kind in (torch.dtype, torch.layout, torch.memory_format):
            if isinstance(value, kind):
                return {kind.__name__: str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"device": "target"}
        raise Unpackable(f"an argument of type {type(value).__name__}")

    def _tensor(self, tensor: torch.Tensor) -> dict[str, Any]:
        if (
            type(tensor) not in (torch.Tensor, torch.nn.Parameter)
            or tensor.layout != torch.strided
            or tensor.is_quantized
        ):
            raise Unpackable(f"a tensor of type {type(tensor).__name__}, layout {tensor.layout}")
        if tensor._is_zerotensor() or tensor.device.type != "cpu":
            raise Unpackable("a tensor without memory on the CPU")
        plain = tensor.detach()
        conj, neg = plain.is_conj(), plain.is_neg()
        plain = torch._conj(plain) if conj else plain
        plain = torch._neg_view(plain) if neg else plain
        node = {"storage": -1, "dtype": str(plain.dtype).removeprefix("torch."), "shape": list(plain.shape),
                "stride": list(plain.stride()), "offset": plain.storage_offset()}  # fmt: skip
        if conj:
            node["conj"] = True
        if neg:
            node["neg"] = True
        # By identity: storages of no bytes all have the address 0.
        self._nodes.setdefault(plain.untyped_storage()._cdata, []).append((node, plain))
        return node

    def finish(self) -> tuple[bytes, ...]:
        storages = []
        for number, group in enumerate(self._nodes.values()):
            extents = [_extent(tensor) for _, tensor in group]
            align = max(tensor.element_size() for _, tensor in group)
            first = min(start for start, _ in extents) // align * align
            last = max(end for _, end in extents)
            if self._whole:
                first, last = 0, group[0][1].untyped_storage().nbytes()
            if last - first > MAX_STORAGE_BYTES:
                raise Unpackable(f"{last - first} bytes of tensor data")
            if any(node["offset"] * t.element_size() % align or first % t.element_size() for node, t in group):
                raise Unpackable("tensors of different dtypes at odd offsets of one storage")
            storages.append(_bytes(group[0][1].untyped_storage(), first, last))
            for node, tensor in group:
                node["storage"] = number
                node["offset"] -= first // tensor.element_size()
        return tuple(storages)


def _bytes(storage: torch.UntypedStorage, first: int, last: int) -> bytes:
    if last <= first:
        return b""
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
    return bytes(whole[first:last].numpy().tobytes())


class _Unpacker:
    def __init__(self, sample: Sample, device: str, wide: bool) -> None:
        self._sample, self._device, self._wide = sample, device, wide
        self._flat: dict[tuple[int, torch.dtype], torch.Tensor] = {}

    def decode(self, node: Any) -> Any:
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "storage" in node:
            return self._tensor(node)
        ((kind, value),) = node.items()
        if kind == "float":
            return float(value)
        if kind == "complex":
            return complex(self.decode(value[0]), self.decode(value[1]))
        if kind == "device":
            return torch.device(self._device)
        found = getattr(torch, value)
        return self._widened(found) if kind == "dtype" else found

    def _widened(self, dtype: torch.dtype) -> torch.dtype:
        if not self._wide:
            return dtype
        return torch.float64 if dtype.is_floating_point else _WIDE.get(dtype, dtype)

    def _tensor(self, node: dict[str, Any]) -> torch.Tensor:
        dtype = getattr(torch, node["dtype"])
        tensor = self._storage(node["storage"], dtype).as_strided(node["shape"], node["stride"], node["offset"])
        tensor = torch._conj(tensor) if node.get("conj") else tensor
        return torch._neg_view(tensor) if node.get("neg") else tensor

    def _storage(self, number: int, dtype: torch.dtype) -> torch.Tensor:
        key = (number, dtype)
        if key not in self._flat:
            sibling = next((t for (n, _), t in self._flat.items() if n == number), None)
            if sibling is not None and not self._wide:
                self._flat[key] = sibling.view(dtype)
            else:
                self._flat[key] = self._load(self._sample.storages[number], dtype)
        return self._flat[key]

    def _load(self, data: bytes, dtype: torch.dtype) -> torch.Tensor:
        flat = torch.empty(len(data), dtype=torch.uint8)  # torch's own allocation: aligned as every tensor's
        if data:
            flat.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        return flat.view(dtype).to(self._widened(dtype)).to(self._device)
