"""Runs a planned sweep on this machine: sandboxes in threads, one writer of results, a finished run in the database."""

from __future__ import annotations

import collections
import heapq
import itertools
import queue
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.database import open_database, write
from neuron_ops.coverage_db.recorder import finalize_run, record_operators, record_results, start_run
from neuron_ops.op_tests.records import STATUS_ORDER, Status
from neuron_ops.workers.sandbox import RUNNER, Limits, Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from neuron_ops.coverage_db.rows import Totals
    from neuron_ops.coverage_db.settings import Settings
    from neuron_ops.op_tests.records import Build, Case, Result
    from neuron_ops.workers.planner import SweepPlan
    from sqlalchemy import Engine

_FLUSH_ROWS = 500
_FLUSH_SECONDS = 2.0  # a kill -9 of the sweep loses at most what finished within these seconds
_PROGRESS_SECONDS = 0.1
_CHUNK = 16  # cases that one sandbox takes at a time, all of one overload; few, so that the last ones are shared
_SHOWN = 5  # overloads that the report names as the slowest, and as the worst
_FINE = frozenset({Status.NATIVE, Status.TRANSLATED, Status.FALLBACK, Status.UNTESTED, Status.NOT_APPLICABLE})


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How to run: `jobs` sandboxes side by side, with what limits; `plants` maps an overload to a planted fault.

    `session` names the function that opens the session in the child; tests put a fake there.
    """

    bank_folder: Path
    jobs: int = 1
    limits: Limits = field(default_factory=Limits)
    plants: Mapping[str, str] = field(default_factory=dict)
    session: str = RUNNER


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is: cases done of a total, cases per status, seconds since the first result.

    The time before the first result, in which the children import torch, would spoil the rate of the first minutes.
    """

    done: int
    total: int
    counts: Mapping[Status, int]
    seconds: float

    @property
    def rate(self) -> float:
        """Return cases per second so far, 0 when only the first is done."""
        return (self.done - 1) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds that the rest takes at this rate, None where there is no rate yet."""
        return (self.total - self.done) / self.rate if self.rate else None


@dataclass(frozen=True, slots=True)
class SweepReport:
    """A finished sweep: its run, totals and seconds.

    `slowest` has cases with their milliseconds on the device, `worst` the findings with the most serious status; both
    at most five, one an overload, the first the most extreme. `children` counts the processes that it took.
    """

    run_id: int
    slug: str
    build: Build
    totals: Totals
    seconds: float
    slowest: tuple[tuple[Case, float], ...]
    worst: tuple[tuple[Case, Result], ...]
    children: int


def sweep(
    settings: Settings, plan: SweepPlan, *, options: SweepOptions, progress: Callable[[Progress], None]
) -> SweepReport:
    """Run every planned case, store the results and return the report of the finished run.

    `progress` is called in this thread, at most ten times a second and once at the end. Whatever ends a sweep early
    (Ctrl-C, BadInput or RuntimeError of a sandbox), the results so far are stored and the run is closed as failed.
    """
    cases = tuple({case.key: case for case in plan.cases}.values())
    tally = _Tally(cases, progress)
    engine = open_database(settings.database_url)
    try:
        with write(engine) as conn:
            record_operators(conn, plan.operators)
            start = start_run(
                conn, build=plan.build, denominators=plan.denominators, cases=cases, seed=plan.seed,
                selection=plan.selection,
            )  # fmt: skip
        boxes = [
            Sandbox(
                plan.build.target, bank_folder=options.bank_folder, plants=options.plants, limits=options.limits,
                session=options.session,
            )
            for _ in range(options.jobs)
        ]  # fmt: skip
        try:
            _run_all(cases, boxes, tally, _Writer(engine, start.run_id))
        finally:
            with write(engine) as conn:
                totals = finalize_run(conn, start.run_id)
    finally:
        engine.dispose()
    return SweepReport(
        start.run_id, start.slug, plan.build, totals, tally.seconds, tally.slowest(), tally.worst(),
        sum(box.starts for box in boxes),
    )  # fmt: skip


def _run_all(cases: Sequence[Case], boxes: Sequence[Sandbox], tally: _Tally, writer: _Writer) -> None:
    """Run the cases in the sandboxes, each in a thread of its own, and store what they yield in this one."""
    chunks = collections.deque(_chunks(cases))
    results: queue.SimpleQueue[Result | int] = queue.SimpleQueue()
    try:
        with ThreadPoolExecutor(len(boxes), thread_name_prefix="sandbox") as pool:
            workers = [pool.submit(_work, number, box, chunks, results) for number, box in enumerate(boxes)]
            try:
                running = len(workers)
                while running:
                    for item in _waiting(results):
                        if isinstance(item, int):
                            running -= 1
                            workers[item].result()  # raises what ended the worker
                        else:
                            tally.add(item)
                            writer.add(item)
                    writer.flush_if_due()
            finally:
                for box in boxes:
                    box.cancel()
    finally:
        while not results.empty():  # what the workers finished while they were being stopped
            if not isinstance(item := results.get(), int):
                tally.add(item)
                writer.add(item)
        writer.flush()
        tally.tell()


def _work(
    number: int, box: Sandbox, chunks: collections.deque[list[Case]], results: queue.SimpleQueue[Result | int]
) -> None:
    """Run chunks in one sandbox until there are none, then say the worker's number."""
    try:
        with box:
            for result in box.run(_feed(chunks)):
                results.put(result)
    finally:
        results.put(number)


