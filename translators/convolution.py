"""Decides how the convolutions that PyTorch names after their CPU kernels are served: by the device's own convolution.

Imported by translators.families.
"""

from __future__ import annotations

from typing import Any

import torch
from neuron_ops.translators.registry import translator

_OWN = "definition, by convolution"


def _convolved(
    self: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: Any, padding: Any, dilation: Any,
    *, transposed: bool = False, output_padding: Any = None,
) -> torch.Tensor:  # fmt: skip
    """Return the convolution of one group; an input without a batch dimension gets one for the call."""
    size = weight.dim() - 2
    alone = self.dim() == size + 1
    x = self.unsqueeze(0) if alone else self
    sizes = [list(v) if len(v) == size else [v[0]] * size for v in (stride, padding, dilation, output_padding or [0])]
    result: torch.Tensor = torch.ops.aten.convolution.default(
        x, weight, bias, sizes[0], sizes[1], sizes[2], transposed, sizes[3], 1
    )
    result = result.squeeze(0) if alone else result
    return result.contiguous() if size == 3 else result  # as ATen's kernels of three dimensions


@translator("aten._convolution.default", source=_OWN)
def convolution(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: Any, padding: Any, dilation: Any,  # noqa: A002
    transposed: bool, output_padding: Any, groups: int, benchmark: bool, deterministic: bool, cudnn_enabled: bool,
    allow_tf32: bool,
) -> torch.Tensor:  # fmt: skip
    """Return the convolution; the four flags are for libraries that the device has not."""
    del benchmark, deterministic, cudnn_enabled, allow_tf32
    found: torch.Tensor = torch.ops.aten.convolution.default(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    return found


@translator("aten.convolution_overrideable.default", source=_OWN)
def convolution_overrideable(
    input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, stride: Any, padding: Any, dilation: Any,  # noqa: A002
    transposed: bool, output_padding: Any, groups: int,
) -> torch.Tensor:  # fmt: skip
    """Return the convolution."""
    found: torch.Tensor = torch.ops.aten.convolution.default(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups
    )
    return found


@translator("aten.slow_conv3d_forward.default", "aten._slow_conv2d_forward.default", source=_OWN)
def slow_conv_forward(
    self: torch.Tensor, weight: torch.Tensor, kernel_size: Any, bias: torch.Tensor | None, stride: Any, padding: Any
) -> torch.Tensor:
    """Return the convolution without dilation."""
    if weight.dim() == 2:  # the CPU's form keeps the weight as a matrix
        weight = weight.view(weight.size(0), -1, *kernel_size)
    return _convolved(self, weight, bias, stride, padding, [1])


@translator("aten.slow_conv_dilated2d.default", source=_OWN)
def slow_conv_dilated2d(
    self: torch.Tensor, weight: torch.Tensor, kernel_size: Any, bias: torch.Tensor | None = None, stride: Any = (1, 1),
    padding: Any = (0, 0), dilation: Any = (1, 1),
) -> torch.Tensor:  # fmt: skip
    """Return the dilated convolution."""
    del kernel_size
    return _convolved(self, weight, bias, stride, padding, dilation)


@translator("aten.slow_conv_dilated3d.default", source=_OWN)
def slow_conv_dilated3d(
    self: torch.Tensor, weight: torch.Tensor, kernel_size: Any, bias: torch.Tensor | None = None,
    stride: Any = (1, 1, 1), padding: Any = (0, 0, 0), dilation: Any = (1, 1, 1),
) -> torch.Tensor:  # fmt: skip
    """Return the dilated convolution."""
    del kernel_size
    return _convolved(self, weight, bias, stride, padding, dilation)


@translator("aten.slow_conv_transpose2d.default", source=_OWN)
def slow_conv_transpose2d(
    self: torch.Tensor, weight: torch.Tensor, kernel_size: Any, bias: torch.Tensor | None = None, stride: Any = (1, 1),
    padding: Any = (0, 0), output_padding: Any = (0, 0), dilation: Any = (1, 1),
) -> torch.Tensor:  # fmt: skip
    """Return the transposed convolution."""
    del kernel_size
    return _convolved(self, weight, bias, stride, padding, dilation, transposed=True, output_padding=output_padding)


@translator("aten.slow_conv_transpose3d.default", source=_OWN)
def slow_conv_transpose3d(
    self: torch.Tensor, weight: torch.Tensor, kernel_size: Any, bias: torch.Tensor | None = None,
    stride: Any = (1, 1, 1), padding: Any = (0, 0, 0), output_padding: Any = (0, 0, 0), dilation: Any = (1, 1, 1),
) -> torch.Tensor:  # fmt: skip
    """Return the transposed convolution."""
    del kernel_size
    return _convolved(self, weight, bias, stride, padding, dilation, transposed=True, output_padding=output_padding)
