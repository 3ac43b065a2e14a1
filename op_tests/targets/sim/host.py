"""Decides how a CPU kernel computes a call on device tensors: aliases in, the caller's own tensors out."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.targets.sim import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CPU = torch.device("cpu")
_NUMBERS = (bool, int, float, complex)


@dataclass(frozen=True, slots=True)
class Signature:
    """What the schema of an overload says about its tensors.

    `written` are (position, name) of arguments that the call changes; `returns` names for each output the written
    argument that it is, or None; `tensors` are (position, name) of single tensors; `view` says that outputs share the
    memory of an input, or that only geometry changes.
    """

    written: tuple[tuple[int, str], ...]
    returns: tuple[str | None, ...]
    tensors: tuple[tuple[int, str], ...]
    view: bool

    @classmethod
    def of(cls, op: torch._ops.OpOverload) -> Signature:
        """Return the signature of an overload."""
        schema = op._schema
        writes = [(i, a) for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
        by_alias = {alias: a.name for _, a in writes if a.alias_info is not None for alias in a.alias_info.before_set}
        infos = [r.alias_info for r in schema.returns]
        return cls(
            written=tuple((i, a.name) for i, a in writes),
            returns=tuple(
                next((by_alias[alias] for alias in info.before_set if alias in by_alias), None)
                if info is not None and info.is_write
                else None
                for info in infos
            ),
            tensors=tuple(
                (i, a.name) for i, a in enumerate(schema.arguments) if str(a.type) in ("Tensor", "Optional[Tensor]")
            ),
            view=torch.Tag.inplace_view in op.tags or any(info is not None and not info.is_write for info in infos),
        )


class _Aliases:
    """CPU aliases of the device tensors of one call, and which written tensors changed memory or geometry."""

    def __init__(self, *, clone_written: bool) -> None:
        self.clone_written = clone_written
        self.written: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Size, tuple[int, ...]]] = {}
        self._seen: dict[int, torch.Tensor] = {}

    def map(self, value: Any, *, written: bool = False) -> Any:
        if memory.is_device(value):
            return self._alias(value, written=written)
        if isinstance(value, torch.Size):
            return value
        if isinstance(value, (list, tuple)):
            return type(value)(self.map(item, written=written) for item in value)
        return _CPU if isinstance(value, torch.device) else value

    def _alias(self, tensor: torch.Tensor, *, written: bool) -> torch.Tensor:
        if id(tensor) not in self._seen:
            self._seen[id(tensor)] = self._fresh(tensor, written=written)
        host = self._seen[id(tensor)]
        if written and id(tensor) not in self.written:
            self.written[id(tensor)] = (tensor, host, tensor.shape, tensor.stride())
        return host

    def _fresh(self, tensor: torch.Tensor, *, written: bool) -> torch.Tensor:
        if written and (self.clone_written or tensor.numel() == 0):
            # Memory that came through DLPack cannot grow. An empty tensor is likely to be resized by the kernel, so the
            # kernel gets ordinary CPU memory, which the device tensor adopts afterwards.
            host = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            return host.copy_(memory.to_host(tensor)) if tensor.numel() else host
        return memory.to_host(tensor)

    def write_back(self) -> None:
        for tensor, host, shape, stride in self.written.values():
            if self.clone_written or (shape.numel() == 0 and host.numel() > 0):
                _resized(tensor, host)
            elif host.shape != shape or host.stride() != stride:
                memory.adopt(tensor, host)


def _resized(tensor: torch.Tensor, host: torch.Tensor) -> None:
    """Give a device tensor what a kernel wrote into memory of ours, as a resize in place would have."""
    reach = sum((size - 1) * step for size, step in zip(host.shape, host.stride(), strict=True)) + 1
    offset, storage = int(tensor.storage_offset()), tensor.untyped_storage()
    if not host.numel() or (offset + reach) * host.element_size() > storage.nbytes():
        memory.adopt(tensor, host)
        return
    # There is room behind the offset: a view that grows stays in the memory that it shares (ATen's resize_).
    memory.set_geometry(tensor, storage, offset, host.shape, host.stride())
    memory.to_host(tensor).copy_(host)


def rounded(tensor: torch.Tensor, narrow: Mapping[torch.dtype, torch.dtype]) -> torch.Tensor:
    """Return the tensor with its values passed through the narrower dtype (int64 wraps as int32, float64 rounds)."""
    thin = narrow.get(tensor.dtype)
    return tensor if thin is None else tensor.to(thin).to(tensor.dtype)


def _round_all(value: Any, narrow: Mapping[torch.dtype, torch.dtype]) -> Any:
    if isinstance(value, torch.Tensor):
        return rounded(value, narrow) if value.dim() else value  # 0-dim tensors are not narrowed
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(_round_all(item, narrow) for item in value)
    return value


def to_device(value: Any) -> Any:
    """Return outputs of a CPU kernel as device values."""
    if isinstance(value, torch.Tensor):
        return memory.to_device(value) if value.device.type == "cpu" else value
    if isinstance(value, (list, tuple)):
        return type(value)([to_device(item) for item in value])
    return value


def compute(
    op: Callable[..., Any],
    signature: Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    narrow: Mapping[torch.dtype, torch.dtype],
) -> Any:
    """Return what the CPU kernel of `op` computes for device arguments, as device values.

    Written arguments are changed in place, resized where the kernel resizes them, and returned as the caller's own
    objects. Tensors whose dtype is in `narrow` are rounded through the narrower one, before and after.
    """
    try:
        return _attempt(op, signature, args, kwargs, narrow, clone_written=False)
    except RuntimeError as error:
        if "not resizable" not in str(error):
            raise
        return _attempt(op, signature, args, kwargs, narrow, clone_written=True)


def _attempt(
    op: Callable[..., Any],
    signature: Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    narrow: Mapping[torch.dtype, torch.dtype],
    *,
    clone_written: bool,
) -> Any:
    aliases = _Aliases(clone_written=clone_written)
    names = {name for _, name in signature.written}
    positions = {position for position, _ in signature.written}
    # Written arguments first: a tensor that is also read must be the same alias.
    written = {k: aliases.map(v, written=True) for k, v in kwargs.items() if k in names}
    head = {i: aliases.map(v, written=True) for i, v in enumerate(args) if i in positions}
    host_args = [head[i] if i in head else aliases.map(v) for i, v in enumerate(args)]
    host_kwargs = {k: written[k] if k in written else aliases.map(v) for k, v in kwargs.items()}
    host_args, host_kwargs = wrap_numbers(signature, host_args, host_kwargs)
    if narrow:
        _narrow_written(aliases, narrow)
        host_args = [v if i in head else _round_all(v, narrow) for i, v in enumerate(host_args)]
        host_kwargs = {k: v if k in written else _round_all(v, narrow) for k, v in host_kwargs.items()}
    out = op(*host_args, **host_kwargs)
    if narrow:
        _narrow_written(aliases, narrow)
    aliases.write_back()
    return _outputs(signature, out, args, kwargs, narrow)


def _narrow_written(aliases: _Aliases, narrow: Mapping[torch.dtype, torch.dtype]) -> None:
    for _, host, _, _ in aliases.written.values():
        if host.dim() and host.dtype in narrow:
            host.copy_(rounded(host, narrow))


def wrap_numbers(signature: Signature, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments with Python numbers turned into tensors where the schema says Tensor.

    Composite kernels pass wrapped numbers, which reach a Python kernel as numbers.
    """
    args, kwargs = list(args), dict(kwargs)
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    for position, name in signature.tensors:
        if position < len(args) and type(args[position]) in _NUMBERS:
            args[position] = _wrapped(args[position], tensors)
        elif type(kwargs.get(name)) in _NUMBERS:
            kwargs[name] = _wrapped(kwargs[name], tensors)
    return args, kwargs


