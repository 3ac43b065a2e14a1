"""Decides how the CTC loss and its gradient are computed: one step over all sequences for each time, in logarithms.

Imported by translators.families. Lengths given as numbers are never read back; as tensors they are, since the shape of the
workspace depends on them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from neuron_ops.translators.registry import Refused, translator

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAPER = "Graves et al. 2006, equations 6 to 16"
_LOWEST = -math.inf


@dataclass(frozen=True, slots=True)
class _Problem:
    """Targets with blanks between them: [N, S] classes, S = 2 * longest + 1, with the lengths as [N, 1] tensors.

    `jump`: [N, S], whether the class two places before may come directly before. `score`: [T, N, S], the log-probability
    of each place at each time.
    """

    classes: torch.Tensor
    jump: torch.Tensor
    score: torch.Tensor
    times: torch.Tensor
    ends: torch.Tensor
    places: torch.Tensor


def _column(values: Sequence[int], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(list(values), dtype=torch.int64).to(like.device).view(-1, 1)


def _labels(targets: torch.Tensor, lengths: Sequence[int], longest: int, blank: int) -> torch.Tensor:
    """Return [N, longest] classes, blank behind the end of each target; one dimension holds all targets in a row."""
    place = torch.arange(longest, device=targets.device).unsqueeze(0)
    inside = place < _column(lengths, targets)
    if targets.dim() == 1:
        firsts = _column([0, *itertools.accumulate(lengths)][:-1], targets)
        where = torch.where(inside, firsts + place, 0)
        found = torch.index_select(targets, 0, where.reshape(-1)).view(where.shape) if targets.numel() else where
    else:
        found = targets[:, :longest]
    return torch.where(inside, found.to(torch.int64), blank)


def _problem(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: Sequence[int], target_lengths: Sequence[int], blank: int
) -> _Problem:  # fmt: skip
    if log_probs.dtype not in (torch.float32, torch.float64):
        raise Refused("CTC loss is defined for float32 and float64; ATen refuses other dtypes")
    time, batch, _ = log_probs.shape
    longest = max(target_lengths, default=0)
    labels = _labels(targets, target_lengths, longest, blank)
    blanks = torch.full((batch, longest + 1), blank, dtype=torch.int64, device=labels.device)
    woven = torch.stack([blanks[:, :longest], labels], -1).view(batch, 2 * longest)
    classes = torch.cat([woven, blanks[:, :1]], 1)
    jump = torch.zeros_like(classes, dtype=torch.bool)
    if longest > 1:
        jump = torch.cat([jump[:, :2], classes[:, 2:] != classes[:, :-2]], 1)
    score = torch.gather(log_probs, 2, classes.unsqueeze(0).expand(time, batch, 2 * longest + 1))
    places = torch.arange(2 * longest + 1, device=labels.device).unsqueeze(0)
    ends = 2 * _column(target_lengths, labels)
    return _Problem(classes, jump, score, _column(input_lengths, labels), ends, places)


def _moved(x: torch.Tensor, steps: int) -> torch.Tensor:
    """Return x moved along its last dimension, to the right for positive steps, with -inf behind it."""
    side = [steps, 0] if steps > 0 else [0, -steps]
    wide = torch.constant_pad_nd(x, side, _LOWEST)
    return wide[:, : x.size(1)] if steps > 0 else wide[:, -x.size(1) :]


def _log_sum(terms: Sequence[torch.Tensor]) -> torch.Tensor:
    stacked = torch.stack(list(terms))
    top = torch.amax(stacked, 0)
    top = torch.where(top == _LOWEST, 0.0, top)
    return torch.log(torch.sum(torch.exp(stacked - top), 0)) + top


def _forward(p: _Problem) -> torch.Tensor:
    """Return [N, T, S], the log-probability of all paths that are at a place at a time; -inf outside the lengths."""
    inside = p.places <= p.ends
    alpha = torch.where((p.places < 2) & inside, p.score[0], _LOWEST)
    rows = [alpha]
    for t in range(1, p.score.size(0)):
        before = [alpha, _moved(alpha, 1), torch.where(p.jump, _moved(alpha, 2), _LOWEST)]
        alpha = torch.where(inside & (p.times > t), _log_sum(before) + p.score[t], _LOWEST)
        rows.append(alpha)
    return torch.stack(rows, 1)


def _likelihood(p: _Problem, alpha: torch.Tensor) -> torch.Tensor:
    """Return [N], the log-probability of all paths through the whole target; an empty one fits no input at all."""
    batch, _, size = alpha.shape
    last = torch.where(p.times > 0, p.times - 1, 0).view(batch, 1, 1).expand(batch, 1, size)
    row = torch.gather(alpha, 1, last).view(batch, size)
    final = (p.places == p.ends) | (p.places == p.ends - 1)
    row = torch.where(final & (p.times > 0), row, _LOWEST)
    top = torch.amax(row, 1, keepdim=True)
    top = torch.where(top == _LOWEST, 0.0, top)
    found = torch.log(torch.sum(torch.exp(row - top), 1, keepdim=True)) + top
    return torch.where((p.times == 0) & (p.ends == 0), 0.0, found).view(batch)


@translator("aten._ctc_loss.default", source=_PAPER)
def ctc_loss(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: list[int], target_lengths: list[int], blank: int = 0,
    zero_infinity: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the negative log-likelihood of each target, and what the gradient needs: [N, T, 2 * longest + 1]."""
    del zero_infinity  # the caller's: only the gradient knows it
    time, batch, _ = log_probs.shape
    if not time or not batch:
        raise Refused("a CTC loss over no time or no sequence stays with the host")
    p = _problem(log_probs, targets, input_lengths, target_lengths, blank)
    alpha = _forward(p)
    return -_likelihood(p, alpha), alpha


