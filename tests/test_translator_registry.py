"""A translator that does not fit its overload is refused when it is registered."""

import subprocess
import sys

import pytest
from neuron_ops.translators import registry
from neuron_ops.translators.registry import Unregistrable, translator


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    monkeypatch.setattr(registry, "REGISTRY", {})


def test_a_function_with_the_schemas_parameters_is_registered_and_comes_back():
    def elu(self, alpha=1, scale=1, input_scale=1):
        return self

    assert translator("aten.elu.default", source="ours")(elu) is elu
    assert registry.REGISTRY["aten.elu.default"].function is elu


def test_a_schema_name_that_python_reserves_takes_an_underscore():
    translator("aten.random_.from", source="ours")(lambda self, from_, to, *, generator=None: self)


@pytest.mark.parametrize(
    ("overload", "function", "says"),
    [
        ("aten.elu", lambda self: self, "is a packet"),
        ("aten.nope.default", lambda self: self, "knows no overload"),
        ("aten.lerp.Scalar", lambda self, end: self, r"differs from the schema of aten\.lerp\.Scalar; expected \(self, end, weight\)"),
        ("aten.lerp.Scalar", lambda self, weight, end: self, "differs from the schema"),
        ("aten.lerp.Scalar", lambda self, end, *, weight: self, "differs from the schema"),
        ("aten.elu.default", lambda self, alpha=1.0, scale=1, input_scale=1: self, "alpha=1, scale=1"),
        ("aten.var.correction", lambda self, dim=None, correction=None, keepdim=False: self, "correction=None"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(overload, function, says):
    with pytest.raises(Unregistrable, match=says):
        translator(overload, source="ours")(function)
    assert not registry.REGISTRY


def test_the_second_translator_of_an_overload_is_refused():
    translator("aten.relu.default", source="ours")(lambda self: self)
    with pytest.raises(Unregistrable, match=r"aten\.relu\.default already has a translator"):
        translator("aten.relu.default", source="ours")(lambda self: self)


def test_the_import_takes_no_third_of_a_second_after_torch():
    program = (
        "import time, torch; start = time.process_time(); from neuron_ops.translators import families; families.load(); "
        "print(time.process_time() - start)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert float(done.stdout) < 0.3  # seconds of processor time; 0.11 measured on 2 cores
