"""What the bank covers, of which denominator, and why the rest has no cases."""

import json
import os
import subprocess
import sys

import pytest
import torch
from neuron_ops.cli import main
from neuron_ops.op_tests import bank as banks
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.coverage import Share, measure
from neuron_ops.op_tests.packing import pack

ONES = pack((torch.ones(2),), {})


@pytest.fixture
def small(tmp_path):
    """A bank of two dtypes: one overload with two axes, one that the reference refuses, two dropped."""
    for dtype, label in (("float32", "opinfo/relu/forward/0"), ("int8", "cast/float32/opinfo/relu/forward/0")):
        path = banks.bank_file(tmp_path, dtype, 0)
        path.parent.mkdir(parents=True, exist_ok=True)
        with banks.BankWriter(path, dtype, 0) as writer:
            writer.add("aten.relu.default", label, ONES, ["forward", "backward"] if dtype == "float32" else ["forward"])
            writer.add("aten.gcd.default", f"cast/int64/{dtype}", ONES, ["forward"], f"gcd refuses {dtype}")
            if dtype == "float32":
                writer.add("aten.linear.default", "hand/0", ONES, ["forward", "transposed"])
                writer.drop("aten.lu_solve.default", "search/1", "the CPU kernel died of SIGSEGV")
                writer.drop("aten.lu_solve.default", "search/2", "the CPU kernel died of SIGSEGV")
                writer.drop("aten.lu_solve.default", "", "RuntimeError: no")
                writer.drop("aten.linear.default", "search/1", "three runs over dirtied memory disagree")
    return tmp_path


def test_shares_are_of_the_denominators_and_refusals_do_not_count(small):
    found = measure(banks.Bank(small), ["float32", "int8"])
    counts = catalogue.denominators()
    assert found.shares == {"D_all": Share(2, counts.d_all), "D_key": Share(1, counts.d_key), "T1": Share(1, counts.t1)}
    assert found.per_dtype["int8"]["D_all"] == Share(1, counts.d_all)
    assert found.refused == {"float32": 1, "int8": 1}
    assert {axis: shares["D_all"].covered for axis, shares in found.per_axis.items()} == {
        "forward": 2, "backward": 1, "transposed": 1,
    }  # fmt: skip
    assert {source: shares["D_all"].covered for source, shares in found.per_source.items()} == {
        "opinfo": 1, "cast": 1, "hand": 1,
    }  # fmt: skip


def test_the_rest_is_listed_with_its_reason(small):
    without = measure(banks.Bank(small), ["float32", "int8"]).without
    assert "aten.linear.default" not in without
    assert without["aten.lu_solve.default"] == "the CPU kernel died of SIGSEGV"
    assert without["aten.gcd.default"] == "gcd refuses float32"
    assert without["aten.abs.default"] == "nothing was tried"
    assert len(without) == catalogue.denominators().d_all - 2
    assert measure(banks.Bank(small), ["int8"]).without["aten.gcd.default"] == "gcd refuses int8"


def test_percent():
    assert Share(1896, 2526).percent == 75.1
    assert Share(0, 0).percent == 0.0


def run(capsys, monkeypatch, folder, *arguments):
    monkeypatch.setenv("NEURON_OPS_CACHE", str(folder))
    code = main.run(["ops", "--coverage", *arguments])
    return code, capsys.readouterr()


def test_the_command_prints_json(small, capsys, monkeypatch):
    code, out = run(capsys, monkeypatch, small, "--json")
    report = json.loads(out.out)
    assert code == 0
    assert report["dtypes"] == ["float32", "int8"]
    assert report["D_key"]["covered"] == 1
    assert report["per_dtype"]["int8"]["refused"] == 1
    assert report["per_axis"]["transposed"]["D_all"]["covered"] == 1
    assert {"overload": "aten.gcd.default", "reason": "gcd refuses float32"} in report["without_cases"]


def test_the_command_prints_lines(small, capsys, monkeypatch):
    code, out = run(capsys, monkeypatch, small)
    assert code == 0
    assert "in 2 of 14 dtypes" in out.out
    assert "aten.lu_solve.default" in out.out


def test_without_a_bank_the_command_says_what_to_do(tmp_path, capsys, monkeypatch):
    code, out = run(capsys, monkeypatch, tmp_path)
    assert code == 2
    assert "run `neuron-ops bank build` first" in out.err


# --- the recorder's process ------------------------------------------------------------------------------------------


def recorder(monkeypatch, program):
    def start(self, dtypes, jobs, axes, log):
        return subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=log, env=dict(os.environ)
        )

    monkeypatch.setattr(banks.Bank, "_recording", start)


def test_progress_is_summed_over_donors_and_dtypes_and_chatter_is_passed_over(monkeypatch, tmp_path):
    recorder(monkeypatch, 'print(\'hello\\n["p", "any dtype", 500, 1000, "x"]\\n["p", "int8", 250, 1000, "y"]\')')
    seen = []
    banks.Bank(tmp_path).build(["int8", "bool"], lambda *event: seen.append(event))
    assert seen == [(500, 3000, "any dtype x"), (750, 3000, "int8 y")]


def test_a_recorder_that_fails_is_our_fault_with_its_last_words(monkeypatch, tmp_path):
    recorder(monkeypatch, "import sys; sys.exit('recorder: boom')")
    with pytest.raises(RuntimeError, match=r"(?s)exit code 1.*recorder: boom"):
        banks.Bank(tmp_path).build(["int8"], lambda *_: None)


def test_nothing_is_started_where_nothing_is_missing(small, monkeypatch):
    monkeypatch.setattr(banks.Bank, "_recording", lambda *_: pytest.fail("started a recorder"))
    banks.Bank(small).build(["float32", "int8"], lambda *_: None, axes=False)


def test_all_means_every_dtype(monkeypatch, tmp_path, capsys):
    asked = []
    monkeypatch.setattr(
        banks.Bank, "build", lambda self, dtypes, progress, *, jobs, axes: asked.append((dtypes, jobs, axes))
    )
    monkeypatch.setenv("NEURON_OPS_CACHE", str(tmp_path))
    assert main.run(["bank", "build", "--dtypes", "all", "--jobs", "3"]) == 0
    assert main.run(["bank", "build", "--dtypes", "int8", "--plain"]) == 0
    assert asked == [(banks.DTYPES, 3, True), (("int8",), 2, False)]
    assert len(capsys.readouterr().out.splitlines()) == len(banks.DTYPES) + 1


def test_a_bank_without_the_axes_is_missing_where_they_are_asked_for(tmp_path):
    for dtype, axes in (("float32", False), ("int8", True)):
        path = banks.bank_file(tmp_path, dtype, 0)
        path.parent.mkdir(parents=True, exist_ok=True)
        with banks.BankWriter(path, dtype, 0, axes=axes):
            pass
    assert banks.Bank(tmp_path).missing(["float32", "int8", "bool"]) == ["bool"]
    assert banks.Bank(tmp_path).missing(["float32", "int8", "bool"], axes=True) == ["float32", "bool"]
