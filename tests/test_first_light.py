"""The whole path on real operators: record, plan, run, store, show. Takes minutes where nothing is recorded yet."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from neuron_ops.op_tests import catalogue

ROOT = Path(__file__).parents[1]
RECORDERS = ("recording.py", "packing.py", "calls.py", "records.py", "catalogue.py", "bank.py")


@pytest.fixture(scope="module")
def cache():
    """A cache folder that is new whenever the code that records has changed."""
    sources = b"".join((ROOT / "op_tests" / name).read_bytes() for name in RECORDERS)
    return ROOT / "build" / f"test-bank-{hashlib.sha256(sources).hexdigest()[:12]}"


@pytest.fixture(scope="module")
def sweep(cache, tmp_path_factory):
    """A function that runs the sweep command and returns (its JSON, its database)."""

    def run(*arguments):
        database = tmp_path_factory.mktemp("sweep") / "x.sqlite"
        command = [sys.executable, "-m", "neuron_ops.cli", "sweep", "--json", "--db", str(database), *arguments]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(database.parent), "NEURON_OPS_CACHE": str(cache)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=environment)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), database

    return run


def test_every_recorded_overload_passes_on_the_cpu(sweep):
    report, _ = sweep("--target", "cpu", "--dtypes", "float32")
    assert report["planned"] == report["recorded"] > 7000
    assert report["lost"] == 0
    assert set(report["counts"]) == {"N"}, "every other outcome on the reference itself needs a row in exceptions.toml"
    assert sum(report["cells"].values()) > 1100


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


@pytest.mark.parametrize(
    ("fault", "letter"),
    [
        ("value", "W"), ("dtype", "W"), ("stride", "W"), ("nan", "W"), ("negative-infinity", "W"), ("input-mutated", "W"),
        ("hidden-fallback", "C"), ("segfault", "X"), ("abort", "X"), ("hang", "T"), ("memory", "X"), ("unsupported", "U"),
        ("raise", "E"),
    ],
)  # fmt: skip
def test_planted_faults_turn_the_cell_and_the_sweep_goes_on(sweep, fault, letter):
    report, _ = sweep(
        "--ops", "aten.mul.Tensor,aten.sub.Tensor", "--dtypes", "float32", "--limit", "1", "--jobs", "1", "--timeout", "3" if fault == "hang" else "60",
        "--memory", "2GiB", "--plant", f"aten.mul.Tensor={fault}",
    )  # fmt: skip
    assert report["lost"] == 0
    assert report["cells"] == {letter: 1, "N": 1}


def test_a_missed_mutation_turns_the_cell(sweep):
    report, _ = sweep("--ops", "aten.mul_.Tensor", "--dtypes", "float32", "--plant", "aten.mul_.Tensor=mutation-missed")
    assert report["cells"] == {"W": 1}
