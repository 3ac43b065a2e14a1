"""Distances of rows and their gradients as ATen's on the CPU, for every kind of norm."""

import math

import pytest
import torch
from neuron_ops.translators import distances
from translator_calls import same

MODULES = (distances,)  # imported for their registrations
NORMS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf)


def _rows(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(11))


@pytest.mark.parametrize("p", NORMS)
def test_cdist(p):
    x, y = _rows(2, 1, 4, 3), _rows(3, 5, 3)
    for mode in (None, 0, 1, 2):
        same("aten._cdist_forward.default", x, y, p, mode, rtol=1e-5, atol=1e-5)
    same("aten._cdist_forward.default", x[..., :0], y[..., :0], p, None)
    same("aten._cdist_forward.default", x[..., :0, :], y, p, None)
    same("aten._cdist_forward.default", _rows(30, 3), _rows(26, 3), p, None, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("p", NORMS)
def test_cdist_gradient(p):
    x, y = _rows(2, 4, 3), _rows(2, 5, 3)
    y[:, 1] = x[:, 1]  # a distance of 0
    y[:, 2, 0] = x[:, 2, 0]  # a difference of 0
    distance, grad = torch.cdist(x, y, p), _rows(2, 4, 5)
    same("aten._cdist_backward.default", grad, x, y, p, distance, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("p", NORMS)
def test_pdist_and_gradient(p):
    x = _rows(5, 3)
    x[3] = x[1]
    x[4, 0] = x[0, 0]
    same("aten._pdist_forward.default", x, p)
    distance = torch.pdist(x, p)
    same("aten._pdist_backward.default", _rows(10), x, p, distance, rtol=1e-4, atol=1e-5)
    for few in (x[:0], x[:1], x[:2]):
        same("aten._pdist_forward.default", few, p)


def test_nan_and_infinity():
    x = torch.tensor([[0.0, math.nan], [1.0, math.inf], [2.0, -1.0]])
    for p in NORMS:
        same("aten._pdist_forward.default", x, p)
        if not math.isinf(p):  # the CPU's maximum keeps NaN or not by where it stands
            same("aten._cdist_forward.default", x, x.flip(0), p, 2)
