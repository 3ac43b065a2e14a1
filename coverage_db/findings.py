"""What stands out in a run: counts so far, the slowest cases, the worst findings."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import stored
from neuron_ops.op_tests.records import STATUS_ORDER, Outcome, Route, Status, status_of

if TYPE_CHECKING:
    from neuron_ops.coverage_db.rows import CaseResult
    from sqlalchemy import Connection

_FINE = (Status.NATIVE, Status.TRANSLATED, Status.FALLBACK, Status.UNTESTED, Status.NOT_APPLICABLE)
_R = m.result.c


def count_by_status(conn: Connection, run_id: int) -> Counter[Status]:
    """Return how many results a run has so far, by status."""
    query = sa.select(_R.outcome, _R.route, sa.func.count()).where(_R.run_id == run_id).group_by(_R.outcome, _R.route)
    found: Counter[Status] = Counter()
    for outcome, route, count in conn.execute(query):
        found[status_of(Outcome(outcome), Route(route) if route else None)] += count
    return found


def slowest(conn: Connection, run_id: int, limit: int) -> tuple[CaseResult, ...]:
    """Return the cases that took longest on the device, one an overload, the slowest first."""
    longest = sa.func.max(_R.ms_device)
    per_overload = conn.execute(
        sa.select(m.case_.c.op_id, longest.label("ms"))
        .join(m.case_, m.case_.c.id == _R.case_id)
        .where(_R.run_id == run_id, _R.ms_device.is_not(None))
        .group_by(m.case_.c.op_id)
        .order_by(longest.desc(), m.case_.c.op_id)
        .limit(limit)
    )
    return tuple(_first(conn, run_id, m.case_.c.op_id == row.op_id, _R.ms_device == row.ms) for row in per_overload)


def worst(conn: Connection, run_id: int, limit: int) -> tuple[CaseResult, ...]:
    """Return a case of each of the worst cells of a finalized run, one an overload, the worst first."""
    bad = [status for status in STATUS_ORDER if status not in _FINE]
    badness = sa.case({status.value: number for number, status in enumerate(bad)}, value=m.cell.c.status)
    cells = conn.execute(
        sa.select(m.cell.c.op_id, m.cell.c.dtype, m.cell.c.status)
        .where(m.cell.c.run_id == run_id, m.cell.c.status.in_([status.value for status in bad]))
        .order_by(badness, m.cell.c.op_id, m.cell.c.dtype)
    )
    chosen: dict[int, sa.Row[*tuple[Any, ...]]] = {}
    for cell in cells:
        if len(chosen) < limit:
            chosen.setdefault(cell.op_id, cell)
    return tuple(
        _first(
            conn, run_id, m.case_.c.op_id == cell.op_id, m.case_.c.dtype == cell.dtype,
            _R.outcome == _outcome(Status(cell.status)).value,
        )
        for cell in chosen.values()
    )  # fmt: skip


def _outcome(status: Status) -> Outcome:
    """Return the outcome that has this status whatever the route."""
    return next(outcome for outcome in Outcome if outcome is not Outcome.PASS and status_of(outcome, None) is status)


def _first(conn: Connection, run_id: int, *which: sa.ColumnElement[bool]) -> CaseResult:
    """Return the first of the results of a run that fit, by case key; there must be one."""
    query = stored.RESULTS.where(_R.run_id == run_id, *which).order_by(m.case_.c.key).limit(1)
    return stored.case_result(conn.execute(query).one())
