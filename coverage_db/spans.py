"""Folds a done run into the spans of its stream: one row for each change of what a case does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.op_tests.records import Outcome

if TYPE_CHECKING:
    from sqlalchemy import Connection

_S, _R = m.span.c, m.result.c


def fold(conn: Connection, run_id: int) -> None:
    """Make a done run the next of its stream and its results spans; does nothing when that was done before.

    What a run skipped says nothing of the case, so its span goes on.
    """
    run = conn.execute(sa.select(m.run.c.stream_id, m.run.c.seq).where(m.run.c.id == run_id)).one()
    if run.stream_id is None or run.seq is not None:
        return
    # The lock keeps two runs of one stream from becoming the same number.
    conn.execute(sa.select(m.stream.c.id).where(m.stream.c.id == run.stream_id).with_for_update())
    last = conn.execute(sa.select(sa.func.max(m.run.c.seq)).where(m.run.c.stream_id == run.stream_id)).scalar()
    seq = (last or 0) + 1
    conn.execute(sa.update(m.run).where(m.run.c.id == run_id).values(seq=seq))
    measured = (_R.run_id == run_id, _R.outcome != Outcome.SKIPPED.value)
    still_open = (_S.stream_id == run.stream_id, _S.last_seq == m.OPEN)
    differs = sa.or_(_R.outcome != _S.outcome, sa.func.coalesce(_R.route, "") != sa.func.coalesce(_S.route, ""))
    # A join, not EXISTS: PostgreSQL without statistics makes that quadratic (measured: a hundred times as long).
    conn.execute(
        sa.update(m.span).where(*still_open, *measured, _R.case_id == _S.case_id, differs).values(last_seq=seq - 1)
    )
    # NOT IN, for the same reason: it is always hashed.
    have_one = sa.select(_S.case_id).where(*still_open)
    new = sa.select(
        sa.literal(run.stream_id),
        _R.case_id,
        sa.literal(seq),
        sa.literal(m.OPEN),
        _R.outcome,
        _R.route,
        _R.signature_id,
    ).where(*measured, _R.case_id.not_in(have_one))
    columns = ["stream_id", "case_id", "first_seq", "last_seq", "outcome", "route", "signature_id"]
    conn.execute(sa.insert(m.span).from_select(columns, new))
