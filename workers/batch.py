"""Runs one batch of a run: the one function that the local runner and the Celery task call."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from neuron_ops.coverage_db import history, leases
from neuron_ops.coverage_db.database import DatabaseAway, transact
from neuron_ops.coverage_db.recorder import finalize_if_complete
from neuron_ops.op_tests.records import BadInput, Case, Outcome, Result
from neuron_ops.workers.installed import check_versions
from neuron_ops.workers.owner import new_owner
from neuron_ops.workers.sandbox import RUNNER, Limits, Sandbox

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from neuron_ops.coverage_db.history import Known
    from neuron_ops.coverage_db.leases import Claim, RunToDo
    from sqlalchemy import Engine

FLUSH_ROWS = 500
FLUSH_SECONDS = 2.0  # a kill -9 loses at most what finished within these seconds
_LOOK_SECONDS = 4.0  # while one case runs: the lease is extended and a cancelled run is seen
BREAKER = 3  # crashes and timeouts of one overload and dtype, after which the rest of its cases are skipped
_DEADLINE_FACTOR = 20.0  # times the longest that a case of this overload and dtype took in an earlier run
_DEADLINE_FLOOR = 5.0  # seconds; a machine that is busy with others makes a millisecond into a second


class Ending(StrEnum):
    """How `execute_batch` ended."""

    DONE = "done"
    TAKEN = "taken"
    """There was nothing to claim: another worker has it, or it is done."""
    LOST = "lost"
    """Our lease ran out and another worker has the batch."""
    STOPPED = "stopped"
    """The run was cancelled, or this worker was; what was finished is stored, the rest is free again."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a sweep chose for all its workers; `plants` maps an overload to a planted fault.

    `session` names the function that opens the session in the child; tests put a fake there. `lease` is in seconds.
    """

    limits: Limits = field(default_factory=Limits)
    plants: Mapping[str, str] = field(default_factory=dict)
    session: str = RUNNER
    isolation: str = "fork"
    lease: float = leases.LEASE_SECONDS

    def to_json(self) -> dict[str, Any]:
        """Return what `from_json` reads."""
        return {
            "seconds": self.limits.seconds, "memory": self.limits.memory, "recycle": self.limits.recycle,
            "grace_seconds": self.limits.grace_seconds, "plants": dict(self.plants), "session": self.session,
            "isolation": self.isolation, "lease": self.lease,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RunOptions:
        """Return the options of a stored run."""
        limits = Limits(**{key: data[key] for key in ("seconds", "memory", "recycle", "grace_seconds")})
        return cls(limits, data["plants"], data["session"], data["isolation"], data["lease"])


class Worker:
    """A sandbox, a database and what it takes to run batches; use it from one thread, `cancel` from any.

    `report` is called with each result before it is stored.
    """

    def __init__(self, engine: Engine, bank_folder: Path, *, report: Callable[[Result], None] | None = None) -> None:
        self.starts = 0
        """Children that ended sandboxes have started; `children` counts all."""
        self._engine = engine
        self._folder = bank_folder
        self._report = report
        self._run: RunToDo | None = None
        self._options = RunOptions()
        self._box: Sandbox | None = None
        self._stopped = False

    @property
    def children(self) -> int:
        """Return how many children were started."""
        return self.starts + (self._box.starts if self._box else 0)

    def cancel(self) -> None:
        """Make `execute_batch` end soon, with what is finished stored and the batch free again."""
        self._stopped = True
        if (box := self._box) is not None:
            box.cancel()

    def close(self) -> None:
        """End the sandbox; safe to call twice."""
        box, self._box, self._run = self._box, None, None
        if box:
            self.starts += box.starts
            box.close()

    def execute_batch(self, run_id: int, batch_no: int | None = None) -> Ending:
        """Run the cases of a batch that have no result yet and store what they do; None takes any batch that is free.

        The last batch of a run finalizes it. Safe to call by several workers at once and any number of times. Raises
        BadInput where the target cannot be opened here, or the database is away for good, RuntimeError when the sandbox
        will not start; the batch is then free again.
        """
        run = self._open_run(run_id)
        if self._box:
            self._box.warm()  # before the lease: importing torch from a cold disk takes minutes
        if self._stopped or self._box is None:
            return Ending.STOPPED
        owner, lease = new_owner(), self._options.lease
        held = transact(self._engine, lambda c: leases.claim(c, run_id, owner, no=batch_no, lease=lease))
        if held is None:
            return Ending.TAKEN
        ending = None
        try:
            ending = self._run_claimed(self._box, run, held)
        except leases.LeaseLost:
            return Ending.LOST
        finally:
            if ending is not Ending.DONE:
                self.close()  # a sandbox that was cancelled, or is in the middle of a chunk, serves no other batch
        if ending is Ending.DONE:
            transact(self._engine, lambda c: finalize_if_complete(c, run_id))
        return ending

    def _open_run(self, run_id: int) -> RunToDo:
        """Return the run, with a sandbox made for it; raises BadInput where it cannot be run here."""
        if self._run is None or self._run.id != run_id:
            self.close()
            run = transact(self._engine, lambda c: leases.run_to_do(c, run_id))
            check_versions(run.versions)
            self._options = RunOptions.from_json(run.options)
            self._box = Sandbox(
                run.target, bank_folder=self._folder, plants=self._options.plants, limits=self._options.limits,
                session=self._options.session, isolation=self._options.isolation,
            )  # fmt: skip
            self._run = run
        return self._run

    def _run_claimed(self, box: Sandbox, run: RunToDo, held: Claim) -> Ending:
        known, fatal = transact(
            self._engine,
            lambda c: (
                history.known_times(c, run.learned_from, sorted({case.overload for case in held.cases})),
                history.fatal_cases(c, run.id, held.cases),
            ),
        )
        writer = _Writer(self._engine, held, self._options.lease, box)
        breaker = _Breaker(held, fatal)
        cap = self._options.limits.seconds
        try:
            for result in box.run(
                held.cases, seconds=lambda case: deadline(known.get((case.overload, case.dtype)), cap),
                refuse=breaker.refuse, tick=writer.tick,
            ):  # fmt: skip
                breaker.note(result)
                if self._report:
                    self._report(result)
                writer.add(result)
        except (BadInput, RuntimeError) as error:
            if not isinstance(error, DatabaseAway):
                writer.give_back()
            raise
        if writer.cancelled or self._stopped:
            writer.give_back()
            return Ending.STOPPED
        writer.flush(done=True)
        return Ending.DONE


def deadline(known: Known | None, cap: float) -> float:
    """Return the seconds that a case may take: many times what was the most before, within a floor and the cap."""
    if known is None or not known.ms_max:
        return cap
    return min(cap, max(_DEADLINE_FLOOR, _DEADLINE_FACTOR * known.ms_max / 1000))


class _Breaker:
    """Refuses the cases of an overload and dtype that has ended too many processes: a hang costs its whole deadline."""

    def __init__(self, held: Claim, fatal: Counter[tuple[str, str]]) -> None:
        self._fatal = fatal
        self._of = {case.key: (case.overload, case.dtype) for case in held.cases}

    def note(self, result: Result) -> None:
        """Count a result."""
        if result.outcome in (Outcome.CRASH, Outcome.TIMEOUT):
            self._fatal[self._of[result.case]] += 1

    def refuse(self, case: Case) -> Result | None:
        """Return the result of a case that shall not run, or None."""
        count = self._fatal[case.overload, case.dtype]
        if count < BREAKER:
            return None
        message = (
            f"not run (breaker): {count} cases of {case.overload} in {case.dtype} crashed or timed out in this run"
        )
        return Result(case.key, Outcome.SKIPPED, message=message)


class _Writer:
    """Stores the results of one claimed batch, and keeps the lease."""

    def __init__(self, engine: Engine, held: Claim, lease: float, box: Sandbox) -> None:
        self.cancelled = False
        self._engine, self._held, self._lease, self._box = engine, held, lease, box
        self._pending: list[Result] = []
        self._flushed = time.monotonic()

    def add(self, result: Result) -> None:
        """Take one result, and store what is due."""
        self._pending.append(result)
        if len(self._pending) >= FLUSH_ROWS:
            self.flush()
        else:
            self.tick()

    def tick(self) -> None:
        """Store what is pending when the last time was some seconds ago, or extend the lease in good time."""
        silent = time.monotonic() - self._flushed
        if silent >= (FLUSH_SECONDS if self._pending else min(_LOOK_SECONDS, self._lease / 4)):
            self.flush()

    def flush(self, *, done: bool = False) -> None:
        """Store what is pending; raises LeaseLost."""
        rows = tuple(self._pending)
        goes_on = transact(
            self._engine, lambda c: leases.flush(c, self._held, rows, lease=self._lease, done=done)
        )  # fmt: skip
        self._pending.clear()
        self._flushed = time.monotonic()
        if not goes_on and not done:
            self.cancelled = True
            self._box.cancel()

    def give_back(self) -> None:
        """Store what is pending and let another worker have the rest."""
        rows, held = tuple(self._pending), self._held

        def act(conn: Any) -> None:
            leases.flush(conn, held, rows, lease=self._lease)
            leases.release(conn, held)

        transact(self._engine, act)
        self._pending.clear()
