"""The comparer against planted faults of every kind: each must be named, and the honest twin of each must pass."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from neuron_ops.op_tests.comparer import Verdict, compare
from neuron_ops.op_tests.observation import Observation, observe
from torch._subclasses.fake_tensor import FakeTensorMode

if TYPE_CHECKING:
    from collections.abc import Callable

aten = torch.ops.aten
nan, inf = math.nan, math.inf


def tensor(*values: float, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


def call(
    function: Callable[..., object], arguments: tuple[Any, ...], keywords: dict[str, Any] | None = None
) -> Observation:
    keywords = keywords or {}
    return observe(function(*arguments, **keywords), arguments, keywords)


def judge(
    overload: str,
    make: Callable[[], tuple[Any, ...]],
    device: Callable[..., object],
    *,
    make_keywords: Callable[[], dict[str, Any]] = dict,
    dtype: str = "float32",
    **settings: Any,
) -> Verdict:
    """Return the verdict on `device` (a function) against the CPU's overload, each called with arguments of its own."""
    _, packet, variant = overload.split(".")
    reference = call(getattr(getattr(aten, packet), variant), make(), make_keywords())
    settings.setdefault("exact", None)
    return compare(overload, dtype, reference=reference, device=call(device, make(), make_keywords()), **settings)


def outputs(
    want: object, got: object, overload: str = "aten.add.Tensor", dtype: str = "float32", **settings: Any
) -> Verdict:
    """Return the verdict on bare outputs."""
    exact = settings.pop("exact", None)
    seen = None if exact is None else observe(exact, (), {})
    return compare(
        overload, dtype, reference=observe(want, (), {}), device=observe(got, (), {}), exact=seen, **settings
    )


def assert_wrong(verdict: Verdict, *words: str) -> None:
    assert not verdict.ok
    assert verdict.message is not None
    for word in words:
        assert word in verdict.message


# --- structure, dtype, shape, strides --------------------------------------------------------------------------------


def test_the_number_and_kinds_of_outputs() -> None:
    one = tensor(1.0)
    assert_wrong(outputs((one, one.clone()), one), "outputs: tensor, expected (tensor, tensor)")
    assert_wrong(outputs([one], []), "outputs: (), expected (tensor)")
    assert_wrong(outputs((one, None), (one, one.clone())), "output 1: tensor, expected None")
    assert_wrong(outputs((one, [one.clone()]), (one, [None])), "output 1[0]: None, expected tensor")
    assert_wrong(outputs(one, None), "output 0: None, expected tensor")
    assert_wrong(outputs(one, [one]), "outputs: (tensor), expected tensor")
    assert outputs((one, None), [one.clone(), None]).ok


def test_a_dtype_is_not_converted_away() -> None:
    want = tensor(1.0, 2.0)
    assert_wrong(outputs(want, want.to(torch.bfloat16)), "output 0: dtype bfloat16, expected float32")
    assert_wrong(outputs(want.long(), want), "output 0: dtype float32, expected int64")
    assert_wrong(outputs((want, want.long()), (want.clone(), want.int())), "output 1: dtype int32, expected int64")


def test_a_shape() -> None:
    assert_wrong(outputs(torch.ones(2, 3), torch.ones(3, 2)), "output 0: shape (3, 2), expected (2, 3)")
    assert_wrong(outputs(torch.ones(()), torch.ones(1)), "output 0: shape (1,), expected ()")
    assert_wrong(outputs(torch.zeros(0, 3), torch.zeros(0)), "output 0: shape (0,), expected (0, 3)")


def test_strides_where_they_mean_something() -> None:
    want = torch.ones(3, 2).t()
    assert_wrong(outputs(want, torch.ones(2, 3)), "output 0: stride (3, 1), expected (1, 2)")
    assert_wrong(outputs(torch.ones(1).expand(4), torch.ones(4)), "stride (1,), expected (0,)")
    assert outputs(torch.ones(3, 1, 2), torch.ones(3, 2).as_strided((3, 1, 2), (2, 77, 1))).ok
    assert outputs(torch.empty(0, 2, 3), torch.empty(0, 3, 2).transpose(1, 2)).ok


def test_a_layout() -> None:
    dense = torch.eye(3)
    assert_wrong(outputs(dense.to_sparse(), dense), "output 0: layout strided, expected sparse_coo")
    assert outputs(dense.to_sparse(), torch.eye(3).to_sparse()).ok
    assert_wrong(outputs(dense.to_sparse(), (2 * dense).to_sparse()), "3 of 9 elements wrong")


