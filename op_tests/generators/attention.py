"""Samples of the fused attention operators behind torch.nn.MultiheadAttention and TransformerEncoderLayer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import FLOATS, Arguments, Draw, call, row

if TYPE_CHECKING:
    from collections.abc import Iterator


def _projections(d: Draw, width: int) -> list[torch.Tensor]:
    """Return the joint weight (3·width, width) and bias of query, key and value, and those of the output."""
    shapes = ((3 * width, width), (3 * width,), (width, width), (width,))
    return [d(*shape, low=-0.5, high=0.5) for shape in shapes]


def _open_mask(*shape: int) -> torch.Tensor:
    """Return a mask that hides the last position of every row but leaves others to attend to."""
    mask = torch.zeros(shape, dtype=torch.bool)
    mask[..., -1] = True
    return mask


def _multi_head(d: Draw) -> Iterator[Arguments]:
    x = d(2, 5, 8)
    yield call(x, x, x, 8, 2, *_projections(d, 8))
    yield call(d(1, 3, 4), d(1, 3, 4), d(1, 3, 4), 4, 1, *_projections(d, 4), None, False, False)
    yield call(x, x, x, 8, 4, *_projections(d, 8), _open_mask(5, 5), True, False, 0)
    yield call(x, x, x, 8, 2, *_projections(d, 8), _open_mask(2, 5), True, True, 1)


def _encoder_layer(d: Draw) -> Iterator[Arguments]:
    for gelu, norm_first, mask in ((False, False, None), (True, True, None), (False, True, _open_mask(2, 4))):
        norms = [d.positive(8), d(8), d.positive(8), d(8)]
        feed_forward = [d(6, 8, low=-0.5, high=0.5), d(6), d(8, 6, low=-0.5, high=0.5), d(8)]
        tail = (mask, 1) if mask is not None else ()
        yield call(d(2, 4, 8), 8, 2, *_projections(d, 8), gelu, norm_first, 1e-5, *norms, *feed_forward, *tail)


def _masked_softmax(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4, 5), _open_mask(2, 3, 4, 5))
    yield call(d(2, 3, 4, 5), _open_mask(2, 3, 4, 5), 3, 2)
    yield call(d(2, 3, 4, 4), _open_mask(4, 4), 3, 0)
    yield call(d(2, 3, 4, 4), _open_mask(2, 4), 3, 1)


def _masked_softmax_backward(d: Draw) -> Iterator[Arguments]:
    for shape, dim in (((2, 3, 4, 5), -1), ((3, 4), 1)):
        mask = _open_mask(*shape)
        output = torch.softmax(d(*shape).float().masked_fill(mask, -torch.inf), dim).to(d.dtype)
        yield call(d(*shape), output, mask, dim)


def _attention_math(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 2, 4, 8), d(2, 2, 5, 8), d(2, 2, 5, 8))
    yield call(d(1, 2, 4, 8), d(1, 2, 4, 8), d(1, 2, 4, 8), None, 0.0, True, scale=0.5)
    yield call(d(2, 2, 4, 8), d(2, 2, 5, 8), d(2, 2, 5, 8), ~_open_mask(4, 5))
    yield call(d(1, 4, 3, 8), d(1, 2, 3, 8), d(1, 2, 3, 8), enable_gqa=True)


ROWS = [
    row("aten._native_multi_head_attention.default", FLOATS, _multi_head),
    row("aten._transformer_encoder_layer_fwd.default", FLOATS, _encoder_layer),
    row(
        "aten._transform_bias_rescale_qkv.default",
        FLOATS,
        lambda d: [call(d(2, 5, 24), d(24), 2), call(d(1, 3, 36), d(36), 1), call(d(3, 1, 48), d(48), 4)],
    ),
    row("aten._masked_softmax.default", FLOATS, _masked_softmax),
    row("aten._masked_softmax_backward.default", FLOATS, _masked_softmax_backward),
    row("aten._scaled_dot_product_attention_math.default", FLOATS, _attention_math),
]
