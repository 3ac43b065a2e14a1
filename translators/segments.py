"""Decides how segments of a dimension are reduced, with their gradients.

Imported by translators.installation. Every element is compared with every segment, so lengths are never read on the host; memory
grows with the product of both.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import Refused, translator
from neuron_ops.translators.scans import product

_SOURCE = "definition: all pairs of element and segment"
_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def _bounds(lengths: torch.Tensor | None, offsets: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the first element of each segment and the one behind its last."""
    if offsets is not None:
        return offsets[..., :-1], offsets[..., 1:]
    if lengths is None:
        raise Refused("segment_reduce takes lengths or offsets; indices are not defined in ATen either")
    ends = torch.cumsum(lengths, -1, dtype=torch.int64)
    return ends - lengths, ends


def _inside(first: torch.Tensor, behind: torch.Tensor, size: int) -> torch.Tensor:
    """Return [..., segments, size]: which elements belong to which segment."""
    place = torch.arange(size, dtype=torch.int64, device=first.device)
    return (place >= first.unsqueeze(-1)) & (place < behind.unsqueeze(-1))


def _trailing(x: torch.Tensor, count: int) -> torch.Tensor:
    return x.reshape(*x.shape, *[1] * count)


@translator("aten.segment_reduce.default", source=_SOURCE)
def segment_reduce(
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    indices: torch.Tensor | None = None,  # noqa: ARG001 - not defined in ATen either
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,  # noqa: ARG001 - checks of values would read them
    initial: Any = None,
) -> torch.Tensor:
    """Return the reduction of each segment along axis; an empty one gives the initial value, or the neutral one."""
    refuse_complex(data)
    first, behind = _bounds(lengths, offsets)
    axis %= data.dim()
    rest = data.dim() - axis - 1
    hit = _trailing(_inside(first, behind, data.size(axis)), rest)
    start = _START[reduce] if initial is None else float(initial)
    x = data.to(computing(data.dtype)).unsqueeze(axis)
    rows = torch.where(hit, x, _START[reduce])
    dim = axis + 1
    if reduce in ("sum", "mean"):
        total = torch.sum(rows, dim) + start
    elif reduce == "prod":
        total = product(rows, dim).squeeze(dim) * start
    else:
        total = torch.amax(rows, dim) if reduce == "max" else torch.amin(rows, dim)
        total = torch.clamp_min(total, start) if reduce == "max" else torch.clamp_max(total, start)
    if reduce == "mean":
        count = _trailing(behind - first, rest)
        empty = math.nan if initial is None else start
        total = torch.where(count > 0, total / count, empty)
    return total.to(data.dtype)


def _without_own(x: torch.Tensor, together: torch.Tensor, axis: int) -> torch.Tensor:
    """Return for each element the product of the others of its segment; together is [..., n, n]."""
    n = x.size(axis)
    others = together & ~torch.eye(n, dtype=torch.bool, device=x.device)
    rows = torch.where(_trailing(others, x.dim() - axis - 1), x.unsqueeze(axis), 1.0)
    return product(rows, axis + 1).squeeze(axis + 1)


@translator("aten._segment_reduce_backward.default", source=f"derivative; {_SOURCE}")
def segment_reduce_backward(
    grad: torch.Tensor,
    output: torch.Tensor,
    data: torch.Tensor,
    reduce: str,
    *,
    lengths: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    axis: int = 0,
    initial: Any = None,
) -> torch.Tensor:
    """Return the gradient of data: extremes share theirs among equal elements."""
    first, behind = _bounds(lengths, offsets)
    axis %= data.dim()
    rest = data.dim() - axis - 1
    inside = _inside(first, behind, data.size(axis))
    hit = _trailing(inside, rest)
    inner = computing(data.dtype)
    g, out, x = (t.to(inner) for t in (grad, output, data))
    g, out, wide = g.unsqueeze(axis + 1), out.unsqueeze(axis + 1), x.unsqueeze(axis)
    if reduce == "prod":
        pairs = (inside.unsqueeze(-1) & inside.unsqueeze(-2)).any(-3)
        scale = 1.0 if initial is None else float(initial)
        rows = torch.where(hit, g * scale, 0.0)
        return (torch.sum(rows, axis) * _without_own(x, pairs, axis)).to(data.dtype)
    if reduce in ("max", "min"):
        best = hit & (torch.isnan(wide) | (wide == out))
        share = torch.clamp_min(torch.sum(best, axis + 1, keepdim=True), 1)
        return torch.sum(torch.where(best, g / share, 0.0), axis).to(data.dtype)
    if reduce == "mean":
        g = g / torch.clamp_min(_trailing(behind - first, rest).unsqueeze(axis + 1), 1)
    return torch.sum(torch.where(hit, g, 0.0), axis).to(data.dtype)
