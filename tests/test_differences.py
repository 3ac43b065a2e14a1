"""Two runs are compared exactly: every changed case lands in one group, and the way back is the mirror."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import gate_runs as g
import pytest
from neuron_ops.cli import main
from neuron_ops.coverage_db import differences
from neuron_ops.coverage_db.baselines import read_baseline, write_baseline
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.coverage_db.retention import prune_results
from neuron_ops.coverage_db.verdicts import Group, VersionChange
from neuron_ops.op_tests.records import BadInput, Result

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from neuron_ops.coverage_db.verdicts import Comparison
    from sqlalchemy import Engine

pytest_plugins = ["services"]

CHANGES: dict[int, tuple[Result | None, Group, bool]] = {
    0: (g.WRONG, Group.NEWLY_FAILING, True),
    1: (g.FALLBACK, Group.FALLBACK_GAINED, True),
    2: (g.TRANSLATED, Group.TRANSLATION_GAINED, True),
    3: (g.ulps(8.0), Group.ERROR_GROWN, True),
    4: (g.ulps(1.0, nmse=1e-9), Group.ERROR_GROWN, True),
    5: (None, Group.CASES_VANISHED, True),
    6: (g.SKIPPED, Group.CASES_VANISHED, True),
    20: (g.NATIVE, Group.FALLBACK_LOST, False),
    21: (g.CRASH, Group.NEWLY_FAILING, True),
    40: (g.NATIVE, Group.NEWLY_PASSING, False),
    41: (g.WRONG, Group.FAILING_OTHERWISE, True),
    42: (g.NATIVE, Group.TRANSLATION_LOST, False),
    43: (g.NATIVE, Group.CASES_ADDED, False),
}
SAME = {7: g.ulps(3.9), 8: g.ulps(0.1, nmse=1e-30), 9: g.ulps(1.9, nmse=1.5e-13)}
"""Errors that are no difference: smaller than the factor, or below what rounding alone does."""


def _compare(engine: Engine, changed: Mapping[int, Result | None]) -> tuple[Comparison, Comparison]:
    before, after = g.night(engine), g.night(engine, changed)
    with read(engine) as conn:
        return differences.compare(conn, before, after), differences.compare(conn, after, before)


def test_every_change_is_in_its_group_and_nothing_else_is(engine: Engine) -> None:
    found, back = _compare(engine, {n: result for n, (result, _, _) in CHANGES.items()} | SAME)
    assert {d.case.key: (d.group, d.regression) for d in found.differences} == {
        g.CASES[n].key: (group, regression) for n, (_, group, regression) in CHANGES.items()
    }
    assert {(d.case, d.group, d.before, d.after) for d in found.differences} == {
        (d.case, d.group.mirror, d.after, d.before) for d in back.differences
    }
    wrong = next(d for d in found.differences if d.case.key == g.CASES[0].key)
    assert wrong.sentence == f"aten.add.Tensor float32 forward hand/0 ({g.CASES[0].key[:8]}): native before, wrong now"
    grown = next(d for d in found.differences if d.case.key == g.CASES[3].key)
    assert grown.change == "native, 1 ulp (NMSE 1e-14) before, 8 ulp (NMSE 1e-14) now"
    assert wrong.message == g.WRONG.message
    assert (found.before.measured, found.after.measured) == (g.MEASURED, g.MEASURED - 1)


def test_a_run_does_not_differ_from_its_like(engine: Engine) -> None:
    found, _ = _compare(engine, {})
    assert (found.differences, found.product, found.harness) == ((), (), ())


def test_a_new_case_that_fails_is_a_regression(engine: Engine) -> None:
    found, back = _compare(engine, {43: g.WRONG})
    assert [(d.group, d.regression) for d in found.differences] == [(Group.CASES_ADDED, True)]
    assert [(d.group, d.regression) for d in back.differences] == [(Group.CASES_VANISHED, True)]


def test_errors_that_are_no_numbers_count_as_the_largest(engine: Engine) -> None:
    found, back = _compare(engine, {0: g.ulps(float("nan")), 1: g.ulps(float("inf"))})
    assert [d.group for d in found.differences] == [Group.ERROR_GROWN] * 2
    assert [d.group for d in back.differences] == [Group.ERROR_SHRUNK] * 2
    before, after = g.night(engine, {0: g.ulps(float("inf"))}), g.night(engine, {0: g.ulps(float("nan"))})
    with read(engine) as conn:
        assert differences.compare(conn, before, after).differences == ()


def test_where_ulp_and_nmse_disagree_ulp_decides_so_that_the_way_back_is_the_mirror(engine: Engine) -> None:
    one, two = g.night(engine, {0: g.ulps(1.0, nmse=1e-3)}), g.night(engine, {0: g.ulps(8.0, nmse=1e-9)})
    with read(engine) as conn:
        there, back = differences.compare(conn, one, two), differences.compare(conn, two, one)
    assert [d.group for d in there.differences] == [Group.ERROR_GROWN]
    assert [d.group for d in back.differences] == [Group.ERROR_SHRUNK]


def test_changes_of_the_product_are_told_from_changes_of_the_harness(engine: Engine) -> None:
    before = g.night(engine, versions=g.VERSIONS | {"compiler": "2.1"})
    after = g.night(engine, versions=g.VERSIONS | {"torch": "2.14.1", "comparer": "2"})
    with read(engine) as conn:
        found = differences.compare(conn, before, after)
    assert found.product == (VersionChange("compiler", "2.1", None), VersionChange("torch", "2.13.0", "2.14.1"))
    assert found.harness == (VersionChange("comparer", "1", "2"),)


def test_runs_of_which_nothing_can_be_said_are_refused(engine: Engine) -> None:
    whole, killed = g.night(engine), g.night(engine, lost=3)
    empty = g.night(engine, dict.fromkeys(range(100), g.SKIPPED))
    old = g.night(engine)
    assert len(prune_results(engine, keep=1)) == 2
    with read(engine) as conn:
        for run, words in (
            (killed, "is failed and 3 of its 100 cases"),
            (empty, "measured no case"),
            (whole, "were dropped"),
        ):
            with pytest.raises(BadInput, match=words):
                differences.compare(conn, run, old)
            with pytest.raises(BadInput, match=words):
                differences.compare(conn, old, run)


def test_a_file_says_what_its_run_said(engine: Engine, tmp_path: Path) -> None:
    changed = {n: result for n, (result, _, _) in CHANGES.items()} | SAME
    before, after = g.night(engine), g.night(engine, changed)
    file = tmp_path / "base.gz"
    with read(engine) as conn:
        write_baseline(differences.record(conn, before), file)
        first = file.read_bytes()
        by_runs = differences.compare(conn, before, after)
        by_file = differences.compare(conn, read_baseline(file), after)
        write_baseline(differences.record(conn, before), file)
    assert file.read_bytes() == first
    assert first[4:8] == bytes(4)  # the time, which gzip keeps there
    assert by_file.differences == by_runs.differences
    lines = gzip.decompress(first).decode().splitlines()
    assert lines[1:] == sorted(lines[1:])
    assert lines[1] == "aten.add.Tensor\tbfloat16\tforward\thand/0\t0\tN\t1\t1e-14"


@pytest.mark.parametrize("damage", ["cut", "not gzip", "other json", "line missing", "empty", "absent", "a status"])
def test_a_baseline_that_cannot_be_read_is_one_sentence(tmp_path: Path, damage: str) -> None:
    engine = open_database(str(tmp_path / "x.sqlite"))
    run = g.night(engine)
    file = tmp_path / "base.gz"
    with read(engine) as conn:
        write_baseline(differences.record(conn, run), file)
    whole = file.read_bytes()
    text = gzip.decompress(whole)
    damaged = {
        "cut": whole[: len(whole) // 2], "not gzip": text, "other json": gzip.compress(b"[]\n"), "empty": b"",
        "line missing": gzip.compress(text.rpartition(b"\naten")[0] + b"\n"),
        "a status": gzip.compress(text.replace(b"\tN\t", b"\tQ\t", 1)),
    }  # fmt: skip
    if damage == "absent":
        file.unlink()
    else:
        file.write_bytes(damaged[damage])
    with pytest.raises(BadInput, match=r"base.gz cannot be read \(.*\); write one with"):
        read_baseline(file)
    engine.dispose()


def test_the_command_prints_groups_and_exits_with_1_where_anything_differs(tmp_path: Path, capsys) -> None:
    url = str(tmp_path / "x.sqlite")
    engine = open_database(url)
    before = g.night(engine)
    after = g.night(engine, {0: g.WRONG, 3: g.WRONG, 20: g.NATIVE}, versions=g.VERSIONS | {"torch": "2.14.1"})
    endless = g.night(engine, {0: g.ulps(float("inf"))})
    engine.dispose()

    def diff(*arguments: str) -> tuple[int, str, str]:
        code = main.run(["diff", *arguments, "--db", url])
        return code, *capsys.readouterr()

    code, out, _ = diff(before.slug, after.slug)
    key = g.CASES[20].key[:8]
    assert code == 1
    assert out.splitlines() == [
        f"{before.slug} → {after.slug}: 3 cases differ (99 and 99 measured)", "",
        "what was measured differs", "  torch: 2.13.0 → 2.14.1", "",
        "newly failing (2)",
        f"  aten.add.Tensor float32 forward hand/0 ({g.CASES[0].key[:8]}): native before, wrong now, and 1 more like it",
        "    output 0: wrong", "",
        "fallback lost (1)",
        f"  aten.exp.default float32 forward hand/0 ({key}): fallback before, native now",
    ]  # fmt: skip
    code, out, _ = diff(before.slug, after.slug, "--json")
    assert (code, [d["group"] for d in json.loads(out)["differences"]]) == (
        1,
        ["newly failing", "newly failing", "fallback lost"],
    )
    code, out, _ = diff(before.slug, endless.slug, "--json")
    assert json.loads(out)["differences"][0]["after"]["max_ulp"] == "inf"
    code, out, _ = diff(before.slug, before.slug)
    assert (code, out.count("\n")) == (0, 1)
    code, _, err = diff(before.slug, "nonsense")
    assert (code, err) == (
        2,
        "neuron-ops: There is no run 'nonsense' in this database; `neuron-ops runs` lists them.\n",
    )
