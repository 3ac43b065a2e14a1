"""Translators of CTC and margin losses and of bags of embeddings: as ATen on the CPU, with gradients."""

import itertools
import math

import pytest
import torch
from neuron_ops.translators import ctc, embedding_bags, losses
from translator_calls import same

MODULES = (ctc, embedding_bags, losses)  # imported for their registrations
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
ROWS = torch.tensor([[3.0, 1.0, -2.0, 1.0], [0.0, -0.0, 2.5, 7.0], [1.0, 1.0, 1.0, 1.0]])


def _logs(time: int, batch: int, classes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randn(time, batch, classes, generator=generator).log_softmax(-1)


LABELS = torch.tensor([[1, 1, 2, 4], [3, 0, 9, 9], [2, 2, 2, 2], [4, 4, 4, 4]])  # 9: behind the target's end


@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize(
    ("targets", "target_lengths"),
    [
        (LABELS, [4, 1, 0, 4]),
        (torch.tensor([1, 1, 2, 4, 3, 4, 4, 4, 4]), [4, 1, 0, 4]),
        (torch.empty((4, 0), dtype=torch.int64), [0, 0, 0, 0]),
    ],
)
def test_ctc_of_odd_lengths(targets, target_lengths, zero_infinity):
    logs, lengths = _logs(9, 4, 5), [9, 6, 3, 5]  # four equal labels need seven steps: the last loss is infinite
    loss, alpha = torch.ops.aten._ctc_loss(logs, targets, lengths, target_lengths)
    got, ours = ctc.ctc_loss(logs, targets, lengths, target_lengths)
    torch.testing.assert_close(got, loss)
    assert ours.shape == alpha.shape
    assert math.isinf(loss[3]) or not max(target_lengths)
    for workspace in (alpha, ours):
        same(
            "aten._ctc_loss_backward.default",
            *(torch.tensor([1.0, 2.0, -1.0, 0.5]), logs, targets, lengths, target_lengths, loss, workspace, 0),
            zero_infinity=zero_infinity,
        )


def test_ctc_of_empty_inputs_and_other_blanks():
    logs, targets = _logs(6, 3, 4), torch.tensor([[0, 1, 1], [1, 0, 1], [0, 0, 0]])
    for lengths in ([6, 0, 6], [6, 0, 3]):
        want = torch.ops.aten._ctc_loss(logs, targets, lengths, [3, 0, 2], 3)[0]
        torch.testing.assert_close(ctc.ctc_loss(logs, targets, lengths, [3, 0, 2], 3)[0], want)
        tensors = (torch.tensor(lengths), torch.tensor([3, 0, 2]))
        torch.testing.assert_close(ctc.ctc_loss_lengths(logs, targets, *tensors, 3)[0], want)


def test_ctc_of_strided_targets():
    # ATen reads strided targets in one row elsewhere (torch 2.13), so the contiguous ones are the reference.
    logs, targets = _logs(6, 2, 4), torch.tensor([1, 0, 2, 0, 3, 0])[::2]
    want = torch.ops.aten._ctc_loss(logs, targets.contiguous(), [6, 5], [2, 1])
    torch.testing.assert_close(ctc.ctc_loss(logs, targets, [6, 5], [2, 1])[0], want[0])


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin(p, reduction):
    target, grad = torch.tensor([3, 0, 2]), torch.tensor([1.0, -2.0, 0.5] if reduction == 0 else 3.0)
    for weight in (None, torch.tensor([0.5, 2.0, 1.0, 0.0])):
        same("aten.multi_margin_loss.default", ROWS, target, p, 0.75, weight, reduction)
        same("aten.multi_margin_loss_backward.default", grad, ROWS, target, p, 0.75, weight, reduction)
    same("aten.multi_margin_loss.default", ROWS[0], target[0], p, 0.75, None, reduction)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_multilabel_margin(reduction):
    target = torch.tensor([[3, 0, -1, 1], [-1, 2, 2, 2], [1, 1, 2, 0]])
    same("aten.multilabel_margin_loss_forward.default", ROWS, target, reduction)
    _, named = torch.ops.aten.multilabel_margin_loss_forward(ROWS, target, reduction)
    grad = torch.tensor([1.0, -2.0, 0.5] if reduction == 0 else 3.0)
    same("aten.multilabel_margin_loss_backward.default", grad, ROWS, target, reduction, named)
    same("aten.multilabel_margin_loss_forward.default", ROWS[0], target[0], reduction)


TABLE = torch.tensor([[1.0, -2.0], [math.nan, 0.5], [3.0, math.inf], [-0.0, 4.0], [2.5, -7.0]])
INDICES = torch.tensor([4, 1, 0, 0, 3, 2, 1, 4])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("mode", "padding"), list(itertools.product([0, 1, 2], [-1, 0, 1, 4])))
def test_embedding_bag(mode, padding, dtype):
    for offsets, last in (
        (torch.tensor([0, 3, 3, 5, 8]), False),
        (torch.tensor([0, 2, 5, 8], dtype=torch.int32), True),
    ):
        for name in ("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default"):
            same(name, TABLE.to(dtype), INDICES, offsets, False, mode, False, None, last, padding)


