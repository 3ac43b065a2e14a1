"""Translators of pointwise functions: special values, odd shapes and dtypes as ATen on the CPU."""

import pytest
import torch
from neuron_ops.translators import activations, arithmetic, elementary, registry, rounding
from translator_calls import same, shapes, specials

FLOAT_UNARY = [
    "log1p", "expm1", "log2", "log10", "exp2", "sinh", "cosh", "tan", "asin", "acos", "atan", "asinh", "acosh", "atanh",
    "floor", "round", "frac", "sinc", "special_entr", "elu", "hardswish", "hardsigmoid", "leaky_relu", "hardshrink", "mish",
    "log_sigmoid_forward",
]  # fmt: skip
FLOAT_BINARY = [
    "atan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "special_xlog1py",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "nextafter",
    "heaviside",
]


@pytest.mark.parametrize("name", FLOAT_UNARY)
def test_unary_at_special_values(name):
    same(f"aten.{name}.default", specials())


@pytest.mark.parametrize("name", FLOAT_UNARY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_unary_in_odd_shapes(name, dtype):
    for x in shapes(dtype):
        same(f"aten.{name}.default", x)


@pytest.mark.parametrize("name", ["log1p", "expm1", "atan", "sinh", "floor", "round", "sinc"])
def test_unary_of_integers(name):
    for dtype in (torch.int64, torch.uint8, torch.int32):
        same(f"aten.{name}.default", torch.tensor([0, 1, 2, 5], dtype=dtype))


@pytest.mark.parametrize("name", FLOAT_BINARY)
def test_binary_at_pairs_of_special_values(name):
    x = specials()
    if name in ("maximum", "minimum", "fmax", "fmin"):
        x = x[x != 0]  # which of 0 and -0 is larger is not defined
    same(f"aten.{name}.default", x.unsqueeze(1), x.unsqueeze(0))


@pytest.mark.parametrize("overload", ["aten.fmod.Tensor", "aten.copysign.Tensor", "aten.xlogy.Tensor"])
def test_more_pairs_of_special_values(overload):
    same(overload, specials().unsqueeze(1), specials().unsqueeze(0))


@pytest.mark.parametrize("name", FLOAT_BINARY)
def test_binary_promotes_as_aten(name):
    a, b = torch.tensor([1.5, -2.0, 3.0]), torch.tensor([2.0, 0.5, 1.0], dtype=torch.bfloat16)
    if name in ("nextafter", "heaviside"):  # ATen wants one dtype there
        b = b.float()
    same(f"aten.{name}.default", a[:, None], b)
    same(f"aten.{name}.default", a[:0], b[:0] if b.dtype == a.dtype else b[:0].float())


def test_a_number_may_stand_for_a_tensor():
    x = torch.tensor([1.0, -2.0])
    assert torch.equal(arithmetic.copysign(x, -1.0), torch.tensor([-1.0, -2.0]))
    assert arithmetic.xlogy(2, x[:1]).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integer_division_and_divisors(dtype):
    a = torch.arange(-12, 13).to(dtype)[:, None] if dtype != torch.uint8 else torch.arange(25).to(dtype)[:, None]
    b = torch.tensor([1, 2, 3, 7, 12]).to(dtype)
    for overload in ("aten.fmod.Tensor", "aten.gcd.default", "aten.lcm.default"):
        same(overload, a, b)
    if dtype != torch.uint8:
        same("aten.fmod.Tensor", a, -b)
    same("aten.gcd.default", a, torch.zeros_like(b))


def test_greatest_divisor_of_the_slowest_pair():
    a, b = torch.tensor([1836311903]), torch.tensor([1134903170])
    same("aten.gcd.default", a, b)
    same("aten.gcd.default", a.int(), b.int())


def test_shifts():
    for name in ("__lshift__", "__rshift__"):
        same(f"aten.{name}.Tensor", torch.tensor([1, -8, 100]), torch.tensor([0, 1, 3]))
        same(f"aten.{name}.Scalar", torch.tensor([1, -8, 100]), 2)
    same("aten.__ilshift__.Scalar", torch.tensor([1, 2]), 2)
    same("aten.__irshift__.Tensor", torch.tensor([8, 9]), torch.tensor([1, 2]))


def test_floor_division_in_place():
    same("aten.floor_divide_.Tensor", torch.tensor([7, -7, 9]), torch.tensor(2))
    same("aten.floor_divide_.Tensor", torch.tensor([7.5, -7.5]), torch.tensor([2.0, 0.0]))


def test_numbers_first():
    same("aten.pow.Scalar", 2, torch.tensor([0, 3]))
    same("aten.pow.Scalar", -1.5, torch.tensor([0.0, 2.0, 3.0]))
    same("aten.remainder.Scalar_Tensor", 7, torch.tensor([2, -3]))
    same("aten.rsub.Tensor", torch.tensor([1.0]), torch.tensor([3.0]), alpha=2)


def test_half_goes_to_even_and_zeros_keep_their_sign():
    x = torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, -0.4, 0.4, 8388609.0, -8388607.5])
    same("aten.round.default", x)
    same("aten.floor.default", x)
    for decimals in (0, 2, -1):
        same("aten.round.decimals", torch.tensor([1.005, 25.0, 35.0, -14.9]), decimals=decimals)


