"""What the site and the command line read; every function takes a Connection and returns frozen records."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import spelling, stored
from neuron_ops.coverage_db.matrix import matrix, operators
from neuron_ops.coverage_db.rows import (
    CaseResult,
    CaseRow,
    CellRow,
    Matrix,
    MatrixQuery,
    MatrixRow,
    OpRow,
    OverloadPage,
    RunRow,
    Totals,
    ordered_dtypes,
)
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection, Row

__all__ = [
    "CaseResult", "CaseRow", "CellRow", "Matrix", "MatrixQuery", "MatrixRow", "OpRow", "OverloadPage", "RunRow",
    "Totals", "case_by_key", "every_overload", "latest_run", "matrix", "overload", "packets_like", "previous_run", "run_by_id",
    "run_by_slug", "runs", "search", "totals",
]  # fmt: skip

_KEY = re.compile(r"[0-9a-f]{1,32}")


def latest_run(conn: Connection, target: str | None = None) -> RunRow | None:
    """Return the newest done run, or the newest of any state where none is done, or None."""
    query = stored.RUNS.order_by(sa.case((m.run.c.state == "done", 0), else_=1), m.run.c.id.desc()).limit(1)
    if target is not None:
        query = query.where(m.target.c.name == target)
    row = conn.execute(query).first()
    return stored.run_row(row) if row else None


def run_by_slug(conn: Connection, slug: str) -> RunRow | None:
    """Return the run of this slug, or None."""
    row = conn.execute(stored.RUNS.where(m.run.c.slug == m.sanitize(slug))).first()
    return stored.run_row(row) if row else None


def run_by_id(conn: Connection, run_id: int) -> RunRow | None:
    """Return the run of this id, or None."""
    row = conn.execute(stored.RUNS.where(m.run.c.id == run_id)).first()
    return stored.run_row(row) if row else None


def previous_run(conn: Connection, run_id: int) -> RunRow | None:
    """Return the run before a done one in its stream, or None."""
    later = m.run.alias("later")
    before = (m.run.c.stream_id == later.c.stream_id) & (m.run.c.seq == later.c.seq - 1)
    row = conn.execute(stored.RUNS.join(later, before).where(later.c.id == run_id)).first()
    return stored.run_row(row) if row else None


def runs(conn: Connection, *, target: str | None = None, limit: int = 50) -> tuple[RunRow, ...]:
    """Return at most `limit` runs, newest first."""
    query = stored.RUNS.order_by(m.run.c.id.desc()).limit(limit)
    if target is not None:
        query = query.where(m.target.c.name == target)
    return tuple(map(stored.run_row, conn.execute(query)))


def totals(conn: Connection, run: RunRow) -> Totals:
    """Return the counts of a run; `counts` and `cells` are empty until it is finalized."""
    recorded = run.recorded  # known once it is finalized, and all that is left when the results were dropped
    if recorded is None:
        recorded = conn.execute(sa.select(sa.func.count()).where(m.result.c.run_id == run.id)).scalar_one()
    rows = conn.execute(
        sa.select(m.cell.c.status, sa.func.count().label("cells"))
        .where(m.cell.c.run_id == run.id)
        .group_by(m.cell.c.status)
        .order_by(m.cell.c.status)
    )
    return Totals(run.planned, recorded, run.planned - recorded, run.counts, {row.status: row.cells for row in rows})


def overload(conn: Connection, run: RunRow | None, name: str) -> OverloadPage | None:
    """Return all that a run says of an overload, or None where no overload has this name.

    `name` is three-part, ``aten.add.Tensor`` or ``aten::add.Tensor``. Cells and cases come in column order; both are
    empty without a run.
    """
    row = conn.execute(stored.OPS.where(m.op.c.name == m.sanitize(name).replace("::", "."))).first()
    if row is None:
        return None
    siblings = conn.execute(stored.OPS.where(m.op.c.packet == row.packet, m.op.c.id != row.id).order_by(m.op.c.name))
    found = tuple(map(stored.op_row, siblings))
    if run is None:
        return OverloadPage(stored.op_row(row), None, {}, (), found)
    cells = {c.dtype: c for c in map(stored.cell_row, conn.execute(_cells(run.id, row.id)))}
    cases = list(map(stored.case_result, conn.execute(_cases(run.id, row.id))))
    columns = ordered_dtypes({*cells, *(c.case.dtype for c in cases)})
    cases.sort(key=lambda c: (columns.index(c.case.dtype), c.case.sample, c.case.variant, c.case.seed))
    ordered = {dtype: cells[dtype] for dtype in columns if dtype in cells}
    return OverloadPage(stored.op_row(row), run, ordered, tuple(cases), found)


def every_overload(conn: Connection) -> tuple[OpRow, ...]:
    """Return every stored overload by name, those outside the denominator too."""
    return tuple(map(stored.op_row, operators(conn)))


def search(conn: Connection, text: str, limit: int = 20) -> tuple[OpRow, ...]:
    """Return at most `limit` overloads for a name, exact matches first and excluded overloads last within a rank.

    Takes ``aten::add.Tensor``, ``aten.add.Tensor``, ``torch.add``, ``add``, ``add_``, ``F.gelu``, an error line with an
    operator in it, and words (``scaled dot product``). Nothing asked finds nothing.
    """
    asked = spelling.read_spelling(text)
    if not asked.joined:
        return ()
    ranked = []
    # A few thousand names: ranking them here takes milliseconds, and no index ranks like this.
    for op in operators(conn):
        fit = spelling.rank(op.name, asked)
        if fit is not None:
            ranked.append((fit, op.excluded is not None, spelling.order(op.name), op))
    ranked.sort(key=lambda one: one[:3])
    return tuple(stored.op_row(op) for *_, op in ranked[: max(0, limit)])


def packets_like(conn: Connection, nearness: Callable[[str], float], limit: int) -> tuple[OpRow, ...]:
    """Return at most `limit` overloads, two of a packet, of the packets for which `nearness` is largest and not 0."""
    packets: dict[str, list[Row[*tuple[Any, ...]]]] = {}
    for op in operators(conn):
        packets.setdefault(op.packet, []).append(op)
    near = sorted(((nearness(packet), packet) for packet in packets), key=lambda one: (-one[0], one[1]))
    found = [op for value, packet in near[:limit] if value for op in packets[packet][:2]]
    return tuple(map(stored.op_row, found[:limit]))


def case_by_key(conn: Connection, prefix: str) -> CaseRow | None:
    """Return the case whose key starts with `prefix`, or None; raises BadInput if it is not hex or fits several."""
    prefix = prefix.strip().lower()
    if not _KEY.fullmatch(prefix):
        raise BadInput(f"The case {prefix!r} is no key; give 1 to 32 hex digits as the overload's page shows them.")
    low, high = (bytes.fromhex(prefix.ljust(32, digit)) for digit in "0f")
    rows = conn.execute(stored.CASES.where(m.case_.c.key.between(low, high)).order_by(m.case_.c.key).limit(2)).all()
    if len(rows) > 1:
        raise BadInput(
            f"The key {prefix} fits several cases, among them {rows[0].key.hex()} and {rows[1].key.hex()}; give more "
            "of its digits."
        )
    return stored.case_row(rows[0]) if rows else None


def _cells(run_id: int, op_id: int) -> sa.Select[tuple[object, ...]]:
    return stored.CELLS.where(m.cell.c.run_id == run_id, m.cell.c.op_id == op_id)


def _cases(run_id: int, op_id: int) -> sa.Select[tuple[object, ...]]:
    """Return a query for what a run planned for an overload, with the results where there are any."""
    r = m.result
    planned = sa.exists().where(m.run_case.c.run_id == run_id, m.run_case.c.case_id == m.case_.c.id)
    return (
        stored.CASES.add_columns(
            r.c.outcome, r.c.route, r.c.reason, r.c.composite, r.c.received, r.c.ms_device, r.c.ms_reference,
            r.c.figures, m.error_signature.c.text, m.parts.c.parts,
        )
        .outerjoin(r, (r.c.case_id == m.case_.c.id) & (r.c.run_id == run_id))
        .outerjoin(m.error_signature, m.error_signature.c.id == r.c.signature_id)
        .outerjoin(m.parts, m.parts.c.id == r.c.parts_id)
        # Not a join: SQLite would then begin with all that the run planned (measured: 14 ms in place of 0.3).
        .where(m.case_.c.op_id == op_id, planned)
    )  # fmt: skip
