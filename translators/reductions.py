"""Decides how extremes with their places, variances, and counts are reduced.

Imported by translators.installation.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator

_DEFINITION = "definition"


def _reversed(x: torch.Tensor) -> torch.Tensor:
    """Return values in the opposite order: the bits of integers inverted, since the smallest has no negative."""
    return -x if x.dtype.is_floating_point else torch.bitwise_not(x)


def _place(x: torch.Tensor, dim: int | None, keepdim: bool) -> torch.Tensor:
    if dim is not None:
        return torch.max(x, dim, keepdim).indices
    place = torch.max(x.reshape(-1), 0).indices
    return place.view([1] * x.dim()) if keepdim else place


@translator("aten.argmax.default", source="definition, by max.dim")
def argmax(self: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """Return int64 indices of the first maxima; of the first NaN where there is one."""
    refuse_complex(self)
    return _place(self, dim, keepdim)


@translator("aten.argmin.default", source="definition, by max.dim of the reversed order")
def argmin(self: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> torch.Tensor:
    """Return int64 indices of the first minima; of the first NaN where there is one."""
    refuse_complex(self)
    return _place(_reversed(self), dim, keepdim)


@translator("aten.min.dim", source="definition, by max.dim of the reversed order")
def min_dim(self: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return minima and the indices of the first ones; NaN where there is one."""
    refuse_complex(self)
    values, places = torch.max(_reversed(self), dim, keepdim)
    return _reversed(values), places


@translator("aten.min.default", source="definition, by amin")
def min_(self: torch.Tensor) -> torch.Tensor:
    """Return the smallest element; NaN where there is one."""
    refuse_complex(self)
    if self.numel() == 0:
        raise RuntimeError(
            "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
        )
    return torch.amin(self)


