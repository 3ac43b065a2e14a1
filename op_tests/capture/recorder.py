"""Adds up the calls that a model makes on the simulated device, by operator, dtypes, phase, line and module."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neuron_ops.op_tests.capture.measure import Measured, Ruler
from neuron_ops.op_tests.capture.rows import CallRoute, PartOfRow, Row
from neuron_ops.op_tests.records import Route
from neuron_ops.op_tests.targets.sim.journal import summarize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from neuron_ops.op_tests.capture.exporting import Exporter
    from neuron_ops.op_tests.capture.places import Origins
    from neuron_ops.op_tests.capture.rows import Key
    from neuron_ops.op_tests.targets.served import Served
    from neuron_ops.op_tests.targets.sim.journal import Entry

_FLUSH_SECONDS = 0.25
_REFUSED = re.compile(r"Could not run 'aten::([\w.]+)'")
_ROUTES = {Route.NATIVE: CallRoute.NATIVE, Route.TRANSLATED: CallRoute.TRANSLATED, Route.FALLBACK: CallRoute.FALLBACK}


@dataclass(slots=True)
class _Part:
    calls: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


@dataclass(slots=True)
class _Tally:
    overload: str
    dtypes: tuple[str, ...]
    phase: str
    where: str | None
    module: str | None
    shapes: tuple[tuple[int, ...], ...] = ()
    calls: Counter[CallRoute] = field(default_factory=Counter)
    parts: dict[tuple[str, CallRoute], _Part] = field(default_factory=dict)
    signatures: dict[str, None] = field(default_factory=dict)
    bytes_in: int = 0
    bytes_out: int = 0
    flops: int = 0
    reason: str | None = None
    message: str | None = None
    cuts_autograd: bool = False

    def row(self) -> Row:
        return Row(
            self.overload, self.dtypes, dict(self.calls), self.reason,
            tuple(PartOfRow(n, route, p.calls, p.bytes_in, p.bytes_out) for (n, route), p in self.parts.items()),
            self.where, self.module, self.phase, self.message, self.shapes, self.bytes_in, self.bytes_out, self.flops,
            tuple(self.signatures), self.cuts_autograd,
        )  # fmt: skip


class Recorder:
    """Rows by (overload, dtypes, phase, where, module), given to `send` as they change.

    A new row is sent at once, the others every quarter of a second. Nothing is sent before `start`.
    """

    def __init__(self, origins: Origins, send: Callable[[Row], None]) -> None:
        self.phase = "forward"
        self.ruler = Ruler()
        self.exporter: Exporter | None = None
        self._origins, self._send = origins, send
        self._lock = threading.Lock()
        self._tallies: dict[Key, _Tally] = {}
        self._changed: dict[int, _Tally] = {}
        self._flushed = time.monotonic()
        self._paused = False
        self._sending = False
        self._last_error: tuple[_Tally, BaseException] | None = None

    def __call__(self, entry: Entry, error: BaseException | None) -> None:
        """Take one call that ended."""
        if self._paused:
            return
        measured = Ruler.of(entry)
        if self.exporter is not None and self._sending and measured.signature:
            self.exporter.take(
                entry.overload, measured, *self.ruler.last
            )  # the call that was measured last is this one
        where, module = self._origins.here()
        key = (entry.overload, measured.dtypes, self.phase, where, module)
        with self._lock:
            tally = self._tallies.get(key)
            new = tally is None
            if tally is None:
                tally = self._tallies[key] = _Tally(*key, measured.shapes)
            self._add(tally, entry, measured, error)
            self._changed[id(tally)] = tally
            if new or time.monotonic() - self._flushed > _FLUSH_SECONDS:
                self._flush()

    def _add(self, tally: _Tally, entry: Entry, measured: Measured, error: BaseException | None) -> None:
        served = summarize(entry.overload, (entry,))
        route = _route(entry, served, error)
        tally.calls[route] += 1
        tally.cuts_autograd = tally.cuts_autograd or entry.cuts_autograd
        tally.bytes_in += measured.bytes_in
        tally.bytes_out += measured.bytes_out
        tally.flops += measured.flops or sum(Ruler.of(leaf).flops for leaf in entry.leaves())
        if route is not CallRoute.METADATA:
            tally.signatures[measured.signature] = None
        if served.reason is not None and tally.reason is None:
            tally.reason = str(served.reason)
        if served.parts:
            _add_parts(tally, entry)
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
        key: Key = (overload, (), self.phase, None, None)
        return self._tallies.setdefault(key, _Tally(*key))

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


def _add_parts(tally: _Tally, entry: Entry) -> None:
    """Add the leaves that are not native."""
    for leaf in entry.leaves():
        route = CallRoute.UNSUPPORTED if leaf.route is None else _ROUTES[leaf.route]
        if route is CallRoute.NATIVE or leaf.view:
            continue
        part, measured = tally.parts.setdefault((leaf.overload, route), _Part()), Ruler.of(leaf)
        part.calls += 1
        part.bytes_in += measured.bytes_in
        part.bytes_out += measured.bytes_out


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
