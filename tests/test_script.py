"""The printed script rebuilds the tensors bit for bit, runs on its own, and says where the sides differ."""

import subprocess
import sys

import pytest
import torch
from neuron_ops.op_tests.packing import pack
from neuron_ops.op_tests.records import Case
from neuron_ops.op_tests.script import script

CALLS = {
    "aten.add.Tensor": ((torch.randn(3, 4).t(), torch.tensor([float("nan"), -0.0, float("inf")])), {"alpha": 2}),
    "aten.cat.default": (([torch.arange(6.0)[::2], torch.ones(1).expand(3)],), {"dim": 0}),
    "aten.mul.Tensor": ((torch.tensor([1 + 2j]).conj(), torch.tensor([3.0])), {}),
    "aten.full.default": (([2], float("-inf")), {"dtype": torch.bfloat16, "device": torch.device("cpu")}),
    "aten.add.out": ((torch.ones(2), torch.ones(2)), {"out": torch.empty(0)}),
}


def run(source, *arguments):
    command = [sys.executable, "-W", "ignore", "-c", source, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("overload", CALLS)
def test_arguments_are_rebuilt_bit_for_bit(overload):
    sample = pack(*CALLS[overload])
    space = {"__name__": "case"}
    exec(script(Case(overload, "float32", "hand/0"), sample, target="cpu", device="cpu"), space)
    again = pack(*space["arguments"](torch.device("cpu")))
    assert again == sample


@pytest.mark.parametrize("variant", ["forward", "backward"])
def test_the_script_runs_alone_on_the_simulated_device(variant):
    sample = pack((torch.randn(3, 4), torch.randn(3, 4)), {})
    source = script(Case("aten.mul.Tensor", "float32", "hand/0", variant), sample, target="sim", device="neuron")
    done = run(source)
    assert done.returncode == 0, done.stderr
    assert "equal within" in done.stdout
    assert "neuron_ops" not in script(Case("aten.mul.Tensor", "float32", "hand/0"), sample, target="cpu", device="cpu")


def test_a_difference_fails_the_script():
    sample = pack((torch.tensor([2**31]), torch.tensor([0])), {})  # the device computes int64 in int32
    done = run(script(Case("aten.add.Tensor", "int64", "hand/0"), sample, target="sim", device="neuron"))
    assert done.returncode == 1
    assert "not equal" in done.stderr
    assert run(script(Case("aten.add.Tensor", "int64", "hand/0"), sample, target="cpu", device="cpu")).returncode == 0
