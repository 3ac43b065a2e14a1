"""Samples of operators that exist for a derivative: backward formulas, double backward, forward mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.generators.rows import ALL, FLOATS, NUMBERS, WHOLE, Arguments, Draw, call, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _glu_forward_mode(d: Draw) -> Iterator[Arguments]:
    for shape, dim in (((3, 8), 1), ((4, 2, 3), 0)):
        half = [n // 2 if i == dim else n for i, n in enumerate(shape)]
        yield call(d(*half), d(*shape), d(*shape), dim)


def _glu_backward_forward_mode(d: Draw) -> Iterator[Arguments]:
    for shape, dim in (((3, 8), 1), ((4, 2, 3), 0)):
        half = [n // 2 if i == dim else n for i, n in enumerate(shape)]
        yield call(d(*shape), d(*half), d(*shape), d(*half), d(*shape), dim)


def _cumulative_product(d: Draw) -> Iterator[Arguments]:
    for shape, dim in (((3, 4), 1), ((2, 3, 2), 0)):
        own = d(*shape)
        yield call(d(*shape), own, dim, own.cumprod(dim))
    with_zeros = d(4)
    with_zeros[1] = 0
    yield call(d(4), with_zeros, 0, with_zeros.cumprod(0))


def _cumulative_extreme(d: Draw) -> Iterator[Arguments]:
    for shape, dim in (((3, 4), 1), ((2, 3, 2), 0)):
        yield call(d(*shape), d(*shape), d.index(*shape, high=shape[dim]), dim)


def _gathered(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3), d(4, 3), 0, d.index(2, 3, high=4), False)
    yield call(d(3, 5), d(3, 2), 1, d.index(3, 5, high=2), False)


def _index_selected(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 4), [3, 4], 0, torch.tensor([2, 0]))
    yield call(d(3, 3), [3, 4], 1, torch.tensor([1, 1, 3]))


def _mask_selected(d: Draw) -> Iterator[Arguments]:
    mask = torch.tensor([[True, False, True], [False, True, True]])
    yield call(d(4), d(2, 3), mask)
    yield call(d(0), d(2, 3), torch.zeros(2, 3, dtype=torch.bool))


def _selected(d: Draw) -> Iterator[Arguments]:
    yield call(d(3), 1, d.index(3, high=4), [3, 4], False)
    yield call(d(1, 4), 0, d.index(1, 4, high=3), [3, 4], True)


def _embedded(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 4), d.index(2, 3, high=5), 5, -1, False, False)
    yield call(d(4, 2), torch.tensor([1, 1, 0, 3]), 4, 0, True, False)


def _bags(d: Draw) -> Iterator[Arguments]:
    # Seven indices in three bags of 2, 4 and 1; in mode 2 (max) each bag and column names the index it came from.
    indices, bag = torch.tensor([1, 4, 0, 2, 2, 3, 4]), torch.tensor([0, 0, 1, 1, 1, 1, 2])
    sizes, largest = torch.tensor([2, 4, 1]), torch.tensor([[1, 4], [2, 0], [4, 4]])
    for mode, frequency, weights in ((0, False, d(7)), (1, False, None), (1, True, None), (2, False, None)):
        yield call(d(3, 2), indices, bag, sizes, largest, 5, frequency, mode, weights)


def _bags_forward(d: Draw) -> Iterator[Arguments]:
    indices, offsets = torch.tensor([1, 4, 0, 2, 2, 3, 4]), torch.tensor([0, 2, 6])
    for mode in (0, 1, 2):
        yield call(d(5, 2), indices, offsets, False, mode)
    yield call(d(5, 3), indices, offsets, False, 0, False, d(7))


def _connectionist(lengths: Callable[[list[int]], Any]) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        targets = torch.tensor([[1, 2, 2], [3, 1, 1]])
        for sizes, wanted in (([6, 6], [3, 3]), ([6, 5], [3, 2])):
            chances = torch.log_softmax(d(6, 2, 4), -1)
            loss, alpha = torch._ctc_loss(chances, targets, sizes, wanted)
            # The kernel leaves the cells behind a sequence's ends unwritten (and never reads them).
            for batch, (steps, labels) in enumerate(zip(sizes, wanted, strict=True)):
                alpha[batch, steps:] = alpha[batch, :, 2 * labels + 1 :] = -torch.inf
            yield call(d(2), chances, targets, lengths(sizes), lengths(wanted), loss, alpha, 0)

    return make


def _segments(d: Draw) -> Iterator[Arguments]:
    lengths = torch.tensor([2, 0, 3])
    for kind in ("sum", "mean", "max", "prod"):
        data = d.positive(5, 2)
        output = torch.segment_reduce(data, kind, lengths=lengths, axis=0, unsafe=False)
        yield call(d(3, 2), output, data, kind, lengths=lengths)


def _group_norm(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 4, 3), d(2, 4, 3), d(2, 2), d.positive(2, 2), d.positive(4), 2, 4, 3, 2, [True, True, True])


def _spacing(d: Draw) -> list[torch.Tensor]:
    return [torch.cumsum(d.positive(n), 0) for n in (3, 4)]


ROWS = [
    row("aten.gradient.array", FLOATS, lambda d: [call(d(4, 5), dim=[1, 0]), call(d(4, 5), dim=[0], edge_order=2)]),
    row("aten.gradient.scalararray", FLOATS, lambda d: [call(d(4, 5), spacing=2, dim=[0, 1])]),
    row(
        "aten.gradient.tensorarrayint", FLOATS, lambda d: [call(d(5), spacing=[torch.cumsum(d.positive(5), 0)], dim=0)]
    ),
    row("aten.gradient.tensorarray", FLOATS, lambda d: [call(d(3, 4), spacing=_spacing(d), dim=[0, 1])]),
    row("aten.glu_jvp.default", WHOLE, _glu_forward_mode),
    row("aten.glu_backward_jvp.default", FLOATS, _glu_backward_forward_mode),
    row("aten.cumprod_backward.default", NUMBERS, _cumulative_product),
    row("aten.cummaxmin_backward.default", NUMBERS, _cumulative_extreme),
    row("aten.gather_backward.default", NUMBERS, _gathered),
    row("aten.index_select_backward.default", NUMBERS, _index_selected),
    row("aten.masked_select_backward.default", ALL, _mask_selected),
    row("aten.value_selecting_reduction_backward.default", NUMBERS, _selected),
    row("aten.trace_backward.default", NUMBERS, lambda d: [call(d(), [3, 4]), call(d(), [2, 2])]),
    row("aten.infinitely_differentiable_gelu_backward.default", FLOATS, lambda d: [call(d(3, 4), d(3, 4))]),
    row("aten.embedding_backward.default", FLOATS, _embedded),
    row("aten._embedding_bag_dense_backward.default", FLOATS, _bags),
    row("aten._embedding_bag_forward_only.default", FLOATS, _bags_forward),
    row("aten.embedding_bag.default", FLOATS, _bags_forward),
    row("aten._ctc_loss_backward.Tensor", WHOLE, _connectionist(torch.tensor)),
    row("aten._ctc_loss_backward.default", WHOLE, _connectionist(list)),
    row("aten._segment_reduce_backward.default", FLOATS, _segments),
    row("aten.native_group_norm_backward.default", FLOATS, _group_norm),
]
