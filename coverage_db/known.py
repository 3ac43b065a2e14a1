"""Lists what a run says of every case, for those who judge calls by it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.op_tests.records import Outcome, Route, Status, status_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class JudgedCase:
    """A case of a run with its letter."""

    overload: str
    dtype: str
    sample: str
    variant: str
    seed: int
    status: Status


def judged_cases(
    conn: Connection, run: RunRow, overloads: Collection[str] | None = None, label: str | None = None
) -> Iterator[JudgedCase]:
    """Yield the cases of a run that have a result, by overload and dtype; only those of `overloads` where given.

    Samples whose label starts with `label` come too, whatever their overload.
    """
    query = (
        sa.select(
            m.op.c.name, m.case_.c.dtype, m.case_.c.sample, m.case_.c.variant, m.case_.c.seed, m.result.c.outcome,
            m.result.c.route,
        )
        .select_from(m.result.join(m.case_, m.case_.c.id == m.result.c.case_id).join(m.op, m.op.c.id == m.case_.c.op_id))
        .where(m.result.c.run_id == run.id)
        .order_by(m.op.c.name, m.case_.c.dtype, m.case_.c.id)
    )  # fmt: skip
    if overloads is not None:
        chosen = m.op.c.name.in_(overloads)
        query = query.where(chosen if label is None else chosen | m.case_.c.sample.startswith(label, autoescape=True))
    for name, dtype, sample, variant, seed, outcome, route in conn.execute(query):
        status = status_of(Outcome(outcome), Route(route) if route else None)
        yield JudgedCase(name, dtype, sample, variant, seed, status)
