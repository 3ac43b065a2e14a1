"""Stores results of which one may be unstorable: that one is found and stored as our own error, the rest as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db.recorder import record_results
from neuron_ops.op_tests.records import Outcome, Result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

# What a server refuses in a value, and what drivers raise before they send one (SQLite's integers have 64 bits).
_REFUSED = (sa.exc.DataError, OverflowError, TypeError, ValueError)


def record_what_can_be(conn: Connection, run_id: int, results: Sequence[Result], ids: Mapping[str, int]) -> None:
    """Store results; where the database refuses one, halve until it is alone and store an error in its place.

    Without this one row would keep its whole batch from being stored for ever. Raises what is no matter of a value: a
    lost connection, a full disk, a broken constraint.
    """
    try:
        with conn.begin_nested():
            record_results(conn, run_id, results, ids=ids)
    except _REFUSED as error:
        if len(results) == 1:
            words = " ".join(str(getattr(error, "orig", None) or error).split())
            message = f"our fault: the result could not be stored ({words[:500]})"
            record_results(conn, run_id, [Result(results[0].case, Outcome.ERROR, message=message)], ids=ids)
            return
        middle = len(results) // 2
        record_what_can_be(conn, run_id, results[:middle], ids)
        record_what_can_be(conn, run_id, results[middle:], ids)
