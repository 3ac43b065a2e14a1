"""Fourier transforms as products of matrices: sizes of every kind, dimensions, normalisations, layouts in memory."""

import itertools

import pytest
import torch
from neuron_ops.translators import complexes, fourier, registry

MODULES = (complexes, fourier)  # imported for their registrations
FORWARD, INVERSE = True, False


def _same(overload, x, *args, rtol=1e-5, atol=2e-5):
    got = registry.REGISTRY[overload].function(x.clone(memory_format=torch.preserve_format), *args)
    want = registry.resolve(overload)(x, *args)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol)
    steps = [(g, w) for g, w, size in zip(got.stride(), want.stride(), want.shape, strict=True) if size > 1]
    assert [g for g, _ in steps] == [w for _, w in steps], (x.shape, x.stride(), args)


def _real(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(5), dtype=dtype)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 127, 128, 131, 257, 360, 1021, 2048])
def test_sizes(size):
    x = _real(2, size)
    complex_x = torch.complex(x, _real(2, size).flip(1))
    close = {"rtol": 1e-4, "atol": 1e-4}
    for onesided in (True, False):
        _same("aten._fft_r2c.default", x, [1], 0, onesided, **close)
    for forward in (FORWARD, INVERSE):
        _same("aten._fft_c2c.default", complex_x, [1], 0, forward, **close)
    for last in (size, max(1, 2 * size - 2)):
        _same("aten._fft_c2r.default", complex_x[:, : last // 2 + 1], [1], 0, last, **close)


def test_a_large_transform_is_as_exact_as_the_cpu():
    x = _real(1, 6561, dtype=torch.float32)
    exact = torch.fft.fft(x.double())
    ours = (fourier.fft_r2c(x, [1], 0, False) - exact).abs().max()
    assert ours < 4 * (torch.fft.fft(x) - exact).abs().max()


@pytest.mark.parametrize("normalization", [0, 1, 2])
@pytest.mark.parametrize("dims", [[0], [2], [0, 1], [1, 0], [2, 0], [0, 1, 2], [2, 1, 0]])
def test_dimensions_normalisations_and_layouts(dims, normalization):
    for order in itertools.permutations(range(3)):
        x = _real(4, 5, 6).permute(order)
        y = torch.complex(_real(4, 5, 6), _real(4, 5, 6).flip(0)).permute(order)
        for onesided in (True, False):
            _same("aten._fft_r2c.default", x, dims, normalization, onesided)
        _same("aten._fft_c2c.default", y, dims, normalization, FORWARD)
        half = y.size(dims[-1]) * 2 - 1
        _same("aten._fft_c2r.default", y, dims, normalization, half)


def test_strided_expanded_conjugated_and_empty():
    x = _real(4, 12)
    _same("aten._fft_r2c.default", x[:, ::2], [1], 0, True)
    _same("aten._fft_r2c.default", x[:1].expand(3, 12), [1], 0, True)
    assert fourier.fft_r2c(x[:0], [1], 0, True).shape == (0, 7)  # where the CPU's library raises
    y = torch.complex(x, x.flip(0)).conj()
    _same("aten._fft_c2c.default", y, [1], 0, FORWARD)
    _same("aten._fft_c2r.default", y, [1], 2, 22)
    _same("aten._fft_c2c.default", y, [], 0, FORWARD)
    _same("aten._fft_c2c.default", y[0, 0], [], 0, FORWARD)


def test_an_infinity_of_real_numbers_meets_no_zero():
    x = torch.tensor([float("inf"), 1.0])
    assert torch.equal(torch.view_as_real(fourier.fft_r2c(x, [0], 0, True))[:, 1], torch.zeros(2))


def test_double_stays_exact():
    x = torch.complex(_real(3, 60, dtype=torch.float64), _real(3, 60, dtype=torch.float64).flip(0))
    _same("aten._fft_c2c.default", x, [1], 0, FORWARD, rtol=1e-12, atol=1e-12)


def test_halves_stay_with_the_host():
    with pytest.raises(NotImplementedError, match="halves"):
        fourier.fft_r2c(torch.zeros(4, dtype=torch.float16), [0], 0, True)
