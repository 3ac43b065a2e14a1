"""Decides how average pooling and the gradients of all poolings are computed: sums of shifted slices, and scatters.

Imported by translators.families.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator
from neuron_ops.translators.resampling import formatted

if TYPE_CHECKING:
    from collections.abc import Sequence

_SUMS = "definition, a sum of strided slices"
_WINDOWS = "definition, the mean of each window of ATen's adaptive sizes"
_SCATTER = "transpose of picking the maxima, by scatter_add"


def _sizes(value: Any, number: int) -> list[int]:
    values = [value] * number if isinstance(value, int) else list(value)
    return values * number if len(values) == 1 else values


def _pooled_size(size: int, kernel: int, stride: int, padding: int, ceil: bool) -> int:
    """Return the windows along a dimension; with `ceil` a last one that starts inside the padded input."""
    count = (size + 2 * padding - kernel + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def _kept(result: torch.Tensor, self: torch.Tensor, number: int) -> torch.Tensor:
    """Return the result in the memory format of a batch of images; that of one image or of volumes is contiguous."""
    return formatted(result, self) if number == 2 and self.dim() == 4 else result.contiguous()


class _Windows:
    """The windows of an average pooling over the last dimensions of a tensor."""

    def __init__(self, shape: Sequence[int], kernel: Any, stride: Any, padding: Any, ceil: bool, number: int) -> None:
        self.number, self.inner = number, list(shape[-number:])
        self.kernel = _sizes(kernel, number)
        self.stride = _sizes(stride, number) if not isinstance(stride, int) and len(stride) else self.kernel
        self.padding = _sizes(padding, number)
        self.outer = [
            _pooled_size(s, k, t, p, ceil)
            for s, k, t, p in zip(self.inner, self.kernel, self.stride, self.padding, strict=True)
        ]
        # What a last window of ceil mode reads beyond the padding is padded too.
        self.reach = [
            max((o - 1) * t + k, s + 2 * p)
            for o, t, k, s, p in zip(self.outer, self.stride, self.kernel, self.inner, self.padding, strict=True)
        ]

    def pads(self) -> list[int]:
        """Return the padding of each side, last dimension first."""
        sides = []
        for size, padding, reach in zip(
            reversed(self.inner), reversed(self.padding), reversed(self.reach), strict=True
        ):
            sides += [padding, reach - size - padding]
        return sides

    def slices(self) -> list[tuple[Any, ...]]:
        """Return for each place of the kernel the index of that place in every window."""
        return [
            (..., *(slice(p, p + (o - 1) * t + 1, t) for p, o, t in zip(place, self.outer, self.stride, strict=True)))
            for place in itertools.product(*map(range, self.kernel))
        ]

    def divisor(self, include: bool, override: int | None, like: torch.Tensor) -> torch.Tensor | int:
        """Return what each window's sum is divided by."""
        if override is not None:
            return override
        counts: torch.Tensor | None = None
        for axis in range(self.number):
            start = torch.arange(self.outer[axis], device=like.device) * self.stride[axis] - self.padding[axis]
            low, high = (
                (start, self.inner[axis] + self.padding[axis])
                if include
                else (torch.clamp(start, min=0), self.inner[axis])
            )
            length = torch.clamp(start + self.kernel[axis], max=high) - low
            length = length.to(like.dtype).view([-1 if a == axis else 1 for a in range(self.number)])
            counts = length if counts is None else counts * length
        assert counts is not None
        return counts


def _average(
    self: torch.Tensor,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil: bool,
    include: bool,
    override: int | None,
    number: int,
) -> torch.Tensor:
    refuse_complex(self)
    if override == 0:
        raise RuntimeError("divisor must be not zero")
    windows = _Windows(self.shape, kernel, stride, padding, ceil, number)
    x = self.to(computing(self.dtype)) if self.dtype.is_floating_point else self
    x = torch.constant_pad_nd(x, windows.pads(), 0)
    total: torch.Tensor | None = None
    for index in windows.slices():
        total = x[index] if total is None else total + x[index]
    assert total is not None
    divisor = windows.divisor(include, override, total)
    result = total / divisor if self.dtype.is_floating_point else torch.div(total, divisor, rounding_mode="trunc")
    return _kept(result.to(self.dtype), self, number)


def _average_backward(
    grad: torch.Tensor, self: torch.Tensor, kernel: Any, stride: Any, padding: Any, ceil: bool, include: bool,
    override: int | None, number: int,
) -> torch.Tensor:  # fmt: skip
    refuse_complex(grad)
    windows = _Windows(self.shape, kernel, stride, padding, ceil, number)
    wide = grad.to(computing(grad.dtype))
    each = wide / windows.divisor(include, override, wide)
    padded = torch.zeros([*self.shape[:-number], *windows.reach], dtype=wide.dtype, device=grad.device)
    for index in windows.slices():
        padded[index] += each
    inside: tuple[Any, ...] = (..., *(slice(p, p + s) for p, s in zip(windows.padding, windows.inner, strict=True)))
    return _kept(padded[inside].to(grad.dtype), self, number)


