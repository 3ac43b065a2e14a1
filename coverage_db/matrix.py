"""One page of a run's cells, filtered, with counts for the filters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import spelling, stored
from neuron_ops.coverage_db.keeping import Kept
from neuron_ops.coverage_db.rows import CellRow, Matrix, MatrixQuery, MatrixRow, RunRow, ordered_dtypes
from neuron_ops.op_tests.records import STATUS_ORDER, BadInput, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuron_ops.coverage_db.spelling import Spelling
    from sqlalchemy import Connection, Row

_LARGEST_PAGE = 1000
_FACETS = ("statuses", "dtypes", "families", "tiers", "tags", "kinds")
_UNTESTED = Status.UNTESTED.value
_Letters = dict[int, dict[str, str]]
_KEPT: Kept[_Letters] = Kept(4)
"""Letters of runs: 5 MB each with 30,000 cells, and half of the time of a page of the matrix."""
_OPERATORS: Kept[Sequence[Any]] = Kept(1)


def matrix(conn: Connection, run: RunRow, query: MatrixQuery) -> Matrix:
    """Return one page of a run's cells, overloads by name; a page number out of range is brought into it.

    An overload with no cell has untested ones. Excluded overloads are left out unless the words name them or their
    packet in full. Raises BadInput for an unknown status letter.
    """
    _check(query)
    letters = _letters(conn, run)
    columns = tuple(d for d in run.dtypes if d in query.dtypes) if query.dtypes else run.dtypes
    asked = spelling.read_spelling(query.words)
    ops = [op for op in operators(conn) if _named(op, asked)]
    shown, facets = _filter(ops, letters, run.dtypes, columns, query)
    size = min(max(1, query.size), _LARGEST_PAGE)
    pages = max(1, -(-len(shown) // size))
    page = min(max(1, query.page), pages)
    rows = _rows(conn, run, shown[(page - 1) * size : page * size], columns)
    return Matrix(rows, columns, len(shown), page, pages, facets)


def operators(conn: Connection) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return the overloads by name. They change when a run starts or one is added."""
    key = conn.execute(
        sa.select(sa.select(sa.func.max(m.run.c.id)).scalar_subquery(), sa.func.count()).select_from(m.op)
    )
    return _OPERATORS.get(conn, tuple(key.one()), lambda: conn.execute(stored.OPS.order_by(m.op.c.name)).all())


def _letters(conn: Connection, run: RunRow) -> _Letters:
    """Return the letters of a run by overload and dtype; those of a run that has ended never change and are kept."""

    def read() -> _Letters:
        letters: _Letters = {}
        query = sa.select(m.cell.c.op_id, m.cell.c.dtype, m.cell.c.status).where(m.cell.c.run_id == run.id)
        for op_id, dtype, status in conn.execute(query):
            letters.setdefault(op_id, {})[dtype] = status
        return letters

    return read() if run.finished is None else _KEPT.get(conn, (run.slug, run.finished), read)


def _check(query: MatrixQuery) -> None:
    known = [status.value for status in STATUS_ORDER]
    for letter in query.statuses:
        if letter not in known:
            raise BadInput(f"The status {letter!r} is unknown; use one of {' '.join(known)}.")


def _named(op: Row[*tuple[Any, ...]], asked: Spelling) -> bool:
    """Return whether the words fit the overload; an excluded one they must name."""
    if not asked.joined:
        return op.excluded is None
    fit = spelling.rank(op.name, asked)
    return fit is not None and (op.excluded is None or fit <= spelling.EXACT)


def _filter(
    ops: Sequence[Row[*tuple[Any, ...]]],
    letters: _Letters,
    dtypes: Sequence[str],
    columns: Sequence[str],
    query: MatrixQuery,
) -> tuple[list[Row[*tuple[Any, ...]]], dict[str, dict[str, int]]]:
    """Return the overloads that every field keeps, and for each field the counts that its values would give."""
    shown = []
    counts: dict[str, Counter[str]] = {name: Counter() for name in _FACETS}
    for op in ops:
        has = letters.get(op.id, {})
        values: dict[str, list[str]] = {
            "statuses": sorted({has.get(dtype, _UNTESTED) for dtype in columns}),
            "dtypes": [d for d in dtypes if _counts_in(has.get(d, _UNTESTED), query)],
            "families": [op.family], "tiers": [op.tier], "tags": op.tags, "kinds": [op.kind],
        }  # fmt: skip
        refused = {
            name for name in _FACETS
            if name != "dtypes" and getattr(query, name) and not set(getattr(query, name)) & set(values[name])
        }  # fmt: skip
        if not refused:
            shown.append(op)
        for name in _FACETS:
            # A field's own choice does not narrow its counts, and a dtype's count looks at its own column's letter.
            if refused <= ({"statuses"} if name == "dtypes" else {name}):
                counts[name].update(values[name])
    return shown, {name: _sorted(name, counter) for name, counter in counts.items()}


def _counts_in(letter: str, query: MatrixQuery) -> bool:
    """Return whether a cell counts for its dtype: it has a letter that was asked for, or any but untested."""
    return letter in query.statuses if query.statuses else letter != _UNTESTED


def _sorted(name: str, counter: Mapping[str, int]) -> dict[str, int]:
    order = {
        "statuses": [status.value for status in STATUS_ORDER], "dtypes": list(ordered_dtypes(counter)),
    }.get(name, sorted(counter))  # fmt: skip
    return {value: counter[value] for value in order if value in counter}


def _rows(
    conn: Connection, run: RunRow, ops: Sequence[Row[*tuple[Any, ...]]], columns: Sequence[str]
) -> tuple[MatrixRow, ...]:
    untested = {dtype: CellRow(dtype, Status.UNTESTED, 0, 0) for dtype in columns}
    cells: dict[int, dict[str, CellRow]] = {}
    ids = [op.id for op in ops]
    for row in conn.execute(stored.CELLS.where(m.cell.c.run_id == run.id, m.cell.c.op_id.in_(ids))):
        cells.setdefault(row.op_id, {})[row.dtype] = stored.cell_row(row)
    return tuple(
        MatrixRow(stored.op_row(op), {d: cells.get(op.id, {}).get(d, untested[d]) for d in columns}) for op in ops
    )
