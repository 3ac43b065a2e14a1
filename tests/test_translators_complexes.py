"""Complex numbers as pairs: views share memory, conjugates keep their layout, angles at special values."""

import math

import pytest
import torch
from neuron_ops.translators import complexes, elementary, registry
from translator_calls import same, specials

MODULES = (complexes, elementary)  # imported for their registrations


def _complex(dtype=torch.complex64):
    parts = torch.randn(3, 4, 5, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return torch.view_as_complex(parts).to(dtype)


def _inputs(dtype):
    x = _complex(dtype)
    return [x, x.transpose(0, 2), x[:, ::2], x[1:], x[0, 0, 0], x[:0], x[:1].expand(3, 4, 5)]


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.complex32])
def test_views_share_memory_and_strides(dtype):
    for x in _inputs(dtype):
        got, want = complexes.view_as_real(x), torch.view_as_real(x)
        assert (got.shape, got.stride(), got.storage_offset()) == (want.shape, want.stride(), want.storage_offset())
        assert got.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert torch.equal(got, want)
        back, expected = complexes.view_as_complex(want), torch.view_as_complex(want)
        assert (back.shape, back.stride(), back.dtype) == (expected.shape, expected.stride(), dtype)
        assert torch.equal(torch.view_as_real(back), want)


def test_views_refuse_what_is_no_pair():
    with pytest.raises(RuntimeError, match="only supported for complex"):
        complexes.view_as_real(torch.zeros(2))
    with pytest.raises(RuntimeError, match="last dimension of size 2"):
        complexes.view_as_complex(torch.zeros(3))
    with pytest.raises(RuntimeError, match="half, float and double"):
        complexes.view_as_complex(torch.zeros(2, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, torch.float32, torch.int64, torch.bool])
def test_conjugates(dtype):
    for x in _inputs(torch.complex128):
        y = x.to(dtype) if dtype.is_complex else x.real.to(dtype)
        got, want = complexes.conj_physical(y), torch.ops.aten._conj_physical(y)
        assert (got.dtype, got.stride()) == (want.dtype, want.stride())
        assert (
            torch.equal(torch.view_as_real(got), torch.view_as_real(want))
            if dtype.is_complex
            else torch.equal(got, want)
        )
    special = torch.complex(specials(), specials().flip(0))
    got, want = (torch.view_as_real(f(special)) for f in (complexes.conj_physical, torch.ops.aten._conj_physical))
    assert torch.equal(torch.signbit(got), torch.signbit(want))


def test_angles():
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        same("aten.angle.default", specials(dtype))
    same("aten.angle.default", torch.tensor([-2, 0, 3]))
    same("aten.angle.default", torch.tensor([True, False]))
    for x in _inputs(torch.complex64):
        same("aten.angle.default", x)
        same("aten.angle.default", x.real)
    axes = [
        complex(a, b) for a in (0.0, -0.0, 1.0, -1.0, math.inf, -math.inf) for b in (0.0, -0.0, 2.0, -2.0, math.inf)
    ]
    got, want = complexes.angle(torch.tensor(axes)), torch.angle(torch.tensor(axes))
    torch.testing.assert_close(got, want)
    assert torch.equal(torch.signbit(got), torch.signbit(want))


def test_registered():
    assert {"aten.view_as_real.default", "aten.view_as_complex.default"} <= set(registry.REGISTRY)