@translator("aten.avg_pool2d.default", source=_SUMS)
def avg_pool2d(
    self: torch.Tensor, kernel_size: Any, stride: Any = (), padding: Any = (0, 0), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return the means of windows of images."""
    return _average(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2)


@translator("aten.avg_pool3d.default", source=_SUMS)
def avg_pool3d(
    self: torch.Tensor, kernel_size: Any, stride: Any = (), padding: Any = (0, 0, 0), ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return the means of windows of volumes."""
    return _average(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3)


@translator("aten.avg_pool2d_backward.default", source="transpose of " + _SUMS)
def avg_pool2d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of `avg_pool2d`."""
    return _average_backward(
        grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 2
    )


@translator("aten.avg_pool3d_backward.default", source="transpose of " + _SUMS)
def avg_pool3d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of `avg_pool3d`."""
    return _average_backward(
        grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, 3
    )


# --- adaptive --------------------------------------------------------------------------------------------------------


def _bounds(size: int, target: int) -> list[tuple[int, int]]:
    return [(i * size // target, math.ceil((i + 1) * size / target)) for i in range(target)]


def _adaptive(self: torch.Tensor, output_size: Sequence[int]) -> torch.Tensor:
    refuse_complex(self)
    number = len(output_size)
    sizes = [self.size(n - number) if t is None else t for n, t in enumerate(output_size)]
    x = self.to(computing(self.dtype))
    divisor = 1
    for axis, target in enumerate(sizes):
        dim = self.dim() - number + axis
        x = torch.stack([x.narrow(dim, a, b - a).sum(dim) for a, b in _bounds(self.size(dim), target)], dim)
        divisor = divisor * _lengths(self.size(dim), target, axis, number, x)
    return _kept((x / divisor).to(self.dtype), self, number)


def _lengths(size: int, target: int, axis: int, number: int, like: torch.Tensor) -> Any:
    """Return the windows' lengths along one axis, by integer arithmetic on the device."""
    place = torch.arange(target, device=like.device)
    low = torch.div(place * size, target, rounding_mode="floor")
    high = torch.div((place + 1) * size + target - 1, target, rounding_mode="floor")
    return (high - low).to(like.dtype).view([-1 if a == axis else 1 for a in range(number)])


def _adaptive_backward(grad: torch.Tensor, self: torch.Tensor, number: int) -> torch.Tensor:
    refuse_complex(grad)
    x = grad.to(computing(grad.dtype))
    for axis in range(number):
        x = x / _lengths(self.size(axis - number), grad.size(axis - number), axis, number, x)
    for axis in range(number):
        dim = self.dim() - number + axis
        shape = list(x.shape)
        shape[dim] = self.size(dim)
        spread = torch.zeros(shape, dtype=x.dtype, device=x.device)
        for place, (a, b) in enumerate(_bounds(self.size(dim), grad.size(dim))):
            spread.narrow(dim, a, b - a).add_(x.narrow(dim, place, 1))
        x = spread
    return _kept(x.to(grad.dtype), self, number)


@translator("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default", source=_WINDOWS)
def adaptive_avg_pool(self: torch.Tensor, output_size: Any) -> torch.Tensor:
    """Return the means of as many windows as asked for."""
    return _adaptive(self, output_size)


@translator("aten.adaptive_avg_pool2d.out", "aten.adaptive_avg_pool3d.out", source=_WINDOWS)
def adaptive_avg_pool_out(self: torch.Tensor, output_size: Any, *, out: torch.Tensor) -> torch.Tensor:
    """Write the means of as many windows as asked for."""
    result = _adaptive(self, output_size)
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


@translator("aten._adaptive_avg_pool2d_backward.default", source="transpose of the windows' means")
def adaptive_avg_pool2d_backward(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    """Return the gradient of adaptive average pooling of images."""
    return _adaptive_backward(grad_output, self, 2)


@translator("aten._adaptive_avg_pool3d_backward.default", source="transpose of the windows' means")
def adaptive_avg_pool3d_backward(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    """Return the gradient of adaptive average pooling of volumes."""
    return _adaptive_backward(grad_output, self, 3)


# --- maxima ----------------------------------------------------------------------------------------------------------


def _picked_backward(grad: torch.Tensor, self: torch.Tensor, indices: torch.Tensor, number: int) -> torch.Tensor:
    """Return the gradient added at the places that the forward picked, which count over the last `number` dimensions."""
    refuse_complex(grad)
    lead = self.shape[: self.dim() - number]
    places, targets = math.prod(self.shape[-number:]), math.prod(grad.shape[-number:])
    flat = torch.zeros([*lead, places], dtype=grad.dtype, device=grad.device)
    result = torch.scatter_add(flat, -1, indices.reshape([*lead, targets]), grad.reshape([*lead, targets]))
    return _kept(result.view(self.shape), self, number)


@translator("aten.max_pool3d_with_indices_backward.default", source=_SCATTER)
def max_pool3d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
    ceil_mode: bool, indices: torch.Tensor,
) -> torch.Tensor:  # fmt: skip
    """Return the gradient of maximum pooling of volumes."""
    del kernel_size, stride, padding, dilation, ceil_mode
    return formatted(_picked_backward(grad_output, self, indices, 3), self)


@translator("aten.adaptive_max_pool2d_backward.default", source=_SCATTER)
def adaptive_max_pool2d_backward(grad_output: torch.Tensor, self: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return the gradient of adaptive maximum pooling of images."""
    return _picked_backward(grad_output, self, indices, 2)


@translator("aten.adaptive_max_pool3d_backward.default", source=_SCATTER)
def adaptive_max_pool3d_backward(grad_output: torch.Tensor, self: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    """Return the gradient of adaptive maximum pooling of volumes."""
    return _picked_backward(grad_output, self, indices, 3)


@translator("aten.fractional_max_pool2d_backward.default", source=_SCATTER)
def fractional_max_pool2d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: Any, output_size: Any, indices: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of fractional maximum pooling of images."""
    del kernel_size, output_size
    return _picked_backward(grad_output, self, indices, 2).contiguous()


@translator("aten.fractional_max_pool3d_backward.default", source=_SCATTER)
def fractional_max_pool3d_backward(
    grad_output: torch.Tensor, self: torch.Tensor, kernel_size: Any, output_size: Any, indices: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of fractional maximum pooling of volumes."""
    del kernel_size, output_size
    return _picked_backward(grad_output, self, indices, 3).contiguous()
