"""Finds the run of a stream in which a case went bad, and what had changed since it was last good."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import nights, stored
from neuron_ops.coverage_db.environments import Setting, setting, version_changes
from neuron_ops.coverage_db.verdicts import FAILING
from neuron_ops.op_tests.records import BadInput, Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.coverage_db.nights import Stretch
    from neuron_ops.coverage_db.rows import CaseRow, RunRow
    from sqlalchemy import Connection

_PARTS = (
    ("torch", re.compile("torch")),
    ("torch-neuronx", re.compile("torch[-_]neuronx")),
    ("compiler", re.compile("neuronx-cc|neuronx_cc|nki|neuron-compiler.*|NEURON_CC_FLAGS|NEURON_COMPILER.*")),
    ("runtime", re.compile("aws-neuronx-.*|libneuronxla|libnrt|nrt|neuron driver|NEURON_RT_.*")),
    ("profile", re.compile("profile")),
    ("harness", re.compile("bank|comparer|neuron-ops")),
)
"""Part of a build → the names in a run's versions and environment that are of it; the first that fits wins."""
OTHER = "everything else"


@dataclass(frozen=True, slots=True)
class Change:
    """A version, fact or switch that differs between two runs; None where a run has no such thing."""

    part: str
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Blame:
    """Where a case went bad in a stream of runs.

    `now` is its status in the newest run of the stream. `bad` is the first run of the stretch in which it is as bad or
    bad in another way, None where it is good now; `good` is the last run before that measured it as good, None where none did.
    `turns` counts how often the case went from good to bad in the whole stream: more than one hints at a flaky case.
    """

    case: CaseRow
    target: str
    now: Status
    runs: int
    bad: Setting | None
    good: Setting | None
    turns: int

    @property
    def changes(self) -> tuple[Change, ...]:
        """Return what differs between the good and the bad run, by part in the order of `_PARTS`, then by name."""
        if self.good is None or self.bad is None:
            return ()
        order = [part for part, _ in _PARTS] + [OTHER]
        found = [
            Change(part_of(name), name, *pair)
            for name, pair in version_changes(self.good.versions, self.bad.versions).items()
        ]
        return tuple(sorted(found, key=lambda change: (order.index(change.part), change.name)))


def part_of(name: str) -> str:
    """Return the part of a build that a name in a run's versions belongs to."""
    return next((part for part, names in _PARTS if names.fullmatch(name)), OTHER)


def is_bad(status: Status, now: Status) -> bool:
    """Return whether a status is what is looked for: a failure, or, for a case that falls back now, also a fallback."""
    return status in FAILING or (now is Status.FALLBACK and status is Status.FALLBACK)


def blame(conn: Connection, case: CaseRow, target: str | None = None) -> Blame:
    """Return where a case went bad, in the stream of its newest done run; raises BadInput where no done run has it."""
    newest = _newest(conn, case.key, target)
    if newest is None:
        on = f" on {target}" if target else ""
        raise BadInput(f"No done run{on} has a result for case {case.key[:8]}; `neuron-ops sweep` makes one.")
    stretches = nights.case_history(conn, newest.id, case.key)
    runs = _runs(conn, newest)
    now = stretches[-1].status
    bads = [is_bad(one.status, now) for one in stretches]
    turns = sum(later and not earlier for earlier, later in itertools.pairwise(bads))
    if not bads[-1]:
        return Blame(case, newest.target, now, len(runs), None, None, turns)
    first = len(bads) - next((n for n, bad in enumerate(reversed(bads)) if not bad), len(bads))
    good = _last_measured(conn, case.key, runs, stretches[first - 1], stretches[first]) if first else None
    return Blame(
        case, newest.target, now, len(runs), setting(conn, runs[stretches[first].first]),
        None if good is None else setting(conn, good), turns,
    )  # fmt: skip


def _newest(conn: Connection, key: str, target: str | None) -> RunRow | None:
    has = (
        sa.select(m.span.c.stream_id)
        .join(m.case_, m.case_.c.id == m.span.c.case_id)
        .where(m.case_.c.key == bytes.fromhex(key))
    )
    query = stored.RUNS.where(m.run.c.seq.is_not(None), m.run.c.stream_id.in_(has)).order_by(m.run.c.id.desc()).limit(1)
    if target is not None:
        query = query.where(m.target.c.name == target)
    row = conn.execute(query).first()
    return None if row is None else stored.run_row(row)


def _runs(conn: Connection, run: RunRow) -> dict[int, RunRow]:
    """Return the done runs of a run's stream by their numbers."""
    stream = sa.select(m.run.c.stream_id).where(m.run.c.id == run.id).scalar_subquery()
    rows = conn.execute(stored.RUNS.where(m.run.c.stream_id == stream, m.run.c.seq.is_not(None)))
    return {row.seq: stored.run_row(row) for row in rows}


def _last_measured(
    conn: Connection, key: str, runs: dict[int, RunRow], good: Stretch, bad: Stretch
) -> RunRow:  # fmt: skip
    """Return the last run of the good stretch that did not skip the case; the last of all where results were dropped."""
    numbers: Sequence[int] = range(bad.first - 1, good.first - 1, -1)
    outcomes = dict(
        conn.execute(
            sa.select(m.run.c.seq, m.result.c.outcome)
            .join(m.result, m.result.c.run_id == m.run.c.id)
            .join(m.case_, m.case_.c.id == m.result.c.case_id)
            .where(m.run.c.id.in_([runs[n].id for n in numbers]), m.case_.c.key == bytes.fromhex(key))
        ).all()
    )
    measured = (n for n in numbers if outcomes.get(n, Outcome.SKIPPED.value) != Outcome.SKIPPED.value)
    return runs[next(measured, numbers[0])]
