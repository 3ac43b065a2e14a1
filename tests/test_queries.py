"""What pages are made of, against a run counted by hand (small_run.py)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import small_run
import sqlalchemy as sa
from neuron_ops.cli.main import run as neuron_ops
from neuron_ops.coverage_db import queries, recorder, spelling
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.queries import Matrix, MatrixQuery
from neuron_ops.coverage_db.rows import ordered_dtypes
from neuron_ops.op_tests.records import BadInput, Evidence, Outcome, Part, Route, Status
from sqlalchemy import Engine, event

if TYPE_CHECKING:
    from pathlib import Path

pytest_plugins = ["services"]


def _numbers(engine: Engine, run_id: int | None) -> dict[str, tuple[int, int]]:
    with read(engine) as conn:
        return {number.id: (number.n, number.m) for number in numbers(conn, run_id)}


def _matrix(engine: Engine, **fields: object) -> Matrix:
    with read(engine) as conn:
        run = queries.latest_run(conn)
        assert run is not None
        return queries.matrix(conn, run, MatrixQuery(**fields))  # type: ignore[arg-type]


def _names(matrix: Matrix) -> list[str]:
    return [row.op.name.removeprefix("aten.") for row in matrix.rows]


def _found(engine: Engine, text: str, limit: int = 20) -> list[str]:
    with read(engine) as conn:
        return [op.name.removeprefix("aten.") for op in queries.search(conn, text, limit)]


def test_numbers_are_those_counted_by_hand(engine: Engine) -> None:
    run_id = small_run.record(engine)
    assert _numbers(engine, run_id) == {
        "core-native": (4, 9),  # 5 core overloads × 2, less add.Scalar in bfloat16, which the reference refuses
        "core-on-device": (5, 9),  # and add.Scalar in float32, translated
        "key-native": (3, 7),
        "hard-core-native": (2, 5),
        "hardware-cells": (0, 13),
    }
    with read(engine) as conn:
        first, *_, last = numbers(conn, run_id)
    assert (first.evidence, last.evidence) == (Evidence.SIMULATED, Evidence.HARDWARE)
    assert "5 overloads × 2, less 1 cells" in first.definition


def test_numbers_without_a_run_keep_their_denominators(engine: Engine) -> None:
    assert set(_numbers(engine, None).values()) == {(0, 0)}
    with write(engine) as conn:
        recorder.record_operators(conn, small_run.OPERATORS)
    expected = {"core-native": (0, 10), "core-on-device": (0, 10), "key-native": (0, 7), "hard-core-native": (0, 5)}
    assert _numbers(engine, None) == expected | {"hardware-cells": (0, 0)}


def test_hardware_counts_only_the_neuron_target_on_hardware(engine: Engine) -> None:
    small_run.record(engine)
    small_run.record(engine, replace(small_run.NEURON, evidence=Evidence.SIMULATED))
    assert _numbers(engine, None)["hardware-cells"] == (0, 26)
    small_run.record(engine, small_run.NEURON)
    # 13 cells less the untested and the refused one; m has the latest run of both targets, not all three runs
    assert _numbers(engine, None)["hardware-cells"] == (11, 26)
    small_run.start(engine, replace(small_run.NEURON, versions={"torch": "2.14"}))
    assert _numbers(engine, None)["hardware-cells"] == (11, 26)


def test_the_latest_run_is_the_newest_done_one(engine: Engine) -> None:
    with read(engine) as conn:
        assert queries.latest_run(conn) is None
        assert queries.runs(conn) == ()
    running = small_run.start(engine)
    with read(engine) as conn:
        found = queries.latest_run(conn)
    assert found is not None
    assert (found.id, found.state, found.finished) == (running, "running", None)
    done = small_run.record(engine)
    small_run.start(engine)
    neuron = small_run.record(engine, small_run.NEURON)
    with read(engine) as conn:
        by_target = {t: queries.latest_run(conn, t) for t in ("sim", "neuron", "cuda")}
        assert {t: r.id if r else None for t, r in by_target.items()} == {"sim": done, "neuron": neuron, "cuda": None}
        assert [r.id for r in queries.runs(conn, target="sim")] == [done + 1, done, running]
        assert [r.id for r in queries.runs(conn, limit=1)] == [neuron]
        run = by_target["neuron"]
        assert run is not None
        assert queries.run_by_slug(conn, run.slug) == run
        assert queries.run_by_slug(conn, "2026-01-01-\0nope") is None
    assert (run.target, run.evidence, run.versions) == ("neuron", Evidence.HARDWARE, small_run.NEURON.versions)
    assert (run.planned, run.seed, run.selection, run.dtypes) == (22, 7, "--all", ("float32", "bfloat16"))
    assert run.denominators == small_run.DENOMINATORS.to_json()
    assert run.finished is not None
    assert run.started.utcoffset() == run.finished.utcoffset() == run.started - run.started
    assert run.slug.startswith(f"{run.started:%Y-%m-%d}-")


def test_the_matrix_has_every_overload_of_the_denominator(engine: Engine) -> None:
    small_run.record(engine)
    matrix = _matrix(engine)
    assert _names(matrix) == [
        "_flash.default", "add.Scalar", "add.Tensor", "add_.Tensor", "addmm.default", "gelu.default",
        "linalg_inv.default",
        "native_layer_norm.default", "scaled_dot_product_attention.default",
    ]  # fmt: skip
    assert (matrix.total, matrix.page, matrix.pages, matrix.dtypes) == (9, 1, 1, ("float32", "bfloat16"))
    gelu = matrix.rows[5].cells
    assert (gelu["float32"].status, gelu["float32"].k, gelu["float32"].n) == (Status.FALLBACK, 2, 3)
    assert gelu["bfloat16"].composite
    assert gelu["bfloat16"].parts == (Part("aten.mul.Tensor", Route.NATIVE, 2), Part("aten.erf.default", None))
    assert {c.status for c in matrix.rows[8].cells.values()} == {Status.UNTESTED}


def test_the_matrix_is_filtered(engine: Engine) -> None:
    small_run.record(engine)
    assert _names(_matrix(engine, statuses=("W", "X"))) == ["add.Tensor", "addmm.default"]
    assert _names(_matrix(engine, statuses=("W", "X"), dtypes=("float32",))) == []
    assert _matrix(engine, dtypes=("bfloat16", "int8")).dtypes == ("bfloat16",)
    untested = _names(_matrix(engine, statuses=("–",), dtypes=("float32",)))
    assert untested == ["linalg_inv.default", "scaled_dot_product_attention.default"]
    assert _names(_matrix(engine, tags=("pointwise",), kinds=("inplace",))) == ["add_.Tensor"]
    assert _names(_matrix(engine, tiers=("T2",))) == ["add.Scalar", "native_layer_norm.default"]
    assert _names(_matrix(engine, families=("pointwise",), tiers=("T1",), words="torch.gelu")) == ["gelu.default"]
    assert _names(_matrix(engine, words="dot product")) == ["scaled_dot_product_attention.default"]
    assert _names(_matrix(engine, words="nothing has this")) == []
    with pytest.raises(BadInput, match="'Q' is unknown"):
        _matrix(engine, statuses=("Q",))


def test_an_excluded_overload_appears_when_named(engine: Engine) -> None:
    small_run.record(engine)
    for words in ("aten::quantize.default", "quantize", "aten.quantize"):
        assert _names(_matrix(engine, words=words)) == ["quantize.default"]
    assert _names(_matrix(engine, words="quantiz")) == []


def test_facets_count_what_each_value_would_show(engine: Engine) -> None:
    small_run.record(engine)
    facets = _matrix(engine).facets
    assert facets["tiers"] == {"T1": 5, "T2": 2, "T3": 2}
    assert facets["tags"] == {"core": 5, "pointwise": 4}
    assert facets["kinds"] == {"functional": 8, "inplace": 1}
    assert facets["families"] == {"other": 4, "pointwise": 5}
    assert facets["dtypes"] == {"float32": 7, "bfloat16": 4}
    assert facets["statuses"] == {"W": 1, "X": 1, "T": 1, "U": 1, "C": 1, "D": 1, "N": 4, "–": 5, "n/a": 1}
    # A field's own choice leaves its alternatives to choose from; a dtype counts where it has the letter asked for.
    chosen = _matrix(engine, tiers=("T1",)).facets
    assert (chosen["tiers"], chosen["kinds"]) == (facets["tiers"], {"functional": 4, "inplace": 1})
    assert _matrix(engine, statuses=("W",)).facets["statuses"] == facets["statuses"]
    assert _matrix(engine, statuses=("W", "D")).facets["dtypes"] == {"float32": 1, "bfloat16": 1}
    # Each count is what choosing the value gives, with the other fields as they are.
    for chosen in (MatrixQuery(), MatrixQuery(tiers=("T1",), statuses=("N", "C")), MatrixQuery(kinds=("inplace",))):
        fields = {name: getattr(chosen, name) for name in ("statuses", "tiers", "kinds")}
        for name in ("statuses", "families", "tiers", "tags", "kinds"):
            for value, count in _matrix(engine, **fields).facets[name].items():
                assert _matrix(engine, **{**fields, name: (value,)}).total == count, (name, value, fields)


def test_pages_cover_every_overload_once(engine: Engine) -> None:
    small_run.record(engine)
    pages = [_matrix(engine, size=4, page=number) for number in (1, 2, 3)]
    assert [len(page.rows) for page in pages] == [4, 4, 1]
    assert [name for page in pages for name in _names(page)] == _names(_matrix(engine))
    assert [_matrix(engine, size=4, page=number).page for number in (-1, 0, 99)] == [1, 1, 3]
    assert len(_matrix(engine, size=0).rows) == 1


def test_an_overload_page_has_cells_cases_and_siblings(engine: Engine) -> None:
    small_run.record(engine)
    with read(engine) as conn:
        run = queries.latest_run(conn)
        page = queries.overload(conn, run, "aten::add.Tensor")
        assert page == queries.overload(conn, run, "aten.add.Tensor")
        assert queries.overload(conn, run, "aten.add") is None
        bare = queries.overload(conn, None, "aten.add.Tensor")
    assert page is not None
    assert bare is not None
    assert (bare.op, bare.cells, bare.cases) == (page.op, {}, ())
    assert [op.name for op in page.siblings] == ["aten.add.Scalar"]
    assert list(page.cells) == ["float32", "bfloat16"]
    assert [(c.case.dtype, c.case.sample[-1]) for c in page.cases] == [
        (dtype, number) for dtype in ("float32", "bfloat16") for number in "012"
    ]
    wrong = page.cases[5]
    assert (wrong.outcome, wrong.status, wrong.message) == (
        Outcome.WRONG,
        Status.WRONG,
        "wrong of aten.add.Tensor\nsecond line",
    )
    assert (wrong.device_figures, wrong.received, wrong.device_ms) == (small_run.FIGURES, "aten.add.Tensor.out", 1.5)
    assert wrong.case.case.key == wrong.case.key


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("aten::add.Tensor", ["add.Tensor"]),
        ("aten.add.Tensor", ["add.Tensor"]),
        ("ATEN.ADD.TENSOR", ["add.Tensor"]),
        ("add.Scalar", ["add.Scalar"]),
        ("torch.add", ["add.Scalar", "add.Tensor", "add_.Tensor"]),
        ("add", ["add.Scalar", "add.Tensor", "add_.Tensor", "addmm.default"]),
        ("add_", ["add_.Tensor", "add.Scalar", "add.Tensor"]),
        ("torch.Tensor.add_", ["add_.Tensor"]),
        ("torch.ops.aten.addmm.default", ["addmm.default"]),
        ("F.gelu", ["gelu.default"]),
        ("torch.nn.functional.gelu(x)", ["gelu.default"]),
        ("nn.GELU", ["gelu.default"]),
        ("torch.linalg.inv", ["linalg_inv.default"]),
        ("nn.LayerNorm", ["native_layer_norm.default"]),
        ("scaled dot product", ["scaled_dot_product_attention.default"]),
        ("attention dot", ["scaled_dot_product_attention.default"]),
        ("Could not run 'aten::add_.Tensor' with arguments from the 'Neuron' backend.", ["add_.Tensor"]),
        ("norm", ["native_layer_norm.default"]),
    ],
)
def test_search_takes_every_spelling(searchable: Engine, text: str, first: list[str]) -> None:
    assert _found(searchable, text)[: len(first)] == first


def test_outer_underscores_weigh_less_than_a_longer_name() -> None:
    asked = spelling.read_spelling("softmax")
    ranks = [
        spelling.rank(f"aten.{packet}.default", asked) for packet in ("softmax", "_softmax", "softmax_x", "x_softmax")
    ]
    assert ranks == [1, 2, 4, 5]


@pytest.mark.parametrize("text", ["", "   ", "()", "nothing like it", "\0\udc80", "%", "_%_"])
def test_search_finds_nothing_where_nothing_fits(searchable: Engine, text: str) -> None:
    assert _found(searchable, text) == []


def test_search_keeps_its_limit_and_shows_excluded_last(searchable: Engine) -> None:
    assert _found(searchable, "a", limit=2) == _found(searchable, "a")[:2]
    assert _found(searchable, "add", limit=0) == []
    assert _found(searchable, "aten") == [
        "add.Scalar", "add.Tensor", "add_.Tensor", "gelu.default", "addmm.default", "_flash.default",
        "linalg_inv.default", "native_layer_norm.default", "scaled_dot_product_attention.default",
        "quantize.default",
    ]  # fmt: skip


@pytest.fixture(scope="module")
def searchable(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    engine = open_database(str(tmp_path_factory.mktemp("search") / "x.sqlite"))
    with write(engine) as conn:
        recorder.record_operators(conn, small_run.OPERATORS)
    return engine


def test_a_case_is_found_by_the_start_of_its_key(engine: Engine) -> None:
    small_run.record(engine)
    case = small_run.cases()[0]
    with read(engine) as conn:
        for prefix in (case.key, case.key[:9].upper(), f" {case.key[:10]} "):
            found = queries.case_by_key(conn, prefix)
            assert found is not None
            assert (found.case, found.key) == (case, case.key)
        assert queries.case_by_key(conn, "0" * 31) is None
        for bad in ("", "xyz", "0" * 33, "0x12"):
            with pytest.raises(BadInput, match="is no key"):
                queries.case_by_key(conn, bad)
        digits = [c.key[0] for c in small_run.cases()]
        shared = next(d for d in digits if digits.count(d) > 1)
        with pytest.raises(BadInput, match="fits several cases"):
            queries.case_by_key(conn, shared)


def test_no_page_takes_more_than_eight_statements(engine: Engine) -> None:
    run_id = small_run.record(engine)
    statements: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def _count(conn: object, cursor: object, statement: str, *rest: object) -> None:
        if statement.startswith("SELECT"):
            statements.append(statement)

    with read(engine) as conn:
        run = queries.latest_run(conn)
        assert run is not None
        for page in (
            lambda: queries.matrix(conn, run, MatrixQuery(words="a")),
            lambda: queries.overload(conn, run, "aten.add.Tensor"),
            lambda: numbers(conn, run_id),
            lambda: queries.totals(conn, run),
            lambda: queries.search(conn, "add"),
        ):
            statements.clear()
            page()
            assert 0 < len(statements) <= 6, statements


def test_columns_begin_with_what_models_use() -> None:
    assert ordered_dtypes(["zeta", "int64", "bool", "bfloat16", "float32", "alpha", "int64"]) == (
        "float32", "bfloat16", "int64", "bool", "alpha", "zeta",
    )  # fmt: skip


def test_the_command_lists_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "x.sqlite")
    assert neuron_ops(["runs", "--db", path]) == 2
    assert "run `neuron-ops sweep` first" in capsys.readouterr().err
    engine = open_database(path)
    assert neuron_ops(["runs", "--db", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert neuron_ops(["runs", "--db", path]) == 0
    assert "no runs yet" in capsys.readouterr().err
    small_run.record(engine)
    small_run.start(engine, small_run.NEURON)
    assert neuron_ops(["runs", "--db", path]) == 0
    header, neuron, sim = capsys.readouterr().out.splitlines()
    assert header.split()[0] == "run"
    assert neuron.split()[1:4] == ["neuron", "hardware", "running"]
    assert sim.endswith("22     W:1 X:1 T:1 U:1 E:1 C:2 D:1 N:11 –:1 n/a:2")
    assert neuron_ops(["runs", "--db", path, "--json", "--target", "sim"]) == 0
    (only,) = json.loads(capsys.readouterr().out)
    assert (only["target"], only["counts"]["N"], only["versions"], "id" in only) == (
        "sim",
        11,
        {"torch": "2.13.0"},
        False,
    )
    engine.dispose()
    assert isinstance(engine, sa.Engine)
