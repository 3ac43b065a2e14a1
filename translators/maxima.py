"""Decides how maximum pooling is computed: a running maximum over the places of the kernel, with the index of each.

Windows that are not all of one size, or that start at random, gather their places from the flat image.

Imported by translators.families.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from neuron_ops.translators.pooling import _picked_backward, _pooled_size, _sizes
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import Refused, translator
from neuron_ops.translators.resampling import formatted

_RUNNING = "definition, a running maximum over strided slices"


def _max_pool(
    self: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, number: int
) -> tuple[torch.Tensor, torch.Tensor]:
    refuse_complex(self)
    kernel, inner = _sizes(kernel_size, number), list(self.shape[-number:])
    steps = _sizes(stride, number) if not isinstance(stride, int) and len(stride) else kernel
    pads, gaps = _sizes(padding, number), _sizes(dilation, number)
    widths = [gap * (k - 1) + 1 for gap, k in zip(gaps, kernel, strict=True)]
    outer = [_pooled_size(s, w, t, p, ceil) for s, w, t, p in zip(inner, widths, steps, pads, strict=True)]
    reach = [max((o - 1) * t + w, s + 2 * p) for o, t, w, s, p in zip(outer, steps, widths, inner, pads, strict=True)]
    sides = [
        side
        for s, p, r in zip(reversed(inner), reversed(pads), reversed(reach), strict=True)
        for side in (p, r - s - p)
    ]
    places = torch.arange(math.prod(inner), device=self.device).view(inner)
    x, place = torch.constant_pad_nd(self, sides, 0), torch.constant_pad_nd(places, sides, -1)
    best: torch.Tensor | None = None
    for offset in itertools.product(*map(range, kernel)):
        index: tuple[Any, ...] = (
            ...,
            *(slice(k * g, k * g + (o - 1) * t + 1, t) for k, g, o, t in zip(offset, gaps, outer, steps, strict=True)),
        )
        value, here = x[index], place[index].expand(x[index].shape)
        if best is None:
            best, where = value, here
            continue
        take = (here >= 0) & ((where < 0) | (value > best) | (value != value))
        best, where = torch.where(take, value, best), torch.where(take, here, where)
    assert best is not None
    return formatted(best, self), formatted(where, self)


@translator("aten.max_pool2d_with_indices.default", source=_RUNNING)
def max_pool2d(
    self: torch.Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of windows of images, and where they are: the first of equals, the last NaN."""
    return _max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, 2)


