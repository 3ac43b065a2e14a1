"""Hand-written samples: each runs on the CPU, three runs agree, and every overload in the tables exists and counts."""

import json
import os
import subprocess
import sys
import zlib
from collections import Counter

import pytest
import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.bank import DTYPES
from neuron_ops.op_tests.generators import FAMILIES, hand_samples
from neuron_ops.op_tests.generators.rows import ALL, FLOATS, Draw, call, row
from neuron_ops.op_tests.packing import pack
from neuron_ops.op_tests.records import BadInput
from torch.utils._pytree import tree_flatten

UNREACHED = (
    "_int_mm.default", "_scaled_mm.default", "_scaled_mm_v2.default", "_grouped_mm.default",
    "_cholesky_solve_helper.default", "_slow_conv2d_forward.default", "_slow_conv2d_forward.output",
    "_slow_conv2d_backward.grad_input", "_slow_conv2d_backward.output_mask", "slow_conv_transpose2d.out",
    "slow_conv_transpose3d.default", "slow_conv_dilated2d.default", "slow_conv3d_forward.output", "conv_tbc.default",
    "_upsample_bicubic2d_aa_backward.grad_input", "upsample_nearest3d_backward.grad_input", "reflection_pad3d.out",
    "replication_pad3d.out", "_native_multi_head_attention.out", "_transformer_encoder_layer_fwd.default",
    "_transform_bias_rescale_qkv.default", "_masked_softmax_backward.default", "glu_jvp.default",
    "affine_grid_generator.out", "_cummax_helper.default", "_cummin_helper.default",
    "_embedding_bag_dense_backward.default", "_amp_update_scale_.default", "_batch_norm_no_update.default",
    "norm.dtype_out", "clip.Tensor_out", "clip_.default", "_foreach_addcdiv.Tensor", "_foreach_addcmul_.Tensor",
    "linalg_norm.ord_str_out", "_pack_padded_sequence.out", "_pad_packed_sequence.default",
    "_compute_linear_combination.out", "_weight_norm_interface.default", "_weight_norm_interface_backward.default",
    "_native_batch_norm_legit.no_stats_out", "_native_batch_norm_legit_no_training.default",
    "_native_batch_norm_legit_functional.default", "_sobol_engine_draw.default", "_sobol_engine_scramble_.default",
    "_sobol_engine_initialize_state_.default", "_ctc_loss_backward.Tensor", "randperm.generator_out",
    "native_dropout.default", "_fft_c2r.default", "copy.default", "div_.Scalar_mode", "fmod_.Scalar",
    "remainder.Scalar_Tensor_out", "_segment_reduce_backward.out", "_fused_sgd_.default", "_fused_adam_.tensor_lr",
    "_fused_adamw.out", "_fused_adagrad_.default", "_fused_moving_avg_obs_fq_helper_functional.default",
    "bincount.default", "put.out", "tril_indices.default", "kaiser_window.beta", "gru.input", "gru.data",
    "gru_cell.default", "lstm.input", "lstm.data", "lstm_cell.default", "rnn_relu.data", "rnn_tanh.input",
    "rnn_tanh_cell.default",
)  # fmt: skip
"""Overloads that recording and derivation are known not to reach well: each must stay in the tables."""


THOROUGH = ("float32", "bfloat16", "int64", "int8", "complex64", "bool")


def contents(value):
    """Return the bytes of every tensor and the text of every other value."""
    return [
        (str(t.dtype), tuple(t.shape), t.detach().resolve_conj().resolve_neg().reshape(-1).clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().tobytes())
        if isinstance(t, torch.Tensor)
        else repr(t)
        for t in tree_flatten(value)[0]
    ]  # fmt: skip


def run_once(op, sample):
    args, kwargs = sample.unpack()
    blocks = [torch.full((n,), 0xA5, dtype=torch.uint8) for n in (16, 64, 256, 1024, 4096)]
    del blocks  # so that a kernel that reads memory it did not write gives itself away
    torch.default_generator.manual_seed(0)  # torch.manual_seed costs a millisecond: it formats a traceback for CUDA
    return contents((op(*args, **kwargs), args, kwargs))


def try_family(family, say):
    """Say what each sample of a family does wrong; called in a process of its own."""
    references = catalogue.privateuse1_entry_points()
    for dtype in DTYPES:
        for table_row in FAMILIES[family]:
            for name, (args, kwargs) in table_row.calls(getattr(torch, dtype)):
                say({"at": f"{name} {dtype}"})
                op = catalogue.resolve(references.get(name, name))
                try:
                    sample = pack(args, kwargs)
                    first, *others = [run_once(op, sample) for _ in range(3 if dtype in THOROUGH else 1)]
                except Exception as error:
                    say({"fault": f"{name} {dtype}: {type(error).__name__}: {error}"})
                    continue
                if any(other != first for other in others):
                    say({"fault": f"{name} {dtype}: three runs differ"})


def main():
    """Try every family in a fork, so that a crash ends one family and not the rest."""
    torch.set_num_threads(1)
    for family in sys.argv[1:]:
        sys.stdout.write(json.dumps({"family": family}) + "\n")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            try_family(family, lambda event: os.write(1, (json.dumps(event) + "\n").encode()))
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(json.dumps({"ended": status}) + "\n")
        sys.stdout.flush()


