"""Runs of one stream are compared exactly, also after their single results were dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import small_run
import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import nights, queries, recorder
from neuron_ops.coverage_db.database import read, write
from neuron_ops.coverage_db.nights import Stretch
from neuron_ops.coverage_db.retention import prune_results
from neuron_ops.op_tests.records import BadInput, Outcome, Result, Route, Status

if TYPE_CHECKING:
    from sqlalchemy import Engine

pytest_plugins = ["services"]


def _night(engine: Engine, changed: dict[int, Result]) -> int:
    """Store a whole run in which some results, by their number, are others."""
    return small_run.record(engine, changed=changed)


_WRONG = Result("", Outcome.WRONG, Route.NATIVE, message="now wrong")
_SKIPPED = Result("", Outcome.SKIPPED, message="not run")
_OTHER_WORDS = Result("", Outcome.TIMEOUT, message="no result within 9 s")


def test_changes_are_those_of_status_and_skips_say_nothing(engine: Engine) -> None:
    keys = [case.key for case in small_run.cases()]
    timeout = [r.outcome for r in small_run.results()].index(Outcome.TIMEOUT)
    first = _night(engine, {})
    second = _night(engine, {0: _WRONG, 1: _SKIPPED, timeout: _OTHER_WORDS})
    third = _night(engine, {1: _WRONG})
    with read(engine) as conn:
        assert nights.neighbours(conn, first) is None
        assert nights.neighbours(conn, third) == (second, third)
        one = nights.changes(conn, first, second)
        assert [(c.key, c.before, c.after) for c in one] == [(keys[0], Status.NATIVE, Status.WRONG)]
        two = {c.key: (c.before, c.after) for c in nights.changes(conn, second, third)}
        assert two == {keys[0]: (Status.WRONG, Status.NATIVE), keys[1]: (Status.NATIVE, Status.WRONG)}
        far = nights.changes(conn, first, third)
        assert [(c.key, c.overload, c.dtype) for c in far] == [(keys[1], "aten.add.Tensor", "float32")]
        assert nights.case_history(conn, third, keys[0]) == (
            Stretch(1, 1, Status.NATIVE), Stretch(2, 2, Status.WRONG), Stretch(3, None, Status.NATIVE),
        )  # fmt: skip
        assert nights.case_history(conn, third, keys[timeout]) == (Stretch(1, None, Status.TIMEOUT),)


def test_an_operators_history_has_a_letter_for_each_night(engine: Engine) -> None:
    last = [_night(engine, changed) for changed in ({}, {0: _WRONG}, {})][-1]
    with read(engine) as conn:
        found = nights.operator_history(conn, last, "aten.add.Tensor")
    assert [(n.seq, n.dtype, n.status.value, n.k, n.n) for n in found] == [
        (1, "bfloat16", "W", 1, 3), (1, "float32", "N", 3, 3), (2, "bfloat16", "W", 1, 3),
        (2, "float32", "W", 1, 3), (3, "bfloat16", "W", 1, 3), (3, "float32", "N", 3, 3),
    ]  # fmt: skip


def test_runs_that_are_not_done_or_of_two_streams_are_not_compared(engine: Engine) -> None:
    first = _night(engine, {})
    unfinished = small_run.start(engine)
    other = small_run.record(engine, small_run.NEURON)
    with read(engine) as conn:
        with pytest.raises(BadInput, match="is not done"):
            nights.changes(conn, first, unfinished)
        with pytest.raises(BadInput, match="two streams"):
            nights.changes(conn, first, other)


def test_dropped_results_leave_cells_totals_and_history(engine: Engine) -> None:
    runs = [_night(engine, changed) for changed in ({}, {0: _WRONG}, {})]
    with read(engine) as conn:
        before = nights.changes(conn, runs[0], runs[1])
        row = queries.run_by_id(conn, runs[0])
        assert row is not None
        totals = queries.totals(conn, row)
    assert len(prune_results(engine, keep=2)) == 1
    assert prune_results(engine, keep=2) == []
    with read(engine) as conn:
        assert nights.changes(conn, runs[0], runs[1]) == before
        assert queries.totals(conn, row) == totals
        page = queries.overload(conn, row, "aten.add.Tensor")
        assert page is not None
        assert (len(page.cells), page.cases) == (2, ())
        for table, left in ((m.result, 44), (m.run_case, 44), (m.cell, 39)):
            assert conn.execute(sa.select(sa.func.count()).select_from(table)).scalar() == left
    with write(engine) as conn, pytest.raises(BadInput, match="were dropped"):
        recorder.finalize_run(conn, runs[0])
