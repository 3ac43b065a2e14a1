"""Writes many rows in one statement, several times as fast as through SQLAlchemy's rows (measured, 300,000 results).

SQLite gets one prepared statement for all rows, PostgreSQL one statement with an array a column.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Table

_ARRAYS: tuple[tuple[type[Any], str], ...] = (
    (sa.BigInteger, "bigint"), (sa.Integer, "integer"), (sa.Float, "double precision"), (sa.Boolean, "boolean"),
    (sa.LargeBinary, "bytea"), (sa.JSON, "text"), (sa.Text, "text"),
)  # fmt: skip


def insert(
    conn: Connection, table: Table, rows: Sequence[dict[str, Any]], *, keys: tuple[str, ...], update: bool = False
) -> None:
    """Insert rows, all with the same columns; one with the keys of a stored row is left out, or overwrites it.

    No two of the rows may have the same keys. Values of JSON columns are given as JSON values.
    """
    if not rows:
        return
    names = tuple(rows[0])
    columns = [_column(table, name, rows) for name in names]
    statement = _statement(conn.dialect.name, table, names, keys, update)
    if conn.dialect.name == "postgresql":
        conn.exec_driver_sql(statement, tuple(columns))
    else:
        conn.exec_driver_sql(statement, list(zip(*columns, strict=True)))


def _column(table: Table, name: str, rows: Sequence[dict[str, Any]]) -> list[Any]:
    values = [row[name] for row in rows]
    if isinstance(table.c[name].type, sa.JSON):
        return [None if value is None else json.dumps(value) for value in values]
    return values


@cache
def _statement(dialect: str, table: Table, names: tuple[str, ...], keys: tuple[str, ...], update: bool) -> str:
    quoted = ", ".join(names)
    if dialect == "postgresql":
        arrays = ", ".join(f"%s::{_array(table, name)}[]" for name in names)
        chosen = ", ".join(f"{n}::json" if isinstance(table.c[n].type, sa.JSON) else n for n in names)
        source = f"SELECT {chosen} FROM unnest({arrays}) AS given({quoted})"  # noqa: S608 - names are those of our models
    else:
        source = f"VALUES ({', '.join('?' * len(names))})"
    changed = ", ".join(f"{name} = excluded.{name}" for name in names if name not in keys)
    act = f"UPDATE SET {changed}" if update else "NOTHING"
    return f'INSERT INTO "{table.name}" ({quoted}) {source} ON CONFLICT ({", ".join(keys)}) DO {act}'


def _array(table: Table, name: str) -> str:
    return next(word for kind, word in _ARRAYS if isinstance(table.c[name].type, kind))
