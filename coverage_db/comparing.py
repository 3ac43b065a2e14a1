"""Compares the cells of any two runs, and lists what got worse from run to run of the streams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.fingerprints import message_pattern
from neuron_ops.op_tests.records import Outcome, Route, Status, status_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection

_RANKS: dict[Status, int] = {
    Status.WRONG: 0,
    Status.CRASH: 1, Status.TIMEOUT: 1, Status.UNSUPPORTED: 1, Status.ERROR: 1,
    Status.FALLBACK: 2,
    Status.TRANSLATED: 3, Status.NATIVE: 3,
}  # fmt: skip
"""A change within one rank, or from or to a status that is not here, is neither better nor worse."""
_MOST_GROUPS_OF = 20_000


@dataclass(frozen=True, slots=True)
class CellChange:
    """A cell that both runs have with different statuses, and the reason that each gives."""

    overload: str
    dtype: str
    before: Status
    after: Status
    reason_before: str | None
    reason_after: str | None


@dataclass(frozen=True, slots=True)
class CellSeen:
    """A cell that only one of two runs has."""

    overload: str
    dtype: str
    status: Status


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two runs. Only the `aligned` cells, which both have, are compared; `same` of them are equal.

    `versions` maps the name of what changed to its version before and after, None where it was not there.
    """

    before: RunRow
    after: RunRow
    versions: Mapping[str, tuple[str | None, str | None]]
    aligned: int
    regressions: tuple[CellChange, ...]
    improvements: tuple[CellChange, ...]
    unranked: tuple[CellChange, ...]
    added: tuple[CellSeen, ...]
    removed: tuple[CellSeen, ...]

    @property
    def same(self) -> int:
        """Return how many of the aligned cells have the same status."""
        return self.aligned - len(self.regressions) - len(self.improvements) - len(self.unranked)


@dataclass(frozen=True, slots=True)
class Regression:
    """Cases of one stream that got worse at one step, in the same way and with the same message.

    `cells` maps (overload, dtype) to how many cases; `still` of all its cases are as bad in the newest run.
    """

    target: str
    before: str
    after: str
    was: Status
    now: Status
    pattern: str
    cells: Mapping[tuple[str, str], int]
    still: int

    @property
    def cases(self) -> int:
        """Return how many cases got worse."""
        return sum(self.cells.values())


def verdict(before: Status, after: Status) -> int:
    """Return 1 where a status got better, -1 where it got worse, 0 where the two cannot be ranked."""
    if before not in _RANKS or after not in _RANKS:
        return 0
    return (_RANKS[after] > _RANKS[before]) - (_RANKS[after] < _RANKS[before])


def compare(conn: Connection, before: RunRow, after: RunRow) -> Comparison:
    """Return what differs between the cells of two runs, by overload and dtype; of any target and choice of cases."""
    old, new = m.cell.alias("old"), m.cell.alias("new")
    both = (old.c.run_id == before.id, new.c.run_id == after.id)
    joined = old.join(new, (new.c.op_id == old.c.op_id) & (new.c.dtype == old.c.dtype))
    aligned = conn.execute(sa.select(sa.func.count()).select_from(joined).where(*both)).scalar_one()
    rows = conn.execute(
        sa.select(
            m.op.c.name, old.c.dtype, old.c.status, new.c.status, old.c.reason, new.c.reason,
        )
        .select_from(joined.join(m.op, m.op.c.id == old.c.op_id))
        .where(*both, old.c.status != new.c.status)
        .order_by(m.op.c.name, old.c.dtype)
    )  # fmt: skip
    groups: dict[int, list[CellChange]] = {-1: [], 0: [], 1: []}
    for name, dtype, was, now, why, why_now in rows:
        change = CellChange(name, dtype, Status(was), Status(now), why, why_now)
        groups[verdict(change.before, change.after)].append(change)
    return Comparison(
        before, after, _delta(before.versions, after.versions), aligned, tuple(groups[-1]), tuple(groups[1]),
        tuple(groups[0]), _only(conn, after.id, before.id), _only(conn, before.id, after.id),
    )  # fmt: skip


