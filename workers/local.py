"""Runs a sweep on this machine: workers in threads that claim batches straight from the database, no broker."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.workers import runs
from neuron_ops.workers.batch import Ending, RunOptions, Worker
from neuron_ops.workers.runs import Progress, SweepReport

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from neuron_ops.coverage_db.settings import Settings
    from neuron_ops.op_tests.records import Result, Status
    from neuron_ops.workers.planner import SweepPlan
    from sqlalchemy import Engine

_PROGRESS_SECONDS = 0.1
_POLL_SECONDS = 0.5  # between two looks for a batch that somebody else may leave
_TAKEN = 500  # results counted between two looks at the workers


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How to run here: `jobs` workers side by side, and where the samples are; `run` is what all workers need."""

    bank_folder: Path
    jobs: int = 1
    run: RunOptions = field(default_factory=RunOptions)


def sweep(
    settings: Settings, plan: SweepPlan, *, options: SweepOptions, progress: Callable[[Progress], None]
) -> SweepReport:
    """Run every planned case, store the results and return the report of the finished run.

    `progress` is called in this thread, at most ten times a second and once at the end. Whatever ends a sweep early
    (Ctrl-C, BadInput or RuntimeError of a sandbox), the results so far are stored and the run is closed as failed.
    """
    with _opened(settings) as engine:
        start = runs.begin(engine, plan, options.run, workers=options.jobs)
        return _complete(engine, start.run_id, options, progress)


def resume(
    settings: Settings, slug: str | None, *, options: SweepOptions, progress: Callable[[Progress], None]
) -> SweepReport:
    """Go on with a run that did not end well, the newest without a slug; otherwise as `sweep`.

    The limits are those that the run began with. Raises BadInput where there is nothing to resume.
    """
    with _opened(settings) as engine:
        start = runs.resume(engine, slug)
        return _complete(engine, start.run_id, options, progress)


@contextlib.contextmanager
def _opened(settings: Settings) -> Iterator[Engine]:
    engine = open_database(settings.database_url)
    try:
        yield engine
    finally:
        engine.dispose()


def _complete(engine: Engine, run_id: int, options: SweepOptions, progress: Callable[[Progress], None]) -> SweepReport:
    """Run what is open of a run and return its report."""
    began = time.monotonic()
    with read(engine) as conn:
        tally = _Tally(runs.counts(conn, run_id), runs.planned(conn, run_id), progress)
    results: queue.SimpleQueue[Result | int] = queue.SimpleQueue()
    workers = [Worker(engine, options.bank_folder, report=results.put) for _ in range(options.jobs)]
    try:
        _run_all(engine, run_id, workers, results, tally)
    finally:
        runs.end_early(engine, run_id)
    seconds = time.monotonic() - began
    return runs.report(engine, run_id, seconds=seconds, children=sum(worker.children for worker in workers))


def _run_all(
    engine: Engine, run_id: int, workers: list[Worker], results: queue.SimpleQueue[Result | int], tally: _Tally
) -> None:
    """Run batches until none is open, each worker in a thread of its own, and count what they report in this one."""
    stop = threading.Event()
    try:
        with ThreadPoolExecutor(len(workers), thread_name_prefix="worker") as pool:
            threads = [
                pool.submit(_work, number, worker, engine, run_id, stop, results)
                for number, worker in enumerate(workers)
            ]
            try:
                running = len(threads)
                while running:
                    for item in _waiting(results):
                        if isinstance(item, int):
                            running -= 1
                            threads[item].result()  # raises what ended the worker
                        else:
                            tally.add(item)
            finally:
                stop.set()
                for worker in workers:
                    worker.cancel()
    finally:
        while not results.empty():  # what the workers finished while they were being stopped
            if not isinstance(item := results.get(), int):
                tally.add(item)
        tally.tell()


def _work(
    number: int, worker: Worker, engine: Engine, run_id: int, stop: threading.Event,
    results: queue.SimpleQueue[Result | int],
) -> None:  # fmt: skip
    """Run batches in one sandbox until the run has none left, then say the worker's number."""
    try:
        while not stop.is_set():
            ending = worker.execute_batch(run_id)
            if ending is Ending.STOPPED or (ending is Ending.TAKEN and not runs.look_after(engine, run_id)):
                return
            if ending is Ending.TAKEN:
                stop.wait(_POLL_SECONDS)
    finally:
        worker.close()
        results.put(number)


def _waiting(results: queue.SimpleQueue[Result | int]) -> Iterator[Result | int]:
    """Yield what is in the queue, after a short wait for the first."""
    try:
        yield results.get(timeout=_PROGRESS_SECONDS)
        for _ in range(_TAKEN - 1):
            yield results.get_nowait()
    except queue.Empty:
        return


class _Tally:
    """Counts results and tells the progress."""

    def __init__(self, stored: Counter[Status], total: int, progress: Callable[[Progress], None]) -> None:
        self._counts, self._before, self._total = stored, stored.total(), total
        self._progress = progress
        self._first: float | None = None  # when the first result came
        self._told = 0.0
        self._told_done = 0

    def add(self, result: Result) -> None:
        """Take one result; tells the progress when the last time was a tenth of a second ago."""
        if self._first is None:
            self._first = time.monotonic()
        self._counts[result.status] += 1
        if time.monotonic() - self._told >= _PROGRESS_SECONDS:
            self.tell()

    def tell(self) -> None:
        """Tell the progress, unless nothing has changed."""
        done = self._counts.total()
        if done == self._told_done or self._first is None:
            return
        self._told, self._told_done = time.monotonic(), done
        self._progress(Progress(done, self._total, dict(self._counts), self._told - self._first, self._before))
