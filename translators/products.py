"""Decides how matrix products joined with a sum or an activation are computed from bmm and mm.

Imported by translators.installation.
"""

from __future__ import annotations

from typing import Any

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a @ b for matrices or batches; integers, which the device's matrix unit does not take, by sums of products."""
    if a.dtype.is_floating_point:
        inner = computing(a.dtype)
        return torch.matmul(a.to(inner), b.to(inner))
    return torch.sum(a.unsqueeze(-1) * b.unsqueeze(-3), -2, dtype=a.dtype)


def _joined(self: torch.Tensor, product: torch.Tensor, beta: Any, alpha: Any, dtype: torch.dtype) -> torch.Tensor:
    """Return beta · self + alpha · product; with beta zero, NaN in self does not count. Integers take integer factors."""
    if not dtype.is_floating_point:
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else product * alpha
    if beta != 0:
        own = self.to(product.dtype)
        scaled = (own if beta == 1 else own * beta) + scaled
    return scaled.expand(torch.broadcast_shapes(self.shape, product.shape)).to(dtype)


@translator("aten.baddbmm.default", source="definition, by bmm")
def baddbmm(
    self: torch.Tensor, batch1: torch.Tensor, batch2: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> torch.Tensor:
    """Return beta · self + alpha · (batch1 @ batch2) for each matrix."""
    refuse_complex(self, beta, alpha)
    return _joined(self, _product(batch1, batch2), beta, alpha, self.dtype).contiguous()


@translator("aten.addbmm.default", source="definition, by one mm")
def addbmm(
    self: torch.Tensor, batch1: torch.Tensor, batch2: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> torch.Tensor:
    """Return beta · self + alpha · Σ (batch1 @ batch2)."""
    refuse_complex(self, beta, alpha)
    wide = batch1.permute(1, 0, 2).reshape(batch1.size(1), -1)
    tall = batch2.reshape(-1, batch2.size(2))
    return _joined(self, _product(wide, tall), beta, alpha, self.dtype).contiguous()


@translator("aten._addmm_activation.default", source="definition, by addmm")
def addmm_activation(
    self: torch.Tensor,
    mat1: torch.Tensor,
    mat2: torch.Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    use_gelu: bool = False,
) -> torch.Tensor:
    """Return relu, or gelu, of addmm."""
    if mat1.dtype.is_floating_point:
        total = torch.addmm(self, mat1, mat2, beta=beta, alpha=alpha)
    else:
        total = _joined(self, _product(mat1, mat2), beta, alpha, self.dtype)
    return torch.nn.functional.gelu(total) if use_gelu else torch.relu(total)
