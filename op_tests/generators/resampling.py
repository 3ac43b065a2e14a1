"""Samples of upsampling, padding and pooling in the forms that torch.nn.functional does not reach, and of affine grids."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import ALL, COMPLEX, FLOATS, NUMBERS, WHOLE, Arguments, Draw, call, row, rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SIZES_2D = (((2, 3, 4, 6), [7, 3]), ((1, 1, 5, 5), [2, 9]))
_SIZES_3D = (((2, 3, 2, 4, 3), [3, 2, 5]), ((1, 1, 3, 3, 3), [6, 6, 6]))


def _smooth(d: Draw) -> Iterator[Arguments]:
    for shape, size in _SIZES_2D:
        yield call(d(*shape), size, False)
        yield call(d(*shape), size, True)


def _smooth_backward(d: Draw) -> Iterator[Arguments]:
    for shape, size in _SIZES_2D:
        yield call(d(*shape[:2], *size), size, list(shape), False)
        yield call(d(*shape[:2], *size), size, list(shape), True)


def _smooth_scaled(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4, 6), [7, 3], False, None)
    yield call(d(1, 2, 4, 3), None, True, [2.0, 1.5])


def _nearest(d: Draw) -> Iterator[Arguments]:
    for shape, size in _SIZES_3D:
        yield call(d(*shape), size)
    yield call(d(1, 2, 2, 3, 2), [3, 4, 4], 1.5, 1.5, 2.0)


def _nearest_backward(d: Draw) -> Iterator[Arguments]:
    for shape, size in _SIZES_3D:
        yield call(d(*shape[:2], *size), size, list(shape))


def _nearest_scaled(n: int) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        yield call(d(2, 3, *[4] * n), [5] * n, None)
        yield call(d(1, 2, *[3] * n), None, [2.0] * n)

    return make


def _pads(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4, 5, 3), [1, 1, 2, 0, 0, 3])
    yield call(d(2, 3, 4, 5), [0, 1, 1, 1, 2, 1])
    yield call(d(1, 1, 3, 3, 3), [-1, 1, 0, 0, 1, -1])


def _pads_backward(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 7, 7, 5), d(2, 3, 4, 5, 3), [1, 1, 2, 0, 0, 3])
    yield call(d(2, 7, 7, 6), d(2, 4, 5, 5), [0, 1, 1, 1, 2, 1])


def _circular(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 5), [2, 1])
    yield call(d(1, 2, 4, 3), [1, 1, 0, 2])


def _numbered_pads(d: Draw) -> Iterator[Arguments]:
    reflect, replicate, circular, constant = range(4)
    yield call(d(2, 5), [1, 2], constant, 1.5)
    for mode in (reflect, replicate, circular):
        yield call(d(2, 3, 5), [2, 1], mode)


def _grids(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 2, 3), [2, 1, 3, 4], False)
    yield call(d(1, 2, 3), [1, 2, 1, 5], True)
    yield call(d(1, 3, 4), [1, 1, 2, 3, 2], False)


def _grids_backward(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4, 2), [2, 1, 3, 4], False)
    yield call(d(1, 2, 3, 2, 3), [1, 1, 2, 3, 2], True)


def _shuffles(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 6, 3, 2), 3)
    yield call(d(1, 4, 5), 2)


def _bilinear_scaled(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4, 6), [7, 3], True, None)
    yield call(d(1, 2, 4, 3), None, False, [2.0, 1.5])


ROWS = [
    *rows("_upsample_bicubic2d_aa _upsample_lanczos2d_aa _upsample_bilinear2d_aa", (*WHOLE, torch.uint8), _smooth),
    *rows(
        "_upsample_bicubic2d_aa_backward _upsample_lanczos2d_aa_backward _upsample_bilinear2d_aa_backward",
        WHOLE,
        _smooth_backward,
    ),
    *rows("_upsample_bicubic2d_aa _upsample_lanczos2d_aa", (*WHOLE, torch.uint8), _smooth_scaled, overload="vec"),
    *rows("upsample_nearest3d _upsample_nearest_exact3d", (*FLOATS, torch.uint8), _nearest),
    *rows("upsample_nearest3d_backward _upsample_nearest_exact3d_backward", FLOATS, _nearest_backward),
    *rows("upsample_nearest3d _upsample_nearest_exact3d", (*FLOATS, torch.uint8), _nearest_scaled(3), overload="vec"),
    row("aten.upsample_nearest2d.vec", (*FLOATS, torch.uint8), _nearest_scaled(2)),
    row("aten.upsample_bilinear2d.vec", (*FLOATS, torch.uint8), _bilinear_scaled),
    *rows("reflection_pad3d replication_pad3d", NUMBERS, _pads),
    *rows("reflection_pad3d_backward replication_pad3d_backward", (*FLOATS, *COMPLEX), _pads_backward),
    row("aten._pad_circular.default", ALL, _circular),
    row("aten._pad_enum.default", NUMBERS, _numbered_pads),
    row("aten.affine_grid_generator.default", (*WHOLE, *COMPLEX), _grids),
    row("aten.affine_grid_generator_backward.default", (*FLOATS, *COMPLEX), _grids_backward),
    row("aten.native_channel_shuffle.default", ALL, _shuffles),
    row("aten.adaptive_avg_pool3d.default", FLOATS, lambda d: [call(d(2, 3, 4, 5, 3), [2, 2, 1])]),
    row("aten._adaptive_avg_pool3d_backward.default", FLOATS, lambda d: [call(d(2, 3, 2, 2, 1), d(2, 3, 4, 5, 3))]),
    row(
        "aten.adaptive_avg_pool3d_backward.grad_input",
        FLOATS,
        lambda d: [call(d(2, 3, 2, 2, 1), d(2, 3, 4, 5, 3), grad_input=d(2, 3, 4, 5, 3))],
    ),
]
