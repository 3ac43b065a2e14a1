"""Each axis makes the geometry that it says, and finds the fault that plain calls miss."""

import sys

import pytest
import torch
from conftest import write_bank
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.axes import (
    AXES,
    accepted,
    apply,
    axis_named,
    choice,
    exclusions,
    prepare,
    spread,
    spread_isolated,
    spreading,
)
from neuron_ops.op_tests.axes.choice import WANTED
from neuron_ops.op_tests.axes.draws import distribution_message
from neuron_ops.op_tests.axes.spreading import AXES_OF_A_SAMPLE
from neuron_ops.op_tests.calls import perform, steps
from neuron_ops.op_tests.packing import pack
from neuron_ops.op_tests.records import BadInput, Case, Outcome
from neuron_ops.op_tests.runner import Session, open_session
from neuron_ops.op_tests.script import script
from neuron_ops.op_tests.targets import open_target, sim
from neuron_ops.op_tests.targets.sim import kernels, memory

NAN = float("nan")


def matrix(*shape, dtype=torch.float32):
    size = torch.Size(shape).numel()
    return (torch.arange(size, dtype=torch.float64) * 0.37 - 1.1).reshape(shape).to(dtype)


def changed(variant, overload, *args, **kwargs):
    """The arguments after a trip through the bytes that a device gets them from."""
    return prepare(variant, catalogue.resolve(overload), pack(args, kwargs)).sample.unpack()


# --- geometry --------------------------------------------------------------------------------------------------------


def test_transposed_keeps_values_and_turns_strides():
    (left, right), _ = changed("transposed", "aten.add.Tensor", matrix(3, 4), matrix(2, 3, 4))
    assert (left.stride(), right.stride()) == ((1, 3), (1, 2, 6))
    assert torch.equal(left, matrix(3, 4))
    assert apply("transposed", torch.ops.aten.add.Tensor, [matrix(4), matrix(1, 4)], {}) is None


def test_sliced_has_an_offset_a_step_and_other_values_in_the_gaps():
    (left, right), _ = changed("sliced", "aten.add.Tensor", matrix(3, 4), matrix(4))
    assert (left.storage_offset(), left.stride(), right.stride()) == (3, (8, 2), (2,))
    assert torch.equal(left, matrix(3, 4))
    buffer = left.as_strided((28,), (1,), 0)
    assert not set(buffer[4::2].tolist()) & set(matrix(3, 4).flatten().tolist())
    assert left.untyped_storage().nbytes() == 28 * 4  # what lies behind the last element is there too


def test_sliced_indices_stay_legal_in_the_gaps():
    (_, _, index), _ = changed("sliced", "aten.index_select.default", matrix(3, 4), 0, torch.tensor([2, 0]))
    assert set(index.as_strided((8,), (1,), 0).tolist()) == {0, 2}


def test_expanded_inputs_have_stride_zero_and_written_ones_do_not():
    (target, other), _ = changed("expanded", "aten.add_.Tensor", matrix(3, 4), matrix(3, 4))
    assert (target.stride(), other.stride()) == ((4, 1), (1, 0))
    assert torch.equal(other, matrix(3, 4)[:, :1].expand(3, 4))
    assert other.untyped_storage().nbytes() == 12


def test_channels_last():
    (image,), _ = changed("channels_last", "aten.relu.default", matrix(2, 3, 4, 5))
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert apply("channels_last", torch.ops.aten.relu.default, [matrix(3, 4)], {}) is None


def test_zero_dim_takes_dimensions_and_out_along():
    args, kwargs = changed("zero_dim", "aten.sum.IntList_out", matrix(3, 4), [1], out=torch.zeros(3))
    assert (args[0].shape, args[1], kwargs["out"].shape) == ((), [0], (0,))


