"""Samples of fake quantization: values rounded to a quantized grid but kept as floating-point tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.generators.rows import FLOATS, NUMBERS, REAL, Arguments, Draw, call, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FLOAT32 = (torch.float32,)
_LEARNED = (torch.float32, torch.bfloat16)
_RANGES = ((-128, 127), (0, 255), (0, 15))


def _number(value: float, dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([value], dtype=dtype)


def _per_tensor(d: Draw) -> Iterator[Arguments]:
    for zero, (low, high) in zip((0, 100, 7), _RANGES, strict=True):
        yield call(d(3, 4), 0.02 * (1 + zero % 3), zero, low, high)


def _per_tensor_by_tensor(*middle: torch.Tensor) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        for zero, (low, high) in zip((0, 100, 7), _RANGES, strict=True):
            scale, point = _number(0.05, torch.float32), _number(zero, torch.int32)
            yield call(d(3, 4), scale, point, *middle, low, high)

    return make


def _per_channel(d: Draw) -> Iterator[Arguments]:
    for axis, (low, high) in zip((0, 1, 1), _RANGES, strict=True):
        channels = (3, 4)[axis]
        scale = d.positive(channels, dtype=torch.float32) / 20
        zero = d.index(channels, low=max(low, -3), high=10).int()
        yield call(d(3, 4), scale, zero, axis, low, high)


def _learnable(*first: int) -> Callable[[Draw], Iterator[Arguments]]:
    """Return a maker; `first` is the gradient's shape for a backward overload, nothing for a forward one."""

    def make(d: Draw) -> Iterator[Arguments]:
        for low, high in _RANGES[:2]:
            yield call(*([d(*first)] if first else []), d(3, 4), *_learned(d, 1), low, high, 0.5)

    return make


def _learnable_channels(*first: int) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        for axis in (0, 1):
            yield call(*([d(*first)] if first else []), d(3, 4), *_learned(d, (3, 4)[axis]), axis, -128, 127, 0.5)

    return make


def _learned(d: Draw, channels: int) -> list[torch.Tensor]:
    """Return scales and zero points of the dtype: both are parameters here."""
    return [d.positive(channels) / 20, d.index(channels, high=5).to(d.dtype)]


def _observed(d: Draw) -> Iterator[Arguments]:
    for rows, symmetric, observe in ((False, False, 1), (True, True, 1), (False, True, 0)):
        channels = 3 if rows else 1
        running: list[Any] = [torch.full((channels,), v) for v in (-1.5, 1.5)]
        quantizer = [torch.full((channels,), 0.05), torch.zeros(channels, dtype=torch.int32)]
        switches = [torch.tensor([v]) for v in (observe, 1)]
        yield call(d(3, 4), *switches, *running, *quantizer, 0.1, 0, 255, 0, rows, symmetric)


ROWS = [
    row("aten.fake_quantize_per_tensor_affine.default", FLOATS, _per_tensor),
    row("aten.fake_quantize_per_tensor_affine.tensor_qparams", FLOATS, _per_tensor_by_tensor()),
    row("aten.fake_quantize_per_tensor_affine_cachemask.default", FLOATS, _per_tensor),
    row(
        "aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default",
        FLOATS,
        _per_tensor_by_tensor(torch.tensor([1])),
    ),
    row("aten.fake_quantize_per_channel_affine.default", FLOATS, _per_channel),
    row("aten.fake_quantize_per_channel_affine_cachemask.default", FLOATS, _per_channel),
    *(
        row(f"aten.fake_quantize_per_{kind}_affine_cachemask_backward.default", NUMBERS, lambda d: [call(d(3, 4), d.mask(3, 4))])
        for kind in ("tensor", "channel")
    ),
    row("aten._fake_quantize_learnable_per_tensor_affine.default", FLOATS, _learnable()),
    row("aten._fake_quantize_learnable_per_tensor_affine_backward.default", _LEARNED, _learnable(3, 4)),
    row("aten._fake_quantize_learnable_per_channel_affine.default", _FLOAT32, _learnable_channels()),
    row("aten._fake_quantize_learnable_per_channel_affine_backward.default", _LEARNED, _learnable_channels(3, 4)),
    row("aten._fused_moving_avg_obs_fq_helper.default", _FLOAT32, _observed),
    row("aten.fused_moving_avg_obs_fake_quant.default", _FLOAT32, _observed),
    row("aten._saturate_weight_to_fp16.default", _FLOAT32, lambda d: [call(d(3, 4) * 50000), call(d(2, 0))]),
    row("aten._rowwise_prune.default", REAL, lambda d: [call(d(4, 3), torch.tensor([True, False, True, True]), torch.int32)]),
]  # fmt: skip