# --- aliasing and mutation -------------------------------------------------------------------------------------------


def test_an_in_place_result_must_be_the_argument() -> None:
    def make() -> tuple[Any, ...]:
        return torch.ones(3), torch.ones(3)

    assert judge("aten.add_.Tensor", make, torch.Tensor.add_).ok
    verdict = judge("aten.add_.Tensor", make, torch.add)
    assert_wrong(verdict, "output 0: is another tensor, expected argument 0 itself")
    verdict = judge("aten.add_.Tensor", make, lambda a, b: a.add_(b)[:])
    assert_wrong(verdict, "output 0: is a view of argument 0, expected argument 0 itself")


def test_an_in_place_effect_that_is_missing() -> None:
    verdict = judge("aten.add_.Tensor", lambda: (torch.ones(3), torch.ones(3)), lambda a, b: a)
    assert_wrong(verdict, "output 0: 3 of 3 elements wrong (100 %)", "1, expected 2")

    def make() -> tuple[Any, ...]:
        return [torch.zeros(2), torch.ones(3)], 1

    assert judge("aten._foreach_add_.Scalar", make, aten._foreach_add_.Scalar).ok
    verdict = judge("aten._foreach_add_.Scalar", make, lambda tensors, value: (tensors[0].add_(value), None)[1])
    assert_wrong(verdict, "argument 0[1] after the call", "3 of 3 elements wrong", "1, expected 2")


def test_out_must_be_returned_written_and_resized() -> None:
    def make() -> tuple[Any, ...]:
        return torch.eye(2), tensor(1, 2, 3, 4).view(2, 2)

    def fresh() -> dict[str, Any]:
        return {"out": torch.empty(0)}

    def device(change: Callable[..., object]) -> Verdict:
        return judge("aten.mm.out", make, change, make_keywords=fresh)

    assert device(aten.mm.out).ok
    assert_wrong(device(lambda a, b, out: torch.mm(a, b)), "argument out: shape (0,), expected (2, 2)")
    assert_wrong(
        device(lambda a, b, out: torch.mm(a, b, out=out).clone()),
        "output 0: is another tensor, expected argument out itself",
    )
    assert_wrong(device(lambda a, b, out: out), "output 0: shape (0,), expected (2, 2)")