@pytest.mark.parametrize(
    ("variant", "shapes"),
    [
        ("empty:last", ((3, 0), (0, 4))),
        ("empty:first", ((0, 3), (3, 4))),
        ("empty:all", ((0, 0), (0, 4))),
        ("empty:only", ((0, 3), (3, 4))),
    ],
)
def test_empty_sets_one_dimension_to_nothing(variant, shapes):
    left, right = (3, 3), (3, 4)
    if variant == "empty:first":
        left, right = (2, 3), (3, 4)
    if variant == "empty:last":
        left, right = (3, 4), (4, 4)
        shapes = ((3, 0), (4, 0))
    args, _ = changed(variant, "aten.mm.default", matrix(*left), matrix(*right))
    assert tuple(tuple(t.shape) for t in args) == shapes


def test_large_repeats_the_elements_just_above_a_threshold():
    (left, right), _ = changed("large:257,last", "aten.add.Tensor", matrix(3, 4), matrix(4))
    assert (left.shape, right.shape) == ((3, 257), (257,))
    assert torch.equal(left[:, 256], matrix(3, 4)[:, 0])
    (row, thin), _ = changed("large:65537,row", "aten.add.Tensor", matrix(3, 4), matrix(3, 4))
    assert row.shape == thin.shape == (1, 65537)
    assert apply("large:17,last", torch.ops.aten.relu.default, [matrix(3, 20)], {}) is None


def test_an_enlarged_call_has_a_bound():
    assert apply("large:65537,last", torch.ops.aten.relu.default, [matrix(100, 4)], {}) is None


def test_size_lists_follow_the_size():
    args, _ = changed("empty:last", "aten.native_layer_norm.default", matrix(3, 4), [4], matrix(4), matrix(4), 1e-5)
    assert (args[0].shape, args[1], args[2].shape) == ((3, 0), [0], (0,))


def test_tensors_that_share_memory_stay_as_they_are_or_change_together():
    base = matrix(3, 4)
    assert apply("sliced", torch.ops.aten.add.Tensor, [base, base[:, :2]], {}) is None
    (left, right), _ = changed("sliced", "aten.add.Tensor", base, base)
    assert left.data_ptr() == right.data_ptr()


# --- contents and operands -------------------------------------------------------------------------------------------


def test_special_values_meet_each_other_in_elementwise_calls():
    (left, right), _ = changed("special", "aten.add.Tensor", matrix(2, 2), matrix(2, 2))
    count = left.shape[0]
    assert left.shape == right.shape == (count, count)
    pairs = {(repr(a), repr(b)) for a, b in zip(left.flatten().tolist(), right.flatten().tolist(), strict=True)}
    assert len(pairs) == count**2
    for wanted in (NAN, float("inf"), -float("inf"), -0.0, torch.finfo(torch.float32).max):
        assert repr(wanted) in {a for a, _ in pairs}
    assert any(0 < abs(a) < torch.finfo(torch.float32).smallest_normal for a in left.flatten().tolist())


def test_special_values_are_woven_into_others():
    (values, _), _ = changed("special", "aten.sum.dim_IntList", matrix(4, 6), [1])
    assert values.isnan().any()
    assert torch.equal(values.flatten()[1::3], matrix(4, 6).flatten()[1::3])
    (finite, _), _ = changed("special:finite", "aten.sum.dim_IntList", matrix(4, 6), [1])
    assert finite.isfinite().all()
    assert bool(((finite == 0) & finite.signbit()).any())


def test_special_integers_are_past_what_a_float_holds():
    (values, _), _ = changed(
        "special", "aten.add.Tensor", torch.ones(2, 2, dtype=torch.int64), torch.ones(2, dtype=torch.int64)
    )
    assert {2**24 + 1, 2**31 + 3, 2**63 - 1, -(2**63)} <= set(values.flatten().tolist())


def test_second_operands():
    call = ("aten.add.Tensor", matrix(3, 4), matrix(3, 4))
    assert changed("scalar", *call)[0][1] == 3
    assert changed("scalar:dtype", *call)[0][1].dtype == torch.int64
    narrow = changed("scalar:zero_dim", *call)[0][1]
    assert (narrow.dtype, narrow.shape) == (torch.float64, ())
    whole = torch.ones(3, dtype=torch.int64)
    assert changed("scalar", "aten.add.Tensor", whole, whole)[0][1] == 2.5
    assert changed("scalar", "aten.add.Scalar", whole, 2)[0][1] == 2.5