def regressions(conn: Connection, *, steps: int = 10) -> tuple[Regression, ...]:
    """Return what got worse in the newest `steps` steps of each stream, newest step first, most cells first.

    A step to a quarantined run is left out.
    """
    old, new = m.span.alias("old"), m.span.alias("new")
    before, after = m.run.alias("before"), m.run.alias("after")
    newest = sa.select(sa.func.max(m.run.c.seq)).where(m.run.c.stream_id == new.c.stream_id).scalar_subquery()
    ended = (old.c.stream_id == new.c.stream_id, old.c.case_id == new.c.case_id, old.c.last_seq == new.c.first_seq - 1)
    rows = conn.execute(
        sa.select(
            new.c.stream_id, m.target.c.name.label("target"), before.c.slug.label("slug_before"), after.c.slug, after.c.id,
            old.c.outcome.label("o"), old.c.route.label("r"), new.c.outcome, new.c.route, new.c.last_seq,
            m.error_signature.c.text, m.op.c.name, m.case_.c.dtype,
        )
        .select_from(new)
        .join(old, sa.and_(*ended))
        .join(after, (after.c.stream_id == new.c.stream_id) & (after.c.seq == new.c.first_seq))
        .join(before, (before.c.stream_id == new.c.stream_id) & (before.c.seq == new.c.first_seq - 1))
        .join(m.target, m.target.c.id == after.c.target_id)
        .join(m.case_, m.case_.c.id == new.c.case_id)
        .join(m.op, m.op.c.id == m.case_.c.op_id)
        .outerjoin(m.error_signature, m.error_signature.c.id == new.c.signature_id)
        .where(new.c.first_seq > 1, new.c.first_seq > newest - steps)
        .where(after.c.quarantine.is_(None) | after.c.released.is_not(None))
        .limit(_MOST_GROUPS_OF)
    )  # fmt: skip
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        was, now = _status(row.o, row.r), _status(row.outcome, row.route)
        if verdict(was, now) < 0:
            pattern = message_pattern(row.text) if row.text else ""
            groups.setdefault((row.id, row.target, row.slug_before, row.slug, was, now, pattern), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: (-item[0][0], -len(item[1]), item[0][1:]))
    return tuple(_regression(key, of) for key, of in ordered)


def _regression(key: tuple[Any, ...], rows: list[Any]) -> Regression:
    _, target, before, after, was, now, pattern = key
    cells: dict[tuple[str, str], int] = {}
    for row in sorted(rows, key=lambda row: (row.name, row.dtype)):
        cells[row.name, row.dtype] = cells.get((row.name, row.dtype), 0) + 1
    return Regression(target, before, after, was, now, pattern, cells, sum(row.last_seq == m.OPEN for row in rows))


def _only(conn: Connection, here: int, there: int) -> tuple[CellSeen, ...]:
    """Return the cells of one run that another does not have."""
    c, other = m.cell, m.cell.alias("other")
    same = (other.c.run_id == there, other.c.op_id == c.c.op_id, other.c.dtype == c.c.dtype)
    rows = conn.execute(
        sa.select(m.op.c.name, c.c.dtype, c.c.status)
        .join(m.op, m.op.c.id == c.c.op_id)
        .outerjoin(other, sa.and_(*same))
        .where(c.c.run_id == here, other.c.run_id.is_(None))
        .order_by(m.op.c.name, c.c.dtype)
    )
    return tuple(CellSeen(name, dtype, Status(status)) for name, dtype, status in rows)


def _delta(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    return {name: (old.get(name), new.get(name)) for name in sorted({*old, *new}) if old.get(name) != new.get(name)}


def _status(outcome: str, route: str | None) -> Status:
    return status_of(Outcome(outcome), Route(route) if route else None)