@translator("aten.max_pool3d_with_indices.default", source=_RUNNING)
def max_pool3d(
    self: torch.Tensor, kernel_size: Any, stride: Any = (), padding: Any = (0, 0, 0), dilation: Any = (1, 1, 1),
    ceil_mode: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the maxima of windows of volumes, and where they are: the first of equals, the last NaN."""
    return _max_pool(self, kernel_size, stride, padding, dilation, ceil_mode, 3)


@translator("aten.max_pool2d_with_indices_backward.default", source="transpose of picking the maxima, by scatter_add")
def max_pool2d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of maximum pooling of images."""
    del kernel_size, stride, padding, dilation, ceil_mode
    return _picked_backward(grad_output, self, indices, 2)


def _along(
    value: torch.Tensor, index: torch.Tensor, places: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of `places`, [outs, K], along a dimension, and their entries of `index`."""
    outs, most = places.shape
    split = [*value.shape[:dim], outs, most, *value.shape[dim + 1 :]]
    values, indices = (torch.index_select(t, dim, places.reshape(-1)).view(split) for t in (value, index))
    top = torch.amax(values, dim + 1, keepdim=True)
    k = torch.arange(most, device=value.device).view([-1] + [1] * (value.dim() - dim - 1))
    first = torch.amin(torch.where(values == top, k, most - 1), dim + 1, keepdim=True)
    last_nan = torch.amax(torch.where(values != values, k, 0), dim + 1, keepdim=True)
    pick = torch.where(top != top, last_nan, first)
    return top.squeeze(dim + 1), torch.gather(indices, dim + 1, pick).squeeze(dim + 1)


@translator("aten.adaptive_max_pool2d.default", source="definition, one dimension after the other")
def adaptive_max_pool2d(self: torch.Tensor, output_size: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of windows that divide images evenly, and where they are: the first of equals, the last NaN."""
    refuse_complex(self)
    if not math.prod(self.shape[-2:]):
        raise Refused("maxima of no places stay with the host")
    if not self.numel() or not all(output_size):
        best = self.new_empty([*self.shape[:-2], *output_size])
        return formatted(best, self), formatted(torch.empty_like(best, dtype=torch.int64), self)
    best = self
    where = torch.arange(math.prod(self.shape[-2:]), device=self.device).view(self.shape[-2:]).expand(self.shape)
    for dim in (self.dim() - 1, self.dim() - 2):
        size, out = self.size(dim), output_size[dim - self.dim()]
        first = [i * size // out for i in range(out)]
        most = max(-(-(i + 1) * size // out) - first[i] for i in range(out))
        number = torch.arange(out, device=self.device).unsqueeze(1)
        start = torch.div(number * size, out, rounding_mode="floor")
        end = torch.div((number + 1) * size + out - 1, out, rounding_mode="floor")
        # A shorter window sees its last place again, which changes neither its maximum nor the place of it.
        places = torch.where(end - start > torch.arange(most, device=self.device),
                             start + torch.arange(most, device=self.device), end - 1)  # fmt: skip
        best, where = _along(best, where, places, dim)
    return formatted(best, self), formatted(where, self)


def _gathered(self: torch.Tensor, starts: list[torch.Tensor], kernel: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of windows and their places in the flat image: the first of equals, the last NaN.

    For each dimension `starts` has [..., outs], the first place of each window.
    """
    number = len(starts)
    inner, lead = self.shape[-number:], self.shape[:-number]
    outer = [s.size(-1) for s in starts]
    flat = self.reshape([*lead, math.prod(inner)])
    base = torch.zeros([1] * self.dim(), dtype=torch.int64, device=self.device)
    for d, start in enumerate(starts):
        base = base * inner[d] + start.view([*lead, *(outer[d] if n == d else 1 for n in range(number))])
    best: torch.Tensor | None = None
    for offset in itertools.product(*map(range, kernel)):
        step = 0
        for d, k in enumerate(offset):
            step = step * inner[d] + k
        index = base + step
        value = torch.gather(flat, -1, index.reshape([*lead, math.prod(outer)])).view(index.shape)
        if best is None:
            best, where = value, index
            continue
        take = (value > best) | (value != value)
        best, where = torch.where(take, value, best), torch.where(take, index, where)
    assert best is not None
    return best, where


def _fractional(
    self: torch.Tensor, kernel: Any, output_size: Any, random_samples: torch.Tensor, order: tuple[int, ...]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return fractional maxima; `order` says which sample belongs to which dimension."""
    refuse_complex(self)
    number = len(order)
    samples = random_samples.reshape([*self.shape[:-number], number])
    starts = []
    for d, (size, out, width) in enumerate(zip(self.shape[-number:], output_size, kernel, strict=True)):
        u = samples[..., order[d]].unsqueeze(-1)
        if out > 1:
            alpha = (size - width) / (out - 1)
            place = torch.arange(out, device=self.device)
            first = torch.trunc((place.to(u.dtype) + u) * alpha) - torch.trunc(u * alpha)
            starts.append(torch.where(place == out - 1, size - width, first.to(torch.int64)))
        else:
            starts.append(torch.full_like(u, size - width, dtype=torch.int64))
    best, where = _gathered(self, starts, list(kernel))
    return best.contiguous(), where.contiguous()


@translator("aten.fractional_max_pool2d.default", source="Graham 2014")
def fractional_max_pool2d(
    self: torch.Tensor, kernel_size: Any, output_size: Any, random_samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of windows of images that start at places drawn by the samples, and where they are."""
    return _fractional(self, kernel_size, output_size, random_samples, (1, 0))


@translator("aten.fractional_max_pool3d.default", source="Graham 2014")
def fractional_max_pool3d(
    self: torch.Tensor, kernel_size: Any, output_size: Any, random_samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the maxima of windows of volumes that start at places drawn by the samples, and where they are."""
    return _fractional(self, kernel_size, output_size, random_samples, (0, 1, 2))
