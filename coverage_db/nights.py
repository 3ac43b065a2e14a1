"""Compares the runs of a stream: what changed from one to the next, and what one operator or case did in each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.op_tests.records import BadInput, Outcome, Route, Status, status_of

if TYPE_CHECKING:
    from sqlalchemy import Connection

_S = m.span.c


@dataclass(frozen=True, slots=True)
class Change:
    """A case whose status differs between two runs of a stream; None where it has none yet."""

    key: str
    overload: str
    dtype: str
    before: Status | None
    after: Status | None


@dataclass(frozen=True, slots=True)
class Night:
    """What one run says of an operator in one dtype: the cell's letter, and `k` of its `n` cases have it."""

    seq: int
    slug: str
    dtype: str
    status: Status
    k: int
    n: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """A case had this status from run number `first` to `last` of its stream; None for one that still goes on."""

    first: int
    last: int | None
    status: Status


def neighbours(conn: Connection, run_id: int) -> tuple[int, int] | None:
    """Return the run before this one in its stream, and this one; None where it is the first or is not done."""
    run = conn.execute(sa.select(m.run.c.stream_id, m.run.c.seq).where(m.run.c.id == run_id)).one()
    query = sa.select(m.run.c.id).where(m.run.c.stream_id == run.stream_id, m.run.c.seq == (run.seq or 0) - 1)
    before = conn.execute(query).scalar()
    return None if before is None else (before, run_id)


def changes(conn: Connection, before: int, after: int) -> tuple[Change, ...]:
    """Return the cases whose status differs between two done runs of one stream, by overload, dtype and key.

    A case that one of the runs skipped counts with what it did before. Raises BadInput for runs of two streams.
    """
    stream_id, low, high = _places(conn, before, after)
    # Whatever differs began after the earlier run, since a span ends only where another begins; an index finds them.
    began = (_S.stream_id == stream_id, _S.first_seq > low, _S.first_seq <= high)
    touched = sa.select(_S.case_id).where(*began).distinct().subquery()
    old, new = m.span.alias("old"), m.span.alias("new")
    rows = conn.execute(
        sa.select(
            m.case_.c.key, m.op.c.name, m.case_.c.dtype, old.c.outcome.label("o"), old.c.route.label("r"),
            new.c.outcome, new.c.route,
        )
        .select_from(touched)
        .join(m.case_, m.case_.c.id == touched.c.case_id)
        .join(m.op, m.op.c.id == m.case_.c.op_id)
        .outerjoin(old, _at(old, stream_id, touched.c.case_id, low))
        .outerjoin(new, _at(new, stream_id, touched.c.case_id, high))
    )  # fmt: skip
    found = [
        Change(row.key.hex(), row.name, row.dtype, _status(row.o, row.r), _status(row.outcome, row.route))
        for row in rows
    ]
    return tuple(sorted((c for c in found if c.before is not c.after), key=lambda c: (c.overload, c.dtype, c.key)))


def operator_history(conn: Connection, run_id: int, overload: str) -> tuple[Night, ...]:
    """Return what each done run of this run's stream says of an overload, oldest first, dtypes by name."""
    stream = sa.select(m.run.c.stream_id).where(m.run.c.id == run_id).scalar_subquery()
    op_id = sa.select(m.op.c.id).where(m.op.c.name == overload).scalar_subquery()
    rows = conn.execute(
        sa.select(m.run.c.seq, m.run.c.slug, m.cell.c.dtype, m.cell.c.status, m.cell.c.k, m.cell.c.n)
        .select_from(m.run)
        .join(m.cell, (m.cell.c.run_id == m.run.c.id) & (m.cell.c.op_id == op_id))
        .where(m.run.c.stream_id == stream, m.run.c.seq.is_not(None))
        .order_by(m.run.c.seq, m.cell.c.dtype)
    )
    return tuple(Night(row.seq, row.slug, row.dtype, Status(row.status), row.k, row.n) for row in rows)


def case_history(conn: Connection, run_id: int, key: str) -> tuple[Stretch, ...]:
    """Return the stretches of one status of a case in this run's stream, oldest first; kept when results are dropped."""
    stream = sa.select(m.run.c.stream_id).where(m.run.c.id == run_id).scalar_subquery()
    case_id = sa.select(m.case_.c.id).where(m.case_.c.key == bytes.fromhex(key)).scalar_subquery()
    rows = conn.execute(
        sa.select(_S.first_seq, _S.last_seq, _S.outcome, _S.route)
        .where(_S.stream_id == stream, _S.case_id == case_id)
        .order_by(_S.first_seq)
    )
    return tuple(
        Stretch(r.first_seq, None if r.last_seq == m.OPEN else r.last_seq, _known(r.outcome, r.route)) for r in rows
    )


def _places(conn: Connection, before: int, after: int) -> tuple[int, int, int]:
    """Return the stream that both runs are in and their numbers there."""
    query = sa.select(m.run.c.id, m.run.c.slug, m.run.c.stream_id, m.run.c.seq).where(m.run.c.id.in_([before, after]))
    found = {row.id: row for row in conn.execute(query)}
    for run_id in (before, after):
        if run_id not in found or found[run_id].seq is None:
            raise BadInput(
                f"The run {found[run_id].slug if run_id in found else run_id} is not done; compare done runs."
            )
    if found[before].stream_id != found[after].stream_id:
        raise BadInput(
            f"The runs {found[before].slug} and {found[after].slug} are of two streams (target or choice of cases "
            "differ); compare runs of one."
        )
    return found[before].stream_id, found[before].seq, found[after].seq


def _at(span: sa.FromClause, stream_id: int, case_id: sa.ColumnElement[int], seq: int) -> sa.ColumnElement[bool]:
    covers = sa.and_(span.c.first_seq <= seq, span.c.last_seq >= seq)
    return sa.and_(span.c.stream_id == stream_id, span.c.case_id == case_id, covers)


def _status(outcome: str | None, route: str | None) -> Status | None:
    return None if outcome is None else _known(outcome, route)


def _known(outcome: Any, route: Any) -> Status:
    return status_of(Outcome(outcome), Route(route) if route else None)
