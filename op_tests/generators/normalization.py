"""Samples of batch normalization in its many native forms, of weight normalization and of norms with a given dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.generators.rows import COMPLEX, FLOATS, WHOLE, Arguments, Draw, call, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _affine(d: Draw, channels: int) -> list[Any]:
    return [d.positive(channels), d(channels)]


def _running(d: Draw, channels: int) -> list[torch.Tensor]:
    """Return a running mean and a running variance."""
    return [d(channels), d.positive(channels)]


def _batch_norm(*tail: Any, optional: bool = True) -> Callable[[Draw], Iterator[Arguments]]:
    """Return a maker of (input, weight, bias, running mean, running variance, *tail, momentum, eps)."""

    def make(d: Draw) -> Iterator[Arguments]:
        yield call(d(2, 3, 4, 2), *_affine(d, 3), *_running(d, 3), *tail, 0.1, 1e-5)
        yield call(d(4, 3), None, None, *_running(d, 3), *tail, 0.3, 1e-3)
        if optional:
            yield call(d(3, 1, 5), *_affine(d, 1), *_running(d, 1), *tail, 0.1, 1e-5)

    return make


def _without_stats(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4, 2), *_affine(d, 3), True, 0.1, 1e-5)
    yield call(d(4, 3), None, None, True, 0.3, 1e-3)


def _batch_norm_backward(d: Draw) -> Iterator[Arguments]:
    for train in (True, False):
        saved = [d(3), d.positive(3)]
        yield call(
            d(2, 3, 4), d(2, 3, 4), d.positive(3), *_running(d, 3), *saved, train, 1e-5, [True, True, True], d(0)
        )


def _layer_sizes(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4), [4], d.positive(4), 1e-5)
    yield call(d(2, 3, 4), [3, 4], None, None)


def _weights(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), d.positive(3, 1), 0)
    yield call(d(3, 4, 2), d.positive(1, 1, 2), 2)


def _weights_backward(d: Draw) -> Iterator[Arguments]:
    for shape, dim in (((3, 4), 0), ((3, 4, 2), 2)):
        value = d(*shape)
        kept = [n if i == dim else 1 for i, n in enumerate(shape)]
        others = [i for i in range(len(shape)) if i != dim]
        # The norms that the forward kernel saves are float32 for a half precision weight, as is the gradient's sum.
        norms = value.double().pow(2).sum(others, keepdim=True).sqrt().to(value.dtype)
        yield call(d(*shape), value, d.positive(*kept), norms, dim)


def _except_dim(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4))
    yield call(d(3, 4, 2), 2, 2)
    yield call(d(3, 4), 1, -1)


def _norm_with_dtype(d: Draw) -> Iterator[Arguments]:
    wide = _widened(d.dtype)
    for p in (None, 2, 1, float("inf"), 0):
        yield call(d(3, 4), p, dtype=wide)


def _norm_dims_dtype(d: Draw) -> Iterator[Arguments]:
    wide = _widened(d.dtype)
    yield call(d(3, 4), 2, [1], False, dtype=wide)
    yield call(d(2, 3, 4), 1, [0, 2], True, dtype=wide)
    yield call(d(0, 4), None, [0], False, dtype=wide)


def _widened(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.itemsize < 4 else torch.float64


def _plain_norms(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4))
    yield call(d(3, 4), 3)
    yield call(d(), 1)


def _renorm(d: Draw) -> Iterator[Arguments]:
    yield call(d(5, 3), d.index(4, high=5), 0.5, 2.0)
    yield call(d(5, 3), torch.tensor([[0, 4], [4, 1]]), 1.0, 1.0)


def _power_sums(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4))
    yield call(d(3, 4), 3, [0], True)


ROWS = [
    row("aten._native_batch_norm_legit.default", FLOATS, _batch_norm(True)),
    row("aten._native_batch_norm_legit.no_stats", FLOATS, _without_stats),
    row("aten._native_batch_norm_legit_no_training.default", FLOATS, _batch_norm()),
    row("aten._batch_norm_with_update.default", FLOATS, _batch_norm()),
    row("aten._batch_norm_no_update.default", FLOATS, _batch_norm()),
    row("aten.batch_norm_backward.default", FLOATS, _batch_norm_backward),
    row(
        "aten.batch_norm_update_stats.default",
        FLOATS,
        lambda d: [call(d(2, 3, 4), *_running(d, 3), 0.1), call(d(4, 3), None, None, 0.1)],
    ),
    row("aten._fused_rms_norm.default", FLOATS, _layer_sizes),
    row("aten._weight_norm.default", FLOATS, _weights),
    row("aten._weight_norm_interface.default", FLOATS, _weights),
    row("aten._weight_norm_interface_backward.default", WHOLE, _weights_backward),
    row("aten._weight_norm_differentiable_backward.default", FLOATS, _weights_backward),
    row("aten.norm_except_dim.default", FLOATS, _except_dim),
    row("aten.norm.ScalarOpt_dtype", FLOATS, _norm_with_dtype),
    row("aten.norm.ScalarOpt_dim_dtype", FLOATS, _norm_dims_dtype),
    row("aten.norm.Scalar", (*FLOATS, *COMPLEX), _plain_norms),
    row("aten.linalg__powsum.default", FLOATS, _power_sums),
    row("aten.frobenius_norm.dim", (*FLOATS, *COMPLEX), lambda d: [call(d(3, 4), [1]), call(d(2, 3, 4), [0, 2], True)]),
    row("aten.nuclear_norm.default", (*WHOLE, *COMPLEX), lambda d: [call(d(3, 4)), call(d(2, 2), True)]),
    row("aten.nuclear_norm.dim", (*WHOLE, *COMPLEX), lambda d: [call(d(2, 3, 4), [0, 2]), call(d(3, 4), [1, 0], True)]),
    row("aten.embedding_renorm.default", FLOATS, _renorm),
]