def test_a_host_scalar_stays_on_the_host():
    prepared = prepare("host_scalar", torch.ops.aten.mul.Tensor, pack([matrix(3, 4), matrix(3, 4)], {}))
    args, _ = prepared.sample.unpack("neuron", on_host=prepared.on_host)
    assert [(t.device.type, t.dim()) for t in args] == [("neuron", 2), ("cpu", 0)]
    for refuses in (torch.ops.aten.mm.default, torch.ops.aten.clamp_.Tensor):  # on CUDA too, for want of a NoCheck
        assert apply("host_scalar", refuses, [matrix(3, 3), matrix(3, 3)], {}) is None
    assert apply("host_scalar", torch.ops.aten.fill_.Tensor, [matrix(3), torch.tensor(2.0)], {}) is not None


def test_out_tensors():
    call = ("aten.add.out", matrix(3, 4), matrix(3, 4))
    assert changed("out_larger", *call, out=matrix(3, 4))[1]["out"].shape == (3, 4, 3)
    assert changed("out_wrong_shape", *call, out=matrix(3, 4))[1]["out"].shape == (1, 4, 3, 1)
    assert changed("out_wrong_dtype", *call, out=matrix(3, 4))[1]["out"].dtype == torch.int64


def test_aliases():
    (left, right), _ = changed("aliased", "aten.add_.Tensor", matrix(3, 4), matrix(3, 4) + 1)
    assert left.data_ptr() == right.data_ptr()
    args, kwargs = changed("aliased", "aten.add.out", matrix(3, 4), matrix(3, 4), out=matrix(3, 4))
    assert kwargs["out"].data_ptr() in {args[0].data_ptr(), args[1].data_ptr()}
    args, kwargs = changed("aliased:base", "aten.mm.out", matrix(2, 2), matrix(2, 2), out=matrix(2, 2))
    parts = [*args, kwargs["out"]]
    assert {t.untyped_storage().data_ptr() for t in parts} == {args[0].untyped_storage().data_ptr()}
    assert sorted(t.storage_offset() for t in parts) == [0, 4, 8]
    assert apply("aliased", torch.ops.aten.mm.out, [matrix(2, 2), matrix(2, 2)], {"out": matrix(2, 2)}) is None


def test_mistakes():
    index = torch.tensor([2, 0])
    call = ("aten.index_select.default", matrix(3, 4), 0, index)
    assert changed("must_raise:dim", *call)[0][1] == 5
    assert changed("must_raise:index", *call)[0][2].min() > 2**29
    assert changed("must_raise:index_dtype", *call)[0][2].dtype == torch.float32
    assert changed("must_raise:dtype", "aten.mm.default", matrix(3, 3), matrix(3, 3))[0][1].dtype == torch.float64
    assert changed("must_raise:shape", "aten.add.Tensor", matrix(3, 4), matrix(3, 4))[0][1].shape == (3, 7)


def test_draws_that_are_certain():
    weights = torch.tensor([0.2, 0.3, 0.5])
    args, _ = changed("random:certain", "aten.multinomial.default", weights, 2, False)
    assert (args[0].tolist(), args[1]) == ([0, 0, 1], 1)
    assert changed("random:p1", "aten.native_dropout.default", matrix(3), 0.5, True)[0][1] == 1.0
    assert changed("random:certain", "aten.normal_.default", matrix(3), 1.5, 2.0)[0][2] == 0.0
    assert changed("random:certain", "aten.random_.from", matrix(3), 2, 9)[0][1:] == [2, 3]
    assert changed("random:statistics,row", "aten.rand.default", [3])[0][0] == [16385]