@translator("aten.aminmax.default", source="definition")
def aminmax(self: torch.Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return minima and maxima."""
    refuse_complex(self)
    dims = list(range(self.dim())) if dim is None else [dim]
    return torch.amin(self, dims, keepdim), torch.amax(self, dims, keepdim)


@translator("aten._aminmax.default", source=_DEFINITION)
def aminmax_all(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the smallest and the largest element."""
    return aminmax(self)


@translator("aten._aminmax.dim", source=_DEFINITION)
def aminmax_dim(self: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return minima and maxima along dim."""
    return aminmax(self, dim=dim, keepdim=keepdim)


def _moments(
    self: torch.Tensor, dim: list[int] | None, correction: Any, keepdim: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return variance and mean in the dtype to compute in; two passes."""
    refuse_complex(self)
    if not self.dtype.is_floating_point:
        raise RuntimeError("std and var only support floating point and complex dtypes")
    dims = list(range(self.dim())) if not dim else [d % max(self.dim(), 1) for d in dim]
    x = self.to(computing(self.dtype))
    count = math.prod(self.size(d) for d in dims) if self.dim() else 1
    freedom = max(count - (1 if correction is None else correction), 0)
    if self.dim() == 0:
        dims = []
    mean = torch.mean(x, dims, keepdim=True) if dims else x
    from_mean = x - mean
    squares = torch.sum(from_mean * from_mean, dims, keepdim=keepdim) if dims else from_mean * from_mean
    divided = squares / freedom if freedom else squares / torch.zeros_like(squares)
    return divided, mean.view(squares.shape)


@translator("aten.var.correction", source="definition, two passes")
def var(
    self: torch.Tensor, dim: list[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> torch.Tensor:
    """Return variances, divided by the count less the correction (one unless told otherwise)."""
    return _moments(self, dim, correction, keepdim)[0].to(self.dtype)


@translator("aten.std.correction", source="definition, two passes")
def std(
    self: torch.Tensor, dim: list[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> torch.Tensor:
    """Return standard deviations."""
    return torch.sqrt(_moments(self, dim, correction, keepdim)[0]).to(self.dtype)


@translator("aten.var_mean.correction", source="definition, two passes")
def var_mean(
    self: torch.Tensor, dim: list[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return variances and means."""
    variance, mean = _moments(self, dim, correction, keepdim)
    return variance.to(self.dtype), _running(mean, self).to(self.dtype)


@translator("aten.std_mean.correction", source="definition, two passes")
def std_mean(
    self: torch.Tensor, dim: list[int] | None = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return standard deviations and means."""
    variance, mean = _moments(self, dim, correction, keepdim)
    return torch.sqrt(variance).to(self.dtype), _running(mean, self).to(self.dtype)


def _running(mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Return the mean as ATen's running mean leaves it: one infinity among others makes it NaN (inf − inf)."""
    return torch.where(mean.abs() == math.inf, math.nan, mean) if mean.numel() < x.numel() else mean


@translator("aten.nansum.default", source=_DEFINITION)
def nansum(
    self: torch.Tensor, dim: list[int] | None = None, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Return sums in which NaN counts as zero."""
    refuse_complex(self)
    numbers = torch.where(torch.isnan(self), 0.0, self) if self.dtype.is_floating_point else self
    return torch.sum(numbers, dim, keepdim, dtype=dtype)


@translator("aten.count_nonzero.dim_IntList", source=_DEFINITION)
def count_nonzero(self: torch.Tensor, dim: list[int]) -> torch.Tensor:
    """Return int64 counts of elements that are not zero."""
    refuse_complex(self)
    return torch.sum(self != 0, dim or None, dtype=torch.int64)


@translator("aten.trace.default", source=_DEFINITION)
def trace(self: torch.Tensor) -> torch.Tensor:
    """Return the sum of the main diagonal."""
    refuse_complex(self)
    if self.dim() != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {self.dim()}")
    return torch.sum(torch.diagonal(self))


@translator("aten.norm.Scalar", source="definition, by linalg_vector_norm")
def norm(self: torch.Tensor, p: Any = 2) -> torch.Tensor:
    """Return the p-norm of all elements."""
    return _norm(self, p, [], False, None)


@translator("aten.norm.ScalarOpt_dtype", source="definition, by linalg_vector_norm")
def norm_dtype(self: torch.Tensor, p: Any, *, dtype: torch.dtype) -> torch.Tensor:
    """Return the p-norm of all elements, computed in dtype."""
    return _norm(self, p, [], False, dtype)


@translator("aten.norm.ScalarOpt_dim", source="definition, by linalg_vector_norm")
def norm_dim(self: torch.Tensor, p: Any, dim: list[int], keepdim: bool = False) -> torch.Tensor:
    """Return p-norms along dims."""
    return _norm(self, p, dim, keepdim, None)


@translator("aten.norm.ScalarOpt_dim_dtype", source="definition, by linalg_vector_norm")
def norm_dim_dtype(self: torch.Tensor, p: Any, dim: list[int], keepdim: bool, *, dtype: torch.dtype) -> torch.Tensor:
    """Return p-norms along dims, computed in dtype."""
    return _norm(self, p, dim, keepdim, dtype)


def _norm(self: torch.Tensor, p: Any, dim: list[int], keepdim: bool, dtype: torch.dtype | None) -> torch.Tensor:
    refuse_complex(self)
    norms: torch.Tensor = torch.linalg.vector_norm(self, 2 if p is None else p, list(dim) or None, keepdim, dtype=dtype)
    return norms


@translator("aten.renorm.default", source=_DEFINITION)
def renorm(self: torch.Tensor, p: Any, dim: int, maxnorm: Any) -> torch.Tensor:
    """Return self with those slices along dim scaled down whose p-norm is above maxnorm."""
    refuse_complex(self)
    x = self.to(computing(self.dtype))
    others = [d for d in range(self.dim()) if d != dim % self.dim()]
    norms = torch.linalg.vector_norm(x, p, others, True)
    return torch.where(norms > maxnorm, x * (maxnorm / (norms + 1e-7)), x).to(self.dtype).contiguous()
