"""The letters of many overloads at once, without the rest of a cell: what whole-table pages show."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import stored
from neuron_ops.op_tests.records import STATUS_ORDER, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.coverage_db.rows import OpRow, RunRow
    from sqlalchemy import Connection


@dataclass(frozen=True, slots=True)
class Mark:
    """A cell without its reasons: `k` of its `n` cases have its status."""

    status: Status
    k: int
    n: int


UNTESTED = Mark(Status.UNTESTED, 0, 0)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which overloads a grid shows; None lets all pass. `status` keeps those that have the letter in some dtype."""

    family: str | None = None
    tag: str | None = None
    status: Status | None = None


@dataclass(frozen=True, slots=True)
class GridRow:
    """An overload with a mark for each dtype of the grid."""

    op: OpRow
    marks: Mapping[str, Mark]


@dataclass(frozen=True, slots=True)
class Grid:
    """Overloads by name; `counts` maps the letters of their cells to how many there are, worst first."""

    rows: tuple[GridRow, ...]
    dtypes: tuple[str, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Shelves:
    """What the overloads of the denominator can be chosen by, each value with how many overloads it has."""

    families: Mapping[str, int]
    tags: Mapping[str, int]


def grid(conn: Connection, run: RunRow, choice: Choice) -> Grid:
    """Return the marks of the overloads of a choice; excluded overloads are left out, missing cells are untested."""
    where: list[sa.ColumnElement[bool]] = [m.op.c.excluded.is_(None)]
    if choice.family is not None:
        where.append(m.op.c.family == m.sanitize(choice.family))
    ops = [op for op in conn.execute(stored.OPS.where(*where).order_by(m.op.c.name)) if _tagged(op.tags, choice.tag)]
    marks = _marks(conn, run.id)
    rows = []
    for op in ops:
        has = marks.get(op.id, {})
        row = {dtype: has.get(dtype, UNTESTED) for dtype in run.dtypes}
        if choice.status is None or any(mark.status is choice.status for mark in row.values()):
            rows.append(GridRow(stored.op_row(op), row))
    return Grid(tuple(rows), run.dtypes, count(rows))


def count(rows: list[GridRow] | tuple[GridRow, ...], dtype: str | None = None) -> dict[str, int]:
    """Return letter → cells of the rows, worst first, of one dtype where one is given."""
    found = Counter(
        mark.status for row in rows for mark in (row.marks.values() if dtype is None else (row.marks[dtype],))
    )
    return {status.value: found[status] for status in STATUS_ORDER if status in found}


def shelves(conn: Connection) -> Shelves:
    """Return the families and the tags of the denominator, by name."""
    families: Counter[str] = Counter()
    tags: Counter[str] = Counter()
    for family, of in conn.execute(sa.select(m.op.c.family, m.op.c.tags).where(m.op.c.excluded.is_(None))):
        families[family] += 1
        tags.update(of)
    return Shelves(dict(sorted(families.items())), dict(sorted(tags.items())))


def _tagged(tags: list[str], wanted: str | None) -> bool:
    return wanted is None or wanted in tags


def _marks(conn: Connection, run_id: int) -> dict[int, dict[str, Mark]]:
    known = {status.value: status for status in Status}
    found: dict[int, dict[str, Mark]] = {}
    columns = (m.cell.c.op_id, m.cell.c.dtype, m.cell.c.status, m.cell.c.k, m.cell.c.n)
    for op_id, dtype, status, k, n in conn.execute(sa.select(*columns).where(m.cell.c.run_id == run_id)):
        found.setdefault(op_id, {})[dtype] = Mark(known[status], k, n)
    return found
