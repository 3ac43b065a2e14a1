"""One case's way from sample to result, and every planted fault in the right cell."""

import pytest
import torch
from neuron_ops.op_tests.bank import Bank
from neuron_ops.op_tests.calls import perform
from neuron_ops.op_tests.records import BadInput, Case, FallbackReason, Outcome, Result, Route, Status, worst_status
from neuron_ops.op_tests.runner import open_session
from neuron_ops.op_tests.targets import sim
from neuron_ops.op_tests.targets.sim import kernels


def results(session, bank_folder, overload, dtype="float32"):
    return [session.run(case) for case in Bank(bank_folder).cases(overload, dtype)]


@pytest.mark.parametrize(
    ("overload", "status"),
    [
        ("aten.add.Tensor", Status.NATIVE),
        ("aten.add_.Tensor", Status.NATIVE),
        ("aten.add.out", Status.NATIVE),
        ("aten.linear.default", Status.NATIVE),
        ("aten.lgamma.default", Status.FALLBACK),
        ("aten.empty_like.default", Status.NATIVE),
        ("aten.bitwise_and.Tensor", Status.NOT_APPLICABLE),
    ],
)
def test_healthy_cells(session, bank_folder, overload, status):
    assert {result.status for result in results(session, bank_folder, overload)} == {status}


@pytest.mark.parametrize(
    ("overload", "fault", "status", "words"),
    [
        ("aten.add.Tensor", "value", Status.WRONG, "elements wrong"),
        ("aten.add.Tensor", "zeros", Status.WRONG, "zero"),
        ("aten.add.Tensor", "dtype", Status.WRONG, "dtype float64, expected float32"),
        ("aten.add.Tensor", "shape", Status.WRONG, "shape"),
        ("aten.add.Tensor", "stride", Status.WRONG, "stride"),
        ("aten.add.Tensor", "nan", Status.WRONG, "nan"),
        ("aten.add.Tensor", "input-mutated", Status.WRONG, "argument 0"),
        ("aten.mul.Tensor", "infinity", Status.NATIVE, None),  # the first value is +inf already
        ("aten.mul.Tensor", "negative-infinity", Status.WRONG, "inf"),
        ("aten.relu.default", "infinity", Status.WRONG, "inf"),
        ("aten.add_.Tensor", "mutation-missed", Status.WRONG, "wrong"),
        ("aten.add_.Tensor", "value", Status.WRONG, "wrong"),
        ("aten.add.out", "mutation-missed", Status.WRONG, "wrong"),
        ("aten.add.out", "value", Status.WRONG, "wrong"),
        ("aten.add.Tensor", "hidden-fallback", Status.FALLBACK, None),
        ("aten.linear.default", "hidden-fallback", Status.FALLBACK, None),
        ("aten.add.Tensor", "unsupported", Status.UNSUPPORTED, "not supported on neuron"),
        ("aten.add.Tensor", "raise", Status.ERROR, "failed to execute"),
        ("aten.lgamma.default", "value", Status.WRONG, "elements wrong"),
        ("aten.lgamma.out", "value", Status.WRONG, "elements wrong"),
    ],
)
def test_planted_faults_turn_the_right_cell(session, bank_folder, overload, fault, status, words):
    called = "aten.lgamma.default" if overload == "aten.lgamma.out" else overload
    with kernels.planted(sim.state, {overload: fault}):
        found = results(session, bank_folder, called)
    assert worst_status(result.status for result in found) == status
    if words is not None:
        assert words in next(result.message for result in found if result.status == status)
    assert {result.status for result in results(session, bank_folder, called)} <= {Status.NATIVE, Status.FALLBACK}


def test_a_hidden_fallback_is_seen_although_tracking_denies_it(session, bank_folder):
    with kernels.planted(sim.state, {"aten.add.Tensor": "hidden-fallback"}):
        found = results(session, bank_folder, "aten.add.Tensor")[0]
        sim.clear_op_tracking()
        device = sim.torch.ones(2, device="neuron") + 1
    assert (found.outcome, found.route, found.reason) == (Outcome.PASS, Route.FALLBACK, FallbackReason.HOST)
    assert device.tolist() == [2.0, 2.0]
    assert "aten::add.Tensor" in sim.get_executed_ops()
    assert "aten::add.Tensor" not in sim.get_fallback_ops()


def test_a_result_tells_parts_figures_and_times(session, bank_folder):
    (found,) = results(session, bank_folder, "aten.lgamma.default")
    assert (found.route, found.reason, found.composite) == (Route.FALLBACK, FallbackReason.UNIMPLEMENTED, True)
    assert "aten.lgamma.out" in {part.overload for part in found.parts}
    assert found.device_ms > 0
    assert found.reference_ms > 0
    assert 0 <= found.reference_figures.max_abs < 1e-5
    assert found.device_figures == found.reference_figures
    assert Result.from_json(found.to_json()) == found


def test_what_the_reference_refuses_says_so(session, bank_folder):
    (found,) = results(session, bank_folder, "aten.bitwise_and.Tensor")
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert "not implemented for 'Float'" in found.message


def test_a_backward_case_compares_gradients(session, bank_folder):
    case = Case("aten.mul.Tensor", "float32", "hand/0", "backward")
    healthy = session.run(case)
    assert (healthy.outcome, healthy.route) == (Outcome.PASS, Route.NATIVE)
    case = Case("aten.linear.default", "float32", "hand/0", "backward")
    assert session.run(case).outcome is Outcome.PASS
    with kernels.planted(sim.state, {"aten.linear_backward.default": "value"}):
        assert session.run(case).outcome is Outcome.WRONG


def test_the_gradients_that_flow_in_are_the_same_in_every_precision():
    ones = torch.ones(37, dtype=torch.float64)
    (wide,) = perform(torch.ops.aten.neg.default, (ones,), {}, "backward")[1]
    assert 0.5 == -wide.max() < -wide.min() == 1.5
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        (thin,) = perform(torch.ops.aten.neg.default, (ones.to(dtype),), {}, "backward")[1]
        assert thin.dtype == dtype
        assert thin.double().equal(wide)


def test_results_do_not_depend_on_what_ran_before(session, bank_folder):
    first = results(session, bank_folder, "aten.atan2.default")[0]
    results(session, bank_folder, "aten.add_.Tensor")
    again = results(session, bank_folder, "aten.atan2.default")[0]
    assert (first.outcome, first.parts, first.device_figures) == (again.outcome, again.parts, again.device_figures)


def test_the_cpu_target_passes_and_refuses_faults(bank_folder):
    session = open_session("cpu", bank_folder, {})
    found = results(session, bank_folder, "aten.add.Tensor")
    assert {(result.outcome, result.route) for result in found} == {(Outcome.PASS, Route.NATIVE)}
    with pytest.raises(BadInput, match="cannot plant"):
        open_session("cpu", bank_folder, {"aten.add.Tensor": "value"})


def test_an_unknown_target_is_refused(bank_folder):
    with pytest.raises(BadInput, match=r"unknown target 'tpu'; expected one of sim, sim\+translators, cpu"):
        open_session("tpu", bank_folder, {})


def test_case_keys_are_stable():
    assert Case("aten.add.Tensor", "float32", "x").key == "73b2044123ad46cb1ff9f9d9b0713883"
    assert len({Case("a", "b", "c", variant, seed).key for variant in ("forward", "backward") for seed in (0, 1)}) == 4
