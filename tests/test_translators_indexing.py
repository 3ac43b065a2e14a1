"""Translators of indexing, factories, quantization, masking and optimizer steps: as ATen on the CPU."""

import math

import pytest
import torch
from neuron_ops.translators import factories, indexing, masking, optimizers, quantization, registry
from translator_calls import same, shapes

MODULES = (factories, indexing, masking, optimizers, quantization)  # imported for their registrations


def test_take_and_put():
    x = torch.arange(12.0).view(3, 4).t()
    index = torch.tensor([[0, -1], [5, 5]])
    same("aten.take.default", x, index)
    same("aten.take.default", x, index[:0])
    for accumulate in (False, True):
        same("aten.put.default", x, torch.tensor([1, -2]), torch.tensor([9.0, 8.0]), accumulate)
        same("aten.put_.default", x.long(), torch.tensor([1, -2]), torch.tensor([9, 8]), accumulate)
    same("aten.put.default", x.long(), torch.tensor([1, 1, 1]), torch.tensor([9, 8, 7]), True)


def test_fill_under_masks_and_indices():
    x = torch.arange(6).view(2, 3)
    mask = torch.tensor([True, False, True])
    same("aten.masked_fill_.Tensor", x, mask, torch.tensor(9))
    same("aten.masked_fill.Tensor", x.float(), mask, torch.tensor(math.nan))
    assert torch.equal(indexing.masked_fill(x, mask, 7), x.masked_fill(mask, 7))
    for dim in (0, -1):
        same("aten.index_fill_.int_Scalar", x, dim, torch.tensor([0, -1]), 5)
        same("aten.index_fill_.int_Tensor", x.float(), dim, torch.tensor([1, 1]), torch.tensor(2.5))
    same("aten.index_fill_.int_Scalar", torch.tensor(1.0), 0, torch.tensor([0]), 5)
    same("aten.index_fill_.int_Scalar", x, 0, torch.tensor([], dtype=torch.int64), 5)


def test_masked_scatter():
    x, mask = torch.zeros(2, 3), torch.tensor([[True, False, True], [False, True, False]])
    same("aten.masked_scatter.default", x, mask, torch.arange(1.0, 7.0))
    same("aten.masked_scatter_.default", x, torch.tensor([True, False, True]), torch.arange(1.0, 7.0))
    same("aten.masked_scatter.default", torch.zeros(3), mask, torch.arange(1.0, 7.0))


def test_roll():
    for x in shapes():
        same("aten.roll.default", x, [2])
        if x.dim():
            same("aten.roll.default", x, [1, -7], [0, -1], strides=False)
    with pytest.raises(RuntimeError, match="align"):
        indexing.roll(torch.zeros(3), [1, 2], [0])


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_reductions_by_index(reduce, include_self):
    g = torch.Generator().manual_seed(4)
    for dtype in (torch.float32, torch.int64):
        x = (torch.randn(4, 5, generator=g) * 5).to(dtype)
        src = (torch.randn(3, 6, generator=g) * 5).to(dtype)
        index = torch.randint(0, 4, (3, 5), generator=g)
        same("aten.scatter_reduce.two", x, 0, index, src, reduce, include_self=include_self)
        if reduce != "sum":
            same(
                "aten.index_reduce.default", x, 1, torch.tensor([0, 3, 0]), x[:, :3], reduce, include_self=include_self
            )
    same("aten.scatter_reduce.two", x[0, 0], 0, torch.tensor(0), x[0, 0], reduce, include_self=include_self)
    nan = torch.tensor([math.nan, 1.0])
    same("aten.scatter_reduce.two", torch.zeros(2), 0, torch.tensor([0, 0]), nan, reduce, include_self=include_self)
    same("aten.scatter_reduce.two", x, 0, index[:0], src, reduce, include_self=include_self)


def test_gradients_of_selections():
    same("aten.unfold_backward.default", torch.arange(12.0).view(2, 2, 3), [2, 5], 1, 3, 2)
    same("aten.select_backward.default", torch.arange(3.0), [2, 3], 0, -1)


def test_sequences():
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int64, None):
        same("aten.linspace.default", -2, 7, 10 if dtype == torch.bfloat16 else 11, dtype=dtype)
        same("aten.logspace.default", 0, 2, 5, 2.0, dtype=dtype)
        same("aten.range.step", 1, 9, 2.5 if dtype != torch.int64 else 2, dtype=dtype)
    for steps in (0, 1, 2):
        same("aten.linspace.default", 3, 5, steps)
    same("aten.range.default", 1, 4)
    same("aten.range.out", 1, 4, 0.5, out=torch.empty(0))


@pytest.mark.parametrize("offset", [-3, -1, 0, 2, 6])
def test_triangles(offset):
    for row, col in ((3, 4), (4, 2), (0, 3)):
        same("aten.tril_indices.default", row, col, offset)
        same("aten.triu_indices.default", row, col, offset, dtype=torch.int32)


