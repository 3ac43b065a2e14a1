"""Decides how images and volumes are sampled at the places of a grid, and both gradients: corners gathered and scattered.

Imported by translators.families.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import Refused, translator

_CORNERS = "Jaderberg et al. 2015, the weighted corners of each place"
_ZEROS, _BORDER, _REFLECTION = range(3)
_BILINEAR, _NEAREST = range(2)


def _place(
    grid: torch.Tensor, size: int, padding: int, align: bool, lost: float
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return places in elements and their derivative by the grid; `lost` is where padding puts NaN."""
    scale = (size - 1) / 2 if align else size / 2
    place = (grid + 1) * scale - (0 if align else 0.5)
    slope = torch.full_like(place, scale)
    if padding == _REFLECTION:
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        if high == low:
            place, slope = torch.zeros_like(place), torch.zeros_like(slope)
        else:
            off = place - low
            slope = torch.where(off < 0, -slope, slope)
            off, span = off.abs(), high - low
            turns = torch.floor(off / span)
            rest, even = off - turns * span, torch.remainder(turns, 2) == 0
            place, slope = torch.where(even, rest + low, high - rest), torch.where(even, slope, -slope)
    if padding != _ZEROS:
        slope = torch.where((place <= 0) | (place >= size - 1), 0.0, slope)
        place = torch.where(place != place, lost, torch.clamp(place, 0, size - 1))
    return place, slope


class _Corner:
    """One corner of every place: its index into the flattened image, whether it is inside, weight and the weight's slopes."""

    def __init__(self, offsets: tuple[int, ...], places: list[torch.Tensor], sizes: list[int], nearest: bool) -> None:
        index: torch.Tensor | None = None
        inside = torch.ones_like(places[0]) > 0
        parts, slopes = [], []
        for offset, place, size in zip(offsets, places, sizes, strict=True):
            low = torch.round(place) if nearest else torch.floor(place)
            at = low + offset
            inside = inside & (at >= 0) & (at < size)
            # A place that is not a number has no index; clamping keeps NaN, and its integer is outside of memory.
            whole = torch.where((at >= 0) & (at < size), at, 0.0).to(torch.int64)
            index = whole if index is None else index * size + whole
            share = place - low
            parts.append(share if offset else 1 - share)
            slopes.append(1.0 if offset else -1.0)
        assert index is not None
        self.index, self.inside, self.parts, self.slopes, self.nearest = index, inside, parts, slopes, nearest

    def weight(self, without: int = -1) -> torch.Tensor | None:
        """Return the product of the shares, but that of one dimension; None for one."""
        if self.nearest:
            return None
        kept = [part for number, part in enumerate(self.parts) if number != without]
        return functools.reduce(operator.mul, kept) if kept else None


def _corners(
    input: torch.Tensor, grid: torch.Tensor, mode: int, padding: int, align: bool, lost: float | None = None  # noqa: A002
) -> tuple[list[_Corner], list[torch.Tensor]]:  # fmt: skip
    if mode not in (_BILINEAR, _NEAREST):
        raise Refused("bicubic sampling stays with the host")
    refuse_complex(input)
    sizes, wide = list(input.shape[2:]), computing(grid.dtype)
    flat = grid.to(wide).reshape(grid.size(0), math.prod(grid.shape[1:-1]), grid.size(-1))
    # The grid's last dimension counts x first, the image's dimensions end with x.
    # ATen's kernel of images puts NaN at the first element, that of volumes at the last; its gradient puts it nowhere.
    found = [
        _place(
            flat[..., len(sizes) - 1 - n],
            size,
            padding,
            align,
            (0.0 if len(sizes) == 2 else size - 1.0) if lost is None else lost,
        )
        for n, size in enumerate(sizes)
    ]
    places, slopes = [f[0] for f in found], [f[1] for f in found]
    offsets = [(0,) * len(sizes)] if mode == _NEAREST else list(itertools.product((0, 1), repeat=len(sizes)))
    return [_Corner(offset, places, sizes, mode == _NEAREST) for offset in offsets], slopes


def _flat(x: torch.Tensor) -> torch.Tensor:
    return x.to(computing(x.dtype)).reshape(*x.shape[:2], math.prod(x.shape[2:]))


def _gathered(flat: torch.Tensor, corner: _Corner) -> torch.Tensor:
    index = corner.index.unsqueeze(1).expand(-1, flat.size(1), -1)
    return torch.where(corner.inside.unsqueeze(1), torch.gather(flat, 2, index), 0.0)


def _counted(part: torch.Tensor, inside: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """Return a corner's part. One outside is nothing in a volume; in an image it is zero times its weight, perhaps NaN."""
    return part if grid.dim() == 4 else torch.where(inside, part, 0.0)


@translator("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default", source=_CORNERS)
def grid_sampler(
    input: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool  # noqa: A002
) -> torch.Tensor:  # fmt: skip
    """Return the values (N, C, …grid) at the grid's places, which run from -1 to 1 over the image."""
    corners, _ = _corners(input, grid, interpolation_mode, padding_mode, align_corners)
    flat = _flat(input)
    total: torch.Tensor | None = None
    for corner in corners:
        value, weight = _gathered(flat, corner), corner.weight()
        value = value if weight is None else _counted(value * weight.unsqueeze(1), corner.inside.unsqueeze(1), grid)
        total = value if total is None else total + value
    assert total is not None
    return total.to(input.dtype).view(*input.shape[:2], *grid.shape[1:-1])


@translator(
    "aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default", source="derivative of " + _CORNERS
)
def grid_sampler_backward(
    grad_output: torch.Tensor, input: torch.Tensor, grid: torch.Tensor, interpolation_mode: int, padding_mode: int,  # noqa: A002
    align_corners: bool, output_mask: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor]:  # fmt: skip
    """Return the gradients of image and grid; that of the image only where the mask asks for it."""
    corners, slopes = _corners(input, grid, interpolation_mode, padding_mode, align_corners, math.nan)
    flat = _flat(input)
    grad = _flat(grad_output)
    image, places = torch.zeros_like(flat), [torch.zeros_like(slope) for slope in slopes]
    steps = [torch.zeros_like(grad) for _ in slopes]
    for corner in corners:
        weight = corner.weight()
        part = grad if weight is None else grad * weight.unsqueeze(1)
        part = torch.where(corner.inside.unsqueeze(1), part, 0.0)
        if output_mask[0]:
            image = torch.scatter_add(image, 2, corner.index.unsqueeze(1).expand(-1, flat.size(1), -1), part)
        if interpolation_mode == _BILINEAR:
            values = _gathered(flat, corner)
            for number, slope in enumerate(corner.slopes):
                others = corner.weight(without=number)
                assert others is not None
                # ATen adds an image's corners before it multiplies by the gradient, a volume's after.
                if grid.dim() == 4:
                    steps[number] = steps[number] + values * (others * slope).unsqueeze(1)
                else:
                    step = torch.sum(values * grad, 1) * others * slope
                    places[number] = places[number] + torch.where(corner.inside, step, 0.0)
    if grid.dim() == 4 and interpolation_mode == _BILINEAR:
        places = [torch.sum(step * grad, 1) for step in steps]
    by_grid = torch.stack([place * slope for place, slope in zip(reversed(places), reversed(slopes), strict=True)], -1)
    image_grad = image.view(input.shape).to(input.dtype) if output_mask[0] else None
    return image_grad, by_grid.to(grid.dtype).view(grid.shape)
