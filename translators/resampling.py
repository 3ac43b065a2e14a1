"""Decides how images are resized, and the gradients: dimension by dimension, in taps.

Imported by translators.families. A tap is a source index and a weight for each target index; both come from sizes alone.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import Refused, translator

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CUBIC = -0.75
"""The coefficient of ATen's bicubic kernel (Keys 1981); antialiased resizing uses -0.5."""


class Taps(NamedTuple):
    """For each target index the source index (int64) and the weight of each tap; lists of 1-d tensors on the device.

    Where `used` is false a tap counts for nothing, even if its source is not a number.
    """

    indices: list[torch.Tensor]
    weights: list[torch.Tensor | None]
    used: list[torch.Tensor] | None = None


_MOST_TAPS = 32
"""More than these are one matrix product; it spreads what is not a number over all targets."""


def _ratio(size: int, target: int, align: bool, scale: float | None) -> float:
    if align:
        return (size - 1) / (target - 1) if target > 1 else 0.0
    return 1 / scale if scale is not None and scale > 0 else size / target


def _places(target: int, device: torch.device) -> torch.Tensor:
    return torch.arange(target, dtype=torch.float32, device=device)


def _nearest(size: int, target: int, scale: float | None, device: torch.device, exact: bool) -> Taps:
    ratio = 1 / scale if scale is not None and scale > 0 else size / target
    place = _places(target, device)
    source = torch.floor((place + 0.5) * ratio if exact else place * ratio)
    return Taps([torch.clamp(source, 0, size - 1).to(torch.int64)], [None])


def _linear(size: int, target: int, align: bool, scale: float | None, device: torch.device) -> Taps:
    ratio, place = _ratio(size, target, align, scale), _places(target, device)
    source = place * ratio if align else torch.clamp((place + 0.5) * ratio - 0.5, min=0)
    low = torch.clamp(torch.floor(source), max=size - 1)
    share = torch.clamp(source - low, 0, 1)
    high = torch.clamp(low + 1, max=size - 1)
    return Taps([low.to(torch.int64), high.to(torch.int64)], [1 - share, share])


def _cubic(size: int, target: int, align: bool, scale: float | None, device: torch.device) -> Taps:
    ratio, place = _ratio(size, target, align, scale), _places(target, device)
    source = place * ratio if align else (place + 0.5) * ratio - 0.5
    low = torch.floor(source)
    share = torch.clamp(source - low, 0, 1)
    taps = Taps([], [])
    for offset in range(-1, 3):
        taps.indices.append(torch.clamp(low + offset, 0, size - 1).to(torch.int64))
        taps.weights.append(_cubic_weight((share - offset).abs(), _CUBIC))
    return taps


def _cubic_weight(x: torch.Tensor, a: float) -> torch.Tensor:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return torch.where(x <= 1, near, torch.where(x < 2, far, 0.0))


def _triangle(x: torch.Tensor) -> torch.Tensor:
    return torch.clamp(1 - x.abs(), min=0)


def _keys(x: torch.Tensor) -> torch.Tensor:
    return _cubic_weight(x.abs(), -0.5)


def _lanczos(x: torch.Tensor) -> torch.Tensor:
    angle = x * math.pi
    safe = torch.where(x == 0, 1.0, angle)
    value = 3 * torch.sin(safe) * torch.sin(safe / 3) / (safe * safe)
    return torch.where(x == 0, 1.0, torch.where(x.abs() < 3, value, 0.0))


