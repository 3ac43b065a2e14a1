"""Translators of special functions: accuracy against float64, special values, polynomials of every kind of degree."""

import math

import pytest
import torch
from neuron_ops.translators import bessel, errors, gamma, incomplete, polynomials, registry
from translator_calls import same, specials

MODULES = (bessel, errors, gamma, incomplete, polynomials)  # imported for their registrations

# name → (low, high, largest error relative to the value, or to `floor` near zeros)
RANGES = {
    "lgamma": (-20.0, 60.0, 6e-7, 1.0),
    "digamma": (-10.0, 60.0, 3e-6, 1.0),
    "erfc": (-4.0, 9.0, 5e-7, 1e-30),
    "special_erfcx": (-9.0, 60.0, 8e-7, 1e-30),
    "special_log_ndtr": (-20.0, 5.0, 6e-7, 1e-5),
    "special_ndtri": (1e-7, 1.0, 6e-7, 0.1),
    "i0": (-80.0, 80.0, 6e-7, 1e-30),
    "special_i0e": (-200.0, 200.0, 6e-7, 1e-30),
    "special_i1": (-80.0, 80.0, 8e-7, 1e-30),
    "special_i1e": (-200.0, 200.0, 6e-7, 1e-30),
    "special_modified_bessel_k0": (0.01, 60.0, 2e-6, 1e-30),
    "special_modified_bessel_k1": (0.01, 60.0, 2e-6, 1e-30),
    "special_scaled_modified_bessel_k0": (0.01, 200.0, 2e-6, 1e-30),
    "special_scaled_modified_bessel_k1": (0.01, 200.0, 2e-6, 1e-30),
    "special_bessel_j0": (-30.0, 30.0, 3e-6, 0.3),
    "special_bessel_j1": (-30.0, 30.0, 3e-6, 0.3),
    "special_bessel_y0": (0.05, 30.0, 3e-6, 0.3),
    "special_bessel_y1": (0.05, 30.0, 3e-6, 0.3),
    "special_spherical_bessel_j0": (-20.0, 20.0, 5e-7, 0.1),
    "special_airy_ai": (-8.0, 8.0, 5e-6, 0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", RANGES)
def test_error_against_float64(name):
    low, high, limit, floor = RANGES[name]
    op = registry.resolve(f"aten.{name}.default")
    x = torch.linspace(low, high, 6001)[1:-1]
    x = x[x != x.round()]  # not at poles
    want = op(x.double())
    ours, theirs = (
        ((f(x).double() - want).abs() / want.abs().clamp_min(floor)).max()
        for f in (registry.REGISTRY[f"aten.{name}.default"].function, op)
    )
    assert ours < max(limit, 4 * theirs)


@pytest.mark.parametrize("name", [n for n in RANGES if n not in ("special_bessel_j0", "special_bessel_j1")])
def test_special_values(name):
    x = specials()
    x = x[(x.abs() < 100) | x.isinf()]
    if "k0" in name or "k1" in name or "bessel_y" in name:
        x = x[(x.abs() > 1e-20) | (x == 0)]
    same(f"aten.{name}.default", x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["special_bessel_j0", "special_bessel_j1"])
def test_bessel_at_infinity_and_nan(name):
    x = torch.tensor([0.0, math.inf, -math.inf, math.nan, 1e-30])
    same(f"aten.{name}.default", x)


@pytest.mark.parametrize("name", RANGES)
def test_integers_and_empty(name):
    same(f"aten.{name}.default", torch.tensor([1, 2, 5]), rtol=2e-6, atol=1e-6)
    same(f"aten.{name}.default", torch.empty(0, 3))


def test_halves_compute_in_float32():
    x = torch.linspace(0.1, 9, 40).bfloat16()
    for name in ("lgamma", "digamma", "erfc", "i0", "special_i0e", "special_i1"):
        same(f"aten.{name}.default", x)


def test_zeta_and_polygamma():
    x = torch.tensor([2.0, 3.0, 1.5, 10.0, 1.0, 0.5])[:, None]
    q = torch.tensor([0.25, 1.0, 7.5, 100.0, -0.5, -2.25, -3.0, 0.0, math.inf])
    same("aten.special_zeta.default", x[:2], q[:-1], rtol=3e-6, atol=1e-6)
    same("aten.special_zeta.default", x, q[:4], rtol=3e-6, atol=1e-6)
    same("aten.special_zeta.self_scalar", 2.5, q[:4], rtol=3e-6, atol=1e-6)
    same("aten.special_zeta.other_scalar", x, 1.25, rtol=3e-6, atol=1e-6)
    for n in range(5):
        same("aten.polygamma.default", n, torch.tensor([0.3, 1.0, 4.5, 30.0]), rtol=1e-5, atol=1e-6)
    want = torch.special.zeta(torch.tensor(4.0).double(), torch.tensor(-30.75).double())
    torch.testing.assert_close(
        gamma.special_zeta(torch.tensor(4.0), torch.tensor(-30.75)).double(), want, rtol=1e-5, atol=0
    )


CHEBYSHEV = [f"{s}chebyshev_polynomial_{k}" for s in ("", "shifted_") for k in "tuvw"]


@pytest.mark.parametrize("name", CHEBYSHEV)
def test_chebyshev_of_tensor_degrees(name):
    x = torch.tensor([-1.5, -1.0, -0.7, 0.0, 0.3, 0.999, 1.0, 1.2])[:, None]
    x = (x + 1) / 2 if name.startswith("shifted") else x
    n = torch.tensor([-1.0, 0, 1, 2, 3, 5, 8, 20, 63, 64, 90])
    same(f"aten.special_{name}.default", x[1:7], n, rtol=2e-4, atol=2e-4, strides=False)
    same(f"aten.special_{name}.default", x, n[:7], rtol=1e-5, atol=2e-5, strides=False)
    same(f"aten.special_{name}.x_scalar", 0.4, n[:7], rtol=1e-5, atol=1e-5)
    same(f"aten.special_{name}.n_scalar", x, 4, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["hermite_polynomial_h", "hermite_polynomial_he"])
def test_hermite_of_tensor_degrees(name):
    x = torch.tensor([-1.5, 0.0, 0.3, 2.0])[:, None]
    n = torch.tensor([-1.0, 0, 1, 2, 7, 20, 127, 129, 200])
    same(f"aten.special_{name}.default", x, n, rtol=1e-5, atol=1e-5)
    same(f"aten.special_{name}.x_scalar", 0.7, n[:6])


@pytest.mark.parametrize(
    "name", ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"]
)
@pytest.mark.parametrize("n", [-2, 0, 1, 2, 9])
def test_polynomials_of_number_degrees(name, n):
    same(f"aten.special_{name}.n_scalar", torch.tensor([-1.0, 0.0, 0.25, 1.0, 3.0]), n, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["igamma", "igammac"])
def test_incomplete_gamma(name):
    g = torch.Generator().manual_seed(6)
    a = torch.exp(torch.rand(8000, generator=g) * 14 - 5)
    x = a * torch.exp(torch.randn(8000, generator=g) * torch.where(a > 20, 0.2, 1.2))
    op = registry.resolve(f"aten.{name}.default")
    got, want = registry.REGISTRY[f"aten.{name}.default"].function(a, x).double(), op(a.double(), x.double())
    error = ((got - want).abs() / want.clamp_min(1e-25)).max()
    assert error < 4e-5
    assert (got - want).abs().max() < 2e-6
    edge = torch.tensor([0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 0.5, 20.0, 1e4])
    same(f"aten.{name}.default", edge[:, None], edge, rtol=1e-5, atol=1e-6)