def test_variants_are_checked():
    with pytest.raises(BadInput, match="unknown variant 'diagonal:1'; expected one of forward"):
        axis_named("diagonal:1")
    with pytest.raises(BadInput, match="says nothing for this sample"):
        prepare("channels_last", torch.ops.aten.relu.default, pack([matrix(3)], {}))
    assert {alternatives[0].partition(":")[0] for alternatives in WANTED} | {"forward", "backward"} == {
        a.name for a in AXES
    }


# --- the choice ------------------------------------------------------------------------------------------------------


def test_the_choice_takes_what_the_cpu_accepts():
    add, relu = torch.ops.aten.add.Tensor, torch.ops.aten.relu.default
    assert accepted(add, "aten.add.Tensor", pack([matrix(3, 4), matrix(3, 4)], {}), "transposed")
    assert not accepted(add, "aten.add.Tensor", pack([matrix(3, 4), matrix(3, 4)], {}), "must_raise:dtype")
    assert accepted(add, "aten.add.Tensor", pack([matrix(3, 4), matrix(3, 4)], {}), "must_raise:shape")
    assert not accepted(relu, "aten.relu.default", pack([torch.ones(3, dtype=torch.bool)], {}), "sliced")
    inverse = torch.ops.aten.linalg_inv_ex.default
    assert not accepted(inverse, "aten.linalg_inv_ex.default", pack([matrix(2, 3)], {}), "must_raise:dim")
    empty = torch.ops.aten.empty_like.default
    assert accepted(empty, "aten.empty_like.default", pack([matrix(3)], {}), "zero_dim")
    assert not accepted(torch.ops.aten.bernoulli.p, "aten.bernoulli.p", pack([matrix(3), 0.5], {}), "random:certain")


def test_a_kernel_that_reads_memory_it_did_not_write_is_not_accepted(monkeypatch):
    mul, sample = torch.ops.aten.mul.Tensor, pack([matrix(3, 4), matrix(3, 4)], {})
    assert accepted(mul, "aten.mul.Tensor", sample, "transposed")
    monkeypatch.setattr(choice, "perform", lambda *_: [torch.empty(n) for n in (4, 16, 60, 250, 1000)])
    assert not accepted(mul, "aten.mul.Tensor", sample, "transposed")


def answered(op, samples):
    """Return what `spread` finds with every trial made in this process."""
    trials, answer = spread(op, str(op), torch.float32, list(samples)), None
    while True:
        try:
            label, variant = trials.send(answer)
        except StopIteration as end:
            return end.value
        answer = accepted(op, str(op), samples[label], variant)


def test_every_axis_occurs_once_and_samples_share_them():
    op = torch.ops.aten.add.Tensor
    samples = {f"hand/{i}": pack([matrix(3, 4 + i), matrix(3, 4 + i)], {}) for i in range(8)}
    found = answered(op, samples)
    names = [variant for variants in found.values() for variant in variants]
    assert len(names) == len(set(names))
    assert {
        "transposed",
        "sliced",
        "expanded",
        "special",
        "host_scalar",
        "backward_expanded",
        "must_raise:shape",
    } <= set(names)
    assert max(len(variants) for variants in found.values()) <= AXES_OF_A_SAMPLE
    alone = answered(op, {"hand/0": samples["hand/0"]})
    assert {v for v in alone["hand/0"] if "large" not in v} == {
        v for v in names if "large" not in v
    }  # those depend on time


def test_trials_survive_a_kernel_that_ends_the_process(monkeypatch):
    def judge(op, overload, sample, variant):
        if variant == "sliced":
            import ctypes

            ctypes.string_at(0)
        return variant in ("transposed", "expanded")

    monkeypatch.setattr(spreading, "accepted", judge)
    work = [(name, {"hand/0": pack([matrix(3), matrix(3)], {})}) for name in ("aten.add.Tensor", "aten.mul.Tensor")]
    found = spread_isolated(work, torch.float32)
    assert found == {name: {"hand/0": ("transposed", "expanded")} for name, _ in work}


