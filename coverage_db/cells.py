"""Derives the cells of a run from its cases."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.op_tests.records import Outcome, Route, Status, status_of, worst_status

if TYPE_CHECKING:
    from sqlalchemy import Connection

LOST = "no result arrived"
_REASON_CHARACTERS = 200
_PLANNED = m.run_case.join(m.case_, m.case_.c.id == m.run_case.c.case_id)
_RESULTS = (m.result.c.run_id == m.run_case.c.run_id) & (m.result.c.case_id == m.run_case.c.case_id)


class _Tally:
    """What the cases of one overload × dtype add up to."""

    def __init__(self) -> None:
        self.counts: Counter[Status] = Counter()
        self.reasons: dict[Status, Counter[str]] = {}
        self.composite: set[Status] = set()
        self.parts: dict[Status, int] = {}
        self.ms = 0.0
        self.ms_max = 0.0

    def add_reason(self, status: Status, reason: str, cases: int) -> None:
        self.reasons.setdefault(status, Counter())[reason] += cases

    def row(self, run_id: int, op_id: int, dtype: str) -> dict[str, Any]:
        """Return the cell: the worst status, and how many of the cases that apply have it."""
        status = worst_status(self.counts)
        refused = 0 if status is Status.NOT_APPLICABLE else self.counts[Status.NOT_APPLICABLE]
        # Ties go to the first in the alphabet, so that deriving again gives the same cell.
        reasons = sorted(self.reasons.get(status, Counter()).items(), key=lambda item: (-item[1], item[0]))
        return {
            "run_id": run_id, "op_id": op_id, "dtype": dtype, "status": status.value,
            "n": self.counts.total() - refused, "k": self.counts[status],
            "counts": {letter.value: self.counts[letter] for letter in sorted(self.counts)},
            "reason": reasons[0][0] if reasons else None,
            "composite": status in self.composite, "parts_id": self.parts.get(status),
            "ms": self.ms, "ms_max": self.ms_max,
        }  # fmt: skip


def derive_cells(conn: Connection, run_id: int) -> list[dict[str, Any]]:
    """Return the rows of `cell` for a run, in the order of overload and dtype; a lost case counts as untested."""
    tallies: dict[tuple[int, str], _Tally] = {}
    for row in conn.execute(_grouped(run_id)):
        status = _status(row.outcome, row.route)
        tally = tallies.setdefault((row.op_id, row.dtype), _Tally())
        tally.counts[status] += row.cases
        tally.ms += row.ms or 0.0
        tally.ms_max = max(tally.ms_max, row.ms_max or 0.0)
        if row.outcome is None:
            tally.add_reason(status, LOST, row.cases)
        elif row.reason is not None and status is Status.FALLBACK:
            tally.add_reason(status, row.reason, row.cases)
        if row.composite:
            tally.composite.add(status)
        if row.parts_id is not None:
            tally.parts[status] = min(row.parts_id, tally.parts.get(status, row.parts_id))
    for row in conn.execute(_messages(run_id)):
        status = _status(row.outcome, row.route)
        lines = row.text.strip().splitlines()
        if lines and status is not Status.FALLBACK:
            tallies[row.op_id, row.dtype].add_reason(status, lines[0][:_REASON_CHARACTERS], row.cases)
    return [tallies[key].row(run_id, *key) for key in sorted(tallies)]


def _status(outcome: str | None, route: str | None) -> Status:
    if outcome is None:
        return Status.UNTESTED
    return status_of(Outcome(outcome), Route(route) if route else None)


def _grouped(run_id: int) -> sa.Select[Any]:
    """Return a query with one row for each overload, dtype, outcome, route and reason: few beside the results."""
    by = (m.case_.c.op_id, m.case_.c.dtype, m.result.c.outcome, m.result.c.route, m.result.c.reason)
    ms = sa.func.coalesce(m.result.c.ms_device, 0.0) + sa.func.coalesce(m.result.c.ms_reference, 0.0)
    return (
        sa.select(
            *by,
            sa.func.count().label("cases"),
            sa.func.max(sa.case((m.result.c.composite, 1), else_=0)).label("composite"),
            sa.func.min(m.result.c.parts_id).label("parts_id"),
            sa.func.sum(ms).label("ms"),
            sa.func.max(ms).label("ms_max"),
        )
        .select_from(_PLANNED.outerjoin(m.result, _RESULTS))
        .where(m.run_case.c.run_id == run_id)
        .group_by(*by)
    )


def _messages(run_id: int) -> sa.Select[Any]:
    """Return a query with one row for each overload, dtype, outcome, route and message."""
    by = (m.case_.c.op_id, m.case_.c.dtype, m.result.c.outcome, m.result.c.route, m.error_signature.c.text)
    return (
        sa.select(*by, sa.func.count().label("cases"))
        .select_from(
            _PLANNED.join(m.result, _RESULTS).join(m.error_signature, m.error_signature.c.id == m.result.c.signature_id)
        )
        .where(m.run_case.c.run_id == run_id)
        .group_by(*by)
    )
