"""What is no translation is refused, with a sentence that says which kind of wrong it is."""

import pytest
import torch
from conftest import write_bank
from neuron_ops.op_tests.translation import trials
from neuron_ops.op_tests.translation.trials import Trial, refused_because, try_all
from neuron_ops.translators import sources
from neuron_ops.translators.registry import Translator

pytestmark = pytest.mark.forks

HARDSWISH, BACKWARD = "aten.hardswish.default", "aten.hardswish_backward.default"


def right(self):
    return self * torch.clamp(self + 3, 0, 6) / 6


def right_backward(grad_output, self):
    return grad_output * torch.where(self < -3, 0.0, torch.where(self <= 3, self / 3 + 0.5, 1.0))


@pytest.fixture
def bank(tmp_path):
    matrix = torch.linspace(-4, 4, 12).reshape(3, 4)
    for dtype in (torch.float32, torch.bfloat16):
        calls = {
            HARDSWISH: [((matrix.to(dtype),), {}), ((matrix.to(dtype).t(),), {})],
            BACKWARD: [((torch.ones(3, 4, dtype=dtype), matrix.to(dtype)), {})],
        }
        write_bank(tmp_path, calls, str(dtype).removeprefix("torch."), variants=("forward", "backward"))
    return tmp_path


def verdicts(bank, monkeypatch, functions, overload=HARDSWISH, dtypes=("float32",)):
    """Return dtype → sentence for an overload's trial, with these functions as our translators."""
    return {r.dtype: refused_because(r) for r in _reports(bank, monkeypatch, functions, overload, dtypes)}


def _reports(bank, monkeypatch, functions, overload=HARDSWISH, dtypes=("float32",)):
    table = {name: Translator(name, function, "test") for name, function in functions.items()}
    monkeypatch.setattr(sources, "load", lambda: table)
    beside = {name: ("ours", None) for name in functions if name != overload}
    return list(try_all(bank, [Trial(overload, "ours", dtypes)], beside))


def test_a_right_one_is_verified_in_each_dtype(bank, monkeypatch):
    found = verdicts(bank, monkeypatch, {HARDSWISH: right, BACKWARD: right_backward}, dtypes=("float32", "bfloat16"))
    assert found == {"float32": "", "bfloat16": ""}


def test_launches_and_parts_are_those_of_the_device(bank, monkeypatch):
    monkeypatch.setattr(sources, "load", lambda: {HARDSWISH: Translator(HARDSWISH, right, "test")})
    (report,) = try_all(bank, [Trial(HARDSWISH, "ours", ("float32",))], {})
    assert report.verified
    assert report.parts >= {"aten.add.Tensor", "aten.clamp.default", "aten.mul.Tensor"}
    assert (report.median_launches, report.median_bytes) == (4, 48)
    assert report.backward_host == {BACKWARD}


@pytest.mark.parametrize(
    ("functions", "overload", "says"),
    [
        ({HARDSWISH: lambda self: right(self) + 1e-3}, HARDSWISH, "wrong result: float32 forward of "),
        ({HARDSWISH: lambda self: right(self).double()}, HARDSWISH, "wrong dtype: "),
        ({HARDSWISH: lambda self: right(self)[:1]}, HARDSWISH, "wrong shape: "),
        ({HARDSWISH: lambda self: right(self).t().contiguous().t()}, HARDSWISH, "wrong stride: "),
        ({HARDSWISH: right, BACKWARD: lambda grad_output, self: grad_output}, HARDSWISH, "wrong gradient: float32 backward of "),
        ({BACKWARD: lambda grad_output, self: grad_output * 0}, BACKWARD, "wrong gradient: "),
        ({HARDSWISH: lambda self: torch.lgamma(self * 0 + 1.5) * 0 + right(self)}, HARDSWISH, "in float32 it needs the host: aten.lgamma"),
        ({HARDSWISH: lambda self: torch.nn.functional.hardswish(self)}, HARDSWISH, f"it reaches {HARDSWISH} itself"),
    ],
)  # fmt: skip
def test_a_wrong_one_is_refused_and_says_why(bank, monkeypatch, functions, overload, says):
    assert verdicts(bank, monkeypatch, functions, overload)["float32"].startswith(says)


