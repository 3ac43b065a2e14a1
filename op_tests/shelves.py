"""Decides which calls are kept while torch's own test databases run: a few of each overload, in one dtype."""

from __future__ import annotations

import collections
import contextlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.packing import Sample, Unpackable, pack
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Room:
    """How many samples of an overload are kept: from the database entry that is about it, from others, and in all."""

    own: int = 8
    other: int = 3
    total: int = 8


@dataclass(slots=True)
class Shelf:
    """The calls recorded so far of one overload, those of its own entry apart."""

    own: dict[str, Sample] = field(default_factory=dict)
    other: dict[str, Sample] = field(default_factory=dict)
    shapes: set[str] = field(default_factory=set)


class Recorder:
    """Keeps the arguments of every call of a counted overload that has the dtype under test.

    Whoever drives it sets `source` (``opinfo/gelu``), `about` (the operator that the entry is about) and `phase`.
    """

    def __init__(self, dtype: torch.dtype, room: Room) -> None:
        self.dtype, self.room = dtype, room
        self.source, self.about, self.phase = "", "", ""
        self._shelves: dict[str, Shelf] = collections.defaultdict(Shelf)
        self._counted = {o.name for o in catalogue.operators() if o.excluded is None}
        self._numbers: collections.Counter[str] = collections.Counter()

    def seen(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep one call if its shelf has room and no call of the same geometry is on it."""
        name = str(op)
        if name not in self._counted or not self._has_dtype(args, kwargs):
            return
        shelf = self._shelves[name]
        own = name.split(".")[1].rstrip("_") in (self.about, self.about.rstrip("_"))
        place, room = (shelf.own, self.room.own) if own else (shelf.other, self.room.other)
        if len(place) >= room:
            return
        try:
            sample = pack(args, kwargs)
        except Unpackable:
            return
        geometry = json.dumps(sample.tree, sort_keys=True)
        if geometry in shelf.shapes:
            return
        shelf.shapes.add(geometry)
        label = f"{self.source}/{self.phase}"
        number = self._numbers[f"{name} {label}"]
        self._numbers[f"{name} {label}"] += 1
        place[f"{label}/{number}"] = sample

    def samples(self) -> Mapping[str, Mapping[str, Sample]]:
        """Return overload → label → sample in the order of names, samples of the overload's own entry first."""
        return {
            name: dict([*shelf.own.items(), *shelf.other.items()][: self.room.total])
            for name, shelf in sorted(self._shelves.items())
        }

    def _has_dtype(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a tensor has the dtype under test; a call without tensors counts by its dtype argument."""
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if tensors:
            return any(tensor.dtype == self.dtype for tensor in tensors)
        asked = next((leaf for leaf in leaves if isinstance(leaf, torch.dtype)), torch.get_default_dtype())
        return asked == self.dtype


class BelowAutograd(TorchDispatchMode):
    """Sees what reaches a backend's key."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._recorder.seen(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


class AboveAutograd(SchemaCheckMode):
    """Sees composite implicit operators before they open into their parts.

    torch 2.13 admits only this class and its children as a mode at the PreDispatch key.
    """

    def __init__(self, recorder: Recorder) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self._recorder = recorder
        self._python: contextlib.ExitStack

    def __enter__(self) -> Any:
        self._python = contextlib.ExitStack()
        self._python.enter_context(enable_python_dispatcher())
        return TorchDispatchMode.__enter__(self)

    def __exit__(self, *error: Any) -> None:
        self._python.close()
        TorchDispatchMode.__exit__(self, *error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._recorder.seen(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))
