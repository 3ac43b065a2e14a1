"""The self-test: every planted fault is caught, a blinded comparer is found out, and so is a list of faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from neuron_ops.cli.main import run
from neuron_ops.op_tests import comparer, mutation, selftest, values
from neuron_ops.op_tests.records import BadInput, Outcome, Result
from neuron_ops.op_tests.selftest_samples import ENDINGS, plots
from neuron_ops.op_tests.targets.sim.faults import FAULTS

DATA = Path(__file__).parent / "data"
REQUIRED = {
    "value", "one-element", "dtype", "shape", "stride", "nan-dropped", "infinity-sign", "zero-sign", "input-mutated",
    "out-not-resized", "view-detached", "mutation-missed", "gradient-scaled", "gradient-zero", "rng-ignored",
    "integer-through-float32", "low-precision", "zeros", "hidden-fallback", "hang", "abort", "unrepeatable", "refusal-missed",
}  # fmt: skip


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("selftest")
    selftest.write_samples(folder)
    return folder


@pytest.fixture(scope="module")
def healthy(samples: Path) -> list[selftest.Planted]:
    return list(selftest.plant_all("sim", samples))


def test_every_fault_that_is_planted_in_this_process_is_caught(healthy: list[selftest.Planted]) -> None:
    assert [p.to_json() for p in healthy if not p.caught] == []
    assert len(healthy) > 500
    assert len({p.overload for p in healthy}) >= 90


def test_every_kind_of_fault_is_planted(healthy: list[selftest.Planted]) -> None:
    kinds = {p.fault for p in healthy} | {fault for _, fault in ENDINGS}
    assert kinds >= REQUIRED
    elsewhere = {
        "nan",
        "infinity",
        "negative-infinity",
        "memory",
        "unrepeatable",
        "refusal-missed",
    }  # test_runner and others
    assert set(FAULTS) - kinds <= elsewhere
    assert {fault for plot in plots() for fault in plot.faults} <= set(FAULTS)


def test_it_is_the_same_every_time(samples: Path, healthy: list[selftest.Planted]) -> None:
    again = list(selftest.plant_all("sim", samples, {"one-element"}))
    assert again == [p for p in healthy if p.fault == "one-element"]


CHECKS = [
    (comparer, "_strides", {"stride"}),
    (mutation, "aliases", {"view-detached", "input-aliased"}),
    (mutation, "inputs", {"input-mutated"}),
    (mutation, "surroundings", {"written-outside"}),
    (values, "_placement", {"nan-dropped", "infinity-sign", "zero-sign"}),
    (values, "_distance_message", {"gradient-scaled", "gradient-zero", "low-precision"}),
]
"""A check and the faults that are missed without it. Dtype and shape are not here: a second check sees them."""


@pytest.mark.parametrize(("module", "name", "blind_to"), CHECKS, ids=[c[1] for c in CHECKS])
def test_a_check_of_the_comparer_that_is_blinded_is_found_out(
    module: Any, name: str, blind_to: set[str], samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, lambda *_: None)
    found = list(selftest.plant_all("sim", samples, blind_to))
    assert {p.fault for p in found if not p.caught} == blind_to


def test_a_case_that_fails_without_a_fault_hides_none(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparer, "_shapes", lambda _: "output 0: shape, of all things")
    found = list(selftest.plant_all("sim", samples, ["stride"]))
    assert len(found) > 20
    assert not any(p.caught for p in found)
    assert all("without the fault: wrong output 0: shape, of all things" in p.seen for p in found)


def test_faults_live_in_the_simulated_device(samples: Path) -> None:
    with pytest.raises(BadInput, match="cannot plant faults on target 'cpu'"):
        list(selftest.plant_all("cpu", samples))


def test_what_a_sandbox_says_of_endings() -> None:
    cases = selftest.ending_cases()
    outcomes = (Outcome.CRASH, Outcome.CRASH, Outcome.TIMEOUT)
    good = [Result(case.key, outcome) for case, outcome in zip(cases, outcomes, strict=True)]
    assert all(p.caught for p in selftest.ended(good))
    silent = selftest.ended([Result(cases[0].key, Outcome.PASS), good[2]])
    assert [(p.fault, p.caught, p.seen) for p in silent] == [
        ("abort", False, "pass"), ("segfault", False, "no result"), ("hang", True, "timeout"),
    ]  # fmt: skip


def test_the_command_reports_and_exits(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    few = [plot for plot in plots() if plot.overload in ("aten.t.default", "aten.expand.default")]
    monkeypatch.setattr(selftest, "plots", lambda: few)
    assert run(["selftest", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["planted"], found["caught"], found["missed"]) == (6, 6, [])
    assert found["target"] == "sim"
    monkeypatch.setattr(mutation, "aliases", lambda _: None)
    monkeypatch.setattr(selftest, "ENDINGS", ())
    assert run(["selftest"]) == 1
    text = capsys.readouterr().out
    assert "MISSED view-detached in aten.t.default float32 forward: pass native" in text
    assert "1 of 3 planted faults caught over 2 overloads on sim" in text
    assert run(["selftest", "--target", "cpu"]) == 2
    assert run(["selftest", "--target", "tpu"]) == 2
