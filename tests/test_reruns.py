"""A changed case is run again alone, in a fresh process each time, before the gate counts it."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from neuron_ops.cli import main
from neuron_ops.coverage_db import leases
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import BANK_VERSION, COMPARER_VERSION, BadInput, Build, Evidence, Outcome
from neuron_ops.workers import local
from neuron_ops.workers.batch import RunOptions
from neuron_ops.workers.planner import PlanRequest, SweepPlan, request_plan
from neuron_ops.workers.reruns import run_again
from neuron_ops.workers.sandbox import Limits

HERE = Path(__file__).parent
VERSIONS = {"fake-torch": "0.0", "bank": str(BANK_VERSION), "comparer": str(COMPARER_VERSION)}
OPTIONS = RunOptions(Limits(seconds=20), session="fake_sessions:open_session")


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("NEURON_OPS_DATA", str(tmp_path))
    monkeypatch.setenv("NEURON_OPS_CACHE", str(tmp_path))
    monkeypatch.delenv("NEURON_OPS_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)


def planned(tmp_path: Path, *ops: str) -> SweepPlan:
    request = PlanRequest("fake", ops, ("float32",), None, 7, tmp_path)
    found = request_plan(request, progress=lambda *_: None, plan="fake_sessions:make_plan")
    return dataclasses.replace(found, build=Build("fake", Evidence.SIMULATED, VERSIONS))


def to_do(target: str = "fake", versions: dict[str, str] = VERSIONS) -> leases.RunToDo:
    return leases.RunToDo(1, target, "done", versions, OPTIONS.to_json(), None)


def test_each_re_run_has_a_process_of_its_own(tmp_path):
    cases = planned(tmp_path, "pid", "wrong", "segfault").cases
    told = []
    found = run_again(to_do(), cases, 3, bank_folder=tmp_path, progress=lambda *pair: told.append(pair))
    pids, wrong, dead = (found[case.key] for case in cases)
    assert len({result.message for result in pids}) == 3
    assert [result.outcome for result in wrong] == [Outcome.WRONG] * 3
    assert [result.outcome for result in dead] == [Outcome.CRASH] * 3
    assert told == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (to_do("bad"), "There is no target 'bad'"),
        (to_do(versions=VERSIONS | {"comparer": "0"}), "measured with comparer 0 and"),
        (to_do(versions={"torch": "1.0", **VERSIONS}), "planned with torch 1.0"),
    ],
)
def test_what_cannot_be_run_again_here_is_one_sentence(tmp_path, run, words):
    cases = planned(tmp_path, "normal").cases
    with pytest.raises(BadInput, match=words):
        run_again(run, cases, 1, bank_folder=tmp_path, progress=lambda *_: None)


def test_the_gate_tells_what_happened_once_from_what_is_so(tmp_path, capsys):
    plan = planned(tmp_path, "normal*40", "moody")

    def sweep(plan: SweepPlan) -> str:
        options = local.SweepOptions(tmp_path, 1, OPTIONS)
        return local.sweep(load_settings(), plan, options=options, progress=lambda _: None).run.slug

    def gate(*arguments: str) -> tuple[int, str, str]:
        return main.run(["gate", *arguments]), *capsys.readouterr()

    good = sweep(plan)
    (tmp_path / "mood").touch()
    moody = sweep(plan)
    code, out, err = gate("--baseline", good, "--reruns", "3")
    assert (code, err) == (0, "run again: 1 of 1 changed cases\n")
    assert f"passed: {moody} against {good}, 41 cases measured" in out
    assert "flaky, not counted (1)" in out
    assert "native before, crash now; run again: N:3" in out
    assert "1 of 1 cases of test.moody.default that were ever run again did not come back" in out
    assert gate(moody, "--baseline", good, "--reruns", "0")[0] == 1
    engine = open_database(load_settings().database_url)
    with engine.begin() as conn:  # the device is gone
        conn.exec_driver_sql("UPDATE target SET name = 'bad'")
    with read(engine) as conn:
        assert leases.run_to_do(conn, 1).target == "bad"
    engine.dispose()
    code, _, err = gate(moody, "--baseline", good)
    assert (code, err) == (2, "neuron-ops: There is no target 'bad'; use sim.\n")
