"""`check --device`: a model runs on a device and on the CPU, and the first operator that differs is named with its line."""

import importlib.resources
import json
from pathlib import Path

import jsonschema
import pytest
from neuron_ops.cli.main import run

MODELS = Path(__file__).parent / "models"
PLANTED = """
import torch
from neuron_ops.op_tests.targets.sim import state

state.faults["aten.tanh.default"] = "one-element"


class Part(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x)  # here


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x):
        return self.part(x.sin()).cos() @ x


model = Net()
example_inputs = torch.full((3, 3), 0.5)
"""


def checked(capsys, file, device, *options):
    code = run(["check", str(file), "--device", device, *options])
    out, err = capsys.readouterr()
    return code, out, err


def report_of(capsys, *arguments):
    code, out, err = checked(capsys, *arguments, "--json")
    report = json.loads(out)
    schema = importlib.resources.files("neuron_ops.op_tests").joinpath("data/check_report.schema.json").read_text()
    jsonschema.validate(report, json.loads(schema))
    return code, report, err


def test_the_first_operator_that_differs_is_named_with_its_line(capsys, tmp_path):
    file = tmp_path / "planted.py"
    file.write_text(PLANTED)
    code, report, _ = report_of(capsys, file, "sim")
    first = report["compared"]["first"]
    line = 1 + next(n for n, text in enumerate(PLANTED.splitlines()) if "# here" in text)
    assert code == 1
    assert (first["overload"], first["where"], first["module"]) == ("aten.tanh.default", f"{file}:{line}", "part")
    assert "1 of 9 elements wrong" in first["message"]
    assert (report["compared"]["differing"], report["compared"]["calls"]) == (1, 4)  # cos and mm got tanh's result
    assert len(report["compared"]["outputs"]) == 1
    assert report["evidence"] == "simulated"
    code, out, _ = checked(capsys, file, "sim")
    assert code == 1
    assert f"first difference: aten.tanh.default at {file}:{line} (part), forward: output 0" in out
    assert "native (4): " in out


def test_a_training_step_on_a_device_that_computes_as_the_cpu(capsys):
    code, report, _ = report_of(capsys, MODELS / "cnn.py", "sim", "--train")
    compared = report["compared"]
    assert (code, compared["differing"], compared["first"], compared["outputs"]) == (0, 0, None, [])
    assert compared["calls"] > 100
    assert {row["phase"] for row in report["operators"]} == {"forward", "backward", "optimizer step"}
    routes = {row["overload"]: row["route"] for row in report["operators"]}
    assert routes["aten.native_batch_norm.default"] == "fallback"
    assert routes["aten.convolution.default"] == "native"


def test_fallbacks_fail_where_asked_and_the_cpu_has_none(capsys):
    assert checked(capsys, MODELS / "cnn.py", "sim", "--fail-on", "fallback")[0] == 1
    code, out, _ = checked(capsys, MODELS / "cnn.py", "cpu", "--fail-on", "fallback")
    assert code == 0
    assert "no result differs beyond its dtype's tolerance" in out
    assert "the outputs of the whole model are within tolerance" in out


@pytest.mark.parametrize(
    ("device", "options", "words"),
    [
        ("nowhere", (), "there is no device 'nowhere'"),
        ("xpu", (), "sees no xpu device here"),
        ("sim", ("--sarif",), "--device compares results"),
    ],
)
def test_no_device_is_one_sentence(capsys, device, options, words):
    code, out, err = checked(capsys, MODELS / "cnn.py", device, *options)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1