def test_an_input_that_changed() -> None:
    def device(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        result = a + b
        b[1] = 0
        return result

    verdict = judge("aten.add.Tensor", lambda: (torch.ones(3), torch.ones(3)), device)
    assert_wrong(
        verdict, "argument 1, which the call must not change: 1 of 3 elements wrong", "worst at [1]: 0, expected 1"
    )
    verdict = judge("aten.neg.default", lambda: (torch.ones(2, 3),), lambda a: (torch.neg(a), a.t_())[0])
    assert_wrong(verdict, "argument 0: shape (3, 2), expected (2, 3)")


def test_an_input_that_changed_by_the_last_bit_or_by_the_sign_of_zero() -> None:
    verdict = judge("aten.sum.default", lambda: (tensor(1.0, 0.0),), lambda a: (a.sum(), a[1:].neg_())[0])
    assert_wrong(verdict, "argument 0, which the call must not change: sign of zero")
    verdict = judge("aten.sum.default", lambda: (torch.ones(3),), lambda a: (a.sum(), a[:1].add_(1e-7))[0])
    assert_wrong(verdict, "argument 0, which the call must not change: 1 of 3")


def test_an_input_changed_behind_its_view() -> None:
    def make() -> tuple[Any, ...]:
        return (torch.arange(10.0)[2:5],)

    def device(a: torch.Tensor) -> torch.Tensor:
        a.as_strided((1,), (1,), 9).fill_(77)
        return torch.neg(a)

    assert_wrong(
        judge("aten.neg.default", make, device),
        "argument 0, which the call must not change",
        "worst at [9]: 77, expected 9",
    )


def test_a_write_beside_the_view() -> None:
    """zero_ on one element that also clears its neighbour: the view itself is right."""

    def make() -> tuple[Any, ...]:
        return (torch.ones(3)[1],)

    assert judge("aten.zero_.default", make, torch.zero_).ok

    def device(a: torch.Tensor) -> torch.Tensor:
        a.as_strided((2,), (1,), 1).zero_()
        return a

    verdict = judge("aten.zero_.default", make, device)
    assert_wrong(verdict, "the memory of argument 0 around what the call writes", "0, expected 1")


def test_a_write_into_the_gaps_of_a_strided_out() -> None:
    def make() -> tuple[Any, ...]:
        return torch.eye(2), tensor(1, 2, 3, 4).view(2, 2)

    def fresh() -> dict[str, Any]:
        return {"out": torch.zeros(2, 6)[:, 2:4]}

    def flat(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        torch.mm(a, b, out=out)
        out.as_strided((2,), (1,), 4).fill_(5)
        return out

    assert judge("aten.mm.out", make, aten.mm.out, make_keywords=fresh).ok
    assert_wrong(
        judge("aten.mm.out", make, lambda a, b, out: out, make_keywords=fresh),
        "output 0: 4 of 4",
        "every value is zero",
    )
    assert_wrong(judge("aten.mm.out", make, flat, make_keywords=fresh), "the memory of argument out around")


def test_a_view_must_share_and_a_result_must_not() -> None:
    def make() -> tuple[Any, ...]:
        return (torch.arange(6.0).view(2, 3),)

    assert judge("aten.t.default", make, torch.t).ok
    copy = judge("aten.t.default", make, lambda a: a.t().clone())
    assert_wrong(copy, "output 0: has memory of its own, expected memory shared with argument 0")
    alias = judge("aten.abs.default", make, lambda a: a)
    assert_wrong(alias, "output 0: shares memory with argument 0, expected memory of its own")
    parts = judge("aten.aminmax.default", make, lambda a: (lambda m: (m[0], m[1]))(torch.stack([a.min(), a.max()])))
    assert_wrong(parts, "output 1: shares memory with output 0, expected memory of its own")


def test_a_view_at_another_offset() -> None:
    def make() -> tuple[Any, ...]:
        return torch.ones(4, 2), 0, 1

    assert judge("aten.select.int", make, aten.select.int).ok
    verdict = judge("aten.select.int", make, lambda a, dim, index: a[0])
    assert_wrong(verdict, "output 0: storage offset 0, expected 2")


def test_an_unmarked_alias_is_the_cpus_own_choice() -> None:
    def make() -> tuple[Any, ...]:
        return torch.ones(3), 0.5, False

    assert judge("aten.dropout.default", make, lambda a, p, train: a.clone()).ok


@pytest.mark.parametrize(
    "overload", ["aten.native_batch_norm.default", "aten.batch_norm.default", "aten._batch_norm_impl_index.default"]
)
def test_running_statistics_are_written_without_a_mark(overload: str) -> None:
    last = (True, 0.1, 1e-5) if "native" in overload else (True, 0.1, 1e-5, False)

    def make() -> tuple[Any, ...]:
        x = torch.arange(24.0).view(4, 3, 2)
        return (x, torch.ones(3), torch.zeros(3), torch.zeros(3), torch.ones(3), *last)

    operator = getattr(getattr(aten, overload.split(".")[1]), "default")  # noqa: B009

    def forgets(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, *rest: Any
    ) -> object:
        return operator(x, w, b, mean.clone(), var, *rest)

    def rounds(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, mean: torch.Tensor, var: torch.Tensor, *rest: Any
    ) -> object:
        result = operator(x, w, b, mean, var, *rest)
        mean.mul_(1 + 2e-7)
        return result

    assert judge(overload, make, rounds).ok
    assert_wrong(judge(overload, make, forgets), "argument 3 after the call", "every value is zero")


def test_random_results_are_held_to_form_and_mutation_only() -> None:
    def make() -> tuple[Any, ...]:
        return (torch.zeros(4)[1:3],)

    def device(value: float, place: int = 1) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(a: torch.Tensor) -> torch.Tensor:
            a.as_strided((1,), (1,), place).fill_(value)
            return a

        return run

    assert judge("aten.normal_.default", make, device(0.3), random=True).ok
    assert not judge("aten.normal_.default", make, device(0.3)).ok
    assert_wrong(
        judge("aten.normal_.default", make, device(0.3, place=0), random=True), "the memory of argument 0 around"
    )
    assert_wrong(judge("aten.normal_.default", make, torch.clone, random=True), "expected argument 0 itself")
    noise = judge(
        "aten.rrelu_with_noise.default",
        lambda: (-torch.ones(3), torch.zeros(3), 0.1, 0.3, True),
        lambda a, noise, *rest: a * noise.fill_(0.2),
        random=True,
    )
    assert noise.ok, noise.message
    verdict = judge("aten.bernoulli.default", lambda: (torch.full((3,), 0.5),), lambda p: p.double(), random=True)
    assert_wrong(verdict, "dtype float64, expected float32")


# --- values ----------------------------------------------------------------------------------------------------------

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_nan_dropped_and_nan_made(dtype: torch.dtype) -> None:
    plain, holed = tensor(1, 2, 3).to(dtype), tensor(1, nan, 3).to(dtype)
    assert_wrong(
        outputs(holed, plain), "output 0: NaN placement: 1 of 3 elements wrong (33.3 %), worst at [1]: 2, expected nan"
    )
    assert_wrong(outputs(plain, holed), "NaN placement", "nan, expected 2")
    assert outputs(holed, holed.clone()).ok


@pytest.mark.parametrize("dtype", FLOATS[:-1], ids=str)
def test_infinity_is_not_covered_by_a_tolerance(dtype: torch.dtype) -> None:
    """|got - inf| <= rtol * inf holds for every got: only where both are finite may a tolerance speak."""
    want = tensor(1, inf, 3).to(dtype)
    for value in (-inf, 2.0, torch.finfo(dtype).max):
        got = tensor(1, value, 3, dtype=torch.float64).to(dtype)
        assert_wrong(outputs(want, got), "infinity placement", "expected inf")
    assert_wrong(outputs(tensor(1, 2, 3).to(dtype), want), "infinity placement", "inf, expected 2")


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64], ids=str)
def test_the_sign_of_zero(dtype: torch.dtype) -> None:
    minus = torch.view_as_complex(torch.tensor([[1.0, -0.0]])) if dtype.is_complex else tensor(-0.0).to(dtype)
    plus = torch.view_as_complex(torch.tensor([[1.0, 0.0]])) if dtype.is_complex else tensor(0.0).to(dtype)
    assert_wrong(outputs(minus, plus, "aten.frac.default"), "sign of zero")
    assert_wrong(outputs(plus, minus, "aten.frac.default"), "sign of zero")
    assert outputs(minus, plus, "aten.sum.default").ok  # a sum's start value is not fixed