_WIDEST = {bool: torch.bool, int: torch.int64, float: torch.float64, complex: torch.complex128}


def _category(dtype: torch.dtype) -> int:
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == torch.bool else 1


def _wrapped(number: complex, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return a 0-dim tensor that promotes as a wrapped number does: it never widens a dtype of its own category."""
    wide = _WIDEST[type(number)]
    peers = [tensor for tensor in tensors if _category(tensor.dtype) >= _category(wide)]
    if any(tensor.dim() for tensor in peers):
        return torch.tensor(number, dtype=wide)  # beside a tensor with dimensions a 0-dim one never decides the dtype
    return torch.tensor(number, dtype=peers[0].dtype) if peers else torch.tensor(number)


def _outputs(
    signature: Signature,
    out: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    narrow: Mapping[torch.dtype, torch.dtype],
) -> Any:
    if not signature.returns:
        return None
    position = {name: i for i, name in signature.written}

    def finished(value: Any, name: str | None) -> Any:
        if name is not None:
            return kwargs[name] if name in kwargs else args[position[name]]
        return to_device(_round_all(value, narrow) if narrow else value)

    if len(signature.returns) == 1:
        return finished(out, signature.returns[0])
    return tuple(finished(value, name) for value, name in zip(out, signature.returns, strict=True))


@functools.cache
def signature_of(op: torch._ops.OpOverload) -> Signature:
    """Return the signature of an overload, computed once."""
    return Signature.of(op)