@translator("aten._ctc_loss.Tensor", source=_PAPER)
def ctc_loss_lengths(
    log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: torch.Tensor, target_lengths: torch.Tensor,
    blank: int = 0, zero_infinity: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return what ctc_loss returns; lengths are read back."""
    return ctc_loss(log_probs, targets, input_lengths.tolist(), target_lengths.tolist(), blank, zero_infinity)


def _backward(p: _Problem) -> torch.Tensor:
    """Return [N, T, S], the log-probability of all paths from a place and time to the end; -inf outside the lengths."""
    final = (p.places == p.ends) | (p.places == p.ends - 1)
    beta = torch.full_like(p.score[0], _LOWEST)
    jump = p.jump[:, 2:]
    jump = torch.cat([jump, torch.zeros_like(p.jump[:, :2])], 1)[:, : p.jump.size(1)]
    rows = []
    for t in reversed(range(p.score.size(0))):
        after = [beta, _moved(beta, -1), torch.where(jump, _moved(beta, -2), _LOWEST)]
        start = torch.where(final, p.score[t], _LOWEST)
        beta = torch.where(p.times == t + 1, start, _log_sum(after) + p.score[t])
        rows.append(torch.where(p.times > t, beta, _LOWEST))
    return torch.stack(rows[::-1], 1)


@translator("aten._ctc_loss_backward.default", source=_PAPER)
def ctc_loss_backward(
    grad: torch.Tensor, log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: list[int],
    target_lengths: list[int], neg_log_likelihood: torch.Tensor, log_alpha: torch.Tensor, blank: int,
    zero_infinity: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of log_probs."""
    time, batch, _ = log_probs.shape
    if not time or not batch:
        raise Refused("a CTC loss over no time or no sequence stays with the host")
    p = _problem(log_probs, targets, input_lengths, target_lengths, blank)
    times = torch.arange(time, device=log_probs.device).view(1, time, 1)
    final = ((p.places == p.ends) | (p.places == p.ends - 1)).unsqueeze(1)
    inside = ((p.places <= p.ends).unsqueeze(1) & (times < p.times.unsqueeze(2) - 1)) | (
        final & (times == p.times.unsqueeze(2) - 1)
    )
    loss = neg_log_likelihood.view(batch, 1, 1)
    # Both factors hold the place's own probability: it is taken out once.
    logs = log_alpha + _backward(p) + loss - p.score.transpose(0, 1)
    share = torch.where(inside, torch.exp(logs), 0.0).transpose(0, 1)
    index = p.classes.unsqueeze(0).expand(share.shape)
    shares = torch.scatter_add(torch.zeros_like(log_probs, memory_format=torch.contiguous_format), 2, index, share)
    loss = loss.view(1, batch, 1)
    shares = torch.where((log_probs == _LOWEST) | ~(loss < math.inf), math.nan, shares)
    result = (torch.exp(log_probs) - shares) * grad.view(1, batch, 1)
    keep = times.view(time, 1, 1) < p.times.view(1, batch, 1)
    if zero_infinity:
        keep = keep & (loss != math.inf)
    return torch.where(keep, result, 0.0).contiguous()


@translator("aten._ctc_loss_backward.Tensor", source=_PAPER)
def ctc_loss_lengths_backward(
    grad: torch.Tensor, log_probs: torch.Tensor, targets: torch.Tensor, input_lengths: torch.Tensor,
    target_lengths: torch.Tensor, neg_log_likelihood: torch.Tensor, log_alpha: torch.Tensor, blank: int,
    zero_infinity: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Return what ctc_loss_backward returns; lengths are read back."""
    lengths = (input_lengths.tolist(), target_lengths.tolist())
    return ctc_loss_backward(grad, log_probs, targets, *lengths, neg_log_likelihood, log_alpha, blank, zero_infinity)