def test_a_result_too_large_for_any_case_is_not_computed(monkeypatch):
    xor, sample = torch.ops.aten.logical_xor.default, pack([matrix(3, 1), matrix(1, 3)], {})
    monkeypatch.setattr(choice, "perform", lambda *_: pytest.fail("computed 65537 x 65537 elements"))
    assert not accepted(xor, str(xor), sample, "large:65537,all")


def test_a_mistake_of_ours_in_a_trial_is_told(monkeypatch):
    def judge(op, overload, sample, variant):
        raise KeyError("ours")

    monkeypatch.setattr(spreading, "accepted", judge)
    with pytest.raises(RuntimeError, match="KeyError: 'ours'"):
        spread_isolated([("aten.add.Tensor", {"hand/0": pack([matrix(3), matrix(3)], {})})], torch.float32)


def test_excluded_variants_have_reasons_and_match_something():
    for row in exclusions.rows():
        matched = [o.name for o in catalogue.operators() for v in WANTED for w in v if row.covers(o.name, w)]
        assert matched, row
    assert exclusions.reason_against("aten.max_pool2d_with_indices_backward.default", "large:257,last")
    assert (
        exclusions.reason_against("aten.tanh_backward.default", "large:257,last") is None
    )  # elementwise: sizes are checked
    assert exclusions.reason_against("aten.max_pool2d_with_indices_backward.default", "transposed") is None


# --- gradients -------------------------------------------------------------------------------------------------------