def test_a_missing_dtype_is_named(bank, monkeypatch):
    def only_float32(self):
        if self.dtype is not torch.float32:
            raise NotImplementedError("float32 alone")
        return right(self)

    found = verdicts(bank, monkeypatch, {HARDSWISH: only_float32}, dtypes=("float32", "bfloat16"))
    assert found["float32"] == ""
    assert found["bfloat16"] == "missing dtype: the translator declines bfloat16 (float32 alone)"


def test_one_that_ends_its_process_in_a_dtype_costs_that_dtype(bank, monkeypatch):
    def dies_in_bfloat16(self):
        import ctypes

        return right(self) if self.dtype is torch.float32 else ctypes.string_at(0)

    dtypes = ("float32", "bfloat16")
    found = verdicts(bank, monkeypatch, {HARDSWISH: dies_in_bfloat16, BACKWARD: right_backward}, dtypes=dtypes)
    assert found["float32"] == ""
    assert found["bfloat16"].startswith("crash: a call ended the process: ")


def test_a_death_loses_no_earlier_failure(bank, monkeypatch, tmp_path):
    """The child that goes on after a death begins the dtype again: what it skipped would otherwise count as passed."""
    mark = tmp_path / "died"

    def wrong_then_dies_once(self):
        import ctypes

        if self.dtype is torch.float32:
            return right(self)
        if self.is_contiguous():
            return right(self) + 1
        if not mark.exists():
            mark.touch()
            ctypes.string_at(0)
        return right(self)

    functions = {HARDSWISH: wrong_then_dies_once, BACKWARD: right_backward}
    _, report = _reports(bank, monkeypatch, functions, dtypes=("float32", "bfloat16"))
    assert mark.exists()
    assert (report.passed, report.cases) == (2, 4)
    assert refused_because(report).startswith("wrong result: bfloat16 forward of ")


def test_a_value_that_is_read_back_is_noted(bank, monkeypatch):
    for function, reads in ((right, False), (lambda self: right(self) + 0 * self.sum().item(), True)):
        (report,) = _reports(bank, monkeypatch, {HARDSWISH: function, BACKWARD: right_backward})
        assert report.verified
        assert report.reads is reads


def test_the_axes_of_the_cases_are_told(bank, monkeypatch):
    (report,) = _reports(bank, monkeypatch, {HARDSWISH: right, BACKWARD: right_backward})
    assert report.axes == {"forward", "backward"}


def test_one_that_ends_its_process_costs_only_itself(bank, monkeypatch):
    def dies(self):
        import ctypes

        ctypes.string_at(0)

    table = {HARDSWISH: Translator(HARDSWISH, dies, "test"), BACKWARD: Translator(BACKWARD, right_backward, "test")}
    monkeypatch.setattr(sources, "load", lambda: table)
    found = {
        r.trial.overload: refused_because(r)
        for r in try_all(bank, [Trial(HARDSWISH, "ours", ("float32",)), Trial(BACKWARD, "ours", ("float32",))], {})
    }
    assert found[HARDSWISH].startswith("crash: a call ended the process: the CPU kernel died of SIGSEGV")
    assert found[BACKWARD] == ""


def test_what_lacks_a_translation_is_looked_for_in_the_first_dtype_with_cases(bank):
    found = trials.needing(bank, 4, ("float32", "bfloat16"))
    assert [(t.overload, t.source, t.dtypes, t.first) for t in found] == [
        (HARDSWISH, None, ("float32", "bfloat16"), True), (BACKWARD, None, ("float32", "bfloat16"), True),
    ]  # fmt: skip


def test_a_dtype_whose_cases_are_not_applicable_is_passed_over(tmp_path):
    view, size = "aten.view_as_real.default", "aten.abs.default"
    for dtype in (torch.float32, torch.complex64, torch.complex128):
        x = torch.ones(3, dtype=dtype)
        write_bank(tmp_path, {view: [((x,), {})], size: [((x,), {})]}, str(dtype).removeprefix("torch."))
    needing = trials.needing(tmp_path, 4, ("float32", "complex64", "complex128"))
    assert [(r.trial.overload, r.dtype) for r in try_all(tmp_path, needing, {})] == [
        (size, "float32"), (view, "complex64"),
    ]  # fmt: skip
