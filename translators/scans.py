"""Decides how running products, extremes and log-sums, and products of whole dimensions, are computed in log steps.

Imported by translators.installation. A scan of n elements takes log2(n) rounds (Hillis & Steele 1986).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator

if TYPE_CHECKING:
    from collections.abc import Callable

_SCAN = "Hillis & Steele 1986"


def _scanned(x: torch.Tensor, dim: int, combine: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return the inclusive scan of x (dim ≥ 1) along dim; combine takes the earlier part first."""
    if x.size(dim) <= 1:
        return x.clone()
    n, gap = x.size(dim), 1
    while gap < n:
        joined = combine(x.narrow(dim, 0, n - gap), x.narrow(dim, gap, n - gap))
        x = torch.cat((x.narrow(dim, 0, gap), joined), dim)
        gap *= 2
    return x


def _summing(dtype: torch.dtype, wanted: torch.dtype | None) -> torch.dtype:
    """Return the result dtype of a product: what was asked for, int64 for integers."""
    if wanted is not None:
        return wanted
    return dtype if dtype.is_floating_point else torch.int64


@translator("aten.cumprod.default", source=_SCAN)
def cumprod(self: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return running products."""
    refuse_complex(self)
    result = _summing(self.dtype, dtype)
    x = self.to(computing(result))
    if x.dim() == 0 or x.numel() == 0:
        return x.to(result, memory_format=torch.contiguous_format, copy=True)
    return _scanned(x, dim, torch.mul).to(result).contiguous()


@translator("aten._logcumsumexp.default", source=_SCAN)
def logcumsumexp(self: torch.Tensor, dim: int) -> torch.Tensor:
    """Return logarithms of running sums of exponentials."""
    refuse_complex(self)
    if self.dim() == 0 or self.numel() == 0:
        return self.clone()
    return _scanned(self.to(computing(self.dtype)), dim, torch.logaddexp).to(self.dtype).contiguous()


def _extreme(self: torch.Tensor, values: torch.Tensor, indices: torch.Tensor, dim: int, *, largest: bool) -> None:
    refuse_complex(self)
    if self.dim() == 0 or self.numel() == 0:
        values.copy_(self)
        indices.zero_()
        return
    dim = dim % self.dim()
    n, gap = self.size(dim), 1
    shape = [1] * self.dim()
    shape[dim] = n
    best = self.to(torch.uint8) if self.dtype == torch.bool else self
    place = torch.arange(n, dtype=torch.int64, device=self.device).view(shape).expand(self.shape)
    while gap < n:
        early, late = best.narrow(dim, 0, n - gap), best.narrow(dim, gap, n - gap)
        taken = late >= early if largest else late <= early
        if best.dtype.is_floating_point:
            taken = torch.isnan(late) | (taken & ~torch.isnan(early))
        chosen = torch.where(taken, place.narrow(dim, gap, n - gap), place.narrow(dim, 0, n - gap))
        best = torch.cat((best.narrow(dim, 0, gap), torch.where(taken, late, early)), dim)
        place = torch.cat((place.narrow(dim, 0, gap), chosen), dim)
        gap *= 2
    values.copy_(best)
    indices.copy_(place)


@translator("aten._cummax_helper.default", source=_SCAN)
def cummax_helper(self: torch.Tensor, values: torch.Tensor, indices: torch.Tensor, dim: int) -> None:
    """Write running maxima and the last index of each into values and indices; NaN stays from where it appears."""
    _extreme(self, values, indices, dim, largest=True)


@translator("aten._cummin_helper.default", source=_SCAN)
def cummin_helper(self: torch.Tensor, values: torch.Tensor, indices: torch.Tensor, dim: int) -> None:
    """Write running minima and the last index of each into values and indices; NaN stays from where it appears."""
    _extreme(self, values, indices, dim, largest=False)


def product(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the product along dim (kept, size one) of x (dim ≥ 1), by halves; memory of its own."""
    n = x.size(dim)
    if n == 1:
        return x.clone()
    if n == 0:
        shape = list(x.shape)
        shape[dim] = 1
        return x.new_ones(shape)
    while n > 1:
        half = n // 2
        pairs = x.narrow(dim, 0, half) * x.narrow(dim, half, half)
        x = torch.cat((pairs, x.narrow(dim, n - 1, 1)), dim) if n % 2 else pairs
        n = x.size(dim)
    return x


@translator("aten.prod.dim_int", source="definition, by halves")
def prod_dim(self: torch.Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return products along dim."""
    refuse_complex(self)
    result = _summing(self.dtype, dtype)
    x = self.to(computing(result))
    if x.dim() == 0:
        return x.to(result).clone()
    total = product(x, dim)
    return (total if keepdim else total.squeeze(dim)).to(result).contiguous()


@translator("aten.prod.default", source="definition, by halves")
def prod(self: torch.Tensor, *, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return the product of all elements."""
    refuse_complex(self)
    result = _summing(self.dtype, dtype)
    return product(self.reshape(-1).to(computing(result)), 0).view(()).to(result)