def test_bits():
    x = torch.tensor([0.0, -0.0, 1.0, -3.5, 1e-40, float("inf"), float("nan"), 3e38])
    same("aten.frexp.Tensor", x[:5])
    same("aten.frexp.Tensor", x[:4].bfloat16())
    same("aten.nextafter.default", x, torch.zeros_like(x))
    with pytest.raises(NotImplementedError):
        arithmetic.nextafter(x.double(), x.double())


def test_equal_and_infinities():
    x = specials()
    same("aten.equal.default", x, x)
    same("aten.equal.default", x[:4], x[:4])
    same("aten.equal.default", x[:3], x[:4])
    same("aten.isposinf.default", x)
    same("aten.nan_to_num.default", x)
    same("aten.nan_to_num.default", x.bfloat16(), 1.0, 2.0, None)


def test_gradients_of_activations():
    g, x = torch.linspace(-2, 2, 17), torch.linspace(-4, 4, 17)
    for overload, args in (
        ("elu_backward", (g, 1.5, 1.1, 0.7, False, x)),
        ("elu_backward", (g, 1.5, 1.1, 0.7, True, x)),
        ("hardshrink_backward", (g, x, 0.5)),
        ("softshrink_backward", (g, x, 0.5)),
        ("hardtanh_backward", (g, x, -1, 1)),
        ("leaky_relu_backward", (g, x, 0.1, False)),
        ("hardswish_backward", (g, x)),
        ("hardsigmoid_backward", (g, x)),
        ("mish_backward", (g, x)),
        ("log_sigmoid_backward", (g, x, torch.exp(-x.abs()))),
        ("logit_backward", (g, torch.linspace(0.1, 0.9, 17), None)),
        ("logit_backward", (g, torch.linspace(-0.1, 1.1, 17), 0.1)),
        ("_prelu_kernel_backward", (g, x, torch.full((17,), 0.25))),
        ("glu_backward", (g[:8], x[:16], 0)),
        ("glu_jvp", (torch.nn.functional.glu(x[:16], 0), x[:16], g[:16], 0)),
    ):
        same(f"aten.{overload}.default", *args)
        if all(not isinstance(a, torch.Tensor) or a.dtype == torch.float32 for a in args) and "glu" not in overload:
            half = tuple(a.bfloat16() if isinstance(a, torch.Tensor) else a for a in args)
            same(f"aten.{overload}.default", *half)


def test_activations_with_arguments():
    x = torch.linspace(-4, 4, 16)
    softened = activations.softshrink(x, 0.75)  # ATen's zeros have either sign, by the place in the vector
    torch.testing.assert_close(softened, torch.nn.functional.softshrink(x, 0.75))
    assert activations.softshrink(torch.tensor([float("nan")])).isnan().all()
    same("aten.hardtanh.default", torch.arange(-3, 4), -1, 2)
    same("aten.glu.default", x.view(2, 8), 1)
    same("aten._prelu_kernel.default", x, torch.full((16,), 0.2))
    same("aten._add_relu.Tensor", x, x, alpha=-2)
    same("aten._add_relu.Scalar", x, 1)
    same("aten.logit.default", torch.tensor([0.0, 0.2, 1.0, 1.2]), 0.1)
    same("aten.logit.default", torch.tensor([0.0, 0.2, 1.0, 1.2]))


def test_complex_inputs_are_refused():
    x = torch.ones(2, dtype=torch.complex64)
    for function in (elementary.hypot, rounding.floor, activations.elu, arithmetic.maximum):
        with pytest.raises(NotImplementedError, match="real"):
            function(x, x) if function in (elementary.hypot, arithmetic.maximum) else function(x)


@pytest.mark.parametrize("name", ["log1p", "expm1", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "tan"])
def test_error_is_a_few_units_in_the_last_place(name):
    generator = torch.Generator().manual_seed(3)
    x = torch.rand(4000, generator=generator) * 2 - 1
    got = registry.REGISTRY[f"aten.{name}.default"].function(x).double()
    want = registry.resolve(f"aten.{name}.default")(x.double())
    assert ((got - want).abs() / want.abs().clamp_min(1e-30)).max() < 4e-7
