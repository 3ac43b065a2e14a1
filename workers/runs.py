"""Begins, resumes and reports runs: what the local runner and the Celery dispatcher share."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.coverage_db import findings, leases, queries
from neuron_ops.coverage_db.database import read, transact
from neuron_ops.coverage_db.recorder import finalize_if_complete, finalize_run, record_operators, start_run
from neuron_ops.coverage_db.rows import RunStart
from neuron_ops.op_tests.records import BadInput, Status
from neuron_ops.workers.owner import is_dead

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Mapping

    from neuron_ops.coverage_db.rows import CaseResult, RunRow, Totals
    from neuron_ops.workers.batch import RunOptions
    from neuron_ops.workers.planner import SweepPlan
    from sqlalchemy import Connection, Engine

_STOP_SECONDS = 10.0  # for workers to see that a run was cancelled; they look every four
_POLL_SECONDS = 0.2
_SHOWN = 5  # overloads that a report names as the slowest, and as the worst


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is: cases done of a total, cases per status, those done before it began, seconds since the first.

    The time before the first result, in which the children import torch, would spoil the rate of the first minutes.
    """

    done: int
    total: int
    counts: Mapping[Status, int]
    seconds: float
    before: int = 0

    @property
    def rate(self) -> float:
        """Return cases per second so far, 0 when only the first is done."""
        return max(0, self.done - self.before - 1) / self.seconds if self.seconds else 0.0

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds that the rest takes at this rate, None where there is no rate yet."""
        return (self.total - self.done) / self.rate if self.rate else None


@dataclass(frozen=True, slots=True)
class SweepReport:
    """A run that has ended: its row, totals and the seconds that this process spent on it.

    `slowest` and `worst` have at most five cases, one an overload, the first the most extreme. `children` counts the
    processes that it took, 0 where they were on other machines.
    """

    run: RunRow
    totals: Totals
    seconds: float
    slowest: tuple[CaseResult, ...]
    worst: tuple[CaseResult, ...]
    children: int


def begin(engine: Engine, plan: SweepPlan, options: RunOptions, *, workers: int, channel: str = "default") -> RunStart:
    """Store a plan as a running run with batches for some workers, and return its id and slug."""

    def act(conn: Connection) -> RunStart:
        record_operators(conn, plan.operators)
        return start_run(
            conn, build=plan.build, denominators=plan.denominators, cases=plan.cases, seed=plan.seed,
            selection=plan.selection, options=options.to_json(), workers=workers, channel=channel,
            environment=plan.environment,
        )  # fmt: skip

    return transact(engine, act)


def resume(engine: Engine, slug: str | None) -> RunStart:
    """Make a run that did not end well run again, the newest without a slug; raises BadInput where there is none.

    Batches of processes of this machine that are dead are free at once, those of other machines when their lease ends.
    """

    def act(conn: Connection) -> RunStart:
        run = _resumable(conn, slug)
        leases.run_to_do(conn, run.id)
        leases.release_dead(conn, run.id, is_dead)
        leases.reopen(conn, run.id)
        finalize_if_complete(conn, run.id)
        return RunStart(run.id, run.slug)

    return transact(engine, act)


def find(conn: Connection, slug: str) -> RunRow:
    """Return the run of this slug; raises BadInput where there is none."""
    run = queries.run_by_slug(conn, slug)
    if run is None:
        raise BadInput(f"There is no run {slug!r} in this database; `neuron-ops runs` lists them.")
    return run


def counts(conn: Connection, run_id: int) -> Counter[Status]:
    """Return how many results a run has so far, by status."""
    return findings.count_by_status(conn, run_id)


def planned(conn: Connection, run_id: int) -> int:
    """Return how many cases a run planned."""
    run = queries.run_by_id(conn, run_id)
    assert run is not None
    return run.planned


def look_after(engine: Engine, run_id: int) -> int:
    """Free what dead processes of this machine held, give up what cannot be done, and return the open batches.

    When there are none, the run is finalized.
    """

    def act(conn: Connection) -> int:
        leases.release_dead(conn, run_id, is_dead)
        left = leases.settle(conn, run_id)
        if not left:
            finalize_if_complete(conn, run_id)
        return left

    return transact(engine, act)


def end_early(engine: Engine, run_id: int) -> None:
    """Finalize a run that is still running as failed, so that nobody goes on with it unless it is resumed."""

    def act(conn: Connection) -> None:
        if leases.run_to_do(conn, run_id).state == "running":
            finalize_run(conn, run_id)

    transact(engine, act)


def cancel(engine: Engine, run_id: int) -> bool:
    """Make the workers of a run stop, wait a moment for them, and finalize it; return whether it was running."""
    if not transact(engine, lambda c: leases.cancel(c, run_id)):
        return False
    end = time.monotonic() + _STOP_SECONDS
    while transact(engine, lambda c: leases.held(c, run_id)) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    transact(engine, lambda c: finalize_run(c, run_id))
    return True


def report(engine: Engine, run_id: int, *, seconds: float, children: int) -> SweepReport:
    """Return what a finalized run came to."""
    with read(engine) as conn:
        run = queries.run_by_id(conn, run_id)
        assert run is not None
        return SweepReport(
            run, queries.totals(conn, run), seconds, findings.slowest(conn, run_id, _SHOWN),
            findings.worst(conn, run_id, _SHOWN), children,
        )  # fmt: skip


def _resumable(conn: Connection, slug: str | None) -> RunRow:
    if slug:
        run = find(conn, slug)
        if run.state == "done":
            raise BadInput(f"The run {slug} is done, nothing is left to resume; start a new one: `neuron-ops sweep`.")
        return run
    unfinished = next((run for run in queries.runs(conn, limit=1000) if run.state != "done"), None)
    if unfinished is None:
        raise BadInput("No run in this database is unfinished; start one with `neuron-ops sweep`.")
    return unfinished