@pytest.fixture(scope="module")
def trials():
    """Family → (exit status, last case begun, faults) of one child process that tries them all."""
    command = [sys.executable, "-W", "ignore", __file__, *FAMILIES]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    found, family = {}, ""
    for event in map(json.loads, ended.stdout.splitlines()):
        family = event.get("family", family)
        status, last, faults = found.setdefault(family, (None, "", []))
        found[family] = (
            event.get("ended", status),
            event.get("at", last),
            [*faults, *filter(None, [event.get("fault")])],
        )
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_every_sample_runs_on_the_cpu_and_three_runs_agree(family, trials):
    status, last, faults = trials[family]
    assert last, "no sample was tried"
    assert not faults
    assert status == 0, f"died in {last}"


@pytest.fixture(scope="module")
def served():
    """Dtype → names of the overloads that have a sample."""
    return {dtype: {name for name, _, _ in hand_samples(getattr(torch, dtype))} for dtype in DTYPES}


def test_overloads_that_nothing_else_reaches_have_samples(served):
    assert [name for name in UNREACHED if f"aten.{name}" not in set().union(*served.values())] == []


def test_every_overload_counts_or_is_an_entry_point(served):
    known, points = catalogue.by_name(), catalogue.privateuse1_entry_points()
    names = set().union(*served.values())
    assert [name for name in sorted(names) if known[name].excluded and name not in points] == []


def test_every_row_gives_a_sample_in_each_of_its_dtypes():
    for family, rows in FAMILIES.items():
        for table_row in rows:
            for dtype in table_row.dtypes:
                names = {name for name, _ in table_row.calls(dtype)}
                assert str(table_row.named) in names, f"{family}: {table_row.named} {dtype}"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool])
def test_samples_depend_on_the_dtype_alone_and_leave_global_randomness_alone(dtype):
    def digest():
        return [(n, label, zlib.crc32(pack(*arguments).to_bytes())) for n, label, arguments in hand_samples(dtype)]

    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = digest()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    assert digest() == first
    assert max(Counter((name, label) for name, label, _ in first).values()) == 1
    assert {label.partition("/")[0] for _, label, _ in first} <= set(FAMILIES)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int16, torch.complex64])
def test_samples_are_of_the_dtype(dtype):
    of_another = Counter()
    for name, _, (args, kwargs) in hand_samples(dtype):
        leaves = tree_flatten((args, kwargs))[0]
        kinds = {leaf.dtype for leaf in leaves if isinstance(leaf, torch.Tensor)} | {
            v for v in leaves if isinstance(v, torch.dtype)
        }
        if dtype not in kinds:
            of_another[name] += 1
    assert not of_another


def test_an_unknown_overload_is_refused():
    with pytest.raises(BadInput, match=r"no operator overload 'aten\.glu_jvp\.nonsense'"):
        row("aten.glu_jvp.nonsense", FLOATS, lambda d: [call(d(2))])


def served_by(table_row, dtype=torch.float32):
    return {name: arguments for name, arguments in table_row.calls(dtype)}  # noqa: C416


def test_one_row_serves_all_forms_with_the_same_arguments():
    found = served_by(row("aten.clip.default", FLOATS, lambda d: [call(d(3), -1, 1)]))
    assert set(found) == {"aten.clip.default", "aten.clip.out", "aten.clip_.default"}
    out = found["aten.clip.out"][1]["out"]
    assert out.tolist() == [7.0, 7.0, 7.0]
    places = [arguments[0][0].data_ptr() for arguments in found.values()]
    assert len(set(places)) == 3


def test_a_factory_s_dtype_is_left_to_its_result_tensor():
    found = served_by(row("aten.hann_window.periodic", ALL, lambda d: [call(4, True, dtype=d.dtype)]), torch.bfloat16)
    args, kwargs = found["aten.hann_window.periodic_out"]
    assert (args, set(kwargs), kwargs["out"].dtype, kwargs["out"].shape) == ((4, True), {"out"}, torch.bfloat16, (4,))


def test_a_required_dtype_is_kept():
    found = served_by(
        row("aten.norm.ScalarOpt_dim_dtype", FLOATS, lambda d: [call(d(3), 2, [0], False, dtype=torch.float64)])
    )
    assert set(found) == {"aten.norm.ScalarOpt_dim_dtype", "aten.norm.dtype_out"}
    assert found["aten.norm.dtype_out"][1]["dtype"] == torch.float64


def test_an_in_place_form_is_served_where_its_result_fits():
    wider = row("aten.greater.Tensor", ALL, lambda d: [call(d(3, 1), d(1, 4))])
    same = row("aten.greater.Tensor", ALL, lambda d: [call(d(3, 4), d(1, 4))])
    assert "aten.greater_.Tensor" not in served_by(wider)
    assert "aten.greater_.Tensor" in served_by(same)
    integer = row("aten.divide.Tensor", ALL, lambda d: [call(d(3), d.positive(3))])
    assert "aten.divide_.Tensor" not in served_by(integer, torch.int64)


def test_draws_are_in_their_bounds():
    for dtype in ALL:
        drawn = Draw(dtype, 3)(400)
        assert drawn.dtype == dtype
        assert (drawn != drawn[0]).any()
    assert Draw(torch.float32, 3).unit(400).abs().max() <= 0.9
    assert Draw(torch.float32, 3).positive(400).min() >= 0.25
    assert Draw(torch.int8, 3).positive(400).min() == 1
    assert Draw(torch.int64, 3)(400).min() == -8
    assert Draw(torch.uint8, 3)(400).max() == 8
    assert torch.linalg.eigvalsh(Draw(torch.float64, 3).definite(5, 5)).min() >= 1


if __name__ == "__main__":
    main()
