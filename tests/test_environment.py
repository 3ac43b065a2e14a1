"""What a run ran in is stored with it, shown, and compared with the last good run."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import small_run
import sqlalchemy as sa
from neuron_ops.cli import main
from neuron_ops.coverage_db import environments, queries
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.op_tests import environment as reading
from neuron_ops.op_tests.records import Environment, Outcome, Result, Route
from neuron_ops.op_tests.targets.cpu import Cpu

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from sqlalchemy import Engine

pytest_plugins = ["services"]

OLD = Environment(
    packages={"torch": "2.13.0", "torch-neuronx": "0.1", "neuronx-cc": "2.21"},
    torch_config="PyTorch built with:\n  - a compiler",
    device={"instance": "trn2.3xlarge", "cores": "4"},
    switches={"NEURON_LAUNCH_BLOCKING": "1"},
    harness={"bank": "2", "neuron-ops": "0.1"},
)
NEW = replace(OLD, packages={"torch": "2.13.0", "torch-neuronx": "0.2"}, switches={})
WRONG = Result("", Outcome.WRONG, Route.NATIVE, message="now wrong")


def test_only_switches_that_matter_are_kept_and_no_secret() -> None:
    kept = {"NEURON_CC_FLAGS": "-O1", "TORCH_NEURONX_MLIR_ATEN_OPS": "0", "OMP_NUM_THREADS": "1", "LD_PRELOAD": "x.so"}
    kept["NEURON_OPS_SIM_PROFILE"] = "core"
    others = {
        "HOME": "/root",
        "NEURON_OPS_DATABASE_URL": "postgresql://me:secret@h/d",
        "XLA_AUTH_TOKEN": "s",
        "PATH": "/",
    }
    assert reading.behaviour_switches({**others, **kept}) == kept


def test_the_packages_are_those_that_pip_names() -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "list", "--format", "json"]
    listed = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    named = {row["name"].lower().replace("_", "-").replace(".", "-"): row["version"] for row in listed}
    assert reading.installed_packages() == named


def test_an_environment_names_machine_device_and_harness() -> None:
    found = reading.environment(Cpu(), {"bank": "7"})
    assert found.harness["bank"] == "7"
    assert found.device["device"] == "cpu"
    assert found.device["devices"] == "1"
    assert int(found.device["cores"]) >= 1
    assert "PyTorch built with" in found.torch_config
    assert f"torch=={found.packages['torch']}\n" in found.freeze()


def test_equal_environments_are_stored_once_and_come_back_whole(engine: Engine) -> None:
    hostile = replace(OLD, switches={"NEURON_CC_FLAGS": "a\0b\udc80"})
    runs = [small_run.record(engine, environment=e) for e in (OLD, OLD, NEW, hostile, None)]
    with read(engine) as conn:
        assert conn.exec_driver_sql("SELECT count(*) FROM environment").scalar() == 3
        rows = [queries.run_by_id(conn, run_id) for run_id in runs]
        found = [environments.setting(conn, row).environment for row in rows if row is not None]
    assert found[:3] == [OLD, OLD, NEW]
    assert found[3] is not None
    assert found[3].switches == {"NEURON_CC_FLAGS": "ab\\udc80"}
    assert found[4] is None


def test_the_way_back_is_the_newest_run_with_the_fewest_failures(engine: Engine) -> None:
    ids = [
        small_run.record(engine, environment=environment, changed=changed)
        for environment, changed in ((OLD, {}), (OLD, {}), (NEW, {0: WRONG, 1: WRONG}), (NEW, {0: WRONG}))
    ]
    other = small_run.record(engine, build=small_run.NEURON, environment=OLD)
    with read(engine) as conn:
        slugs = {run_id: row.slug for run_id in [*ids, other] if (row := queries.run_by_id(conn, run_id))}
        accounts = {run_id: environments.account(conn, slug) for run_id, slug in slugs.items()}
    backs = [None if a.last_good is None else a.last_good.run.id for a in accounts.values()]
    assert backs == [None, ids[0], ids[1], ids[1], None]
    assert accounts[ids[3]].changed == {
        "NEURON_LAUNCH_BLOCKING": ("1", None), "neuronx-cc": ("2.21", None), "torch-neuronx": ("0.1", "0.2"),
    }  # fmt: skip
    assert accounts[ids[1]].changed == {}


def test_a_gate_that_passed_makes_a_run_the_way_back(engine: Engine) -> None:
    ids = [small_run.record(engine, changed=changed) for changed in ({}, {0: WRONG}, {0: WRONG}, {})]

    def back() -> int | None:
        with read(engine) as conn:
            row = queries.run_by_id(conn, ids[3])
            assert row is not None
            good = environments.last_good(conn, row)
            return good.id if good else None

    assert back() == ids[0]
    for number, passed, expected in ((2, False, None), (0, True, ids[0]), (1, True, ids[1])):
        with write(engine) as conn:
            verdict = {
                "run_id": ids[number],
                "baseline": "x",
                "passed": passed,
                "judged": datetime.now(UTC),
                "counts": {},
            }
            conn.execute(sa.insert(m.gate).values(verdict))
        assert back() == expected


def test_show_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "runs.sqlite")
    engine = open_database(path)
    old, new = small_run.record(engine, environment=OLD), small_run.record(engine, environment=NEW, changed={0: WRONG})
    with read(engine) as conn:
        slugs = [row.slug for run_id in (old, new) if (row := queries.run_by_id(conn, run_id))]
    engine.dispose()

    def show(*arguments: str) -> str:
        assert main.run(["runs", "show", *arguments, "--db", path]) == 0
        return capsys.readouterr().out

    text = show()
    assert text.startswith(f"run {slugs[1]} on sim (simulated), done, 22 cases, seed 7\n")
    assert "switches  none is set" in text
    assert "torch     PyTorch built with:" in text
    assert f"way back: run {slugs[0]}, 5 failing cases against 6 here; changed since: " in text
    assert "NEURON_LAUNCH_BLOCKING 1 → absent; neuronx-cc 2.21 → absent; torch-neuronx 0.1 → 0.2" in text
    assert show(slugs[0], "--freeze") == "neuronx-cc==2.21\ntorch==2.13.0\ntorch-neuronx==0.1\n"
    found = json.loads(show("--json"))
    assert found["environment"]["packages"] == dict(NEW.packages)
    assert found["last_good"] == slugs[0]
    assert found["changed_since_last_good"]["torch-neuronx"] == {"then": "0.1", "now": "0.2"}
    assert main.run(["runs", "show", "nonsense", "--db", path]) == 2
    assert "no run 'nonsense'" in capsys.readouterr().err


def test_a_run_from_before_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "runs.sqlite")
    engine = open_database(path)
    small_run.record(engine)
    engine.dispose()
    assert main.run(["runs", "show", "--db", path]) == 0
    assert "its environment was not stored" in capsys.readouterr().out
    assert main.run(["runs", "show", "--freeze", "--db", path]) == 2
    assert "was stored before environments were" in capsys.readouterr().err
