"""Decides how matrix products joined with a sum or an activation are computed from bmm and mm.

Imported by translators.installation.
"""

from __future__ import annotations

from typing import Any

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import Refused, translator
from neuron_ops.translators.variants import resize_out


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
    shared = batch1.size(0) * batch1.size(2)
    wide = batch1.permute(1, 0, 2).reshape(batch1.size(1), shared)
    tall = batch2.reshape(shared, batch2.size(2))
    return _joined(self, _product(wide, tall), beta, alpha, self.dtype).contiguous()


@translator("aten.addbmm_.default", source="definition, by one mm")
def addbmm_(
    self: torch.Tensor, batch1: torch.Tensor, batch2: torch.Tensor, *, beta: Any = 1, alpha: Any = 1
) -> torch.Tensor:
    """Write beta · self + alpha · Σ (batch1 @ batch2) into self, which grows to the shape of a matrix as in ATen."""
    result = addbmm(self, batch1, batch2, beta=beta, alpha=alpha)
    resize_out(self, result)
    return self.copy_(result)


_EXACT = 1024
"""So many products of two int8 have a sum below 2**24, which float32 holds exactly."""


@translator("aten._int_mm.default", source="definition, by exact products in float32")
def int_mm(self: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:
    """Return the product of int8 matrices in int32."""
    if self.dtype != torch.int8 or mat2.dtype != torch.int8:
        raise Refused("ATen defines this product for int8 alone")
    total = torch.zeros((self.size(0), mat2.size(1)), dtype=torch.int32, device=self.device)
    for first in range(0, self.size(1), _EXACT):
        count = min(_EXACT, self.size(1) - first)
        part = torch.mm(self.narrow(1, first, count).to(torch.float32), mat2.narrow(0, first, count).to(torch.float32))
        total = total + part.to(torch.int32)
    return total


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
