"""Translators of adaptive and fractional maxima: ties, NaN, infinities, odd shapes and formats as ATen on the CPU."""

import math

import pytest
import torch
from neuron_ops.translators import maxima
from translator_calls import same

MODULES = (maxima,)  # imported for its registrations
DTYPES = [torch.float32, torch.bfloat16]


def _image(*shape: int) -> torch.Tensor:
    """Return few different numbers, so that many are equal, with NaN and infinities among them."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randint(-2, 3, shape, generator=generator).float()
    flat = x.view(-1)
    flat[::17], flat[5::23], flat[7::19] = math.nan, -math.inf, math.inf
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [(1, 1), (3, 2), (4, 7), (7, 5), (9, 11), (2, 0)])
def test_adaptive_maxima(size, dtype):
    x = _image(2, 3, 7, 5).to(dtype)
    for one in (x, x[0], x.to(memory_format=torch.channels_last), x.transpose(2, 3), x[:1].expand(2, 3, 7, 5), x[:0]):
        same("aten.adaptive_max_pool2d.default", one, size)
    same("aten.adaptive_max_pool2d.default", torch.full((1, 1, 4, 4), -math.inf, dtype=dtype), [2, 2])


@pytest.mark.parametrize("dtype", DTYPES)
def test_fractional_maxima(dtype):
    x, generator = _image(2, 3, 8, 9).to(dtype), torch.Generator().manual_seed(1)
    samples = torch.rand(2, 3, 2, generator=generator).to(dtype)
    for kernel, size in (([2, 3], [4, 5]), ([2, 2], [7, 1]), ([3, 1], [1, 9])):
        for one in (x, x.transpose(2, 3).contiguous().transpose(2, 3)):
            same("aten.fractional_max_pool2d.default", one, kernel, size, samples)
        same("aten.fractional_max_pool2d.default", x[0], kernel, size, samples[:1])
    x = _image(2, 2, 6, 5, 7).to(dtype)
    samples = torch.rand(2, 2, 3, generator=generator).to(dtype)
    same("aten.fractional_max_pool3d.default", x, [2, 2, 2], [4, 3, 5], samples)
    same("aten.fractional_max_pool3d.default", x[0], [2, 2, 2], [4, 1, 5], samples[:1])