def test_output_gradients():
    seen = []

    class Spy(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 1

        @staticmethod
        def backward(context, gradient):
            seen.append(gradient)
            return gradient

    for variant in ("backward", "backward_expanded"):
        perform(lambda x: Spy.apply(x), [matrix(3, 4)], {}, variant)
    assert [g.stride() for g in seen] == [(4, 1), (0, 0)]
    (zero,), _ = changed("backward_zero_dim", "aten.sin.default", matrix(3))
    assert zero.dim() == 0
    _, gradients = perform(torch.ops.aten.mul.Tensor, [matrix(3), matrix(3)], {}, "backward_partial")
    assert len(gradients) == 1


# --- planted faults: caught by the axis, not by the plain call -------------------------------------------------------


def plant(monkeypatch, overload, fault, when):
    """Plant a fault into the simulator that spoils only the calls for which `when(tensors)` holds (CPU aliases)."""
    spoilt = kernels.Kernel._spoilt

    def sometimes(kernel, fault, entry, dtypes, args, kwargs):
        found = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
        if when([memory.to_host(t) if memory.is_device(t) else t for t in found]):
            return spoilt(kernel, fault, entry, dtypes, args, kwargs)
        return kernel._serve(entry, dtypes, args, kwargs)

    monkeypatch.setattr(kernels.Kernel, "_spoilt", sometimes)
    monkeypatch.setitem(sim.state.faults, overload, fault)


def gapped(tensors):
    return any(t.stride()[-1:] == (2,) for t in tensors)


def turned(tensors):
    return any(t.dim() == 2 and t.stride(0) == 1 < t.stride(1) for t in tensors)


def stride_zero(tensors):
    return any(t.dim() and 0 in t.stride() and t.numel() > 1 for t in tensors)


ADD = ("aten.add.Tensor", [matrix(3, 4), matrix(3, 4) + 2], {})
PLANTS = [
    ("transposed", *ADD, None, "value", turned),
    ("sliced", *ADD, None, "value", gapped),
    ("expanded", *ADD, None, "value", stride_zero),
    ("channels_last", "aten.relu.default", [matrix(2, 3, 4, 5)], {}, None, "value", lambda ts: ts[0].stride()[1] == 1),
    ("zero_dim", *ADD, None, "value", lambda ts: not ts[0].dim()),
    ("empty:last", *ADD, None, "shape", lambda ts: not ts[0].numel()),
    ("large:65537,row", *ADD, None, "value", lambda ts: ts[0].numel() > 65536),
    ("large:17,last", *ADD, None, "value", lambda ts: ts[0].numel() > 3 * 16),
    ("special", *ADD, None, "zeros", lambda ts: bool(ts[0].isnan().any())),
    ("special", "aten.add.Tensor", [torch.ones(2, dtype=torch.int32)] * 2, {}, None, "value", lambda ts: int(ts[0].max()) > 2**24),
    ("scalar:dtype", *ADD, None, "dtype", lambda ts: ts[1].dtype == torch.int64),
    ("scalar", *ADD, None, "dtype", lambda ts: len(ts) == 1 or not ts[1].dim()),
    ("host_scalar", *ADD, None, "value", lambda ts: not ts[1].dim()),
    ("out_larger", "aten.add.out", [matrix(3, 4)] * 2, {"out": matrix(3, 4)}, None, "value", lambda ts: ts[2].numel() > 12),
    ("out_wrong_shape", "aten.add.out", [matrix(3, 4)] * 2, {"out": matrix(3, 4)}, None, "value", lambda ts: ts[2].dim() == 4),
    ("aliased", "aten.mul_.Tensor", [matrix(3, 4), matrix(3, 4) + 1], {}, None, "value", lambda ts: ts[0].data_ptr() == ts[1].data_ptr()),
    ("backward_expanded", "aten.tanh.default", [matrix(3, 4)], {}, "aten.tanh_backward.default", "value", stride_zero),
    ("backward_large:65537,row", "aten.tanh.default", [matrix(3, 4)], {}, "aten.tanh_backward.default", "value", lambda ts: ts[0].numel() > 65536),
    ("backward_zero_dim", "aten.tanh.default", [matrix(3, 4)], {}, "aten.tanh_backward.default", "value", lambda ts: not ts[0].dim()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("variant", "overload", "args", "kwargs", "where", "fault", "when"),
    PLANTS,
    ids=[f"{p[0]}-{p[1]}-{p[5]}" for p in PLANTS],
)
def test_an_axis_finds_what_plain_calls_miss(
    tmp_path, monkeypatch, variant, overload, args, kwargs, where, fault, when
):
    dtype = str(args[0].dtype).removeprefix("torch.")
    session = open_session("sim", write_bank(tmp_path, {overload: [(args, kwargs)]}, dtype), {})
    plain = "backward" if variant.startswith("backward") else "forward"
    assert session.run(Case(overload, dtype, "hand/0", variant)).outcome is Outcome.PASS
    plant(monkeypatch, where or overload, fault, when)
    assert session.run(Case(overload, dtype, "hand/0", plain)).outcome is Outcome.PASS
    found = session.run(Case(overload, dtype, "hand/0", variant))
    assert found.outcome is Outcome.WRONG, found
    assert found.message


def test_a_gradient_of_a_wrong_mask_is_found(tmp_path, monkeypatch):
    args = [matrix(3, 4), [4], matrix(4) + 2, matrix(4), 1e-5]
    session = open_session("sim", write_bank(tmp_path, {"aten.native_layer_norm.default": [(args, {})]}), {})
    served = kernels.Kernel._serve

    def without_input(kernel, entry, dtypes, args, kwargs):
        out = served(kernel, entry, dtypes, args, kwargs)
        if kernel.name == "aten.native_layer_norm_backward.default" and not args[-1][0]:
            memory.to_host(out[1]).add_(1)
        return out

    monkeypatch.setattr(kernels.Kernel, "_serve", without_input)
    outcomes = [
        session.run(Case("aten.native_layer_norm.default", "float32", "hand/0", variant)).outcome
        for variant in ("backward", "backward_partial")
    ]
    assert outcomes == [Outcome.PASS, Outcome.WRONG]


# --- refusals --------------------------------------------------------------------------------------------------------


REFUSED = [
    ("must_raise:dim", "aten.index_select.default", [matrix(3, 4), 0, torch.tensor([2, 0])], {}),
    ("must_raise:index", "aten.index_select.default", [matrix(3, 4), 0, torch.tensor([2, 0])], {}),
    ("must_raise:shape", *ADD),
    ("must_raise:dtype", "aten.mm.default", [matrix(3, 3), matrix(3, 3)], {}),
    ("out_wrong_dtype", "aten.add.out", [matrix(3, 4), matrix(3, 4)], {"out": matrix(3, 4)}),
]


@pytest.mark.parametrize(("variant", "overload", "args", "kwargs"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_the_reference_refuses_the_device_must_refuse(tmp_path, monkeypatch, variant, overload, args, kwargs):
    session = open_session("sim", write_bank(tmp_path, {overload: [(args, kwargs)]}), {})
    case = Case(overload, "float32", "hand/0", variant)
    assert session.run(case).outcome is Outcome.PASS

    def lax(kernel, entry, dtypes, args, kwargs):
        entry.route = sim.Route.NATIVE
        return memory.to_device(matrix(3, 4))

    monkeypatch.setattr(kernels.Kernel, "_serve", lax)
    found = session.run(case)
    assert found.outcome is Outcome.WRONG
    assert found.message.startswith("missing error: the device returned, expected ")


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (RuntimeError("index out of range"), Outcome.PASS),
        (AttributeError("x"), Outcome.WRONG),
        (NotImplementedError("no kernel"), Outcome.UNSUPPORTED),
    ],
)
def test_the_kind_of_a_refusal_is_compared_loosely(tmp_path, monkeypatch, error, outcome):
    variant, overload, args, kwargs = REFUSED[1]
    session = open_session("sim", write_bank(tmp_path, {overload: [(args, kwargs)]}), {})

    def refuse(kernel, entry, dtypes, args, kwargs):
        raise error

    monkeypatch.setattr(kernels.Kernel, "_serve", refuse)
    assert session.run(Case(overload, "float32", "hand/0", variant)).outcome is outcome


def test_a_refusal_that_the_reference_does_not_make_is_not_applicable(tmp_path):
    session = open_session("sim", write_bank(tmp_path, {ADD[0]: [ADD[1:]]}), {})
    found = session.run(Case("aten.add.Tensor", "float32", "hand/0", "must_raise:dtype"))
    assert (found.outcome, "accepts" in found.message) == (Outcome.NOT_APPLICABLE, True)


# --- repeated calls and draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails_at", [2, 4])
def test_repeat_finds_a_kernel_with_a_memory(tmp_path, monkeypatch, fails_at):
    assert [step.between for step in steps("repeat:last")] == [False, True, False, False]
    session = open_session("sim", write_bank(tmp_path, {ADD[0]: [ADD[1:]]}), {})
    case = Case("aten.add.Tensor", "float32", "hand/0", "repeat:last")
    assert session.run(case).outcome is Outcome.PASS
    served, calls, shapes = kernels.Kernel._serve, [], []

    def remembers(kernel, entry, dtypes, args, kwargs):
        out = served(kernel, entry, dtypes, args, kwargs)
        if kernel.name == "aten.add.Tensor":
            calls.append(kernel)
            shapes.append(tuple(out.shape))
            if len(calls) == fails_at + (fails_at == 2):
                memory.to_host(out).mul_(1 + 2.0**-22)  # within every tolerance
        return out

    monkeypatch.setattr(kernels.Kernel, "_serve", remembers)
    found = session.run(case)
    assert found.outcome is Outcome.WRONG
    assert "with equal arguments left other bytes than the first" in found.message
    assert shapes == [(3, 4), (3, 5), (3, 4), (3, 4)]


class OtherGenerator:
    """The simulated device as one with a generator of its own."""

    def __init__(self):
        self._target = open_target("sim")
        self.same_generator = self.seeded_by_cpu = False

    def __getattr__(self, name):
        return getattr(self._target, name)


def drawing(tmp_path, overload, args):
    return Session(OtherGenerator(), write_bank(tmp_path, {overload: [(args, {})]}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda out: out, None),
        (lambda out: out.add_(0.1), "statistics: the distribution of 16385 draws"),
        (lambda out: out.mul_(1.1), "statistics"),
        (lambda out: out.copy_(out.roll(1)), None),  # another generator
    ],
)
def test_statistics_of_another_generator(tmp_path, monkeypatch, change, words):
    session = drawing(tmp_path, "aten.normal_.default", [matrix(3, 4), 0.5, 1.0])
    served = kernels.Kernel._serve

    def other(kernel, entry, dtypes, args, kwargs):
        out = served(kernel, entry, dtypes, args, kwargs)
        if kernel.name == "aten.normal_.default":
            change(memory.to_host(out))
        return out

    monkeypatch.setattr(kernels.Kernel, "_serve", other)
    found = session.run(Case("aten.normal_.default", "float32", "hand/0", "random:statistics,row"))
    assert (found.outcome, (words or "") in (found.message or "")) == (
        Outcome.PASS if words is None else Outcome.WRONG,
        True,
    )
    plain = session.run(Case("aten.normal_.default", "float32", "hand/0", "forward"))
    assert plain.outcome is Outcome.PASS  # values are not compared there


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda out, seed: out.fill_(0.25), "another seed gives the same draw"),
        (lambda out, seed: out.add_(seed.pop()), "two draws with one seed differ"),
    ],
)
def test_seeds_are_honoured(tmp_path, monkeypatch, spoil, words):
    session = drawing(tmp_path, "aten.uniform_.default", [matrix(3, 4), 0.0, 1.0])
    case = Case("aten.uniform_.default", "float32", "hand/0", "random:seed")
    assert session.run(case).outcome is Outcome.PASS
    served, state = kernels.Kernel._serve, [3, 2, 1]

    def other(kernel, entry, dtypes, args, kwargs):
        out = served(kernel, entry, dtypes, args, kwargs)
        if kernel.name == "aten.uniform_.default":
            spoil(memory.to_host(out), state)
        return out

    monkeypatch.setattr(kernels.Kernel, "_serve", other)
    found = session.run(case)
    assert (found.outcome, words in found.message) == (Outcome.WRONG, True)


