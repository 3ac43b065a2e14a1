"""What is stored of runs: twice the same is once, nothing is lost in silence, text is made storable."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import small_run
import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import queries, recorder
from neuron_ops.coverage_db.cells import LOST
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.op_tests.records import BadInput, Case, FallbackReason, Outcome, Part, Result, Route, Status
from sqlalchemy import Engine

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["services"]


def _dump(engine: Engine, table: sa.Table) -> list[tuple[object, ...]]:
    with read(engine) as conn:
        return sorted((tuple(row) for row in conn.execute(sa.select(table))), key=repr)


def _cells(engine: Engine, run_id: int) -> dict[tuple[str, str], sa.Row[object]]:
    with read(engine) as conn:
        rows = conn.execute(sa.select(m.op.c.name, m.cell).join(m.op).where(m.cell.c.run_id == run_id)).all()
    return {(row.name, row.dtype): row for row in rows}


def test_recording_twice_is_recording_once(engine: Engine) -> None:
    run_id = small_run.record(engine)
    tables = [m.op, m.case_, m.result, m.run_case, m.cell, m.parts, m.error_signature, m.run]
    before = {table.name: _dump(engine, table) for table in tables}
    assert len(before["result"]) == 22
    with write(engine) as conn:
        recorder.record_operators(conn, small_run.OPERATORS)
        recorder.record_results(conn, run_id, small_run.results())
        recorder.finalize_run(conn, run_id)
    assert {table.name: _dump(engine, table) for table in tables} == before


def test_a_changed_result_overwrites_every_column(engine: Engine) -> None:
    run_id = small_run.record(engine)
    old = next(r for r in small_run.results() if r.composite)
    new = Result(old.case, Outcome.WRONG, Route.FALLBACK, FallbackReason.HOST, "now wrong", reference_ms=9.0)
    with write(engine) as conn:
        recorder.record_results(conn, run_id, [old, new])
        recorder.finalize_run(conn, run_id)
    with read(engine) as conn:
        page = queries.overload(conn, queries.latest_run(conn), "aten.gelu.default")
    assert page is not None
    stored = next(c for c in page.cases if c.case.key == old.case)
    assert (stored.outcome, stored.route, stored.reason, stored.message) == (
        new.outcome,
        new.route,
        new.reason,
        new.message,
    )
    assert (stored.composite, stored.parts, stored.received, stored.device_ms, stored.reference_ms) == (
        False,
        (),
        None,
        None,
        9,
    )
    assert page.cells["bfloat16"].status is Status.WRONG
    assert len(_dump(engine, m.result)) == 22


def test_an_operator_is_brought_up_to_date(engine: Engine) -> None:
    small_run.record(engine)
    changed = replace(small_run.OPERATORS[0], tier="T3", excluded="gone", tags=())
    with write(engine) as conn:
        recorder.record_operators(conn, [changed])
    with read(engine) as conn:
        (found,) = queries.search(conn, changed.name, limit=1)
    assert (found.tier, found.excluded, found.tags) == ("T3", "gone", ())


@pytest.mark.parametrize(
    ("name", "dtype", "status", "k", "n"),
    [
        ("aten.add.Tensor", "float32", "N", 3, 3),
        ("aten.add.Tensor", "bfloat16", "W", 1, 3),
        ("aten.add.Scalar", "float32", "D", 1, 1),
        ("aten.add.Scalar", "bfloat16", "n/a", 1, 1),
        ("aten.add_.Tensor", "float32", "T", 1, 2),
        ("aten.gelu.default", "float32", "C", 2, 3),
        ("aten.addmm.default", "bfloat16", "X", 1, 1),
        ("aten.native_layer_norm.default", "float32", "N", 1, 1),
        ("aten.linalg_inv.default", "float32", "–", 1, 1),
    ],
)
def test_a_cell_is_the_worst_of_its_cases(tmp_path: Path, name: str, dtype: str, status: str, k: int, n: int) -> None:
    engine = open_database(str(tmp_path / "x.sqlite"))
    cell = _cells(engine, small_run.record(engine))[name, dtype]
    assert (cell.status, cell.k, cell.n) == (status, k, n)
    engine.dispose()


def test_totals_are_counted_by_letter(engine: Engine) -> None:
    run_id = small_run.record(engine)
    with write(engine) as conn:
        totals = recorder.finalize_run(conn, run_id)
    assert (totals.planned, totals.recorded, totals.lost) == (22, 22, 0)
    assert totals.counts == {"N": 11, "W": 1, "D": 1, "n/a": 2, "C": 2, "X": 1, "T": 1, "E": 1, "U": 1, "–": 1}
    assert totals.cells == {"N": 5, "W": 1, "D": 1, "n/a": 1, "C": 1, "X": 1, "T": 1, "U": 1, "–": 1}
    cells = _cells(engine, run_id)
    assert cells["aten.gelu.default", "float32"].reason == "unimplemented"
    assert cells["aten.add.Tensor", "bfloat16"].reason == "wrong of aten.add.Tensor"
    assert cells["aten.gelu.default", "bfloat16"].composite
    assert cells["aten.gelu.default", "float32"].counts == {"C": 2, "N": 1}
    with read(engine) as conn:
        run = queries.latest_run(conn)
        assert run is not None
        assert run.state == "done"
        assert queries.totals(conn, run) == totals


def test_a_lost_case_fails_the_run_until_its_result_arrives(engine: Engine) -> None:
    run_id = small_run.start(engine)
    found = small_run.results()
    late = next(r for r, c in zip(found, small_run.cases(), strict=True) if c.overload == "aten.addmm.default")
    with write(engine) as conn:
        recorder.record_results(conn, run_id, [r for r in found if r is not late])
        totals = recorder.finalize_run(conn, run_id)
    assert (totals.planned, totals.recorded, totals.lost) == (22, 21, 1)
    assert (totals.counts["N"], totals.counts["–"]) == (10, 2)
    cell = _cells(engine, run_id)["aten.addmm.default", "float32"]
    assert (cell.status, cell.k, cell.n, cell.counts) == ("N", 1, 2, {"N": 1, "–": 1})
    with read(engine) as conn:
        run = queries.latest_run(conn)
        assert run is not None
        page = queries.overload(conn, run, "aten.addmm.default")
    assert page is not None
    assert run.state == "failed"
    assert [c.outcome for c in page.cases if c.case.key == late.case] == [None]
    with write(engine) as conn:
        recorder.record_results(conn, run_id, [late])
        assert recorder.finalize_run(conn, run_id).lost == 0
    assert {row.state for row in _rows(engine, m.run)} == {"done"}


def _rows(engine: Engine, table: sa.Table) -> list[sa.Row[object]]:
    with read(engine) as conn:
        return list(conn.execute(sa.select(table)).all())


def test_a_cell_with_no_result_says_so(engine: Engine) -> None:
    run_id = small_run.start(engine)
    with write(engine) as conn:
        recorder.finalize_run(conn, run_id)
    cell = _cells(engine, run_id)["aten.add.Tensor", "float32"]
    assert (cell.status, cell.k, cell.n, cell.reason) == ("–", 3, 3, LOST)


def test_a_case_named_twice_is_planned_once(engine: Engine) -> None:
    with write(engine) as conn:
        recorder.record_operators(conn, small_run.OPERATORS)
        twice = [*small_run.cases(), *small_run.cases()]
        started = recorder.start_run(
            conn, build=small_run.SIM, denominators=small_run.DENOMINATORS, cases=twice, seed=0, selection=""
        )
        recorder.record_results(conn, started.run_id, small_run.results())
        assert recorder.finalize_run(conn, started.run_id).lost == 0


def test_a_second_run_shares_cases_and_versions(engine: Engine) -> None:
    first, second = small_run.record(engine), small_run.record(engine)
    assert first != second
    assert [len(_rows(engine, t)) for t in (m.case_, m.software, m.target, m.result)] == [22, 1, 1, 44]
    assert len({row.slug for row in _rows(engine, m.run)}) == 2


def test_what_a_run_did_not_plan_is_refused(engine: Engine) -> None:
    run_id = small_run.start(engine)
    stranger = Result(Case("aten.add.Tensor", "int8", "other").key, Outcome.PASS, Route.NATIVE)
    with pytest.raises(BadInput, match="did not plan"), write(engine) as conn:
        recorder.record_results(conn, run_id, [*small_run.results(), stranger])
    assert _rows(engine, m.result) == []
    with pytest.raises(BadInput, match="no run 99"), write(engine) as conn:
        recorder.finalize_run(conn, 99)


@pytest.mark.parametrize(
    ("case", "seed", "message"),
    [(Case("aten.nope.default", "float32", "s"), 0, "aten.nope.default"), (small_run.cases()[0], 2**63, "64 bits")],
)
def test_a_plan_that_cannot_be_stored_is_refused(engine: Engine, case: Case, seed: int, message: str) -> None:
    with write(engine) as conn:
        recorder.record_operators(conn, small_run.OPERATORS)
    with pytest.raises(BadInput, match=message), write(engine) as conn:
        recorder.start_run(
            conn, build=small_run.SIM, denominators=small_run.DENOMINATORS, cases=[case], seed=seed, selection=""
        )
    assert _rows(engine, m.run) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain – text", "plain – text"),
        ("nul\0 inside", "nul inside"),
        ("lone \udc80 surrogate", "lone \\udc80 surrogate"),
        ("é" * 4097, "é" * 4091 + " … (cut)"),
        ("x" * 8192, "x" * 8192),
    ],
)
def test_any_text_is_made_storable(text: str, expected: str) -> None:
    assert m.sanitize(text) == expected
    assert len(m.sanitize(text).encode()) <= 8192


def test_hostile_text_and_figures_reach_the_page(engine: Engine) -> None:
    run_id = small_run.start(engine)
    key = small_run.cases()[0].key
    hostile = Result(
        key, Outcome.ERROR, message="a\0b\udcff" + "ü" * 9000, received="re\0ceived\ud800",
        parts=(Part("bad\0\udc80", None, 3),), device_figures=small_run.FIGURES,
    )  # fmt: skip
    with write(engine) as conn:
        recorder.record_results(conn, run_id, [hostile])
        recorder.finalize_run(conn, run_id)
    with read(engine) as conn:
        page = queries.overload(conn, queries.latest_run(conn), "aten.add.Tensor")
    assert page is not None
    stored = next(c for c in page.cases if c.case.key == key)
    assert stored.message is not None
    assert stored.message.startswith("ab\\udcffü")
    assert stored.received == "received\\ud800"
    assert stored.parts == (Part("bad\\udc80", None, 3),)
    assert stored.device_figures == small_run.FIGURES
    assert stored.reference_figures is None


def test_two_writers_on_one_file_wait_for_each_other(tmp_path: Path) -> None:
    path = str(tmp_path / "two.sqlite")
    first = open_database(path)
    run_id = small_run.start(first)
    found = small_run.results()
    begin = threading.Barrier(2)
    failures: list[BaseException] = []

    def work(mine: list[Result]) -> None:
        engine = open_database(path)
        begin.wait()
        try:
            for _ in range(20):
                for (
                    result
                ) in mine:  # a read and then a write in each transaction: what deadlocks when BEGIN is deferred
                    with write(engine) as conn:
                        recorder.record_results(conn, run_id, [result])
        except sa.exc.DBAPIError as error:
            failures.append(error)
        finally:
            engine.dispose()

    threads = [threading.Thread(target=work, args=(part,)) for part in (found[::2], found[1::2])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with write(first) as conn:
        assert recorder.finalize_run(conn, run_id).lost == 0
    first.dispose()