def test_complex_parts_are_judged_each() -> None:
    def pair(real: float, imag: float) -> torch.Tensor:
        return torch.view_as_complex(torch.tensor([[real, imag]]))

    assert_wrong(outputs(pair(inf, 1), pair(inf, nan)), "NaN placement: 1 of 1")
    assert_wrong(outputs(pair(inf, 1), pair(-inf, 1)), "infinity placement")
    assert_wrong(outputs(pair(inf, 1), pair(inf, 2)), "1 of 1 elements wrong")
    assert outputs(pair(inf, 1), pair(inf, 1 + 1e-6)).ok


@pytest.mark.filterwarnings("ignore:ComplexHalf support")
def test_half_complex() -> None:
    want = torch.view_as_complex(torch.tensor([[1.0, 2.0], [nan, 4.0]]).half())
    assert outputs(want, want.clone(), exact=want.to(torch.complex128)).ok
    assert_wrong(
        outputs(want, torch.view_as_complex(torch.tensor([[1.0, 2.0], [nan, 5.0]]).half())), "1 of 2 elements wrong"
    )


INTEGERS = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
    torch.bool,
]  # fmt: skip


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_are_exact(dtype: torch.dtype) -> None:
    want = torch.tensor([0, 1, 1]).to(dtype)
    assert_wrong(outputs(want, torch.tensor([0, 1, 0]).to(dtype)), "1 of 3 elements wrong (33.3 %), worst at [2]")
    assert outputs(want, want.clone()).ok


def test_integers_that_a_float_path_cannot_hold() -> None:
    for value in (2**24 + 1, 2**31 + 1, 2**53 + 1, 2**63 - 1):
        want = torch.tensor([value])
        assert_wrong(outputs(want, torch.tensor([value - 1])), f"{value - 1}, expected {value}")
    assert_wrong(
        outputs(torch.tensor([2**40]), torch.tensor([0]), compute_dtype=torch.int32), "0, expected 1099511627776"
    )


def test_raw_bits_are_compared_as_bytes() -> None:
    one, other = (torch.tensor([1, value], dtype=torch.uint8).view(torch.float4_e2m1fn_x2) for value in (2, 3))
    assert outputs(one, one.clone()).ok
    assert_wrong(outputs(one, other), "1 of 2 elements wrong", "3, expected 2")


def test_a_values_message_names_share_place_and_both_values() -> None:
    want, got = torch.ones(2, 6), torch.ones(2, 6)
    got[1, 2] = 1.5
    got[0, 0] = 1.25
    verdict = outputs((want, want.clone()), (want.clone(), got))
    assert verdict.message == "output 1: 2 of 12 elements wrong (16.7 %), worst at [1, 2]: 1.5, expected 1"


