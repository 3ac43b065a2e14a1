"""Samples of the convolution kernels that torch.nn reaches only without a vendor's library, and of conv_tbc."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.generators.rows import FLOATS, NUMBERS, REAL, Arguments, Draw, call, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _slow(n: int, *tails: dict[str, Any]) -> Callable[[Draw], Iterator[Arguments]]:
    """Return a maker for `n` spatial dimensions: input (2, 3, 6…), weight (4, 3, 3…), one sample for each tail."""

    def make(d: Draw) -> Iterator[Arguments]:
        for number, tail in enumerate(tails):
            kernel = [3] * n if number == 0 else [2, 3, 1][-n:]
            yield call(d(2, 3, *[6] * n), d(4, 3, *kernel), kernel, **({"bias": d(4)} if number else {}), **tail)

    return make


def _slow_transposed(n: int) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        yield call(d(2, 3, *[4] * n), d(3, 4, *[3] * n), [3] * n)
        yield call(d(1, 3, *[4] * n), d(3, 2, *[3] * n), [3] * n, d(2), [2] * n, [1] * n, [1] * n)
        yield call(d(1, 2, *[3] * n), d(2, 2, *[2] * n), [2] * n, d(2), [1] * n, [0] * n, [0] * n, [2] * n)

    return make


def _forward(n: int) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        yield call(d(2, 3, *[6] * n), d(4, 3, *[3] * n), [3] * n, None, [1] * n, [0] * n)
        yield call(d(1, 3, *[5] * n), d(2, 3, *[2] * n), [2] * n, d(2), [2] * n, [1] * n)

    return make


def _backward(d: Draw) -> Iterator[list[Any]]:
    yield [d(2, 4, 4, 4), d(2, 3, 6, 6), d(4, 3, 3, 3), [3, 3], [1, 1], [0, 0]]
    yield [d(1, 2, 3, 3), d(1, 3, 5, 5), d(2, 3, 2, 2), [2, 2], [2, 2], [1, 1]]


def _backward_masked(d: Draw) -> Iterator[Arguments]:
    for wanted in ([True, True, True], [True, False, True]):
        for shared in _backward(d):
            yield call(*shared, wanted)


def _backward_into(d: Draw) -> Iterator[Arguments]:
    for shared in _backward(d):
        _, own, weight = shared[:3]
        yield call(*shared, grad_input=d(*own.shape), grad_weight=d(*weight.shape), grad_bias=d(weight.shape[0]))


def _full(flags: int) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        switches = [False, False, True, True][:flags]
        yield call(d(2, 3, 6, 6), d(4, 3, 3, 3), d(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1, *switches)
        yield call(d(1, 4, 7), d(4, 2, 3), None, [2], [0], [2], False, [0], 2, *switches)
        yield call(d(1, 4, 5, 5), d(4, 1, 3, 3), d(2), [2, 2], [1, 1], [1, 1], True, [1, 1], 2, *switches)

    return make


def _double_backward(d: Draw) -> Iterator[Arguments]:
    geometry = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    x, weight, out = (2, 3, 5, 5), (4, 3, 3, 3), (2, 4, 3, 3)
    yield call(d(*x), d(*weight), d(4), d(*out), d(*weight), d(*x), *geometry, [True, True, True])
    yield call(d(*x), None, None, d(*out), d(*weight), d(*x), *geometry, [True, False, True])


def _named_padding(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 6, 6), d(4, 3, 3, 3), d(4), [1, 1], "same", [1, 1], 1)
    yield call(d(1, 4, 6, 5), d(2, 2, 3, 2), None, [2, 1], "valid", [1, 2], 2)


def _time_batch_channel(d: Draw) -> Iterator[Arguments]:
    yield call(d(6, 2, 3), d(3, 3, 4), d(4))
    yield call(d(5, 1, 2), d(2, 2, 3), d(3), 1)


def _time_batch_channel_backward(d: Draw) -> Iterator[Arguments]:
    yield call(d(4, 2, 4), d(6, 2, 3), d(3, 3, 4), d(4), 0)
    yield call(d(6, 1, 3), d(5, 1, 2), d(2, 2, 3), d(3), 1)


_PADDED = {"padding": [1, 0]}
ROWS = [
    row("aten._slow_conv2d_forward.default", REAL, _forward(2)),
    row("aten._slow_conv2d_backward.output_mask", FLOATS, _backward_masked),
    row("aten._slow_conv2d_backward.grad_input", FLOATS, _backward_into),
    row("aten.thnn_conv2d.default", REAL, _slow(2, {}, {"stride": [2, 1]}, _PADDED)),
    row("aten.slow_conv3d_forward.default", REAL, _forward(3)),
    row("aten.slow_conv3d.default", REAL, _slow(3, {}, {"stride": [2, 1, 1]}, {"padding": [1, 0, 1]})),
    row("aten.slow_conv_dilated2d.default", (*FLOATS, torch.int64), _slow(2, {}, {"dilation": [2, 1]}, _PADDED)),
    row("aten.slow_conv_dilated3d.default", (*FLOATS, torch.int64), _slow(3, {}, {"dilation": [2, 1, 2]})),
    row("aten.slow_conv_transpose2d.default", (*FLOATS, torch.int64), _slow_transposed(2)),
    row("aten.slow_conv_transpose3d.default", (*FLOATS, torch.int64), _slow_transposed(3)),
    row("aten._convolution.default", (*FLOATS, torch.int64), _full(4)),
    row("aten._convolution.deprecated", (*FLOATS, torch.int64), _full(3)),
    row("aten._convolution_double_backward.default", (*FLOATS, torch.int64), _double_backward),
    row("aten._convolution_mode.default", (*FLOATS, torch.int64), _named_padding),
    row("aten.conv2d.padding", (*FLOATS, torch.int64), _named_padding),
    row("aten.conv_tbc.default", NUMBERS, _time_batch_channel),
    row("aten.conv_tbc_backward.default", NUMBERS, _time_batch_channel_backward),
]