def _antialiased(
    size: int, target: int, align: bool, scale: float | None, device: torch.device,
    kernel: Callable[[torch.Tensor], torch.Tensor], support: float,
) -> Taps:  # fmt: skip
    """Return taps of a kernel widened by the ratio, as Pillow's resize: its weights sum to one."""
    ratio = _ratio(size, target, align, scale)
    stretch = max(ratio, 1.0)
    reach = support * stretch
    center = ratio * (_places(target, device) + 0.5)
    if math.ceil(reach) * 2 + 1 > _MOST_TAPS:
        return _matrix(size, center, reach, lambda x: kernel(x / stretch))
    first = torch.clamp(torch.floor(center - reach + 0.5), min=0)
    last = torch.clamp(torch.floor(center + reach + 0.5), max=size)
    indices, weights, used = [], [], []
    for offset in range(math.ceil(reach) * 2 + 1):
        index = first + offset
        weight = kernel((index - center + 0.5) / stretch)
        indices.append(torch.clamp(index, max=size - 1).to(torch.int64))
        weights.append(torch.where(index < last, weight, 0.0))
        used.append(index < last)
    total = weights[0]
    for weight in weights[1:]:
        total = total + weight
    return Taps(indices, [weight / total for weight in weights], used)


def _matrix(size: int, center: torch.Tensor, reach: float, kernel: Callable[[torch.Tensor], torch.Tensor]) -> Taps:
    """Return the taps of all sources at once: no indices, and one weight matrix of targets × sources."""
    index, middle = _places(size, center.device), center.unsqueeze(1)
    inside = (index >= torch.floor(middle - reach + 0.5)) & (index < torch.floor(middle + reach + 0.5))
    weights = torch.where(inside, kernel(index - middle + 0.5), 0.0)
    return Taps([], [weights / torch.sum(weights, 1, keepdim=True)])


def _spread(grad: torch.Tensor, dim: int, size: int, taps: Taps) -> torch.Tensor:
    """Return the gradient along one dimension: each target's, times the weight, added to the tap's source."""
    if not taps.indices:
        assert taps.weights[0] is not None
        return torch.matmul(grad.movedim(dim, -1), taps.weights[0].to(grad.dtype)).movedim(-1, dim)
    shape = list(grad.shape)
    shape[dim] = size
    result = torch.zeros(shape, dtype=grad.dtype, device=grad.device)
    for number, (index, weight) in enumerate(zip(taps.indices, taps.weights, strict=True)):
        part = _weighted(grad, dim, weight, taps, number)
        result = torch.index_add(result, dim, index, part)
    return result


def _gather(x: torch.Tensor, dim: int, taps: Taps) -> torch.Tensor:
    if not taps.indices:
        assert taps.weights[0] is not None
        return torch.matmul(x.movedim(dim, -1), taps.weights[0].to(x.dtype).t()).movedim(-1, dim)
    result: torch.Tensor | None = None
    for number, (index, weight) in enumerate(zip(taps.indices, taps.weights, strict=True)):
        part = _weighted(torch.index_select(x, dim, index), dim, weight, taps, number)
        result = part if result is None else result + part
    assert result is not None
    return result


def _weighted(x: torch.Tensor, dim: int, weight: torch.Tensor | None, taps: Taps, number: int) -> torch.Tensor:
    if weight is None:
        return x
    shape = [1] * x.dim()
    shape[dim] = -1
    part = x * weight.to(x.dtype).view(shape)
    return part if taps.used is None else torch.where(taps.used[number].view(shape), part, 0.0)