def test_a_failure_says_who_is_to_blame() -> None:
    exact = tensor(1.0, dtype=torch.float64)
    verdict = outputs(tensor(1.0), tensor(1.001), exact=exact)
    assert_wrong(verdict, "worse than CPU (error 0.001 against float64, the CPU's 0)")
    verdict = outputs(tensor(1.1), tensor(2.0), exact=exact)
    assert_wrong(verdict, "dtype limit (error 1 against float64, the CPU's 0.1)")
    assert verdict.device_figures is not None
    assert verdict.reference_figures is not None
    assert verdict.device_figures.max_abs == 1.0
    assert verdict.reference_figures.max_abs == pytest.approx(0.1)


def test_no_worse_than_the_cpu_passes() -> None:
    """sin near a multiple of pi: all digits are rounding noise, in which no two implementations agree."""
    exact = tensor(1e-16, dtype=torch.float64)
    assert outputs(tensor(-8.7e-8), tensor(5e-8), "aten.sin.default", exact=exact).ok
    assert outputs(tensor(-8.7e-8), tensor(1.7e-7), "aten.sin.default", exact=exact).ok
    assert_wrong(outputs(tensor(-8.7e-8), tensor(1.8e-7), "aten.sin.default", exact=exact), "dtype limit")
    assert not outputs(tensor(-8.7e-8), tensor(5e-8), "aten.sin.default").ok


def test_a_large_elements_error_does_not_hide_a_small_one() -> None:
    """In bfloat16 the error of 1000 is larger than the small element as a whole."""
    exact = tensor(1001.0, 0.25, dtype=torch.float64)
    want = exact.to(torch.bfloat16)
    assert_wrong(
        outputs(want, torch.tensor([1000.0, 1.0], dtype=torch.bfloat16), exact=exact), "worst at [1]: 1, expected 0.25"
    )


def test_a_float64_result_of_another_meaning_excuses_nothing() -> None:
    """nan_to_num takes the dtype's own largest number, so the float64 call says nothing about the float32 one."""
    top = torch.finfo(torch.float32).max
    exact = tensor(torch.finfo(torch.float64).max, dtype=torch.float64)
    assert_wrong(outputs(tensor(top), tensor(top / 2), "aten.nan_to_num.default", exact=exact), "elements wrong")
    exact = torch.nextafter(tensor(1.0, dtype=torch.float64), tensor(2.0, dtype=torch.float64))
    want, got = torch.tensor([1.0078125], dtype=torch.bfloat16), torch.ones(1, dtype=torch.bfloat16)
    assert_wrong(outputs(want, got, "aten.nextafter.default", "bfloat16", exact=exact), "1, expected 1.0078125")


def test_the_true_value_where_the_cpu_overflowed_is_no_fault() -> None:
    exact, want = tensor(7.6, 1.0, dtype=torch.float64), tensor(inf, 1.0, dtype=torch.float16)
    assert outputs(want, exact.half(), "aten.soft_margin_loss.default", exact=exact).ok
    assert_wrong(outputs(want, tensor(8.0, 1.0).half(), exact=exact), "infinity placement", "8, expected inf")
    assert_wrong(outputs(want, tensor(7.6, inf).half(), exact=exact), "infinity placement: 1 of 2", "worst at [1]")
    assert_wrong(outputs(want, exact.half()), "infinity placement")
    assert_wrong(outputs(tensor(inf, 0.0).half(), tensor(7.6, -0.0).half(), exact=exact * tensor(1, 0)), "sign of zero")
    beyond = tensor(65530.0, 1.0, dtype=torch.float64)
    assert_wrong(outputs(want, tensor(65504.0, 1.0).half(), exact=beyond), "infinity placement")


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-6, 1e-30])
def test_zeros_never_pass_for_an_answer(dtype: torch.dtype, size: float) -> None:
    want = torch.full((8,), size).to(dtype)
    if not bool(want.to(torch.float32).any()):
        want[0] = torch.finfo(dtype).smallest_normal
    verdict = outputs(want, torch.zeros_like(want), exact=want.to(torch.float64))
    assert_wrong(verdict, "every value is zero")


def test_zeros_never_pass_for_a_long_sum() -> None:
    verdict = judge("aten.sum.default", lambda: (torch.full((1 << 20,), 1e-9),), lambda a: torch.zeros(()))
    assert_wrong(verdict, "every value is zero")


