"""Samples of indexing, sorting, counting and scans in forms that no public function reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import (
    ALL,
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    NUMBERS,
    REAL,
    SIGNED,
    WHOLE,
    Arguments,
    Draw,
    call,
    row,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


def _put(d: Draw) -> Iterator[Arguments]:
    yield call(d(4, 3), [torch.tensor([0, 2])], d(2, 3))
    yield call(d(4, 3), [torch.tensor([3, 0, 1]), torch.tensor([2, 2, 0])], d(3), True)
    yield call(d(4, 3), [None, torch.tensor([1, 2])], d(4, 2))


def _read(d: Draw) -> Iterator[Arguments]:
    yield call(d(4, 3), [torch.tensor([0, 2, -1])])
    yield call(d(4, 3), [None, torch.tensor([[1], [2]])])
    yield call(d(4, 3), [torch.tensor([3, 0]), torch.tensor([2, 1])])


def _put_flat(d: Draw) -> Iterator[Arguments]:
    yield call(d(4, 3), torch.tensor([0, 7, -1]), d(3))
    yield call(d(4, 3), torch.tensor([[1, 11]]), d(1, 2), True)


def _scatter(d: Draw) -> Iterator[Arguments]:
    for reduce in ("add", "multiply"):
        yield call(d(3, 4), 0, torch.tensor([[0, 2, 1, 0], [2, 0, 0, 1]]), d(2, 4), reduce=reduce)


def _scatter_number(d: Draw) -> Iterator[Arguments]:
    for reduce in ("add", "multiply"):
        yield call(d(3, 4), 1, torch.tensor([[0, 3], [2, 1]]), 2, reduce=reduce)


def _few(d: Draw, *shape: int) -> torch.Tensor:
    """Return values among which some repeat."""
    return d.index(*shape, high=3).to(d.dtype)


def _unique_rows(d: Draw) -> Iterator[Arguments]:
    yield call(_few(d, 6, 2), 0)
    yield call(_few(d, 2, 6), 1, True, True, True)


def _consecutive_rows(d: Draw) -> Iterator[Arguments]:
    yield call(_few(d, 6, 2), 0)
    yield call(_few(d, 2, 6), 1, True, True)


def _unique(d: Draw) -> Iterator[Arguments]:
    yield call(_few(d, 3, 4))
    yield call(_few(d, 8), True, True)


def _extreme(d: Draw) -> Iterator[Arguments]:
    for shape, dim in (((3, 4), 1), ((2, 3, 2), 0)):
        yield call(d(*shape), torch.zeros(shape, dtype=d.dtype), torch.zeros(shape, dtype=torch.int64), dim)


def _counts(d: Draw) -> Iterator[Arguments]:
    yield call(d.index(9, high=5).to(d.dtype))
    yield call(d.index(4, high=3).to(d.dtype), d.positive(4, dtype=torch.float64), 7)
    yield call(d(0))


def _weighted_counts(d: Draw) -> Iterator[Arguments]:
    yield call(d.index(9, high=5), d.positive(9))


def _one_hot(d: Draw) -> Iterator[Arguments]:
    yield call(d.index(5, high=4).to(d.dtype), 6)
    yield call(d.index(2, 3, high=4).to(d.dtype))


def _sorted_search(d: Draw) -> Iterator[Arguments]:
    yield call(d(6).sort().values, 1)
    yield call(d(6).sort().values, 0.5, out_int32=True, right=True)


def _bucket(d: Draw) -> Iterator[Arguments]:
    yield call(1, d(6).sort().values)
    yield call(0.5, d(6).sort().values, out_int32=True, right=True)


def _histogram(d: Draw) -> Iterator[Arguments]:
    yield call(d(8, 2), 3)
    yield call(d(8, 2), 2, [-1.0, 1.0, -2.0, 2.0], d.positive(8), True)


def _diagonal(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 3), 2)
    yield call(d(7, 3), 1, True)
    yield call(d(3, 3, 3), 0)


_ORDERED = (*REAL, *BOOL)
ROWS = [
    row("aten._index_put_impl.default", ALL, _put),
    row("aten._unsafe_index.Tensor", ALL, _read),
    row("aten._unsafe_index_put.default", ALL, _put),
    row("aten.index.Tensor", ALL, _read),
    row("aten.index_put.default", ALL, _put),
    row("aten.put.default", ALL, _put_flat),
    row("aten.scatter.reduce", NUMBERS, _scatter),
    row("aten.scatter.value_reduce", NUMBERS, _scatter_number),
    row("aten.unique_dim.default", _ORDERED, _unique_rows),
    row("aten.unique_dim_consecutive.default", _ORDERED, _consecutive_rows),
    row("aten._unique.default", _ORDERED, _unique),
    *rows("_cummax_helper _cummin_helper", _ORDERED, _extreme),
    row("aten.bincount.default", INTEGERS, _counts),
    row("aten.bincount.default", WHOLE, _weighted_counts),
    row("aten.one_hot.default", (torch.int64,), _one_hot),
    row("aten.searchsorted.Scalar", REAL, _sorted_search),
    row("aten.bucketize.Scalar", REAL, _bucket),
    row("aten.isin.Tensor_Scalar", REAL, lambda d: [call(d(3, 4), 1), call(d(3, 4), 0, invert=True)]),
    row("aten.isin.Scalar_Tensor", REAL, lambda d: [call(1, d(3, 4)), call(0, d(3, 4), invert=True)]),
    row("aten.repeat_interleave.Tensor", (torch.int32, torch.int64), lambda d: [call(d.index(5, high=4).to(d.dtype)), call(torch.tensor([2, 0, 1], dtype=d.dtype), output_size=3)]),
    row("aten.histogramdd.int_bins", WHOLE, _histogram),
    row("aten._aminmax.default", _ORDERED, lambda d: [call(d(3, 4)), call(d(1))]),
    row("aten._aminmax.dim", _ORDERED, lambda d: [call(d(3, 4), 1), call(d(3, 4), 0, True)]),
    row("aten._logcumsumexp.default", (*FLOATS, *COMPLEX), lambda d: [call(d(3, 4), 1), call(d(0, 2), 0)]),
    row("aten.argsort.stable", REAL, lambda d: [call(_few(d, 3, 4), stable=True, dim=1), call(_few(d, 6), stable=True, descending=True)]),
    row("aten.fill_diagonal_.default", NUMBERS, _diagonal),
    row("aten._is_all_true.default", BOOL, lambda d: [call(d(3, 4)), call(d(0))]),
    row("aten._is_any_true.default", BOOL, lambda d: [call(d(3, 4)), call(d(0))]),
    row("aten.where.ScalarOther", ALL, lambda d: [call(d.mask(3, 4), d(3, 4), 1)]),
    row("aten.where.ScalarSelf", ALL, lambda d: [call(d.mask(3, 4), 1, d(3, 4))]),
    row("aten.where.Scalar", BOOL, lambda d: [call(d.mask(3, 4), 1, 2), call(d.mask(3, 4), 1.5, 2)]),
    row("aten.where.default", ALL, lambda d: [call(d(3, 4)), call(d(0))]),
    *rows("gcd lcm", (*SIGNED, torch.uint8), lambda d: [call(d(3, 4), d(3, 4)), call(d(3, 1), d.positive(1, 4)), call(d(2, 3), d.positive(3))]),
]  # fmt: skip
