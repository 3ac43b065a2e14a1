"""Finds where the host needs the device's data to go on: values that it reads, copies that it takes, sizes that follow data."""

from __future__ import annotations

import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.capture.branches import may_steer
from neuron_ops.op_tests.capture.rows import Wait, WaitKind

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from neuron_ops.op_tests.capture.places import Places

_VALUES = frozenset({"aten._local_scalar_dense.default", "aten.equal.default"})
_SIZES = frozenset(
    {"aten.nonzero.default", "aten.nonzero.out", "aten.masked_select.default", "aten._unique.default", "aten._unique2.default",
     "aten.unique_dim.default", "aten.unique_consecutive.default", "aten.unique_dim_consecutive.default",
     "aten.repeat_interleave.Tensor", "aten.bincount.default", "aten._to_sparse.default", "aten._to_sparse.sparse_dim",
     "aten._coalesce.default", "aten._pad_packed_sequence.default", "torchvision.nms.default"}
)  # fmt: skip
"""Overloads whose result's size depends on values, beside indexing with a mask."""
_COPIES = frozenset({"aten.copy_.default", "aten._copy_from.default", "aten._to_copy.default"})


class Waits:
    """Counts the waits by kind, overload and line, and gives each to `send` as its count changes."""

    def __init__(self, places: Places, send: Callable[[Wait], None]) -> None:
        self._places, self._send = places, send
        self._counts: Counter[tuple[WaitKind, str, str | None, bool]] = Counter()

    def take(self, overload: str, args: tuple[Any, ...]) -> None:
        """Take one call, also those that others make; `args` are its tensors and other arguments."""
        kind = _kind(overload, args)
        if kind is None:
            return
        frame = self._frame()
        sized = kind is WaitKind.SIZE
        steers = not sized if frame is None else may_steer(frame.f_code.co_filename, frame.f_lineno, sized=sized)
        where = self._places.here()
        self._counts[kind, overload, where, steers] += 1
        self._send(Wait(kind, overload, where, self._counts[kind, overload, where, steers], steers))

    def _frame(self) -> FrameType | None:
        """Return the innermost frame outside torch, Python and ourselves: the code that does something with the data."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and self._places.rank(frame.f_code.co_filename) == 2:
            frame = frame.f_back
        return frame


def _kind(overload: str, args: tuple[Any, ...]) -> WaitKind | None:
    if overload in _VALUES:
        return WaitKind.VALUE
    if overload in _SIZES:
        return WaitKind.SIZE
    if overload in _COPIES and len(args) > 1 and _on_device(args[0]) and _on_host(args[1]):
        return WaitKind.COPY
    if overload.startswith(("aten.index.", "aten.index_put", "aten._index_put")) and len(args) > 1:
        masks = args[1] if isinstance(args[1], (list, tuple)) else ()
        if any(isinstance(mask, torch.Tensor) and mask.dtype in (torch.bool, torch.uint8) for mask in masks):
            return WaitKind.SIZE
    return None


def _on_device(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type not in ("cpu", "meta")


def _on_host(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "cpu"
