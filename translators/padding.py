"""Decides how gradients of padding by reflection and replication are computed: each border added to what it copied.

Imported by translators.families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator
from neuron_ops.translators.resampling import formatted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _backward(
    grad: torch.Tensor, self: torch.Tensor, padding: Sequence[int], source: Callable[[torch.Tensor, int], torch.Tensor]
) -> torch.Tensor:
    """Return the gradient; `source` gives for places counted from the input's first (below zero: padding) what they copied."""
    refuse_complex(grad)
    x = grad.to(computing(grad.dtype))
    for axis in range(len(padding) // 2):
        dim, before = self.dim() - 1 - axis, padding[2 * axis]
        place = torch.arange(grad.size(dim), device=grad.device) - before
        shape = list(x.shape)
        shape[dim] = self.size(dim)
        empty = torch.zeros(shape, dtype=x.dtype, device=x.device)
        x = torch.index_add(empty, dim, source(place, self.size(dim)), x)
    return formatted(x.to(self.dtype), self)


def _replicated(place: torch.Tensor, size: int) -> torch.Tensor:
    return torch.clamp(place, 0, size - 1)


def _reflected(place: torch.Tensor, size: int) -> torch.Tensor:
    inside = place.abs()
    return (size - 1) - (inside - (size - 1)).abs()


@translator(
    "aten.replication_pad1d_backward.default", "aten.replication_pad2d_backward.default", "aten.replication_pad3d_backward.default",
    source="transpose of copying the border",
)  # fmt: skip
def replication_pad_backward(grad_output: torch.Tensor, self: torch.Tensor, padding: Any) -> torch.Tensor:
    """Return the gradient of padding with the border's values."""
    return _backward(grad_output, self, padding, _replicated)


@translator(
    "aten.reflection_pad1d_backward.default", "aten.reflection_pad2d_backward.default", "aten.reflection_pad3d_backward.default",
    source="transpose of mirroring at the border",
)  # fmt: skip
def reflection_pad_backward(grad_output: torch.Tensor, self: torch.Tensor, padding: Any) -> torch.Tensor:
    """Return the gradient of padding with mirrored values."""
    return _backward(grad_output, self, padding, _reflected)
