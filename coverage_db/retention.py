"""Drops the single results of old runs and keeps what was derived from them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.database import read, write

if TYPE_CHECKING:
    from sqlalchemy import Engine


def prune_results(engine: Engine, *, keep: int) -> list[str]:
    """Drop results, plans and batches of the done runs beyond the newest `keep` of each stream; return their slugs.

    One transaction a run: a large one would keep writers waiting. Cells, counts and spans stay.
    """
    with read(engine) as conn:
        ranked = sa.select(
            m.run.c.id, m.run.c.slug,
            sa.func.row_number().over(partition_by=m.run.c.stream_id, order_by=m.run.c.seq.desc()).label("age"),
        ).where(m.run.c.state == "done", m.run.c.seq.is_not(None), m.run.c.pruned.is_(None)).subquery()  # fmt: skip
        old = conn.execute(sa.select(ranked.c.id, ranked.c.slug).where(ranked.c.age > keep).order_by(ranked.c.id)).all()
    for run in old:
        with write(engine) as conn:
            for table in (m.result, m.run_case, m.run_batch):
                conn.execute(sa.delete(table).where(table.c.run_id == run.id))
            conn.execute(sa.update(m.run).where(m.run.c.id == run.id).values(pruned=datetime.now(UTC)))
    return [run.slug for run in old]