def test_zeros_pass_only_where_the_cpus_answer_is_worth_nothing() -> None:
    """rms_norm's gradient in bfloat16: the CPU has rounding noise of -1.9e-9 where the truth is 3e-18."""
    for cpu, truth in ((-8.7e-8, 1e-16), (-1.9e-9, -3.5e-18), (2.5e-7, 1e-7)):
        exact = tensor(truth, dtype=torch.float64)
        assert outputs(tensor(cpu), tensor(0.0), "aten.sin.default", exact=exact).ok
    verdict = outputs(tensor(1.9e-7), tensor(0.0), "aten.sin.default", exact=tensor(1e-7, dtype=torch.float64))
    assert_wrong(verdict, "every value is zero")
    exact = tensor(1e-7, 1.0, dtype=torch.float64)
    verdict = outputs(tensor(2.5e-7, 1.0), tensor(0.0, 0.0), "aten.sin.default", exact=exact)
    assert_wrong(verdict, "every value is zero")


def test_a_device_that_is_nearer_to_the_truth_than_the_cpu_is_never_wrong() -> None:
    """addr in bfloat16: one sum cancels, and there the CPU happens to be right while its other errors are larger."""
    exact = tensor(0.2211, 9.981, -20.04, dtype=torch.float64)
    want = torch.tensor([0.22070312, 10.0, -20.125], dtype=torch.bfloat16)
    got = torch.tensor([0.25, 10.0, -20.0], dtype=torch.bfloat16)
    assert outputs(want, got, "aten.addr.default", "bfloat16", exact=exact).ok
    assert_wrong(outputs(want, got, "aten.addr.default", "bfloat16"), "1 of 3")
    worse = torch.tensor([0.25, 10.0, -20.125], dtype=torch.bfloat16)  # right but for one element more
    assert_wrong(outputs(want, worse, "aten.addr.default", "bfloat16", exact=exact), "1 of 3", "worst at [0]")


def test_a_sum_in_low_precision() -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(70000, generator=generator)
    y = torch.rand(128, 128, generator=generator)
    exact = call(aten.sum.default, (x.double(),))
    assert judge("aten.sum.default", lambda: (x.clone(),), lambda a: a.flip(0).sum(), exact=exact).ok
    verdict = judge(
        "aten.sum.default", lambda: (x.clone(),), lambda a: a.half().view(100, -1).sum(1).float().sum(), exact=exact
    )
    assert_wrong(verdict, "worse than CPU")
    exact = call(aten.mm.default, (y.double(), y.double()))
    chunks = judge(
        "aten.mm.default", lambda: (y, y), lambda a, b: sum(a[:, i::4] @ b[i::4] for i in range(4)), exact=exact
    )
    assert chunks.ok
    assert chunks.device_figures is not None
    assert 0 < chunks.device_figures.nmse < 1e-12
    low = judge("aten.mm.default", lambda: (y, y), lambda a, b: (a.bfloat16() @ b.bfloat16()).float(), exact=exact)
    assert_wrong(low, "worse than CPU")


def test_a_bfloat16_accumulator_stops_at_256() -> None:
    ones = torch.ones(512, dtype=torch.bfloat16)
    exact = call(aten.sum.default, (ones.double(),))
    verdict = judge(
        "aten.sum.default", lambda: (ones,), lambda a: torch.tensor(256.0).bfloat16(), dtype="bfloat16", exact=exact
    )
    assert_wrong(verdict, "256, expected 512", "worse than CPU")


def test_a_near_constant_output_is_judged_by_element() -> None:
    """A correlation score is undefined or perfect here."""
    want = torch.full((100,), 0.5)
    got = want.clone()
    got[41] = 0.501
    assert_wrong(outputs(want, got), "1 of 100 elements wrong (1 %), worst at [41]")


def test_documented_narrow_arithmetic() -> None:
    x = torch.linspace(0.1, 5.0, 50, dtype=torch.float64)

    def device(a: torch.Tensor) -> torch.Tensor:
        return a.float().exp().double()

    def verdict(run: Callable[..., object] = device, **settings: Any) -> Verdict:
        return judge("aten.exp.default", lambda: (x,), run, dtype="float64", exact=call(torch.exp, (x,)), **settings)

    assert verdict(compute_dtype=torch.float32).ok
    assert_wrong(verdict(), "worse than CPU")
    assert_wrong(verdict(lambda a: a.half().exp().double(), compute_dtype=torch.float32), "elements wrong")
    assert_wrong(outputs(tensor(1.0), tensor(1.0005), compute_dtype=torch.float64), "1 of 1")
    a, b = torch.tensor([[1e4, 1e4], [1, 0]]).double(), torch.tensor([[1.0, 1], [-1, 0.1]]).double()
    rounded = (a @ b) + torch.tensor([[1e-3, 0], [0, 0]]).double()
    assert judge("aten.mm.default", lambda: (a, b), lambda *_: rounded.clone(), compute_dtype=torch.float32).ok
    assert not judge("aten.mm.default", lambda: (a, b), lambda *_: rounded.clone()).ok
    moved = judge(
        "aten.clone.default", lambda: (x,), lambda a: a.float().double(), dtype="float64", compute_dtype=torch.float32
    )
    assert moved.ok
    assert not judge("aten.clone.default", lambda: (x,), lambda a: a.float().double(), dtype="float64").ok


