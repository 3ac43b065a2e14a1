"""Samples of views, of storage and metadata changes and of their copying forms.

Storages cannot be kept, so the ``source_Storage`` overloads of `set_` have no sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import ALL, COMPLEX, FLOATS, NUMBERS, Arguments, Draw, call, row, rows

if TYPE_CHECKING:
    from collections.abc import Iterator


def _plain(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4))
    yield call(d())
    yield call(d(4, 3).t())
    yield call(d(2, 0))


def _matrices(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4))
    yield call(d(2, 3, 4))


def _pair(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), d(3, 4))
    yield call(d(2, 3), d(4))


def _number_with(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), 2)
    yield call(d(), 1.5)


def _sliced_back(d: Draw) -> Iterator[Arguments]:
    # The slice and what it was cut from share memory, whose whole extent the inverse reads.
    for whole, dim, start, end, step in ((d(3, 12), 1, 2, 10, 1), (d(5, 3), 0, 1, 5, 2)):
        yield call(torch.ops.aten.slice.Tensor(whole, dim, start, end, step), whole, dim, start, end, step)


def _strided(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), [12], [1])
    yield call(d(2, 3, 4), [2, 12], [12, 1])


def _from_tensor(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), d(6), 1, [2, 2], [2, 1])
    yield call(d(0), d(5), 0, [5])


def _reinterpreted(d: Draw) -> Iterator[Arguments]:
    same = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(d.dtype.itemsize, torch.complex128)
    yield call(d(3, 4), same)
    yield call(d(2, 4), torch.uint8 if d.dtype != torch.bool else torch.int8)


def _turned(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4), 0, 2)
    yield call(d(2, 3, 4), -1, 1)


def _cast(d: Draw) -> Iterator[Arguments]:
    yield call(d.positive(3, 4), torch.ones(1, dtype=torch.float64))
    yield call(d.positive(3, 4), torch.ones(1, dtype=torch.int32))


def _pieces(d: Draw) -> Iterator[Arguments]:
    yield call(d(7, 2), [2, 1, 4])
    yield call(d(2, 5), [0, 5], 1)


_METADATA = "is_complex is_conj is_contiguous is_distributed is_floating_point is_inference is_neg is_signed dim numel storage_offset"
ROWS = [
    *rows("lift _conj_physical conj data contiguous alias_copy set", ALL, _plain),
    row("aten._conj.default", COMPLEX, _plain),
    row("aten._neg_view.default", NUMBERS, _plain),
    row("aten.detach_copy.default", ALL, _plain, without="detach_"),  # which takes no view, and every kept tensor is one
    row("aten.requires_grad_.default", FLOATS, _plain),
    *rows("lift_fresh_copy", ALL, _plain),
    *rows("adjoint mT mH", ALL, _matrices),
    row("aten.set.source_Tensor", ALL, _pair),
    row("aten.set_.source_Tensor_storage_offset", ALL, _from_tensor),
    *rows("resize_as copy", ALL, lambda d: [call(d(3, 4), d(3, 4)), call(d(2, 3), d(2, 3))]),
    row("aten.resize.default", ALL, lambda d: [call(d(3, 4), [2, 3]), call(d(3, 4), [12])]),
    row("aten._reshape_alias.default", ALL, _strided),
    row("aten._reshape_copy.default", ALL, lambda d: [call(d(3, 4), [2, -1]), call(d(4, 3).t(), [12])]),
    row("aten._reshape_from_tensor.default", ALL, lambda d: [call(d(3, 4), torch.tensor([2, 6]))]),
    row("aten._shape_as_tensor.default", ALL, lambda d: [call(d(3, 4)), call(d())]),
    row("aten.slice_inverse.default", ALL, _sliced_back),
    row("aten.view.dtype", ALL, _reinterpreted),
    *rows("swapaxes swapdims", ALL, _turned),
    *rows("moveaxis movedim", ALL, _turned, overload="int"),
    row("aten.moveaxis.intlist", ALL, lambda d: [call(d(2, 3, 4), [0, 1], [2, 0])]),
    row("aten.type_as.default", NUMBERS[:9], _cast),
    row("aten.to.other", NUMBERS[:9], _cast),
    row("aten.to.dtype_layout", NUMBERS[:9], lambda d: [call(d(3, 4), dtype=torch.float64, layout=torch.strided), call(d(3, 4), dtype=d.dtype, copy=True)]),
    row("aten.unsafe_split_with_sizes.default", ALL, _pieces),
    row("aten.split.sizes", ALL, _pieces),
    *rows("concat concatenate _stack", ALL, lambda d: [call([d(3, 4), d(3, 4)], 1), call([d(2), d(2), d(2)])]),
    row("aten.row_stack.default", ALL, lambda d: [call([d(3, 4), d(2, 4)]), call([d(3), d(3)])]),
    row("aten.meshgrid.default", ALL, lambda d: [call([d(3), d(2)]), call([d(1), d(2), d(3)])]),
    row("aten.result_type.Tensor", ALL, _pair),
    row("aten.result_type.Scalar", ALL, _number_with),
    row("aten.result_type.Scalar_Tensor", ALL, lambda d: [call(2, d(3)), call(1.5, d())]),
    *rows(_METADATA, ALL, lambda d: [call(d(3, 4)), call(d())]),
    row("aten.is_contiguous.memory_format", ALL, lambda d: [call(d(1, 2, 3, 4), memory_format=torch.channels_last)]),
    row("aten.is_nonzero.default", ALL, lambda d: [call(d()), call(d(1, 1))]),
    row("aten.is_same_size.default", ALL, _pair),
    *rows("size stride", ALL, lambda d: [call(d(3, 4), 1), call(d(3, 4), -2)], overload="int"),
]  # fmt: skip
