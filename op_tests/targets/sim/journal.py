"""Decides what is known of a call afterwards: which overloads ran, below which, by which route."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.records import FallbackReason, Part, Route, worst_route
from neuron_ops.op_tests.targets.served import Served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@dataclass(slots=True)
class Entry:
    """One overload that reached the device's dispatch key.

    `route` is None where nothing could serve it, and for a composite, whose route is that of the entries below it.
    `translated` marks the call of a translator, `refused` one that its translator left to the device. `view` marks calls
    that only change geometry. `claims_native` is what the tracking calls say of a fallback that hides. `cuts_autograd`: a
    `measure` saw gradients stop here. `measured` is what the journal's `measure` returned.
    """

    overload: str
    dtype: str | None
    route: Route | None = None
    reason: FallbackReason | None = None
    composite: bool = False
    translated: bool = False
    refused: bool = False
    view: bool = False
    unsupported: bool = False
    claims_native: bool = False
    cuts_autograd: bool = False
    measured: object = None
    below: list[Entry] = field(default_factory=list)

    def leaves(self) -> Iterator[Entry]:
        """Yield the entries that did the work, in call order."""
        if not self.composite:
            yield self
        for entry in self.below:
            yield from entry.leaves()

    def refuse(self) -> None:
        """Note that the translator refuses the call, and that what follows below is the device's own way."""
        self.translated, self.refused = False, True

    def has_translation(self) -> bool:
        """Return whether a translator served this entry or one below it."""
        return self.translated or any(entry.has_translation() for entry in self.below)


class Journal:
    """Entries of all threads in the order in which they began.

    Device backward runs in autograd's own thread, so the nesting is kept per thread and the list is shared.
    """

    def __init__(self) -> None:
        self.on_entry: Callable[[Entry, BaseException | None], None] | None = None
        """Takes each call made from outside when it ends, with what it raised; entries are then not kept."""
        self.measure: Callable[[Entry, tuple[Any, ...], dict[str, Any], Any], object] | None = None
        """Takes each call, also those below others, with its arguments and its result, None where it raised."""
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._thread = threading.local()

    @contextlib.contextmanager
    def inside(self, entry: Entry) -> Iterator[Entry]:
        """Add the entry and give it; calls made within the context are recorded below it."""
        parent: Entry | None = getattr(self._thread, "current", None)
        if parent is not None:
            parent.below.append(entry)
        elif self.on_entry is None:
            with self._lock:
                self._entries.append(entry)
        self._thread.current = entry
        raised: BaseException | None = None
        try:
            yield entry
        except BaseException as error:
            raised = error
            raise
        finally:
            self._thread.current = parent
            if parent is None and self.on_entry is not None:
                self.on_entry(entry, raised)

    def note(self, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        """Keep what `measure` says of a call."""
        if self.measure is not None:
            entry.measured = self.measure(entry, args, kwargs, out)

    def current(self) -> Entry | None:
        """Return the entry that this thread is inside of, or None."""
        return getattr(self._thread, "current", None)

    def clear(self) -> None:
        """Forget everything recorded so far."""
        with self._lock:
            self._entries = []

    def entries(self) -> tuple[Entry, ...]:
        """Return the calls that were made from outside, oldest first."""
        with self._lock:
            return tuple(self._entries)


ALLOCATIONS = frozenset({"aten.empty.memory_format", "aten.empty_strided.default"})
"""What composite kernels call to have room for their outputs: no part of the work."""


def summarize(overload: str, entries: Sequence[Entry]) -> Served:
    """Return how a call of `overload` was served by the entries that it caused.

    One part on the host makes the call a fallback (design.md §3). A call that reaches the device with nothing at all,
    such as `contiguous` of a contiguous tensor, is native: there was no work to do.
    """
    entries = [one for entry in entries for one in (entry.below if entry.refused else (entry,))]
    leaves = [leaf for entry in entries for leaf in entry.leaves()]
    working = [leaf for leaf in leaves if not leaf.view and leaf.overload not in ALLOCATIONS] or leaves
    own = any(entry.overload == overload and not entry.composite for entry in entries)
    counts: dict[tuple[str, Route | None], int] = {}
    for leaf in working:
        counts[leaf.overload, leaf.route] = counts.get((leaf.overload, leaf.route), 0) + 1
    if any(leaf.unsupported for leaf in working):
        route, reason = None, None
    else:
        route = worst_route(leaf.route for leaf in working if leaf.route is not None) or Route.NATIVE
        if route is Route.NATIVE and any(entry.has_translation() for entry in entries):
            route = Route.TRANSLATED
        reason = next((leaf.reason for leaf in working if leaf.route is Route.FALLBACK), None)
    return Served(
        route=route,
        reason=reason,
        received=working[0].overload if working else None,
        composite=not own,
        parts=() if own and len(entries) == 1 else tuple(Part(name, by, n) for (name, by), n in counts.items()),
    )