def test_selected_elements_are_exact_in_every_dtype() -> None:
    x = torch.arange(512).remainder(251).bfloat16()
    verdict = judge(
        "aten.topk.default", lambda: (x, 1), lambda a, k: (a.topk(2)[0][1:] - 1, a.topk(1)[1]), dtype="bfloat16"
    )
    assert_wrong(verdict, "output 0: 1 of 1 elements wrong", "249, expected 250")


def test_undefined_values() -> None:
    full = torch.ones(3)
    assert outputs(full, 2 * full, "aten.empty.memory_format").ok
    assert not outputs(full, 2 * full, "aten.zeros.default").ok
    assert_wrong(outputs(full, full[:2], "aten.empty.memory_format"), "shape (2,), expected (3,)")

    def make() -> tuple[Any, ...]:
        return torch.zeros(2), [4]

    def device(a: torch.Tensor, size: list[int]) -> torch.Tensor:
        return a.resize_(size).fill_(7)

    assert judge("aten.resize_.default", make, device).ok

    def shrinks(a: torch.Tensor, size: list[int]) -> torch.Tensor:
        a.as_strided((1,), (1,), 3).fill_(7)
        return a.resize_(size)

    assert judge("aten.resize_.default", lambda: (torch.zeros(4), [2]), shrinks).ok
    assert_wrong(judge("aten.new_empty.default", make, lambda a, size: a.fill_(1).new_empty(size)), "argument 0, which")


def test_platform_defined_casts_are_noted_and_neither_failed_nor_hidden() -> None:
    def make(*values: float) -> Callable[[], tuple[Any, ...]]:
        return lambda: (tensor(*values),)

    def verdict(source: tuple[float, ...], result: list[int]) -> Verdict:
        want = observe(torch.tensor([-128, 1], dtype=torch.int8), make(*source)(), {})
        got = observe(torch.tensor(result, dtype=torch.int8), make(*source)(), {})
        return compare("aten._to_copy.default", "float32", reference=want, device=got, exact=None)

    saturates = verdict((128.0, 1.0), [127, 1])
    assert saturates.ok
    assert saturates.message is not None
    assert "platform-defined where the source is outside the range of int8: 1 of 2" in saturates.message
    assert verdict((nan, 1.0), [0, 1]).ok
    assert_wrong(verdict((128.0, 1.0), [127, 2]), "2 of 2 elements wrong")
    assert_wrong(verdict((-128.0, 1.0), [127, 1]), "1 of 2 elements wrong")


# --- other outputs, odd devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("want", "got", "message"),
    [
        (1, 2, "output 0: 2, expected 1"),
        (1, True, "output 0: bool True, expected int 1"),
        (1.0, 1, "output 0: int 1, expected float 1.0"),
        (0.5, 0.25, "output 0: 1 of 1 elements wrong (100 %), the value: 0.25, expected 0.5"),
        (nan, 0.5, "output 0: NaN placement"),
        (0.0, -0.0, "output 0: sign of zero"),
        (1 + 2j, 1 - 2j, "output 0: 1 of 1 elements wrong"),
        (2**70, 2**70 + 1, "output 0: 1180591620717411303425, expected 1180591620717411303424"),
        (torch.float32, torch.float64, "output 0: torch.float64, expected torch.float32"),
    ],
)
def test_numbers_that_an_operator_returns(want: object, got: object, message: str) -> None:
    assert_wrong(outputs(want, got, "aten._local_scalar_dense.default"), message)
    assert outputs(want, want, "aten._local_scalar_dense.default").ok


