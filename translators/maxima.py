"""Decides how maximum pooling is computed: a running maximum over the places of the kernel, with the index of each.

Imported by translators.families.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from neuron_ops.translators.pooling import _picked_backward, _pooled_size, _sizes
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import translator
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
