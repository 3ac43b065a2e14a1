"""Decides which runs the published numbers may come from: the one place that page, JSON, badge and feed ask."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import stored
from neuron_ops.op_tests.records import STATUS_ORDER, BadInput, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection

LEAST_SHARE, MOST_WORSE, MOST_BROKEN = 0.90, 0.10, 0.05
"""Of the published run's cells, what a new one must have measured; of its cells, how many may be worse, and crash or time out."""
FEW = 20
"""Fewer cells than this prove no fault of the harness, and so withhold nothing."""
PUBLISHED = (m.run.c.state == "done") & (m.run.c.quarantine.is_(None) | m.run.c.released.is_not(None))
_FIRST = ("neuron", "sim")
"""Whose runs the site shows, the best first; other devices only where there is neither."""
_UNMEASURED = (Status.UNTESTED.value, Status.NOT_APPLICABLE.value)
_BROKEN = (Status.CRASH.value, Status.TIMEOUT.value)


def public_runs(conn: Connection, *, besides: int | None = None) -> Mapping[str, RunRow]:
    """Return target → its newest published run, not that of id `besides`; the target that the site shows first."""
    chosen = stored.RUNS.where(m.run.c.id.in_(newest_published(besides)))
    found = sorted(map(stored.run_row, conn.execute(chosen)), key=_rank)
    return {run.target: run for run in found}


def newest_published(besides: int | None = None) -> sa.Select[tuple[int]]:
    """Return a query for the ids of each target's newest published run, not counting the run `besides`."""
    others = PUBLISHED if besides is None else PUBLISHED & (m.run.c.id != besides)
    return sa.select(sa.func.max(m.run.c.id)).where(others).group_by(m.run.c.target_id)


def public_run(conn: Connection) -> RunRow | None:
    """Return the run that the site shows where none is asked for, or None.

    While no run at all is done, that is the newest that is not, so that a first sweep can be watched.
    """
    found = next(iter(public_runs(conn).values()), None)
    if found is None and conn.execute(sa.select(m.run.c.id).where(m.run.c.state == "done").limit(1)).first() is None:
        row = conn.execute(stored.RUNS.order_by(m.run.c.id.desc()).limit(1)).first()
        return stored.run_row(row) if row else None
    return found


def withhold(conn: Connection, run_id: int) -> None:
    """Quarantine a done run, or lift it from there, by what its cells say."""
    run = stored.run_row(conn.execute(stored.RUNS.where(m.run.c.id == run_id)).one())
    conn.execute(sa.update(m.run).where(m.run.c.id == run_id).values(quarantine=quarantine_reason(conn, run)))


def quarantine_reason(conn: Connection, run: RunRow) -> str | None:
    """Return in one sentence why a run whose cells are derived must not change a public number, or None."""
    counts = _letters(conn, run.id)
    measured = _measured(counts)
    if not measured:
        return "It measured no cell at all."
    broken = sum(counts[letter] for letter in _BROKEN)
    if broken >= FEW and broken > MOST_BROKEN * measured:
        return (
            f"{broken:,} of the {measured:,} cells that it measured crashed or timed out: more than {MOST_BROKEN:.0%}."
        )
    earlier = _earlier(conn, run)
    if earlier is None:
        return None
    before = _measured(_letters(conn, earlier.id))
    if before >= FEW and measured < LEAST_SHARE * before:
        return (
            f"It measured {measured:,} cells and the published run {earlier.slug} {before:,}: with less than "
            f"{LEAST_SHARE:.0%} of them it does not replace that run."
        )
    worse, both = _worse(conn, earlier.id, run.id) if earlier.target == run.target else (0, 0)
    if worse >= FEW and worse > MOST_WORSE * both:
        return (
            f"{worse:,} of the {both:,} cells that it shares with the published run {earlier.slug} got worse: more "
            f"than {MOST_WORSE:.0%}."
        )
    return None


def release(conn: Connection, run: RunRow) -> None:
    """Publish a quarantined run after all; raises BadInput for a run that is not quarantined."""
    if run.quarantine is None or run.released is not None:
        raise BadInput(
            f"The run {run.slug} is {run.state} and not quarantined; `neuron-ops runs` lists those that are."
        )
    conn.execute(sa.update(m.run).where(m.run.c.id == run.id).values(released=datetime.now(UTC)))


def _rank(run: RunRow) -> tuple[int, int]:
    """Return what orders targets: the device, its stand-in, others, and last those whose gaps translators fill."""
    if run.target in _FIRST:
        return _FIRST.index(run.target), -run.id
    return len(_FIRST) + ("+" in run.target), -run.id


def _earlier(conn: Connection, run: RunRow) -> RunRow | None:
    """Return the published run that this one would replace: of its own target, or the one that the site shows."""
    others = public_runs(conn, besides=run.id)
    shown = next(iter(others.values()), None)
    return others.get(run.target) or (shown if shown and _rank(run)[0] < _rank(shown)[0] else None)


def _letters(conn: Connection, run_id: int) -> Counter[str]:
    rows = conn.execute(
        sa.select(m.cell.c.status, sa.func.count().label("n"))
        .where(m.cell.c.run_id == run_id)
        .group_by(m.cell.c.status)
    )
    return Counter({row.status: row.n for row in rows})


def _measured(counts: Counter[str]) -> int:
    return sum(n for letter, n in counts.items() if letter not in _UNMEASURED)


def _worse(conn: Connection, before: int, after: int) -> tuple[int, int]:
    """Return how many cells that both runs measured are worse in the later one, and how many both measured."""
    old, new = m.cell.alias("old"), m.cell.alias("new")
    same = (old.c.op_id == new.c.op_id) & (old.c.dtype == new.c.dtype)
    rows = conn.execute(
        sa.select(old.c.status, new.c.status.label("now"), sa.func.count().label("n"))
        .join(new, same)
        .where(old.c.run_id == before, new.c.run_id == after)
        .where(old.c.status.not_in(_UNMEASURED), new.c.status.not_in(_UNMEASURED))
        .group_by(old.c.status, new.c.status)
    ).all()
    place = {status.value: number for number, status in enumerate(STATUS_ORDER)}
    return sum(row.n for row in rows if place[row.now] < place[row.status]), sum(row.n for row in rows)