def test_a_device_that_hands_back_no_values() -> None:
    want = torch.ones(3)
    assert_wrong(outputs(want, torch.ones(3, device="meta")), "output 0: has no values, it is on the meta device")
    with FakeTensorMode():
        fake = torch.ones(3)
    assert_wrong(outputs(want, fake), "output 0: has no values")
    hollow = torch.ones(3)
    hollow.untyped_storage().resize_(0)
    assert_wrong(outputs(want, hollow), "output 0: has no values, it cannot be read or reaches beyond its storage")
    assert_wrong(outputs(want, object()), "output 0: object", "expected tensor")
    assert outputs(torch.ones(3, device="meta"), torch.ones(3, device="meta")).ok


def test_arguments_that_differ_between_the_sides_are_a_message_too() -> None:
    one = torch.ones(1)
    left, right = observe(one, (one,), {}), observe(one, (), {"out": one})
    verdict = compare("aten.abs.out", "float32", reference=left, device=right, exact=None)
    assert_wrong(verdict, "arguments: tensors argument out, expected argument 0")


def test_an_overload_that_this_torch_lacks_is_judged_without_its_schema() -> None:
    def verdict(change: float) -> Verdict:
        x, y = torch.ones(2), torch.ones(2)
        want = observe(x.add_(1), (x,), {})
        return compare(
            "aten.not_here.default", "float32", reference=want, device=observe(y.add_(change), (y,), {}), exact=None
        )

    assert verdict(1).ok
    assert_wrong(verdict(2), "3, expected 2")


def test_an_exact_call_of_another_form_is_ignored() -> None:
    want = torch.ones(3)
    for exact in (torch.ones(2, dtype=torch.float64), None, torch.ones(3, dtype=torch.complex128)):
        verdict = outputs(want, want.clone(), exact=exact)
        assert verdict.ok
        assert verdict.device_figures is None


# --- observation -----------------------------------------------------------------------------------------------------


def test_an_observation_does_not_change_afterwards() -> None:
    x = torch.ones(3)
    seen = observe(x, (x,), {})
    x.zero_()
    assert seen.outputs[0].values.tolist() == [1, 1, 1]  # type: ignore[union-attr]
    assert seen.arguments[0].memory is not None
    assert seen.arguments[0].memory.tolist() == [1, 1, 1]


def test_aliases_are_named() -> None:
    base = torch.arange(6.0)
    seen = observe([base[2:4], base, torch.ones(1)], (torch.ones(2), [base]), {"out": base[1:]})
    assert [a.name for a in seen.arguments] == ["argument 0", "argument 1[0]", "argument out"]
    assert [a.shares for a in seen.arguments] == [None, None, "argument 1[0]"]
    facts = [(o.shares, o.same_as, o.offset) for o in seen.outputs]  # type: ignore[union-attr]
    assert facts == [("argument 1[0]", None, 2), ("argument 1[0]", "argument 1[0]", 0), (None, None, 0)]
    assert seen.structure == "(tensor, tensor, tensor)"


def test_tensors_without_bytes_share_nothing() -> None:
    seen = observe((torch.empty(0), torch.empty(0, 3)), (torch.empty(0),), {})
    assert [o.shares for o in seen.outputs] == [None, None]  # type: ignore[union-attr]


def test_values_keep_dtype_and_form_and_lose_lazy_bits() -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    for lazy in (z.conj(), z.conj().imag, z.conj()[1:], torch._neg_view(z)):
        seen = observe(lazy, (lazy,), {})
        values = seen.outputs[0].values  # type: ignore[union-attr]
        assert values is not None
        assert not values.is_conj()
        assert not values.is_neg()
        assert values.tolist() == lazy.resolve_conj().resolve_neg().tolist()
    expanded = torch.ones(1, requires_grad=True).expand(3)
    values = observe(expanded, (), {}).outputs[0].values  # type: ignore[union-attr]
    assert values is not None
    assert values.stride() == (0,)
    assert not values.requires_grad


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.filterwarnings("ignore:Sparse CS")
@pytest.mark.filterwarnings("ignore:.*nested tensors")
def test_other_layouts_are_read() -> None:
    quantized = torch.quantize_per_tensor(tensor(1, 2), 0.5, 0, torch.qint8)
    assert outputs(quantized, quantized.clone()).ok
    assert_wrong(outputs(quantized, torch.quantize_per_tensor(tensor(1, 3), 0.5, 0, torch.qint8)), "3, expected 2")
    for layout in (torch.sparse_csr, torch.sparse_csc):
        sparse = torch.eye(3).to_sparse(layout=layout)
        assert outputs(sparse, sparse.clone()).ok
        assert_wrong(outputs(sparse, 2 * sparse), "3 of 9 elements wrong")
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    assert outputs(nested, nested.clone()).ok
    assert_wrong(outputs(nested, nested * 2), "5 of 5 elements wrong")
