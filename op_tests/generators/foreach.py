"""Samples of list operators whose scalars come as one tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import ALL, COMPLEX, FLOATS, NUMBERS, Arguments, Draw, call, row, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHAPES = ((3, 4), (5,), (), (0, 2))


def _list(d: Draw, shapes: tuple[tuple[int, ...], ...] = _SHAPES) -> list[torch.Tensor]:
    return [d(*shape) for shape in shapes]


def _fractions(d: Draw, shapes: tuple[tuple[int, ...], ...] = _SHAPES) -> list[torch.Tensor]:
    return [d.positive(*shape) for shape in shapes]


def _with_factors(d: Draw) -> Iterator[Arguments]:
    yield call(_list(d), _list(d), _fractions(d), torch.tensor([1, 2, 3, 4]).to(d.dtype))
    yield call(_list(d, ((2, 2),)), _list(d, ((2, 2),)), _fractions(d, ((2, 2),)), torch.tensor([2]).to(d.dtype))


def _with_tensor(d: Draw) -> Iterator[Arguments]:
    yield call(_list(d), torch.tensor(2).to(d.dtype))
    yield call(_list(d, ((1,),)), torch.tensor(3).to(d.dtype))


def _power(d: Draw) -> Iterator[Arguments]:
    yield call(2, _fractions(d))
    yield call(3, _fractions(d, ((2, 2),)))


def _lists(d: Draw) -> Iterator[Arguments]:
    yield call(_list(d), _list(d))
    yield call(_list(d, ((2, 2),)), _list(d, ((2, 2),)))


def _one_list(d: Draw) -> Iterator[Arguments]:
    yield call(_list(d))
    yield call(_list(d, ((2, 2),)))


ROWS = [
    row("aten._foreach_addcdiv.Tensor", (*FLOATS, *COMPLEX), _with_factors),
    row("aten._foreach_addcmul.Tensor", NUMBERS, _with_factors),
    *rows("_foreach_add _foreach_mul _foreach_div", NUMBERS, _with_tensor, overload="Tensor"),
    row("aten._foreach_pow.ScalarAndTensor", NUMBERS, _power),
    row("aten._foreach_copy.default", ALL, _lists),
    *rows("_foreach_zero _foreach_clone", ALL, _one_list),
    row("aten.flatten_dense_tensors.default", ALL, lambda d: [call([d(3, 4), d(2), d()])]),
    row("aten.unflatten_dense_tensors.default", ALL, lambda d: [call(d(15), [d(3, 4), d(2), d()])]),
    row("aten._to_cpu.default", ALL, lambda d: [call([d(3, 4), d(0)])]),
]