@pytest.mark.parametrize("padding", [-1, 4])
def test_weighted_bags(padding):
    weights, offsets = torch.linspace(-1, 1, 8), torch.tensor([0, 3, 3, 5])
    table = TABLE.nan_to_num(posinf=9.0)
    same("aten._embedding_bag.default", table, INDICES, offsets, False, 0, False, weights, False, padding)
    bag = torch.tensor([0, 0, 0, 2, 2, 3, 3, 3])
    grad = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0], [-2.0, 1.0]])
    for given in (bag, bag[:0]):
        same(
            "aten._embedding_bag_per_sample_weights_backward.default", grad, table, INDICES, offsets, given, 0, padding
        )


@pytest.mark.parametrize(("mode", "padding"), list(itertools.product([0, 1, 2], [-1, 4])))
def test_gradient_of_bags(mode, padding):
    offsets, table = torch.tensor([0, 3, 3, 5]), TABLE.nan_to_num(posinf=9.0)
    _, bag, size, most = torch.ops.aten._embedding_bag(
        table, INDICES, offsets, False, mode, False, None, False, padding
    )
    grad = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 4.0], [-2.0, 1.0]])
    same(
        "aten._embedding_bag_backward.default",
        grad,
        INDICES,
        offsets,
        bag,
        size,
        most,
        5,
        False,
        mode,
        False,
        None,
        padding,
    )


def test_bags_scaled_by_frequency():
    # ATen's CPU kernel looks up the count of another index from the second repeated one on, so numbers are given here.
    indices, bag = torch.tensor([2, 2, 3, 0, 2]), torch.tensor([0, 0, 1, 1, 1])
    grad = torch.tensor([[6.0], [3.0]])
    args = (grad, indices, bag, torch.tensor([2, 3]), torch.tensor([0]), 5, True, 0, None)
    found = embedding_bags.embedding_bag_dense_backward(*args)
    assert found.tolist() == [[3.0], [0.0], [5.0], [3.0], [0.0]]


def test_empty_bags():
    none = torch.empty(0, dtype=torch.int64)
    for mode in (0, 1, 2):
        same("aten._embedding_bag.default", TABLE, none, torch.tensor([0, 0]), False, mode)


@pytest.mark.parametrize("norm", [1.0, 2.0, math.inf])
def test_renorm_of_rows_that_come_twice(norm):
    same("aten.embedding_renorm_.default", TABLE.clone(), torch.tensor([[4, 4], [0, 1]]), 1.5, norm)
    same("aten.embedding_renorm.default", TABLE, torch.tensor([2, 0, 2]), 1.5, norm)
