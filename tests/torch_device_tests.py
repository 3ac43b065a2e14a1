"""Run in a process of its own: what PyTorch makes of its device tests on the simulated device, with or without a configuration.

``python torch_device_tests.py [CONFIGURATION]`` prints test → what became of it as JSON. The classes and tests have the names of
those in PyTorch's test folder, which no wheel has; `instantiate_device_type_tests`, `ops` and the OpInfos are PyTorch's own.
"""

import importlib.util
import json
import sys
import unittest

import neuron_ops.op_tests.targets.sim  # noqa: F401 - makes the device

if len(sys.argv) > 1:
    spec = importlib.util.spec_from_file_location("configuration", sys.argv[1])
    configuration = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(configuration)
    configuration.configure()

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase

NAMES = {"add", "sub", "mul", "div.floor_rounding", "nn.functional.gelu"}
SOME = [op for op in op_db if (f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name) in NAMES]
FLOATS = (torch.float32, torch.bfloat16)


class TestCommon(TestCase):
    @ops(SOME, allowed_dtypes=FLOATS)
    def test_noncontiguous_samples(self, device, dtype, op):
        sample = next(iter(op.sample_inputs(device, dtype)))
        assert op(sample.input, *sample.args, **sample.kwargs).device.type == "neuron"

    @ops(SOME, allowed_dtypes=FLOATS)
    def test_out(self, device, dtype, op):
        pass

    def test_errors(self, device):
        assert device.startswith("neuron")


class TestBwdGradients(TestCase):
    @ops(SOME, allowed_dtypes=FLOATS)
    def test_fn_grad(self, device, dtype, op):
        pass


class Ran(unittest.TestResult):
    """Keeps what became of each test."""

    def __init__(self):
        super().__init__()
        self.words = {}

    def startTest(self, test):
        super().startTest(test)
        self.words[_name(test)] = "run"

    def addSkip(self, test, reason):
        self.words[_name(test)] = f"skip: {reason}"

    def addError(self, test, err):
        self.words[_name(test)] = f"error: {err[1]}"

    addFailure = addError


def _name(test):
    # Torch names the first class after the key and, once the device is known, all others after the device.
    *_, cls, name = test.id().split(".")
    return f"{cls.removesuffix('PRIVATEUSE1').removesuffix('NEURON')}.{name}"


made = {}
for cls in (TestCommon, TestBwdGradients):
    scope = {cls.__name__: cls}
    instantiate_device_type_tests(cls, scope, only_for="neuron")
    made.update(scope)
ran = Ran()
for cls in made.values():
    unittest.defaultTestLoader.loadTestsFromTestCase(cls).run(ran)
print(json.dumps(ran.words))
