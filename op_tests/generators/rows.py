"""Decides what a row of a generator table is: an overload, the dtypes it takes, and the arguments of its samples.

A row names one overload and serves with it the ``.out``, in-place, ``_functional`` and ``_copy`` forms that take the same
arguments, found in the schemas of the installed torch.
"""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from torch.utils._pytree import tree_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Arguments = tuple[tuple[Any, ...], dict[str, Any]]

WHOLE = (torch.float32, torch.float64)
HALF = (torch.float16, torch.bfloat16)
FLOATS = (*WHOLE, *HALF)
SIGNED = (torch.int8, torch.int16, torch.int32, torch.int64)
INTEGERS = (*SIGNED, torch.uint8)
BOOL = (torch.bool,)
COMPLEX = (torch.complex64, torch.complex128)
REAL = (*FLOATS, *INTEGERS)
NUMBERS = (*REAL, *COMPLEX)
ALL = (*NUMBERS, *BOOL)
"""The dtypes that the sample bank records."""

_OPTIONS = ("dtype", "layout", "device", "pin_memory")
"""Arguments of factories that their ``.out`` forms do not have: the given tensor says all four."""


class Draw:
    """Draws tensors on the CPU from a generator of its own; two with the same dtype and seed draw the same values."""

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        self.dtype = dtype
        self._generator = torch.Generator().manual_seed(seed)

    def __call__(
        self, *shape: int, low: float = -2.0, high: float = 2.0, dtype: torch.dtype | None = None
    ) -> torch.Tensor:
        """Return a tensor with values from `low` up to `high`.

        Integers are drawn between four times these bounds, so that small bounds still give several values; unsigned
        ones start at zero. Booleans are drawn evenly.
        """
        dtype = dtype or self.dtype
        if dtype == torch.bool:
            return self.mask(*shape)
        if dtype.is_complex:
            real, imaginary = (self(*shape, low=low, high=high, dtype=torch.float64) for _ in range(2))
            return torch.complex(real, imaginary).to(dtype)
        if dtype.is_floating_point:
            drawn = torch.rand(shape, generator=self._generator, dtype=torch.float64)
            return (drawn * (high - low) + low).to(dtype)
        first = 0 if dtype == torch.uint8 else round(4 * low)
        return self.index(*shape, low=max(first, round(4 * low)), high=round(4 * high) + 1).to(dtype)

    def positive(self, *shape: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        """Return values between 0.25 and 2.25 (1 and 9 for integers)."""
        return self(*shape, low=0.25, high=2.25, dtype=dtype)

    def unit(self, *shape: int) -> torch.Tensor:
        """Return values between -0.9 and 0.9."""
        return self(*shape, low=-0.9, high=0.9)

    def probability(self, *shape: int) -> torch.Tensor:
        """Return values between 0.05 and 0.95."""
        return self(*shape, low=0.05, high=0.95)

    def index(self, *shape: int, high: int, low: int = 0) -> torch.Tensor:
        """Return int64 values from `low` up to but not including `high`."""
        return torch.randint(low, high, shape, generator=self._generator)

    def mask(self, *shape: int) -> torch.Tensor:
        """Return booleans, half of them true on average."""
        return torch.rand(shape, generator=self._generator) > 0.5

    def definite(self, *shape: int) -> torch.Tensor:
        """Return symmetric (Hermitian) positive definite matrices with eigenvalues of at least 1."""
        half = self(*shape, low=-1.0, high=1.0)
        return half @ half.mH + torch.eye(shape[-1], dtype=half.dtype)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a generator table; `served` are the overloads that its arguments fit, the named one among them."""

    named: torch._ops.OpOverload
    served: tuple[torch._ops.OpOverload, ...]
    dtypes: tuple[torch.dtype, ...]
    make: Callable[[Draw], Iterable[Arguments]]
    filled: float

    def calls(self, dtype: torch.dtype) -> Iterator[tuple[str, Arguments]]:
        """Yield (overload name, arguments) for each served overload and sample, every one with tensors of its own."""
        if dtype not in self.dtypes:
            return
        for op in self.served:
            # Drawn anew for each, so that no two calls share memory.
            for args, kwargs in self.make(Draw(dtype, zlib.crc32(str(self.named).encode()))):
                formed = self._formed(op, args, kwargs)
                if formed is not None:
                    yield str(op), formed

    def _formed(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments | None:
        """Return the arguments as `op` takes them, or None where a result does not fit its place."""
        if op is self.named:
            return args, kwargs
        outs = [a for a in op._schema.arguments if a.is_out]
        names = {a.name for a in op._schema.arguments}
        kept = {name: value for name, value in kwargs.items() if name in names}
        if outs:
            results = self._results(args, kwargs)[: len(outs)]
            if any(result is None for result in results):
                return None  # a result that was not asked for has no tensor to write to
            return args, kept | {a.name: _like(r, self.filled) for a, r in zip(outs, results, strict=True)}
        if not _in_place(op):
            return args, kept
        if torch.Tag.inplace_view in op.tags:
            return args, kept  # changes the shape of `self` itself
        fits = all(map(_fits, _flat(self._results(args, kwargs)[:1]), _flat(args[:1])))
        return (args, kept) if fits else None

    def _results(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[Any]:
        """Return what the named overload returns, one item a result, with the global random state left alone."""
        fresh = tree_map(lambda v: v.clone() if isinstance(v, torch.Tensor) else v, (args, kwargs))
        with torch.random.fork_rng(devices=[]):
            found = self.named(*fresh[0], **fresh[1])
        return found if len(self.named._schema.returns) > 1 else (found,)


def call(*args: Any, **kwargs: Any) -> Arguments:
    """Return the arguments as one value."""
    return args, kwargs


def row(
    name: str,
    dtypes: tuple[torch.dtype, ...],
    make: Callable[[Draw], Iterable[Arguments]],
    *,
    filled: float = 7.0,
    without: str = "",
) -> Row:
    """Return the row of an overload; raises BadInput where the installed torch has none of that name.

    `make` yields the arguments of each sample. Result tensors of ``.out`` forms have the right shape and hold `filled`. The operator
    `without` (``detach_``) is left out of the forms that the row serves.
    """
    named = catalogue.resolve(name)
    forms = [op for op in _siblings(named) if str(op).split(".")[1] != without]
    return Row(named, (named, *forms), dtypes, make, filled)


def rows(
    names: str,
    dtypes: tuple[torch.dtype, ...],
    make: Callable[[Draw], Iterable[Arguments]],
    *,
    overload: str = "default",
) -> list[Row]:
    """Return one row for each operator in `names` (``sin cos``), all with the same overload and arguments."""
    return [row(f"aten.{name}.{overload}", dtypes, make) for name in names.split()]


def _siblings(named: torch._ops.OpOverload) -> Iterator[torch._ops.OpOverload]:
    """Yield the counted forms of an overload that take the same arguments, factory options aside."""
    packet = str(named).split(".")[1]
    stem = packet.removesuffix("_functional").removesuffix("_copy").rstrip("_")
    takes = _signature(named)
    factory = {argument[0] for argument in takes}.issuperset(_OPTIONS)
    bare = tuple(argument for argument in takes if not (factory and argument[0] in _OPTIONS))
    in_place = f"__i{packet[2:]}" if packet.startswith("__") else f"{stem}_"
    for name in dict.fromkeys((packet, stem, in_place, f"{stem}_functional", f"{stem}_copy")):
        for operator in _counted().get(name, ()):
            op = catalogue.resolve(operator)
            if op is not named and _signature(op) in (takes, bare):
                yield op


@functools.cache
def _counted() -> dict[str, tuple[str, ...]]:
    """Return the names of the overloads in the denominator by operator."""
    found: dict[str, list[str]] = {}
    for operator in catalogue.operators():
        if operator.excluded is None:
            found.setdefault(operator.name.split(".")[1], []).append(operator.name)
    return {packet: tuple(names) for packet, names in found.items()}


def _signature(op: torch._ops.OpOverload) -> tuple[tuple[str, str, bool], ...]:
    return tuple((a.name, str(a.type), a.kwarg_only) for a in op._schema.arguments if not a.is_out)


def _in_place(op: torch._ops.OpOverload) -> bool:
    first = op._schema.arguments[0]
    return first.alias_info is not None and first.alias_info.is_write


def _flat(values: Sequence[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, (list, tuple)) else (value,))]


def _fits(result: Any, own: torch.Tensor) -> bool:
    return isinstance(result, torch.Tensor) and result.shape == own.shape and torch.can_cast(result.dtype, own.dtype)


def _like(result: Any, filled: float) -> Any:
    if isinstance(result, (list, tuple)):
        return [_like(item, filled) for item in result]
    return torch.full(result.shape, filled, dtype=torch.float64).to(result.dtype)
