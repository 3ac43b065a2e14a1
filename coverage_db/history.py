"""What earlier runs teach the next one: how long cases take, and which end processes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.op_tests.records import Outcome, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.op_tests.records import Case
    from sqlalchemy import Connection

_FATAL = (Outcome.CRASH.value, Outcome.TIMEOUT.value)


@dataclass(frozen=True, slots=True)
class Known:
    """What one overload and dtype did in a run: its cases, their milliseconds together, the most that one took."""

    cases: int
    ms: float
    ms_max: float
    status: Status


def last_done(conn: Connection, target_id: int) -> int | None:
    """Return the newest done run on a target, or None."""
    query = sa.select(sa.func.max(m.run.c.id)).where(m.run.c.target_id == target_id, m.run.c.state == "done")
    return conn.execute(query).scalar()


def known_times(
    conn: Connection, run_id: int | None, overloads: Sequence[str] | None = None
) -> dict[tuple[str, str], Known]:
    """Return (overload, dtype) → what a run measured; empty without a run. `overloads` narrows it to some."""
    if run_id is None:
        return {}
    query = (
        sa.select(m.op.c.name, m.cell.c.dtype, m.cell.c.counts, m.cell.c.ms, m.cell.c.ms_max, m.cell.c.status)
        .join(m.op, m.op.c.id == m.cell.c.op_id)
        .where(m.cell.c.run_id == run_id, m.cell.c.ms_max.is_not(None))
    )
    if overloads is not None:
        ids = [row.id for row in conn.execute(sa.select(m.op.c.id).where(m.op.c.name.in_(list(overloads))))]
        query = query.where(m.cell.c.op_id.in_(ids))
    return {
        (row.name, row.dtype): Known(max(1, sum(row.counts.values())), row.ms, row.ms_max, Status(row.status))
        for row in conn.execute(query)
    }


def fatal_cases(conn: Connection, run_id: int, cases: Sequence[Case]) -> Counter[tuple[str, str]]:
    """Return (overload, dtype) → how many of its cases crashed or timed out in this run so far, for those of `cases`."""
    wanted = {(case.overload, case.dtype) for case in cases}
    ids = sa.select(m.op.c.id).where(m.op.c.name.in_({overload for overload, _ in wanted}))
    rows = conn.execute(
        sa.select(m.op.c.name, m.case_.c.dtype, sa.func.count())
        .select_from(m.case_)
        .join(m.op, m.op.c.id == m.case_.c.op_id)
        .join(m.result, (m.result.c.run_id == run_id) & (m.result.c.case_id == m.case_.c.id))
        .where(m.case_.c.op_id.in_(ids), m.result.c.outcome.in_(_FATAL))
        .group_by(m.op.c.name, m.case_.c.dtype)
    )
    return Counter({(name, dtype): count for name, dtype, count in rows if (name, dtype) in wanted})