def _waiting(results: queue.SimpleQueue[Result | int]) -> Iterator[Result | int]:
    """Yield what is in the queue, after a short wait for the first; at most one flush's worth."""
    try:
        yield results.get(timeout=_PROGRESS_SECONDS)
        for _ in range(_FLUSH_ROWS - 1):
            yield results.get_nowait()
    except queue.Empty:
        return


def _chunks(cases: Iterable[Case]) -> Iterator[list[Case]]:
    """Yield the cases in their order in lists of one overload each."""
    for _, group in itertools.groupby(cases, key=lambda case: case.overload):
        while chunk := list(itertools.islice(group, _CHUNK)):
            yield chunk


def _feed(chunks: collections.deque[list[Case]]) -> Iterator[Case]:
    """Yield cases from chunks that several sandboxes share; `popleft` is atomic."""
    while True:
        try:
            chunk = chunks.popleft()
        except IndexError:
            return
        yield from chunk


class _Writer:
    """Stores results of one run in batches."""

    def __init__(self, engine: Engine, run_id: int) -> None:
        self._engine = engine
        self._run_id = run_id
        self._pending: list[Result] = []
        self._flushed = time.monotonic()

    def add(self, result: Result) -> None:
        """Take one result and store the batch when it is full."""
        self._pending.append(result)
        if len(self._pending) >= _FLUSH_ROWS:
            self.flush()

    def flush_if_due(self) -> None:
        """Store what is pending when the last time was two seconds ago."""
        if time.monotonic() - self._flushed >= _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Store what is pending."""
        if self._pending:
            with write(self._engine) as conn:
                record_results(conn, self._run_id, self._pending)
            self._pending.clear()
        self._flushed = time.monotonic()


class _Tally:
    """Counts results and tells the progress."""

    def __init__(self, cases: Sequence[Case], progress: Callable[[Progress], None]) -> None:
        self._cases = {case.key: case for case in cases}
        self._progress = progress
        self._began = time.monotonic()
        self._first: float | None = None  # when the first result came
        self._told = 0.0
        self._told_done = 0
        self._done = 0
        self._counts: collections.Counter[Status] = collections.Counter()
        self._slowest: dict[str, tuple[float, str]] = {}  # overload → milliseconds and key of its slowest case
        self._findings: dict[str, Result] = {}  # overload → its worst finding

    @property
    def seconds(self) -> float:
        """Return the seconds since the sweep began."""
        return time.monotonic() - self._began

    def add(self, result: Result) -> None:
        """Take one result; tells the progress when the last time was a tenth of a second ago."""
        if self._first is None:
            self._first = time.monotonic()
        self._done += 1
        self._counts[result.status] += 1
        overload = self._cases[result.case].overload
        if result.device_ms is not None:
            slow = (result.device_ms, result.case)
            self._slowest[overload] = max(self._slowest.get(overload, slow), slow)
        if result.status not in _FINE:
            self._findings[overload] = min(self._findings.get(overload, result), result, key=_badness)
        if time.monotonic() - self._told >= _PROGRESS_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Tell the progress, unless nothing has changed."""
        if self._done == self._told_done or self._first is None:
            return
        self._told, self._told_done = time.monotonic(), self._done
        self._progress(Progress(self._done, len(self._cases), dict(self._counts), self._told - self._first))

    def slowest(self) -> tuple[tuple[Case, float], ...]:
        """Return the slowest cases with their milliseconds, one an overload, the slowest first."""
        found = heapq.nlargest(_SHOWN, self._slowest.values())
        return tuple((self._cases[key], ms) for ms, key in found)

    def worst(self) -> tuple[tuple[Case, Result], ...]:
        """Return the most serious findings, one an overload, the worst first."""
        found = heapq.nsmallest(_SHOWN, self._findings.values(), key=_badness)
        return tuple((self._cases[result.case], result) for result in found)


def _badness(result: Result) -> int:
    """Return the place of a result's status in the order of statuses: the worst is 0."""
    return STATUS_ORDER.index(result.status)
