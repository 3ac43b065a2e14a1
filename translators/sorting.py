"""Decides how sorted results, selected elements and places in sorted sequences are computed.

Imported by translators.installation. unique and bincount are not here: the sizes of their results depend on values.
"""

from __future__ import annotations

from typing import Any

import torch
from neuron_ops.translators.ordering import sort_last
from neuron_ops.translators.promotion import refuse_complex, together
from neuron_ops.translators.registry import Refused, translator

_SORT = "ranks by counting; Batcher's bitonic network 1968 for long rows"


def _dimension(x: torch.Tensor, dim: int) -> int:
    count = max(x.dim(), 1)
    if not -count <= dim < count:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {dim})")
    return dim % count


def _rows(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Return x, one-dimensional at least, with that dimension last."""
    return x.view(1) if x.dim() == 0 else x.movedim(dim, -1)


def _back(rows: torch.Tensor, like: torch.Tensor, dim: int) -> torch.Tensor:
    """Return rows in the shape and memory layout of `like`."""
    moved = rows.view(()) if like.dim() == 0 else rows.movedim(-1, dim)
    return torch.empty_like(like, dtype=rows.dtype).copy_(moved)


@translator("aten.sort.stable", source=_SORT)
def sort_stable(
    self: torch.Tensor,
    *,
    stable: bool | None,  # noqa: ARG001 - it always is
    dim: int = -1,
    descending: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sorted values and their int64 indices; NaN counts as largest."""
    refuse_complex(self)
    dim = _dimension(self, dim)
    values, indices = sort_last(_rows(self, dim), descending=descending)
    return _back(values, self, dim), _back(indices, self, dim)


@translator("aten.sort.default", source=_SORT)
def sort(self: torch.Tensor, dim: int = -1, descending: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sorted values and their int64 indices; NaN counts as largest."""
    return sort_stable(self, stable=False, dim=dim, descending=descending)


def _picked(rows: torch.Tensor, place: Any, like: torch.Tensor, dim: int, keepdim: bool) -> torch.Tensor:
    """Return from each row the element at a place (an int, or a tensor [..., 1]), in the shape of a reduction."""
    picked = rows.narrow(-1, place, 1) if isinstance(place, int) else torch.gather(rows, -1, place)
    if like.dim() == 0:
        return picked.reshape(())
    picked = picked.movedim(-1, dim) if keepdim else picked.squeeze(-1)
    return picked.contiguous()


@translator("aten.kthvalue.default", source=_SORT)
def kthvalue(self: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k-th smallest values and their indices."""
    refuse_complex(self)
    dim = _dimension(self, dim)
    rows = _rows(self, dim)
    if not 1 <= k <= rows.size(-1):
        raise RuntimeError("kthvalue(): selected number k out of range for dimension " + str(dim))
    values, indices = sort_last(rows)
    return _picked(values, k - 1, self, dim, keepdim), _picked(indices, k - 1, self, dim, keepdim)


def _middle(rows: torch.Tensor, *, skip_nan: bool) -> torch.Tensor:
    """Return the place [..., 1] in the sorted row of the lower median; the first NaN where NaN is not skipped."""
    n = rows.size(-1)
    nans = torch.isnan(rows).sum(-1, keepdim=True)
    numbers = n - nans
    if skip_nan:
        return torch.clamp_min(torch.floor_divide(numbers - 1, 2), 0)
    return torch.where(nans > 0, numbers, (n - 1) // 2)


def _median(self: torch.Tensor, dim: int, keepdim: bool, *, skip_nan: bool) -> tuple[torch.Tensor, torch.Tensor]:
    refuse_complex(self)
    dim = _dimension(self, dim)
    rows = _rows(self, dim)
    if rows.size(-1) == 0:
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size.")
    values, indices = sort_last(rows)
    place: Any = (rows.size(-1) - 1) // 2
    if rows.dtype.is_floating_point:
        place = _middle(rows, skip_nan=skip_nan)
    return _picked(values, place, self, dim, keepdim), _picked(indices, place, self, dim, keepdim)


@translator("aten.median.dim", source=_SORT)
def median_dim(self: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return lower medians and their indices; NaN where a row has one."""
    return _median(self, dim, keepdim, skip_nan=False)


@translator("aten.nanmedian.dim", source=_SORT)
def nanmedian_dim(self: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return lower medians of the numbers and their indices; NaN where there is none."""
    return _median(self, dim, keepdim, skip_nan=True)


def _whole(self: torch.Tensor, *, skip_nan: bool) -> torch.Tensor:
    if self.numel() == 0:
        if not self.dtype.is_floating_point:
            raise Refused("the median of no integers is not defined")
        return self.new_full((), float("nan"))
    return _median(self.reshape(-1), 0, False, skip_nan=skip_nan)[0]


@translator("aten.median.default", source=_SORT)
def median(self: torch.Tensor) -> torch.Tensor:
    """Return the lower median of all elements; NaN where there is one."""
    return _whole(self, skip_nan=False)


@translator("aten.nanmedian.default", source=_SORT)
def nanmedian(self: torch.Tensor) -> torch.Tensor:
    """Return the lower median of all numbers."""
    return _whole(self, skip_nan=True)


@translator("aten.mode.default", source="runs of equal elements in the sorted row")
def mode(self: torch.Tensor, dim: int = -1, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the most frequent values, the smallest of equally frequent ones, and the index of their last occurrence."""
    refuse_complex(self)
    dim = _dimension(self, dim)
    values, indices = sort_last(_rows(self, dim))
    n = values.size(-1)
    if n == 0:
        raise Refused("the mode of a dimension of size zero is not defined")
    place = torch.arange(n, dtype=torch.int64, device=self.device).expand(values.shape)
    fresh = torch.ones_like(values[..., :1], dtype=torch.bool)
    starts = torch.cat((fresh, values[..., 1:] != values[..., :-1]), -1)
    first = torch.cummax(torch.where(starts, place, 0), -1).values
    # The longest run ends where the distance to its first element is largest; the earliest such end has the smallest value.
    end = torch.argmax(place - first, -1, keepdim=True)
    return _picked(values, end, self, dim, keepdim), _picked(indices, end, self, dim, keepdim)


def _search(ordered: torch.Tensor, values: torch.Tensor, right: bool) -> torch.Tensor:
    """Return int64 places of values [..., m] in ordered [..., n] by bisection, with the comparisons of ATen."""
    low = torch.zeros_like(values, dtype=torch.int64)
    n = ordered.size(-1)
    high = low + n
    for _ in range(n.bit_length()):
        middle = torch.bitwise_right_shift(low + high, 1)
        found = torch.gather(ordered, -1, torch.clamp_max(middle, n - 1))
        after = ~(found > values) if right else ~(found >= values)
        after = after & (low < high)
        low, high = torch.where(after, middle + 1, low), torch.where(after, high, middle)
    return low


def _placed(
    ordered: torch.Tensor,
    values: Any,
    right: bool,
    side: str | None,
    sorter: torch.Tensor | None,
    narrow: bool,
) -> torch.Tensor:
    refuse_complex(ordered, values)
    if side not in (None, "left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if right and side == "left":
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    ordered, values = together(ordered, values)
    if sorter is not None:
        ordered = torch.gather(ordered, -1, sorter)
    dtype = torch.promote_types(ordered.dtype, values.dtype)
    flat = values.reshape(-1) if ordered.dim() == 1 else values
    places = _search(ordered.to(dtype), flat.to(dtype), right or side == "right")
    return places.view(values.shape).to(torch.int32 if narrow else torch.int64)


@translator("aten.searchsorted.Tensor", source="bisection, a fixed number of steps")
def searchsorted(
    sorted_sequence: torch.Tensor,
    self: torch.Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the places where each value would be inserted in its row."""
    return _placed(sorted_sequence, self, right, side, sorter, out_int32)


@translator("aten.searchsorted.Scalar", source="bisection, a fixed number of steps")
def searchsorted_scalar(
    sorted_sequence: torch.Tensor,
    self: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the place where one value would be inserted."""
    return _placed(sorted_sequence, _number(self, sorted_sequence), right, side, sorter, out_int32)


def _number(value: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.full((), value, dtype=torch.result_type(like, value), device=like.device)


@translator("aten.bucketize.Tensor", source="bisection, a fixed number of steps")
def bucketize(
    self: torch.Tensor, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> torch.Tensor:
    """Return the bucket of each value."""
    return _placed(boundaries, self, right, None, None, out_int32)


@translator("aten.bucketize.Scalar", source="bisection, a fixed number of steps")
def bucketize_scalar(
    self: Any, boundaries: torch.Tensor, *, out_int32: bool = False, right: bool = False
) -> torch.Tensor:
    """Return the bucket of one value."""
    return _placed(boundaries, _number(self, boundaries), right, None, None, out_int32)


@translator("aten.isin.Tensor_Tensor", source="definition: all pairs")
def isin(
    elements: torch.Tensor,
    test_elements: torch.Tensor,
    *,
    assume_unique: bool = False,  # noqa: ARG001 - only makes other ways faster
    invert: bool = False,
) -> torch.Tensor:
    """Return which elements are among the others."""
    found = (elements.unsqueeze(-1) == test_elements.reshape(-1)).any(-1)
    return ~found if invert else found


@translator("aten.isin.Tensor_Scalar", source="definition")
def isin_tensor_scalar(
    elements: torch.Tensor,
    test_element: Any,
    *,
    assume_unique: bool = False,  # noqa: ARG001 - only makes other ways faster
    invert: bool = False,
) -> torch.Tensor:
    """Return which elements equal one number."""
    return (torch.ne(elements, test_element) if invert else torch.eq(elements, test_element)).contiguous()


@translator("aten.isin.Scalar_Tensor", source="definition")
def isin_scalar_tensor(
    element: Any,
    test_elements: torch.Tensor,
    *,
    assume_unique: bool = False,  # noqa: ARG001 - only makes other ways faster
    invert: bool = False,
) -> torch.Tensor:
    """Return whether one number is among the elements, 0-dim."""
    found = torch.eq(test_elements, element).any()
    return ~found if invert else found


@translator("aten.argsort.stable", source=_SORT)
def argsort_stable(self: torch.Tensor, *, stable: bool, dim: int = -1, descending: bool = False) -> torch.Tensor:
    """Return the int64 indices that sort self."""
    return sort_stable(self, stable=stable, dim=dim, descending=descending)[1]