def formatted(result: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """Return the result in the memory format of an image: channels last where `like` has them last, else contiguous."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(result.dim())
    if last is not None and like.dim() == result.dim() and _is_last(like, last):
        return result.contiguous(memory_format=last)
    return result.contiguous()


def _is_last(tensor: torch.Tensor, last: torch.memory_format) -> bool:
    return tensor.is_contiguous(memory_format=last) and not tensor.is_contiguous()


def _backward(
    grad_output: torch.Tensor, input_size: Sequence[int], taps: Callable[[int, int, int], Taps], *, keeps: bool = True
) -> torch.Tensor:
    """Return the gradient; `taps` gets the number of the dimension, its size before and after resizing.

    `keeps`: ATen's kernel keeps the memory format of the gradient.
    """
    refuse_complex(grad_output)
    grad = grad_output.to(computing(grad_output.dtype))
    for number, size in enumerate(input_size[2:]):
        grad = _spread(grad, number + 2, size, taps(number, size, grad_output.size(number + 2)))
    grad = grad.to(grad_output.dtype)
    return formatted(grad, grad_output) if keeps else grad.contiguous()


def _forward(x: torch.Tensor, output_size: Sequence[int], taps: Callable[[int, int, int], Taps]) -> torch.Tensor:
    refuse_complex(x)
    if not x.dtype.is_floating_point:
        raise Refused("resizing of integers rounds on the way; it stays with the host")
    result = x.to(computing(x.dtype))
    for number in reversed(range(len(output_size))):
        size, target = x.size(number + 2), output_size[number]
        result = _gather(result, number + 2, taps(number, size, target))
    return formatted(result.to(x.dtype), x)


def _bilinear(x: torch.Tensor, taps: Sequence[Taps]) -> torch.Tensor:
    """Return images resized as ATen adds: four neighbours, each times the product of its two weights."""
    refuse_complex(x)
    if not x.dtype.is_floating_point:
        raise Refused("resizing of integers rounds on the way; it stays with the host")
    wide, total = x.to(computing(x.dtype)), None
    for row, by_row in zip(taps[0].indices, taps[0].weights, strict=True):
        rows = torch.index_select(wide, 2, row)
        for column, by_column in zip(taps[1].indices, taps[1].weights, strict=True):
            assert by_row is not None
            assert by_column is not None
            part = torch.index_select(rows, 3, column) * (by_row.unsqueeze(1) * by_column).to(wide.dtype)
            total = part if total is None else total + part
    assert total is not None
    return formatted(total.to(x.dtype), x)


def _register_nearest(exact: bool) -> None:
    prefix = "_upsample_nearest_exact" if exact else "upsample_nearest"

    def resized(self: torch.Tensor, sizes: Sequence[int], scales: Sequence[float | None]) -> torch.Tensor:
        refuse_complex(self)
        result = self
        for number, (size, scale) in enumerate(zip(sizes, scales, strict=True), 2):
            result = _gather(result, number, _nearest(self.size(number), size, scale, self.device, exact))
        return formatted(result, self)

    def resize1d(self: Any, output_size: Any, scales: float | None = None) -> torch.Tensor:
        return resized(self, output_size, (scales,))

    def resize2d(
        self: Any, output_size: Any, scales_h: float | None = None, scales_w: float | None = None
    ) -> torch.Tensor:
        return resized(self, output_size, (scales_h, scales_w))

    def resize3d(
        self: Any, output_size: Any, scales_d: float | None = None, scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:  # fmt: skip
        return resized(self, output_size, (scales_d, scales_h, scales_w))

    forward: tuple[Callable[..., torch.Tensor], ...] = (resize1d, resize2d, resize3d)
    for number, function in enumerate(forward, 1):
        translator(f"aten.{prefix}{number}d.default", source="definition: the nearest source")(function)


def _register_nearest_backward(exact: bool) -> None:
    prefix = "_upsample_nearest_exact" if exact else "upsample_nearest"

    def run(grad: torch.Tensor, size: Sequence[int], scales: Sequence[float | None]) -> torch.Tensor:
        def taps(number: int, before: int, after: int) -> Taps:
            return _nearest(before, after, scales[number], grad.device, exact)

        return _backward(grad, size, taps, keeps=len(size) < 5)

    def one(grad_output: Any, output_size: Any, input_size: Any, scales: float | None = None) -> torch.Tensor:
        del output_size
        return run(grad_output, input_size, (scales,))

    def two(
        grad_output: Any,
        output_size: Any,
        input_size: Any,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:
        del output_size
        return run(grad_output, input_size, (scales_h, scales_w))

    def three(
        grad_output: Any, output_size: Any, input_size: Any, scales_d: float | None = None,
        scales_h: float | None = None, scales_w: float | None = None,
    ) -> torch.Tensor:  # fmt: skip
        del output_size
        return run(grad_output, input_size, (scales_d, scales_h, scales_w))

    registered: tuple[Callable[..., torch.Tensor], ...] = (one, two, three)
    for number, function in enumerate(registered, 1):
        name = f"aten.{prefix}{number}d_backward.default"
        translator(name, source="transpose of nearest-neighbour resizing")(function)


for _exact in (False, True):
    _register_nearest(_exact)
    _register_nearest_backward(_exact)


@translator("aten.upsample_linear1d_backward.default", source="transpose of linear interpolation")
def linear1d_backward(
    grad_output: torch.Tensor, output_size: Any, input_size: Any, align_corners: bool, scales: float | None = None
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of linear resizing."""
    del output_size
    return _backward(grad_output, input_size, lambda _, a, b: _linear(a, b, align_corners, scales, grad_output.device))


@translator("aten.upsample_trilinear3d_backward.default", source="transpose of linear interpolation")
def trilinear3d_backward(
    grad_output: torch.Tensor, output_size: Any, input_size: Any, align_corners: bool, scales_d: float | None = None,
    scales_h: float | None = None, scales_w: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of trilinear resizing."""
    del output_size
    scales = (scales_d, scales_h, scales_w)
    return _backward(
        grad_output, input_size, lambda n, a, b: _linear(a, b, align_corners, scales[n], grad_output.device)
    )


@translator("aten.upsample_linear1d.default", source="linear interpolation")
def linear1d(
    self: torch.Tensor, output_size: Any, align_corners: bool, scales: float | None = None
) -> torch.Tensor:  # fmt: skip
    """Return self resized, each value from its two neighbours."""
    return _forward(self, output_size, lambda _, a, b: _linear(a, b, align_corners, scales, self.device))


@translator("aten.upsample_trilinear3d.default", source="linear interpolation")
def trilinear3d(
    self: torch.Tensor, output_size: Any, align_corners: bool, scales_d: float | None = None,
    scales_h: float | None = None, scales_w: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return volumes resized, each value from its neighbours along one dimension after the other."""
    scales = (scales_d, scales_h, scales_w)
    return _forward(self, output_size, lambda n, a, b: _linear(a, b, align_corners, scales[n], self.device))


@translator("aten.upsample_bilinear2d.default", source="linear interpolation")
def bilinear2d(
    self: torch.Tensor, output_size: Any, align_corners: bool, scales_h: float | None = None,
    scales_w: float | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return images resized, each value from its four neighbours."""
    sizes, scales = self.shape[2:], (scales_h, scales_w)
    return _bilinear(self, [_linear(sizes[n], output_size[n], align_corners, scales[n], self.device) for n in range(2)])


def _planar(make: Callable[[int, int, bool, float | None, torch.device], Taps], name: str, *, forward: bool) -> None:
    """Register the gradient of a resizing of images, and with `forward` the resizing too."""

    def backward(
        grad_output: torch.Tensor, output_size: Any, input_size: Any, align_corners: bool,
        scales_h: float | None = None, scales_w: float | None = None,
    ) -> torch.Tensor:  # fmt: skip
        del output_size
        scales = (scales_h, scales_w)
        return _backward(
            grad_output, input_size, lambda n, a, b: make(a, b, align_corners, scales[n], grad_output.device),
            keeps="bilinear2d" in name,
        )  # fmt: skip

    def resize(
        self: torch.Tensor, output_size: Any, align_corners: bool, scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> torch.Tensor:  # fmt: skip
        scales = (scales_h, scales_w)
        return _forward(self, output_size, lambda n, a, b: make(a, b, align_corners, scales[n], self.device))

    translator(f"aten.{name}_backward.default", source="transpose of the interpolation")(backward)
    if forward:
        translator(f"aten.{name}.default", source="Pillow's convolution resize")(resize)


_planar(_linear, "upsample_bilinear2d", forward=False)
_planar(_cubic, "upsample_bicubic2d", forward=False)
for _name, _kernel, _support in (
    ("bilinear2d", _triangle, 1.0),
    ("bicubic2d", _keys, 2.0),
    ("lanczos2d", _lanczos, 3.0),
):
    _planar(
        lambda a, b, align, scale, device, kernel=_kernel, support=_support: _antialiased(  # type: ignore[misc]
            a, b, align, scale, device, kernel, support
        ),
        f"_upsample_{_name}_aa",
        forward=True,
    )
