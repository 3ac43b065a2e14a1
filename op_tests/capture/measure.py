"""Measures a call: the dtypes, shapes and bytes of its tensors, its FLOPs, and what tells two compilations apart."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neuron_ops.op_tests.targets.sim.journal import Entry


@dataclass(frozen=True, slots=True)
class Measured:
    """What a call's tensors hold: `dtypes` and `shapes` of its arguments, bytes of arguments and results.

    `flops` counts matrix products, convolutions and attention. `signature` is 12 hex digits that are equal for calls
    which one compilation serves: same overload, shapes, dtypes and static arguments.
    """

    dtypes: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()
    bytes_in: int = 0
    bytes_out: int = 0
    flops: int = 0
    signature: str = ""


_NOTHING = Measured()


class Ruler:
    """What a journal's `measure` is set to; with `keeping`, `last` holds the arguments of the call that was measured last."""

    def __init__(self) -> None:
        self.keeping = False
        self.last: tuple[tuple[Any, ...], dict[str, Any]] = (), {}

    def __call__(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Measured:
        """Return the measures of one call."""
        if self.keeping:
            self.last = args, kwargs
        return measure(entry.overload, args, kwargs, out)

    @staticmethod
    def of(entry: Entry) -> Measured:
        """Return what was measured of an entry, nothing where it was not."""
        return entry.measured if isinstance(entry.measured, Measured) else _NOTHING


def measure(overload: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Measured:
    """Return the measures of a call of `overload` on tensors of any device, fake ones too."""
    key = overload, _static(args), _static(kwargs), _static(out)
    known = _measured.get(key)
    if known is None:  # most calls of a model are repeated: a layer, a step
        known = _measured[key] = _measure(key, args, kwargs, out)
    return known


_measured: dict[tuple[Any, ...], Measured] = {}


def _measure(key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Measured:
    overload = key[0]
    dtypes: list[str] = []
    for value in (*args, *kwargs.values()):
        found = [_name(tensor.dtype) for tensor in _tensors(value)]
        dtypes.extend(dict.fromkeys(found) if isinstance(value, (list, tuple)) else found)
    if not dtypes:  # a factory
        dtypes.extend(dict.fromkeys(_name(tensor.dtype) for tensor in _tensors(out)))
    return Measured(
        tuple(dtypes),
        tuple(tuple(map(int, tensor.shape)) for tensor in _tensors((args, kwargs))),
        sum(map(_bytes, _tensors((args, {k: v for k, v in kwargs.items() if k not in _outs(overload)})))),
        sum(map(_bytes, _tensors(out))),
        _flops(overload, args, kwargs, out),
        hashlib.blake2b(repr(key[:3]).encode(), digest_size=6).hexdigest(),
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel()) * tensor.element_size()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _static(value: Any) -> Any:
    """Return a hashable value that tells what a compiler fixes: shapes and dtypes of tensors, other arguments as they are.

    Equal values of different types (1, 1.0 and True) stay apart.
    """
    if isinstance(value, torch.Tensor):
        return _name(value.dtype), tuple(map(int, value.shape))
    if isinstance(value, dict):
        return tuple((key, _static(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_static(item) for item in value)
    name = type(value).__name__
    return name if isinstance(value, torch.Generator) else (name, repr(value))


@functools.cache
def _outs(overload: str) -> frozenset[str]:
    """Return the keyword arguments that a call only writes: what they hold before need not be read."""
    namespace, packet, name = overload.split(".", 2)
    op = getattr(getattr(getattr(torch.ops, namespace), packet, None), name, None)
    arguments = () if op is None else op._schema.arguments
    return frozenset(a.name for a in arguments if a.kwarg_only and a.alias_info is not None and a.alias_info.is_write)


@functools.cache
def _formula(overload: str) -> Any:
    """Return torch's own count for an overload's packet, or None where it counts nothing."""
    from torch.utils.flop_counter import flop_registry

    _, packet, _ = overload.split(".", 2)
    return flop_registry.get(getattr(torch.ops.aten, packet, None))


def _flops(overload: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> int:
    if out is None or not overload.startswith("aten."):
        return 0
    if overload == "aten.linear.default":  # torch counts it by its parts, and here it has none
        return 2 * int(args[0].numel()) * int(args[1].shape[0])
    if overload == "aten.linear_backward.default":  # the gradients of input and weight, where they are asked for
        return 2 * int(args[0].numel()) * int(args[2].shape[0]) * sum(map(bool, args[3][:2]))
    if overload.startswith("aten._scaled_dot_product_"):
        backward = "_backward" in overload
        query, key, value = args[1:4] if backward else args[:3]
        rows = int(query.numel()) // max(1, int(query.shape[-1]))
        products = 2 * rows * int(key.shape[-2]) * (int(query.shape[-1]) + int(value.shape[-1]))
        return products * 5 // 2 if backward else products  # two products forward; five backward, as torch counts them
    formula = _formula(overload)
    return int(formula(*args, **{k: v for k, v in kwargs.items() if k != "out"}, out_val=out)) if formula else 0
