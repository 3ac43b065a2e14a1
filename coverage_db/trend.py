"""The number core-native over the published runs of a target: what the chart of coverage over builds shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import stored
from neuron_ops.coverage_db.numbers import CORE_DTYPES, core_ids
from neuron_ops.coverage_db.publishing import PUBLISHED
from neuron_ops.op_tests.records import Status

if TYPE_CHECKING:
    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Point:
    """A published run with its core-native, *n of m*."""

    run: RunRow
    n: int
    m: int


def core_native(conn: Connection, target: str, limit: int = 60) -> tuple[Point, ...]:
    """Return the newest `limit` published runs of a target with their core-native, oldest first."""
    query = stored.RUNS.where(PUBLISHED, m.target.c.name == target).order_by(m.run.c.id.desc()).limit(limit)
    found = [stored.run_row(row) for row in conn.execute(query)][::-1]
    ids = core_ids(conn)
    rows = conn.execute(
        sa.select(m.cell.c.run_id, m.cell.c.status, sa.func.count().label("n"))
        .where(
            m.cell.c.run_id.in_([run.id for run in found]), m.cell.c.op_id.in_(ids), m.cell.c.dtype.in_(CORE_DTYPES),
            m.cell.c.status.in_([Status.NATIVE.value, Status.NOT_APPLICABLE.value]),
        )
        .group_by(m.cell.c.run_id, m.cell.c.status)
    )  # fmt: skip
    counted = {(row.run_id, row.status): row.n for row in rows}
    whole = len(ids) * len(CORE_DTYPES)
    return tuple(
        Point(run, counted.get((run.id, Status.NATIVE.value), 0), whole - counted.get((run.id, Status.NOT_APPLICABLE.value), 0))
        for run in found
    )  # fmt: skip
