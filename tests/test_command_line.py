"""The command line: what starts fast, what bad input says, what the operators' commands print."""

import json
import subprocess
import sys

import pytest
from neuron_ops.cli import main


def neuron_ops(capsys, *arguments):
    code = main.run(arguments)
    out = capsys.readouterr()
    return code, out.out, out.err


def test_help_names_every_command_and_imports_no_torch():
    program = "import sys; from neuron_ops.cli.main import run; code = run(['--help']); print(sorted({'torch', 'flask', 'sqlalchemy'} & set(sys.modules))); sys.exit(code)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.endswith("[]\n")
    for name in main.COMMANDS:
        assert f"\n  {name}" in done.stdout


@pytest.mark.parametrize("command", main.COMMANDS)
def test_every_command_has_help(capsys, command):
    code, out, _ = neuron_ops(capsys, command, "--help")
    assert code == 0
    assert out.startswith(f"Usage: neuron-ops {command}")


def test_stats(capsys):
    code, out, _ = neuron_ops(capsys, "ops", "--stats", "--json")
    counts = json.loads(out)
    assert code == 0
    assert list(counts) == ["torch", "registered", "D_all", "D_key", "T1", "excluded"]
    code, out, _ = neuron_ops(capsys, "ops", "--stats")
    assert str(counts["D_key"]) in out


def test_listing_and_showing(capsys):
    code, out, _ = neuron_ops(capsys, "ops", "list", "core", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert all(row["core"] for row in rows)
    assert "aten.add.Tensor" in {row["name"] for row in rows}
    code, out, _ = neuron_ops(capsys, "ops", "list", "--excluded")
    assert "excluded: sparse layout" in out
    code, out, _ = neuron_ops(capsys, "ops", "show", "aten::add.Tensor")
    assert "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor" in out
    code, out, _ = neuron_ops(capsys, "ops", "show", "add", "--json")
    assert {row["name"] for row in json.loads(out)} >= {"aten.add.Tensor", "aten.add.out"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ops", "show", "nonsense_op"], "no operator matches 'nonsense_op'"),
        (["ops", "list", "sparse_thing*"], "no operator matches"),
        (["bank", "build", "--dtypes", "flaot32"], "unknown dtype 'flaot32'"),
        (["sweep", "--target", "tpu"], "unknown target 'tpu'"),
        (["sweep", "--ops", "nonsense_op"], "no operator matches"),
        (["sweep", "--dtypes", "x"], "unknown dtype 'x'"),
        (["sweep", "--db", "mysql://nobody@nowhere/x"], "mysql"),
        (["sweep", "--db", "/proc/neuron-ops/x.sqlite"], "/proc/neuron-ops"),
        (["repro", "zz", "--db", "/proc/neuron-ops/x.sqlite"], "/proc/neuron-ops"),
        (["nonsense"], "No such command"),
        (["sweep", "--jobs", "many"], "many"),
    ],
)
def test_bad_input_is_exit_2_and_one_sentence(capsys, arguments, words, tmp_path, monkeypatch):
    monkeypatch.setenv("NEURON_OPS_DATA", str(tmp_path))
    monkeypatch.setenv("NEURON_OPS_CACHE", str(tmp_path))
    code, _, err = neuron_ops(capsys, *arguments)
    assert code == 2
    assert words in err
    assert "Traceback" not in err


def test_a_damaged_profile_is_one_sentence(capsys, tmp_path, monkeypatch):
    damaged = tmp_path / "profile.csv"
    damaged.write_text("nonsense")
    monkeypatch.setenv("NEURON_OPS_SIM_PROFILE", str(damaged))
    monkeypatch.setenv("NEURON_OPS_DATA", str(tmp_path))
    code, _, err = neuron_ops(capsys, "sweep", "--ops", "add.Tensor", "--dtypes", "float32")
    assert code == 2
    assert err.startswith(f"neuron-ops: {damaged}: no profile of the simulated device")
    assert err.count("\n") == 1


def test_a_missing_extra_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setitem(main.COMMANDS, "ops", ("neuron_ops.cli.absent:ops", "x"))
    monkeypatch.setitem(sys.modules, "neuron_ops.cli.absent", None)

    def no_torch(_):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(main.importlib, "import_module", no_torch)
    code, _, err = neuron_ops(capsys, "ops", "list")
    assert code == 2
    assert "torch is not installed; `neuron-ops ops` needs it; run pip install 'neuron-ops[run]'" in err


def test_our_own_fault_is_exit_4(monkeypatch, capsys):
    def broken(_):
        raise KeyError("ours")

    monkeypatch.setattr(main.importlib, "import_module", broken)
    code, _, err = neuron_ops(capsys, "ops", "list")
    assert code == 4
    assert "our fault" in err
