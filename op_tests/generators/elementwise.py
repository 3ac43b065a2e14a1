"""Samples of elementwise operators: second names of others, and forms in which one operand is a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import (
    ALL,
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    SIGNED,
    WHOLE,
    Arguments,
    Draw,
    call,
    row,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def _wide(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4))
    yield call(d(0, 2))


def _inner(d: Draw) -> Iterator[Arguments]:
    yield call(d.unit(3, 4))
    yield call(d.unit())


def _above(d: Draw) -> Iterator[Arguments]:
    yield call(d.positive(3, 4) + 1)
    yield call(d.positive())


def _pairs(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), d(3, 4))
    yield call(d(3, 1), d(1, 4))
    yield call(d(0, 2), d(2))


def _positive_pairs(d: Draw) -> Iterator[Arguments]:
    yield call(d.positive(3, 4), d.positive(3, 4))
    yield call(d.positive(3, 1), d.positive(4))


def _then_number(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), 2)
    yield call(d(5), 1)


def _number_first(d: Draw) -> Iterator[Arguments]:
    yield call(2, d.positive(3, 4))
    yield call(1, d.positive(5))


def _positive_then_number(d: Draw) -> Iterator[Arguments]:
    yield call(d.positive(3, 4), 2)
    yield call(d.positive(5), 1)


def _rounded(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), 2, rounding_mode=None)
    yield call(d(3, 4), 3, rounding_mode="trunc")
    yield call(d(3, 4), 3, rounding_mode="floor")


def _rounded_pairs(d: Draw) -> Iterator[Arguments]:
    for mode in ("trunc", "floor"):
        yield call(d(3, 4), d.positive(3, 4), rounding_mode=mode)


def _bounds(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), -1, 2)
    yield call(d(3, 4), None, 1)
    yield call(d(3, 4), 1)


def _tensor_bounds(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), d(3, 4), d(4))
    yield call(d(3, 4), None, d(3, 1))


def _added_relu(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), d(3, 4))
    yield call(d(3, 1), d(1, 4), alpha=2)
    yield call(d(2, 3), d(3), alpha=3)


def _shifts(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), d.index(3, 4, high=5).to(d.dtype))
    yield call(d(2, 3), d.index(3, high=3).to(d.dtype))


def _shift(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), 2)
    yield call(d(), 0)


_CURVES = "special_digamma special_psi special_erf special_erfc special_exp2 special_expit special_expm1 special_gammaln special_i0 special_sinc"
_POLYNOMIALS = " ".join(
    f"special_{kind}"
    for kind in (
        *(f"{shift}chebyshev_polynomial_{letter}" for shift in ("", "shifted_") for letter in "tuvw"),
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
    )
)  # fmt: skip
_COMPARISONS = "greater greater_equal less less_equal"
_NO_HALF = (*WHOLE, *INTEGERS)
_DOUBLE = (torch.float64, torch.complex128)
_RELU = (*WHOLE, *SIGNED)
_EXACT = (*INTEGERS, *BOOL)
_REAL_OR_BOOL = (*REAL, *BOOL)
_PUBLIC = "bitwise_and bitwise_or bitwise_xor __and__ __or__ __xor__"
_SHIFTS = "__lshift__ __rshift__"
ROWS = [
    *rows("absolute fix", REAL, _wide),
    row("aten.negative.default", NUMBERS, _wide),
    *rows("arccos arcsin arctanh", ALL, _inner),
    row("aten.special_erfinv.default", _REAL_OR_BOOL, _inner),
    row("aten.special_logit.default", FLOATS, lambda d: [call(d.probability(3, 4)), call(d(3, 4), 0.1), call(d.probability())]),
    *rows("arcsinh arctan", ALL, _wide),
    row("aten.arccosh.default", ALL, _above),
    row("aten.arctan2.default", _REAL_OR_BOOL, _pairs),
    *rows(_CURVES, _REAL_OR_BOOL, _wide),
    row("aten.special_log1p.default", _REAL_OR_BOOL, _above),
    row("aten.special_round.default", FLOATS, lambda d: [call(d(3, 4)), call(d(3, 4), decimals=2)]),
    row("aten.special_multigammaln.default", REAL, lambda d: [call(d.positive(3, 4) + 2, 3), call(d.positive(2), 1)]),
    *rows("special_softmax special_log_softmax", FLOATS, lambda d: [call(d(3, 4), 1), call(d(3, 4), 0, dtype=torch.float64)]),
    row("aten.special_logsumexp.default", NUMBERS, lambda d: [call(d(3, 4), [1]), call(d(2, 3, 4), [0, 2], True)]),
    *rows("special_gammainc special_gammaincc", FLOATS, _positive_pairs),
    row("aten.special_xlogy.default", _REAL_OR_BOOL, _positive_pairs),
    *rows("special_xlogy special_xlog1py", REAL, _number_first, overload="self_scalar"),
    row("aten.special_zeta.self_scalar", _NO_HALF, lambda d: [call(2, d.positive(3, 4)), call(3, d.positive(5))]),
    *rows("special_xlogy special_xlog1py", REAL, _positive_then_number, overload="other_scalar"),
    row("aten.special_zeta.other_scalar", _NO_HALF, lambda d: [call(d.positive(3, 4) + 1, 2), call(d.positive(5) + 1, 1)]),
    row("aten.xlogy.Scalar_Self", REAL, _number_first),
    row("aten.xlogy.OutScalar_Self", FLOATS, lambda d: [call(2, d.positive(3, 4), out=d(3, 4))]),
    row("aten.xlogy.Scalar_Other", REAL, _positive_then_number),
    row("aten.xlogy.OutScalar_Other", FLOATS, lambda d: [call(d(3, 4), 2, out=d(3, 4))]),
    *rows(_POLYNOMIALS, _NO_HALF, lambda d: [call(d.unit(3, 4), 3), call(d.unit(2), 0)], overload="n_scalar"),
    *rows(_POLYNOMIALS, _NO_HALF, lambda d: [call(0.5, d.index(3, 4, high=5).to(d.dtype)), call(-0.25, d.index(2, 1, high=9).to(d.dtype))], overload="x_scalar"),
    *rows(_COMPARISONS, _REAL_OR_BOOL, _pairs, overload="Tensor"),
    *rows(_COMPARISONS, _REAL_OR_BOOL, _then_number, overload="Scalar"),
    row("aten.not_equal.Tensor", ALL, _pairs),
    *rows("not_equal eq ne", ALL, _then_number, overload="Scalar"),
    *rows("ge gt le lt", _REAL_OR_BOOL, _then_number, overload="Scalar"),
    row("aten.multiply.Tensor", ALL, _pairs),
    *rows("multiply mul add", NUMBERS, _then_number, overload="Scalar"),
    *rows("subtract sub", NUMBERS, _then_number, overload="Scalar"),
    row("aten.subtract.Tensor", NUMBERS, _pairs),
    *rows("divide true_divide div", ALL, _then_number, overload="Scalar"),
    *rows("divide true_divide", NUMBERS, _positive_pairs, overload="Tensor"),
    *rows("divide div", REAL, _rounded, overload="Scalar_mode"),
    *rows("divide div", REAL, _rounded_pairs, overload="Tensor_mode"),
    *rows("floor_divide fmod remainder copysign", REAL, _then_number, overload="Scalar"),
    row("aten.remainder.Scalar_Tensor", REAL, _number_first),
    row("aten.float_power.Scalar", NUMBERS, _number_first),
    row("aten.float_power.Tensor_Scalar", NUMBERS, _positive_then_number, without="float_power_"),
    row("aten.float_power.Tensor_Tensor", NUMBERS, _positive_pairs, without="float_power_"),
    row("aten.float_power_.Scalar", _DOUBLE, _positive_then_number),  # takes only what is already as wide as the result
    row("aten.float_power_.Tensor", _DOUBLE, lambda d: [call(d.positive(3, 4), d.positive(4))]),
    row("aten.pow.Scalar", NUMBERS, _number_first),
    row("aten.rsub.Scalar", NUMBERS, _then_number),
    row("aten.clip.default", REAL, _bounds),
    row("aten.clip.Tensor", REAL, _tensor_bounds),
    *rows("clamp_max clamp_min", REAL, _then_number),
    row("aten._add_relu.Tensor", _RELU, _added_relu),
    row("aten._add_relu.Scalar", _RELU, _then_number),
    row("aten.fill.Tensor", ALL, lambda d: [call(d(3, 4), d()), call(d(0), d())]),
    row("aten.fill.Scalar", ALL, lambda d: [call(d(3, 4), 1), call(d(), 0)]),
    *rows(_PUBLIC, _EXACT, _pairs, overload="Tensor"),
    *rows(_PUBLIC, INTEGERS, lambda d: [call(d(3, 4), 1), call(d(), 6)], overload="Scalar"),
    *rows(_PUBLIC, BOOL, lambda d: [call(d(3, 4), True), call(d(5), False)], overload="Scalar"),
    *rows("bitwise_and bitwise_or bitwise_xor", _EXACT, lambda d: [call(1, d(3, 4)), call(1, d(0))], overload="Scalar_Tensor"),
    *rows(_SHIFTS, INTEGERS, _shifts, overload="Tensor"),
    *rows(_SHIFTS, INTEGERS, _shift, overload="Scalar"),
    *rows("bitwise_left_shift bitwise_right_shift", INTEGERS, _shift, overload="Tensor_Scalar"),
    *rows("bitwise_left_shift bitwise_right_shift", INTEGERS, lambda d: [call(2, d.index(3, 4, high=5).to(d.dtype)), call(1, d.index(5, high=7).to(d.dtype))], overload="Scalar_Tensor"),
    row("aten.nll_loss.default", FLOATS, lambda d: [call(d(4, 3), d.index(4, high=3)), call(d(4, 3), d.index(4, high=3), d.positive(3), 0)]),
    row("aten.nll_loss2d.default", FLOATS, lambda d: [call(d(2, 3, 2, 2), d.index(2, 2, 2, high=3)), call(d(2, 3, 2, 2), d.index(2, 2, 2, high=3), d.positive(3), 2, 0)]),
    *rows("quantile nanquantile", WHOLE, lambda d: [call(d(3, 4), torch.tensor([0.0, 0.4, 1.0], dtype=d.dtype), 1), call(d(5), torch.tensor(0.3, dtype=d.dtype), interpolation="nearest")]),
    *rows("quantile nanquantile", WHOLE, lambda d: [call(d(3, 4), 0.6, 0, True)], overload="scalar"),
    row("aten.istft.default", (*COMPLEX,), lambda d: [call(d(5, 6), 8, window=torch.hann_window(8, dtype=d.dtype.to_real()))]),
    row("aten.stft.center", WHOLE, lambda d: [call(d(20), 8, 4, window=torch.hann_window(8, dtype=d.dtype), center=True, return_complex=True), call(d(2, 16), 4, center=False, onesided=False, return_complex=True)]),
]  # fmt: skip
