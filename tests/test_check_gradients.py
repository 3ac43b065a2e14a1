"""`check` says where gradients stop: an operator that the device registers in place of the composite with the derivative."""

import importlib.resources
import json

import jsonschema
import pytest
from neuron_ops.cli.main import run

SOURCE = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = torch.nn.functional.pad(self.first(x), (1, 1))  # pad
        mask = torch.where(x > 0, x, 0.0).sum()  # x needs no gradient
        y = torch.where(y > 0, y, 0.0)  # where
        return torch.atleast_2d(y) + mask  # atleast


model = Net()
example_inputs = torch.ones(2, 3)
"""
CUTTING = {"aten.pad.default": "# pad", "aten.where.ScalarOther": "# where", "aten.atleast_2d.default": "# atleast"}


@pytest.fixture
def checked(tmp_path, monkeypatch, capsys):
    """Return a function that checks the model above, with a profile that registers also these operators."""
    file, profile = tmp_path / "net.py", tmp_path / "profile.csv"
    file.write_text(SOURCE)
    shipped = importlib.resources.files("neuron_ops.op_tests.targets.sim").joinpath("profile.csv").read_text()

    def check(registered, *options):
        profile.write_text(shipped + "".join(f"{name},native,no,,a test\n" for name in registered))
        monkeypatch.setenv("NEURON_OPS_SIM_PROFILE", str(profile))
        code = run(["check", str(file), "--json", "--fail-on", "wrong", *options])
        report = json.loads(capsys.readouterr().out)
        schema = importlib.resources.files("neuron_ops.op_tests").joinpath("data/check_report.schema.json").read_text()
        jsonschema.validate(report, json.loads(schema))
        cut = {(row["overload"], row["where"]["line"]) for row in report["operators"] if row["cuts_autograd"]}
        return code, cut, report

    return check


def line(text):
    return next(number for number, found in enumerate(SOURCE.splitlines(), 1) if text in found)


def test_a_registration_without_a_derivative_is_a_finding_on_its_line(checked):
    code, cut, report = checked(CUTTING, "--train")
    assert code == 1
    assert cut == {(name, line(text)) for name, text in CUTTING.items()}
    assert {row["finding"] for row in report["operators"] if row["cuts_autograd"]} == {"wrong"}
    assert report["verdict"].endswith("Gradients stop at 3 of its operators.")


def test_without_gradients_or_without_the_registration_there_is_none(checked):
    assert checked(CUTTING)[:2] == (0, set())
    assert checked((), "--train")[1] == set()