def test_kaiser_windows():
    for length in (0, 1, 2, 9):
        same("aten.kaiser_window.default", length)
        same("aten.kaiser_window.periodic", length, False)
        same("aten.kaiser_window.beta", length, True, 5.5, dtype=torch.bfloat16)


def test_fake_quantization():
    x = torch.tensor([[-3.0, -0.26, 0.25], [0.75, 1.0, 9.0]])
    scale, zero = torch.tensor([0.5, 0.25]), torch.tensor([1, -2], dtype=torch.int32)
    same("aten.fake_quantize_per_tensor_affine_cachemask.default", x, 0.5, 2, -4, 4)
    same("aten.fake_quantize_per_channel_affine_cachemask.default", x, scale, zero, 0, -4, 4)
    for on in (0, 1):
        args = (x, scale[:1], zero[:1], torch.tensor([on]), -4, 4)
        same("aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default", *args)
    learnt = torch.tensor([0.6, -9.0])
    same("aten._fake_quantize_learnable_per_channel_affine.default", x, scale, learnt, 0, -4, 4)
    same("aten._fake_quantize_learnable_per_tensor_affine.default", x, scale[:1], learnt[:1], -4, 4)
    grad = torch.arange(1.0, 7.0).view(2, 3)
    same("aten._fake_quantize_learnable_per_tensor_affine_backward.default", grad, x, scale[:1], learnt[:1], -4, 4, 0.5)
    same("aten._fake_quantize_learnable_per_channel_affine_backward.default", grad, x, scale, learnt, 0, -4, 4)


def test_masked_softmax():
    x, mask = torch.arange(6.0).view(2, 3), torch.tensor([[True, False, False], [False, True, False]])
    same("aten._masked_softmax.default", x, mask, 1, 2)
    out = torch.softmax(x.masked_fill(mask, -math.inf), 1)
    same("aten._masked_softmax_backward.default", torch.ones(2, 3).cumsum(1), out, mask, 1)


def _state(count):
    g = torch.Generator().manual_seed(5)
    return [torch.rand(3, 2, generator=g) for _ in range(count)]


@pytest.mark.parametrize("found", [None, 0.0, 1.0])
@pytest.mark.parametrize("maximize", [False, True])
def test_optimizer_steps(found, maximize):
    scaling = {} if found is None else {"grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(found)}
    p, g, m, v, x = ([t] for t in _state(5))
    steps, adam = [torch.tensor(3.0)], {"beta1": 0.9, "beta2": 0.99, "eps": 1e-6, "maximize": maximize, **scaling}
    for name in ("_fused_adam_", "_fused_adamw_"):
        for amsgrad in (False, True):
            options = {**adam, "weight_decay": 0.1, "amsgrad": amsgrad}
            largest = x if amsgrad else []
            same(f"aten.{name}.default", p, g, m, v, largest, steps, lr=0.1, **options)
            same(f"aten.{name}.tensor_lr", p, g, m, v, largest, steps, lr=torch.tensor(0.1), **options)
    for momentum, first, nesterov in ((0.0, False, False), (0.9, True, False), (0.9, False, True)):
        rule = {"weight_decay": 0.1, "momentum": momentum, "dampening": 0.0 if nesterov else 0.2, "nesterov": nesterov}
        rule |= {"is_first_step": first, "maximize": maximize, **scaling}
        same("aten._fused_sgd_.default", p, g, m if momentum else [], lr=0.1, **rule)
    decays = {"lr_decay": 0.01, "weight_decay": 0.1, "eps": 1e-6, "maximize": maximize, **scaling}
    same("aten._fused_adagrad_.default", p, g, v, steps, lr=0.1, **decays)


def test_loss_scaling():
    for value in (1.0, math.inf, math.nan):
        grads = [torch.tensor([1.0, value]), torch.tensor([2.0])]
        same("aten._amp_foreach_non_finite_check_and_unscale_.default", grads, torch.tensor([0.0]), torch.tensor([0.5]))
    for bad in (0.0, 1.0):
        for tracker in (0, 2):
            args = (torch.tensor([8.0]), torch.tensor([tracker], dtype=torch.int32), torch.tensor([bad]), 2.0, 0.5, 3)
            same("aten._amp_update_scale_.default", *args)


def test_no_step_reads_a_value(monkeypatch):
    def read(self):
        raise AssertionError("a value was read on the host")

    p, g, m, v, x = ([t] for t in _state(5))
    monkeypatch.setattr(torch.Tensor, "item", read)
    monkeypatch.setattr(torch.Tensor, "__bool__", read)
    step = registry.REGISTRY["aten._fused_adam_.default"].function
    options = {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-6, "amsgrad": True, "maximize": False}
    step(p, g, m, v, x, [torch.tensor(1.0)], lr=0.1, found_inf=torch.tensor(0.0), **options)
