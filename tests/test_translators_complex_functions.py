"""Elementary functions of complex numbers: as exact as the CPU's, its branch cuts, its layouts, each dtype."""

import math

import pytest
import torch
from neuron_ops.translators import arithmetic, complexes, elementary, families, pair_systems

NAMES = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cosh",
    "exp2",
    "expm1",
    "log10",
    "log1p",
    "log2",
    "sinc",
    "sinh",
    "tan",
]
SCALES = {"near zero": (1e-3, 0.0), "around one": (0.03, 1.0), "ordinary": (2.0, 0.0), "large": (20.0, 0.0)}


def _ours(name):
    return families.load()[f"aten.{name}.default"].function


def _numbers(scale, shift, count=2000, dtype=torch.complex64):
    generator = torch.Generator().manual_seed(7)
    return torch.randn(count, dtype=torch.complex128, generator=generator).mul(scale).add(shift).to(dtype)


def _error(got, exact):
    size = exact.abs()
    known = torch.isfinite(size) & (size > 0)
    return ((got.to(torch.complex128) - exact).abs() / size)[known].max().item()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", SCALES)
def test_as_exact_as_the_cpu(name, scale):
    x = _numbers(*SCALES[scale])
    x = x[torch.isfinite(getattr(torch, name)(x))]
    exact = getattr(torch, name)(x.to(torch.complex128))
    assert len(x) > 1000
    assert _error(_ours(name)(x), exact) < max(4 * _error(getattr(torch, name)(x), exact), 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_finite_corners(name):
    values = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -3.0, 1e-5, 1e-20, 30.0]
    x = torch.tensor([complex(a, b) for a in values for b in values])
    got, want = _ours(name)(x), getattr(torch, name)(x)
    finite = torch.isfinite(want)  # sinc overflows at 30i
    torch.testing.assert_close(got[finite], want[finite], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["acos", "acosh", "asin", "asinh", "atan", "atanh", "log2", "log10"])
def test_both_sides_of_branch_cuts(name):
    x = torch.tensor([complex(a, b) for a in (-3.0, 3.0) for b in (0.0, -0.0)])
    x = torch.cat([x, torch.tensor([complex(b, a) for a in (-3.0, 3.0) for b in (0.0, -0.0)])])
    got, want = (torch.view_as_real(f(x)) for f in (_ours(name), getattr(torch, name)))
    torch.testing.assert_close(got, want)
    assert torch.equal(torch.signbit(got), torch.signbit(want))


def test_layouts():
    x = _numbers(1.0, 0.0, 120).view(4, 5, 6)
    for y in (x, x.transpose(0, 2), x[:, ::2], x[0, 0, 0], x[:0], x[:1].expand(4, 5, 6), x.conj()):
        got, want = elementary.sinh(y), torch.sinh(y)
        assert (got.shape, got.stride(), got.dtype) == (want.shape, want.stride(), want.dtype)
        torch.testing.assert_close(got, want)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_halves_compute_in_float32():
    x = _numbers(1.0, 0.0, 100).to(torch.complex32)
    got = elementary.asinh(x)
    assert got.dtype == torch.complex32
    assert torch.equal(torch.view_as_real(got), torch.view_as_real(elementary.asinh(x.to(torch.complex64)).to(x.dtype)))


def test_functions_without_a_formula_still_refuse():
    with pytest.raises(NotImplementedError, match="complex"):
        arithmetic.isposinf(_numbers(1.0, 0.0))


def test_quotients_do_not_overflow():
    one, big = (torch.tensor([1e30]), torch.tensor([1e30])), (torch.tensor([1e30]), torch.tensor([-2e30]))
    real, imaginary = pair_systems.quotient(one, big)
    want = complex(1e30, 1e30) / complex(1e30, -2e30)
    assert math.isclose(real.item(), want.real, rel_tol=1e-6)
    assert math.isclose(imaginary.item(), want.imag, rel_tol=1e-6)


def test_conjugates_in_place():
    x = _numbers(1.0, 0.0, 24).view(4, 6)
    for y in (x.clone(), x.clone().t(), x.clone()[:, ::2], x.clone()[:0], x.real.clone()):
        want = y.conj().resolve_conj().clone()
        assert complexes.conj_physical_(y) is y
        assert torch.equal(y, want)
