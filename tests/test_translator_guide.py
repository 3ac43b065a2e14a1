"""The three steps of README to write a translator, walked through with one that is left out of the registry for the test."""

import importlib.util

import pytest
import torch
from conftest import write_bank
from neuron_ops.op_tests.translation.trials import Trial, refused_because, try_all
from neuron_ops.translators.families import load
from neuron_ops.translators.registry import REGISTRY

NAME = "aten.hardswish.default"
STEP_ONE = """
import torch
from neuron_ops.translators.registry import translator


@translator("aten.hardswish.default", source="definition")
def hardswish(self: torch.Tensor) -> torch.Tensor:
    return self * torch.clamp(self + 3, 0, 6) / 6
"""


@pytest.fixture
def _without_hardswish(monkeypatch):
    load()
    monkeypatch.delitem(REGISTRY, NAME)
    yield
    REGISTRY.pop(NAME, None)


@pytest.mark.usefixtures("_without_hardswish")
def test_three_steps_from_a_function_to_a_verified_translation(tmp_path):
    family = tmp_path / "swish.py"
    family.write_text(STEP_ONE)
    spec = importlib.util.spec_from_file_location("swish", family)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))  # as a name in FAMILIES has it imported
    matrix = torch.linspace(-4, 4, 12).reshape(3, 4)
    calls = {
        NAME: [((matrix,), {})],
        "aten.hardswish_.default": [((matrix,), {})],
        "aten.hardswish.out": [((matrix,), {"out": matrix * 0})],
    }
    write_bank(tmp_path, calls)
    trials = [Trial(NAME, "ours", ("float32",)), *(Trial(n, "ours, derived", ("float32",)) for n in calls if n != NAME)]
    verdicts = {report.trial.overload: refused_because(report) for report in try_all(tmp_path, trials, {})}
    assert verdicts == dict.fromkeys(calls, "")
