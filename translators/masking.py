"""Decides how softmax under a mask is computed.

Imported by translators.installation.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator


def _full_mask(self: torch.Tensor, mask: torch.Tensor, mask_type: int | None) -> torch.Tensor:
    """Return the mask in self's dimensions: kind 0 is [L, L], kind 1 [B, L] over keys of [B, H, L, L], kind 2 as self."""
    if mask_type == 1 and mask.dim() == 2 and self.dim() == 4:
        return mask.view(mask.size(0), 1, 1, mask.size(1))
    return mask


@translator("aten._masked_softmax.default", source="definition")
def masked_softmax(
    self: torch.Tensor, mask: torch.Tensor, dim: int | None = None, mask_type: int | None = None
) -> torch.Tensor:
    """Return the softmax of elements whose mask is not set, zero elsewhere; NaN where all are set."""
    refuse_complex(self)
    hidden = _full_mask(self, mask.to(torch.bool), mask_type)
    shown = torch.where(hidden, -math.inf, self.to(computing(self.dtype)))
    result = torch.softmax(shown, self.dim() - 1 if dim is None else dim)
    return torch.empty_like(self).copy_(result)  # ATen keeps the strides of self


@translator("aten._masked_softmax_backward.default", source="derivative")
def masked_softmax_backward(
    grad_output: torch.Tensor, output: torch.Tensor, mask: torch.Tensor, dim: int | None = None
) -> torch.Tensor:
    """Return the gradient of masked softmax: zero where the mask is set."""
    inner = computing(grad_output.dtype)
    hidden = mask.to(torch.bool)
    grad, probability = grad_output.to(inner), torch.where(hidden, 0.0, output.to(inner))
    total = torch.sum(grad * probability, grad_output.dim() - 1 if dim is None else dim, keepdim=True)
    return torch.where(hidden, 0.0, probability * (grad - total)).to(grad_output.dtype).contiguous()
