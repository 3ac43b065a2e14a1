"""The whole path on real operators: record, plan, run, store, show. Takes minutes where nothing is recorded yet."""

import json
import subprocess
import sys

import pytest
from neuron_ops.coverage_db import queries
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.op_tests import catalogue


@pytest.fixture(scope="module")
def sweep(cache, tmp_path_factory):
    """A function that runs the sweep command over plain calls and returns (its JSON, its database)."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path_factory.mktemp("home")),
        "NEURON_OPS_CACHE": str(cache),
    }
    build = [sys.executable, "-m", "neuron_ops.cli", "bank", "build", "--plain", "--dtypes", "float32"]
    subprocess.run(build, check=True, timeout=900, env=environment, capture_output=True)

    def run(*arguments):
        database = tmp_path_factory.mktemp("sweep") / "x.sqlite"
        command = [sys.executable, "-m", "neuron_ops.cli", "sweep", "--json", "--db", str(database), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), database

    return run


def test_every_recorded_overload_passes_on_the_cpu(sweep):
    report, _ = sweep("--target", "cpu", "--dtypes", "float32")
    assert report["planned"] == report["recorded"] > 7000
    assert report["lost"] == 0
    assert set(report["counts"]) == {"N", "n/a"}, (
        "every other outcome on the reference itself needs a row in exceptions.toml"
    )
    assert sum(report["cells"].values()) > 2400


@pytest.fixture(scope="module")
def simulated(sweep):
    return sweep("--target", "sim", "--dtypes", "float32")


def test_a_full_sweep_on_the_simulator_loses_nothing(simulated):
    report, _ = simulated
    assert (report["lost"], report["evidence"]) == (0, "simulated")
    assert report["planned"] == report["recorded"]
    cells = report["cells"]
    assert cells["N"] > 500
    assert cells["C"] > 500
    assert cells.get("W", 0) <= 2
    assert cells.get("X", 0) == cells.get("T", 0) == 0


def test_numbers_name_their_denominator(simulated):
    report, _ = simulated
    by_id = {number["id"]: number for number in report["numbers"]}
    core = sum(o.core and o.excluded is None for o in catalogue.operators())
    assert by_id["core-native"]["m"] <= 2 * core
    assert 0 < by_id["core-native"]["n"] < by_id["core-native"]["m"]
    assert by_id["hardware-cells"]["n"] == 0
    assert by_id["key-native"]["m"] <= catalogue.denominators().d_key


def test_a_stored_case_can_be_repeated_alone(simulated, cache, tmp_path):
    import sqlite3

    _, database = simulated
    (key,) = sqlite3.connect(database).execute('SELECT hex(key) FROM "case" LIMIT 1').fetchone()
    command = [sys.executable, "-m", "neuron_ops.cli", "repro", key.lower()[:12], "--run", "--db", str(database)]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "NEURON_OPS_CACHE": str(cache)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert "equal within" in done.stdout


PLANTS = {
    "aten.mul.Tensor": ("value", "W"),
    "aten.sub.Tensor": ("dtype", "W"),
    "aten.bmm.default": ("stride", "W"),
    "aten.mul_.Tensor": ("mutation-missed", "W"),
    "aten.exp.default": ("nan", "W"),
    "aten.log.default": ("negative-infinity", "W"),
    "aten.cos.default": ("input-mutated", "W"),
    "aten.add.Tensor": ("hidden-fallback", "C"),
    "aten.relu.default": ("segfault", "X"),
    "aten.sin.default": ("abort", "X"),
    "aten.mm.default": ("hang", "T"),
    "aten.sigmoid.default": ("memory", "X"),
    "aten.div.Tensor": ("unsupported", "U"),
    "aten.sqrt.default": ("raise", "E"),
    "aten.neg.default": (None, "N"),
    "aten.tanh.default": (None, "N"),
}
"""Overload → planted fault and the letter that its cell must show; without a fault all of them are N."""


@pytest.fixture(scope="module")
def planted(sweep):
    """The letters of one sweep with all faults planted at once, and its report."""
    plants = [part for name, (fault, _) in PLANTS.items() if fault for part in ("--plant", f"{name}={fault}")]
    report, database = sweep(
        "--ops", ",".join(PLANTS), "--dtypes", "float32", "--limit", "1", "--timeout", "15", "--memory", "2GiB", *plants
    )  # fmt: skip
    engine = open_database(str(database))
    with read(engine) as connection:
        run = queries.latest_run(connection)
        pages = {name: queries.overload(connection, run, name) for name in PLANTS}
    engine.dispose()
    return report, {name: page.cells["float32"].status for name, page in pages.items()}


@pytest.mark.parametrize("overload", PLANTS)
def test_a_planted_fault_turns_its_cell(planted, overload):
    _, letters = planted
    assert letters[overload] == PLANTS[overload][1]


def test_a_sweep_with_deaths_and_silence_loses_no_case(planted):
    report, _ = planted
    assert (report["lost"], report["recorded"]) == (0, report["planned"])
