"""Decides how margin losses, and their gradients, are computed: every class is compared with every target.

Imported by translators.families.
"""

from __future__ import annotations

from typing import Any

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import Refused, translator

_SOURCE = "definition"
_NONE, _MEAN = 0, 1


def _reduced(loss: torch.Tensor, reduction: int) -> torch.Tensor:
    """Return the loss of each row, or over all rows."""
    if reduction == _NONE:
        return loss
    return torch.sum(loss) / loss.numel() if reduction == _MEAN else torch.sum(loss)


def _rows(self: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both as [rows, classes] and [rows, ...]: a single row may come without its dimension."""
    refuse_complex(self)
    wide = self.to(computing(self.dtype))
    return (wide, target) if self.dim() > 1 else (wide.reshape(1, -1), target.reshape(1, -1))


# --- one target a row ------------------------------------------------------------------------------------------------


def _excess(
    x: torch.Tensor, target: torch.Tensor, margin: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return by how much each class exceeds the target's less the margin, where it is neither, and the targets [N, 1]."""
    index = target.reshape(-1, 1).to(torch.int64)
    excess = margin - torch.gather(x, 1, index) + x
    places = torch.arange(x.size(1), device=x.device).unsqueeze(0)
    return excess, (excess > 0) & (places != index), index


@translator("aten.multi_margin_loss.default", source=_SOURCE)
def multi_margin_loss(
    self: torch.Tensor, target: torch.Tensor, p: Any = 1, margin: Any = 1, weight: torch.Tensor | None = None,
    reduction: int = 1,
) -> torch.Tensor:  # fmt: skip
    """Return the mean over the classes by how much they exceed the target's less a margin, to the power 1 or 2."""
    if not self.numel():
        raise Refused("a margin loss of no classes stays with the host")
    x, target = _rows(self, target)
    excess, counts, index = _excess(x, target, margin)
    terms = excess * excess if p == 2 else excess
    if weight is not None:
        terms = terms * torch.index_select(weight.to(x.dtype), 0, index.reshape(-1)).unsqueeze(1)
    loss = torch.sum(torch.where(counts, terms, 0.0), 1) / x.size(1)
    result = _reduced(loss, reduction).to(self.dtype)
    return result if self.dim() > 1 else result.view(())


@translator("aten.multi_margin_loss_backward.default", source="derivative")
def multi_margin_loss_backward(
    grad_output: torch.Tensor, self: torch.Tensor, target: torch.Tensor, p: Any, margin: Any,
    weight: torch.Tensor | None = None, reduction: int = 1,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of multi_margin_loss."""
    if not self.numel():
        raise Refused("a margin loss of no classes stays with the host")
    x, target = _rows(self, target)
    excess, counts, index = _excess(x, target, margin)
    share = 1.0 / (x.size(1) * (x.size(0) if reduction == _MEAN else 1))
    slope = 2 * share * excess if p == 2 else torch.full_like(excess, share)
    if weight is not None:
        slope = slope * torch.index_select(weight.to(x.dtype), 0, index.reshape(-1)).unsqueeze(1)
    slope = torch.where(counts, slope, 0.0)
    slope = torch.scatter_add(slope, 1, index, -torch.sum(slope, 1, keepdim=True))
    return (slope * grad_output.to(x.dtype).reshape(-1, 1)).to(self.dtype).view(self.shape)


# --- several targets a row -------------------------------------------------------------------------------------------


def _targets(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the targets before the first negative one: their indices, which are, and which classes they name."""
    ended = torch.cumsum((target < 0).to(torch.int32), 1) > 0
    index = torch.where(ended, 0, target.to(torch.int64))
    zeros = torch.zeros_like(x, memory_format=torch.contiguous_format)
    named = torch.scatter_add(zeros, 1, index, torch.where(ended, 0.0, 1.0).to(x.dtype)) > 0
    return index, ~ended, named


def _pairs(x: torch.Tensor, index: torch.Tensor, real: torch.Tensor, named: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Return [rows, targets, classes]: 1 less by how much a target exceeds a class, and the pairs that lose by it."""
    excess = 1 - torch.gather(x, 1, index).unsqueeze(2) + x.unsqueeze(1)
    return excess, (excess > 0) & real.unsqueeze(2) & ~named.unsqueeze(1)


@translator("aten.multilabel_margin_loss_forward.default", source=_SOURCE)
def multilabel_margin_loss(
    self: torch.Tensor, target: torch.Tensor, reduction: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the mean over the classes by how much others exceed each target less 1, and 1 at the targets."""
    if not self.numel():
        raise Refused("a margin loss of no classes stays with the host")
    x, rows = _rows(self, target)
    index, real, named = _targets(x, rows)
    excess, counts = _pairs(x, index, real, named)
    loss = torch.sum(torch.where(counts, excess, 0.0), [1, 2]) / x.size(1)
    result = _reduced(loss, reduction).to(self.dtype)
    return result if self.dim() > 1 else result.view(()), named.to(self.dtype).view(target.shape)


@translator("aten.multilabel_margin_loss_backward.default", source="derivative")
def multilabel_margin_loss_backward(
    grad_output: torch.Tensor, self: torch.Tensor, target: torch.Tensor, reduction: int, is_target: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of multilabel_margin_loss."""
    if not self.numel():
        raise Refused("a margin loss of no classes stays with the host")
    x, rows = _rows(self, target)
    index, real, _ = _targets(x, rows)
    _, counts = _pairs(x, index, real, is_target.reshape(x.shape) != 0)
    share = 1.0 / (x.size(1) * (x.size(0) if reduction == _MEAN else 1))
    slope = torch.where(counts, share, 0.0).to(x.dtype)
    total = torch.scatter_add(torch.sum(slope, 1), 1, index, -torch.sum(slope, 2))
    return (total * grad_output.to(x.dtype).reshape(-1, 1)).to(self.dtype).view(self.shape)
