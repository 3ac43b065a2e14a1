"""All cells of a run in one small document, for a search without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.publishing import public_run
from neuron_ops.coverage_db.queries import every_overload
from neuron_ops.coverage_db.spelling import aliases

if TYPE_CHECKING:
    from sqlalchemy import Connection


def packed(conn: Connection) -> dict[str, Any]:
    """Return the published run's slug and dtypes, every overload with a letter a dtype (null: untested), and the aliases."""
    run = public_run(conn)
    letters: dict[str, dict[str, str]] = {}
    if run is not None:
        query = sa.select(m.op.c.name, m.cell.c.dtype, m.cell.c.status).join(m.op, m.op.c.id == m.cell.c.op_id)
        for name, dtype, status in conn.execute(query.where(m.cell.c.run_id == run.id)):
            letters.setdefault(name, {})[dtype] = status
    dtypes = run.dtypes if run else ()
    return {
        "run": run.slug if run else None,
        "dtypes": list(dtypes),
        "ops": [
            {
                "name": op.name, "family": op.family, "tier": op.tier, "kind": op.kind, "tags": list(op.tags),
                "excluded": op.excluded, "letters": [letters.get(op.name, {}).get(dtype) for dtype in dtypes],
            }
            for op in every_overload(conn)
        ],
        "aliases": {name: sorted(packets) for name, packets in sorted(aliases().items())},
    }  # fmt: skip