def test_certain_draws_are_compared_on_every_generator(tmp_path, monkeypatch):
    session = drawing(tmp_path, "aten.bernoulli.p", [matrix(3, 4), 0.5])
    case = Case("aten.bernoulli.p", "float32", "hand/0", "random:p1")
    assert session.run(case).outcome is Outcome.PASS
    plant(monkeypatch, "aten.bernoulli.p", "zeros", lambda ts: True)
    assert session.run(case).outcome is Outcome.WRONG
    assert session.run(Case("aten.bernoulli.p", "float32", "hand/0", "forward")).outcome is Outcome.PASS


def test_the_distance_of_distributions():
    generator = torch.Generator().manual_seed(0)
    heavy = [torch.randn(16385, generator=generator) / torch.randn(16385, generator=generator) for _ in range(2)]
    assert distribution_message("x", *heavy) is None  # a Cauchy distribution has no mean
    assert distribution_message("x", heavy[0], heavy[1] + 0.2)
    assert distribution_message("x", heavy[0], torch.where(torch.arange(16385) % 2 == 0, NAN, heavy[1]))


# --- the script of a case --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "variant", ["transposed", "backward_expanded", "backward_partial", "must_raise:shape", "repeat:last"]
)
def test_a_script_repeats_the_variant(monkeypatch, variant):
    monkeypatch.setattr(sys, "argv", ["script"])
    case = Case("aten.add.Tensor", "float32", "hand/0", variant)
    source = script(case, pack(ADD[1], ADD[2]), target="cpu", device="cpu")
    space = {"__name__": "script"}
    exec(compile(source, "script", "exec"), space)
    result = space["call"](torch.device("cpu"))
    if variant == "transposed":
        assert result.stride() == (1, 3)
    elif variant.startswith("backward"):
        assert len(result[1]) == (1 if variant == "backward_partial" else 2)
        assert result[1][0].stride() == ((0, 0) if variant == "backward_expanded" else (4, 1))
    elif variant.startswith("must_raise"):
        assert bool(result)
    else:
        assert len(result) == 3
