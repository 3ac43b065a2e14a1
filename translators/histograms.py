"""Decides how histograms are counted: the bin of each value by bisection, the counts by a scattered sum.

Imported by translators.installation. Where no range is given, the edges are computed from the values on the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import translator

if TYPE_CHECKING:
    from collections.abc import Sequence

_SOURCE = "definition: bisection and scattered sum"


def _edges(values: torch.Tensor, bins: int, bounds: tuple[float, float] | None) -> torch.Tensor:
    """Return bins + 1 evenly spaced edges over the bounds, or over the values; a width of zero is made one."""
    if bounds is None:
        if values.numel() == 0:
            bounds = (0.0, 1.0)
        else:
            low, high = torch.amin(values), torch.amax(values)
            same = low == high
            low, high = torch.where(same, low - 0.5, low), torch.where(same, high + 0.5, high)
    if bounds is not None:
        first, last = bounds if bounds[0] != bounds[1] else (bounds[0] - 0.5, bounds[1] + 0.5)
        low = torch.full((), first, dtype=values.dtype, device=values.device)
        high = torch.full((), last, dtype=values.dtype, device=values.device)
    place = torch.arange(bins + 1, dtype=values.dtype, device=values.device)
    step = (high - low) / bins
    return torch.where(place < (bins + 1) // 2, low + step * place, high - step * (bins - place))


def _counted(
    rows: torch.Tensor, edges: Sequence[torch.Tensor], weight: torch.Tensor | None, density: bool
) -> torch.Tensor:
    """Return the counts [bins of each dimension] of points [n, dimensions]; the last edge belongs to the last bin."""
    sizes = [e.numel() - 1 for e in edges]
    inside = torch.ones(rows.size(0), dtype=torch.bool, device=rows.device)
    flat = torch.zeros(rows.size(0), dtype=torch.int64, device=rows.device)
    for d, edge in enumerate(edges):
        x = rows[:, d].contiguous()
        inside = inside & (x >= edge[:1]) & (x <= edge[-1:])
        place = torch.searchsorted(edge, x, right=True) - 1
        flat = flat * sizes[d] + torch.clamp(place, 0, sizes[d] - 1)
    share = torch.ones_like(rows[:, 0]) if weight is None else weight.reshape(-1).to(rows.dtype)
    share = torch.where(inside, share, 0.0)
    total = 1
    for size in sizes:
        total *= size
    counts = torch.zeros(total, dtype=rows.dtype, device=rows.device).scatter_add(0, flat, share).view(sizes)
    return _dense(counts, edges) if density else counts


def _dense(counts: torch.Tensor, edges: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return counts divided by their sum and by the volumes of the bins."""
    counts = counts / torch.sum(counts)
    for d, edge in enumerate(edges):
        shape = [1] * counts.dim()
        shape[d] = -1
        counts = counts / (edge[1:] - edge[:-1]).view(shape)
    return counts


def _bounds(given: Sequence[float] | None, dimension: int) -> tuple[float, float] | None:
    return None if given is None else (given[2 * dimension], given[2 * dimension + 1])


@translator("aten.histogram.bin_ct", source=_SOURCE)
def histogram(
    self: torch.Tensor,
    bins: int = 100,
    *,
    range: Sequence[float] | None = None,  # noqa: A002 - the schema's name
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return counts and edges of evenly spaced bins."""
    refuse_complex(self)
    rows = self.reshape(-1, 1)
    edges = _edges(rows[:, 0], bins, _bounds(range, 0))
    return _counted(rows, [edges], weight, density), edges


@translator("aten.histogram.bins_tensor", source=_SOURCE)
def histogram_edges(
    self: torch.Tensor, bins: torch.Tensor, *, weight: torch.Tensor | None = None, density: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return counts in bins of the given edges, and the edges."""
    refuse_complex(self)
    return _counted(self.reshape(-1, 1), [bins], weight, density), bins.clone()


@translator("aten._histogramdd_bin_edges.default", source=_SOURCE)
def histogramdd_edges(
    self: torch.Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,  # noqa: A002 - the schema's name
    weight: torch.Tensor | None = None,  # noqa: ARG001 - edges do not depend on it
    density: bool = False,  # noqa: ARG001 - edges do not depend on it
) -> list[torch.Tensor]:
    """Return the edges of evenly spaced bins in each dimension of points [..., dimensions]."""
    rows = self.reshape(-1, self.size(-1))
    return [_edges(rows[:, d], count, _bounds(range, d)) for d, count in enumerate(bins)]


@translator("aten._histogramdd_from_bin_cts.default", source=_SOURCE)
def histogramdd_counts(
    self: torch.Tensor,
    bins: Sequence[int],
    *,
    range: Sequence[float] | None = None,  # noqa: A002 - the schema's name
    weight: torch.Tensor | None = None,
    density: bool = False,
) -> torch.Tensor:
    """Return counts of points [..., dimensions] in evenly spaced bins."""
    edges = histogramdd_edges(self, bins, range=range)
    return _counted(self.reshape(-1, self.size(-1)), edges, weight, density)


@translator("aten._histogramdd_from_bin_tensors.default", source=_SOURCE)
def histogramdd_given(
    self: torch.Tensor, bins: Sequence[torch.Tensor], *, weight: torch.Tensor | None = None, density: bool = False
) -> torch.Tensor:
    """Return counts of points [..., dimensions] in bins of the given edges."""
    return _counted(self.reshape(-1, self.size(-1)), bins, weight, density)
