"""Adds up the calls that a model makes on the simulated device, and finds the line of the user's code behind each."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import sysconfig
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.capture.report import CallRoute, PartOfRow, Row
from neuron_ops.op_tests.records import Route
from neuron_ops.op_tests.targets.sim.journal import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from neuron_ops.op_tests.targets.served import Served
    from neuron_ops.op_tests.targets.sim.journal import Entry

_FLUSH_SECONDS = 0.25
_REFUSED = re.compile(r"Could not run 'aten::([\w.]+)'")
_ROUTES = {Route.NATIVE: CallRoute.NATIVE, Route.TRANSLATED: CallRoute.TRANSLATED, Route.FALLBACK: CallRoute.FALLBACK}
_OURS = str(Path(__file__).parents[2]) + os.sep
_TORCH = str(Path(torch.__file__).parent) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep


class Places:
    """Tells which frames are the user's: those of files below their folder, installed packages aside."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder) + os.sep
        self._ranks: dict[str, int] = {}

    def rank(self, filename: str) -> int:
        """Return 0 for the user's files, 1 for installed packages, 2 for torch, Python and ourselves."""
        if filename not in self._ranks:
            self._ranks[filename] = self._judge(filename)
        return self._ranks[filename]

    def _judge(self, filename: str) -> int:
        installed = "site-packages" in filename or "dist-packages" in filename
        if filename.startswith((_OURS, _TORCH, "<")) and not self._in_folder(filename):
            return 2
        if installed:
            return 1 if not filename.startswith(_TORCH) else 2
        if self._in_folder(filename):
            return 0
        return 2 if filename.startswith(_STDLIB) else 1

    def _in_folder(self, filename: str) -> bool:
        return filename.startswith(self._folder)

    def here(self) -> str | None:
        """Return ``file:line`` of the innermost frame of the user's, else of a package, or None."""
        best = self._innermost(sys._getframe(1))
        main = threading.main_thread().ident
        if best is None and main is not None and main != threading.get_ident():
            # Device backward runs in autograd's thread; the line that asked for it waits in the main one.
            best = self._innermost(sys._current_frames().get(main))
        return best

    def _innermost(self, frame: FrameType | None) -> str | None:
        package = None
        while frame is not None:
            rank = self.rank(frame.f_code.co_filename)
            if rank == 0:
                return shown(frame.f_code.co_filename, frame.f_lineno)
            if rank == 1 and package is None:
                package = shown(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return package


def shown(filename: str, line: int | None) -> str:
    """Return ``file:line``, relative to the working directory where the file is below it."""
    path = Path(filename)
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{line or 0}"


@dataclass(slots=True)
class _Tally:
    overload: str
    dtype: str | None
    where: str | None
    phase: str
    calls: Counter[CallRoute] = field(default_factory=Counter)
    parts: Counter[tuple[str, CallRoute]] = field(default_factory=Counter)
    reason: str | None = None
    message: str | None = None

    def row(self) -> Row:
        parts = tuple(PartOfRow(name, route, n) for (name, route), n in self.parts.items())
        return Row(
            self.overload, self.dtype, dict(self.calls), self.reason, parts, self.where, self.phase, self.message
        )


class Recorder:
    """Rows by (overload, dtype), given to `send` as they change: at once when new, else every quarter of a second.

    Nothing is sent before `start`.
    """

    def __init__(self, places: Places, send: Callable[[Row], None]) -> None:
        self.phase = "forward"
        self._places, self._send = places, send
        self._lock = threading.Lock()
        self._tallies: dict[tuple[str, str | None], _Tally] = {}
        self._changed: dict[int, _Tally] = {}
        self._flushed = time.monotonic()
        self._paused = False
        self._sending = False
        self._last_error: tuple[_Tally, BaseException] | None = None

    def __call__(self, entry: Entry, error: BaseException | None) -> None:
        """Take one call that ended."""
        if self._paused:
            return
        dtype = None if entry.dtype is None else str(entry.dtype).removeprefix("torch.")
        key = (entry.overload, dtype)
        with self._lock:
            tally = self._tallies.get(key)
            new = tally is None
            if tally is None:
                tally = self._tallies[key] = _Tally(entry.overload, dtype, self._places.here(), self.phase)
            self._add(tally, entry, error)
            self._changed[id(tally)] = tally
            if new or time.monotonic() - self._flushed > _FLUSH_SECONDS:
                self._flush()

    def _add(self, tally: _Tally, entry: Entry, error: BaseException | None) -> None:
        served = summarize(entry.overload, (entry,))
        route = _route(entry, served, error)
        tally.calls[route] += 1
        if served.reason is not None and tally.reason is None:
            tally.reason = str(served.reason)
        for part in served.parts:
            part_route = CallRoute.UNSUPPORTED if part.route is None else _ROUTES[part.route]
            if part_route is not CallRoute.NATIVE:
                tally.parts[part.overload, part_route] += part.count
        if error is not None:
            self._last_error = (tally, error)
            if route is CallRoute.ERROR:
                tally.message = first_line(error)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Return a context in which calls are not recorded: they are ours, not the model's."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def start(self, only: str | None = None) -> None:
        """Send rows from now on; what was recorded so far is forgotten, the overload `only` aside."""
        with self._lock:
            self._tallies = {key: tally for key, tally in self._tallies.items() if tally.overload == only}
            self._changed = {id(tally): tally for tally in self._tallies.values()}
            self._sending = True

    def blame(self, error: BaseException) -> str | None:
        """Return the operator that raised the error, its row marked, or None where no operator did."""
        with self._lock:
            tally = self._guilty(error)
            if tally is None:
                return None
            if not tally.calls[CallRoute.ERROR]:
                tally.calls[CallRoute.ERROR] = 1
                for route in (CallRoute.METADATA, CallRoute.NATIVE, CallRoute.COMPOSITE, CallRoute.FALLBACK):
                    if tally.calls[route]:
                        tally.calls[route] -= 1
                        break
            tally.calls = +tally.calls
            tally.message = first_line(error)
            self._changed[id(tally)] = tally
        return tally.overload

    def _guilty(self, error: BaseException) -> _Tally | None:
        if self._last_error is not None:
            tally, raised = self._last_error
            if raised is error or str(raised) == str(error):
                return tally
        refused = _REFUSED.match(str(error)) if isinstance(error, NotImplementedError) else None
        if refused is None:
            return None
        # The dispatcher found no kernel at all (sparse and quantized keys), so nothing of ours saw the call.
        overload = f"aten.{refused[1]}" if "." in refused[1] else f"aten.{refused[1]}.default"
        return self._tallies.setdefault((overload, None), _Tally(overload, None, None, self.phase))

    def flush(self) -> None:
        """Send all rows that changed."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        if not self._sending:
            return
        for tally in self._changed.values():
            self._send(tally.row())
        self._changed.clear()
        self._flushed = time.monotonic()


def first_line(error: BaseException) -> str:
    """Return the error's type and the first line of its text."""
    text = str(error).strip().partition("\n")[0].partition(". This could be because")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _route(entry: Entry, served: Served, error: BaseException | None) -> CallRoute:
    leaves = list(entry.leaves())
    refused = any(leaf.route is None and not leaf.unsupported for leaf in leaves)  # before anything could serve it
    if error is not None and refused:
        return CallRoute.ERROR
    if served.route is None:
        return CallRoute.UNSUPPORTED
    route = _ROUTES[served.route]
    if route is not CallRoute.NATIVE:
        return route
    if all(leaf.view for leaf in leaves):
        return CallRoute.METADATA
    return CallRoute.COMPOSITE if served.composite else CallRoute.NATIVE
