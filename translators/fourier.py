"""Decides how Fourier transforms are computed: as products with the matrix of roots of unity, in pairs of real numbers.

Imported by translators.families. Sizes with factors are split as Cooley and Tukey do, so that a product stays small.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.registry import Refused, translator

if TYPE_CHECKING:
    from collections.abc import Sequence

_DFT = "definition, and Cooley and Tukey 1965 for sizes with factors"
_SMALL = 128
"""Sizes up to this are one product with the full matrix."""

_Pair = tuple[torch.Tensor, torch.Tensor]
_Half = tuple[torch.Tensor, torch.Tensor | None]
"""Real and imaginary parts; None where there is no imaginary part."""


def _unit(turn: torch.Tensor, size: int, sign: int, like: torch.Tensor) -> _Pair:
    """Return cosines and sines of sign · 2π · turn / size for integers 0 ≤ turn < size.

    Quarter turns are split off as integers: an angle below π/4 is rounded to 3e-8, one of 2π only to 2.4e-7 (float32).
    """
    quarter = torch.div(turn * 4 + size // 2, size, rounding_mode="floor")
    angle = (turn * 4 - quarter * size).to(like.dtype) * (math.pi / 2 / size)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    odd, quarter = torch.remainder(quarter, 2) == 1, torch.remainder(quarter, 4)
    real, imaginary = torch.where(odd, sine, cosine), torch.where(odd, cosine, sine)
    real = torch.where((quarter == 1) | (quarter == 2), -real, real)
    return real, torch.where(quarter >= 2, -imaginary, imaginary) * sign


def _roots(rows: int, cols: int, size: int, sign: int, like: torch.Tensor) -> _Pair:
    """Return the unit numbers at sign · 2π · row · col / size; products are reduced as integers first."""
    row = torch.arange(rows, dtype=torch.int64, device=like.device).unsqueeze(1)
    col = torch.arange(cols, dtype=torch.int64, device=like.device)
    return _unit(torch.remainder(row * col, size), size, sign, like)


def _times(x: _Half, y: _Pair) -> _Pair:
    if x[1] is None:
        return x[0] * y[0], x[0] * y[1]
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _product(x: _Half, y: _Pair) -> _Pair:
    if x[1] is None:
        return torch.matmul(x[0], y[0]), torch.matmul(x[0], y[1])
    return (
        torch.matmul(x[0], y[0]) - torch.matmul(x[1], y[1]),
        torch.matmul(x[0], y[1]) + torch.matmul(x[1], y[0]),
    )


def _factor(size: int) -> int:
    """Return the divisor of size nearest to its root, or 1."""
    return next((d for d in range(math.isqrt(size), 1, -1) if size % d == 0), 1)


def _chirp(size: int, sign: int, like: torch.Tensor) -> _Pair:
    """Return the unit numbers at sign · π · k² / size; squares are reduced without leaving 32 bits, for sizes below 2**22."""
    k, period = torch.arange(size, dtype=torch.int64, device=like.device), 2 * size
    high, low = torch.div(k, 256, rounding_mode="floor"), torch.remainder(k, 256)
    square = torch.remainder(torch.remainder(high * k, period) * 256 + low * k, period)
    return _unit(square, period, sign, like)


def _convolved(x: _Half, sign: int) -> _Pair:
    """Return the transform of a size without factors as a convolution with a chirp (Bluestein 1970)."""
    size = x[0].size(-1)
    length = 1 << (2 * size - 2).bit_length()
    chirp = _chirp(size, sign, x[0])
    left = tuple(torch.constant_pad_nd(part, [0, length - size]) for part in _times(x, chirp))
    right = []
    for part in (chirp[0], -chirp[1]):  # the conjugate, at places below zero too
        tail = torch.constant_pad_nd(torch.flip(part[1:], [0]), [length - size + 1, 0])
        right.append(torch.constant_pad_nd(part, [0, length - size]) + tail)
    spectrum = _times(_last((left[0], left[1]), -1), _last((right[0], right[1]), -1))
    back = _last(spectrum, 1)
    return _times((back[0][..., :size] / length, back[1][..., :size] / length), chirp)


def _last(x: _Half, sign: int) -> _Pair:
    """Return the transform along the last dimension."""
    size = x[0].size(-1)
    if size == 1:
        return x[0], torch.zeros_like(x[0]) if x[1] is None else x[1]
    inner = _factor(size) if size > _SMALL else 1
    if inner == 1 and size > _SMALL:
        return _convolved(x, sign)
    if inner == 1:
        return _product(x, _roots(size, size, size, sign, x[0]))
    outer = size // inner
    # x[inner·b + a] → columns a: transform over b, twist, transform over a.
    shape = [*x[0].shape[:-1], outer, inner]
    inputs = x[0].reshape(shape).mT, None if x[1] is None else x[1].reshape(shape).mT
    grid = _times(_last(inputs, sign), _roots(inner, outer, size, sign, x[0]))
    grid = _last((grid[0].mT, grid[1].mT), sign)
    return grid[0].mT.reshape(x[0].shape), grid[1].mT.reshape(x[0].shape)


def _along(x: _Half, dims: list[int], sign: int) -> _Pair:
    for dim in dims:
        moved = _last((x[0].movedim(dim, -1), None if x[1] is None else x[1].movedim(dim, -1)), sign)
        x = moved[0].movedim(-1, dim), moved[1].movedim(-1, dim)
    return x[0], torch.zeros_like(x[0]) if x[1] is None else x[1]


def _scaled(x: _Pair, normalization: int, count: int) -> _Pair:
    if normalization == 0:
        return x
    scale = 1 / math.sqrt(count) if normalization == 1 else 1 / count
    return x[0] * scale, x[1] * scale


def _order(strides: Sequence[int], dims: Sequence[int], *, last: bool = False) -> list[int]:
    """Return the dimensions as the CPU's library leaves them in memory, outermost first.

    Those not transformed come first, then the others, each by descending stride of the input; with `last` the last of
    `dims` stays last.
    """
    count = len(strides)
    changed = [d % count for d in dims]
    fixed = changed[-1:] if last else []
    changed = changed[:-1] if last else changed
    rest = [d for d in range(count) if d not in changed and d not in fixed]
    return [*sorted(rest, key=lambda d: -strides[d]), *sorted(changed, key=lambda d: -strides[d]), *fixed]


def _places(order: Sequence[int]) -> list[int]:
    return [order.index(d) for d in range(len(order))]


def _joined(x: _Pair, order: Sequence[int]) -> torch.Tensor:
    """Return the complex tensor with its dimensions in that order in memory."""
    pairs = torch.stack([part.permute([*order]) for part in x], -1).contiguous()
    return torch.view_as_complex(pairs).permute(_places(order))


def _count(shape: Any, dims: list[int]) -> int:
    return math.prod(shape[d] for d in dims)


@translator("aten._fft_r2c.default", source=_DFT)
def fft_r2c(self: torch.Tensor, dim: list[int], normalization: int, onesided: bool) -> torch.Tensor:
    """Return the transform of real numbers, half of the last dimension where onesided."""
    if self.dtype not in (torch.float32, torch.float64):
        raise Refused("transforms of halves stay with the host")
    x = _scaled(_along((self, None), [*reversed(dim)], -1), normalization, _count(self.shape, dim))
    if len(dim) == 1:  # real sums have no imaginary part, even of what is not a number
        place = torch.arange(self.size(dim[0]), device=self.device)
        shape = [-1 if d == dim[0] % self.dim() else 1 for d in range(self.dim())]
        real = ((place == 0) | (place * 2 == self.size(dim[0]))).view(shape)
        x = x[0], torch.where(real, 0.0, x[1])
    if onesided:
        half = self.size(dim[-1]) // 2 + 1
        x = x[0].narrow(dim[-1], 0, half), x[1].narrow(dim[-1], 0, half)
    return _joined(x, _order(self.stride(), dim, last=bool(dim)))


@translator("aten._fft_c2c.default", source=_DFT)
def fft_c2c(self: torch.Tensor, dim: list[int], normalization: int, forward: bool) -> torch.Tensor:
    """Return the transform of complex numbers."""
    pairs = torch.view_as_real(self.resolve_conj())
    x = _along((pairs[..., 0], pairs[..., 1]), [*reversed(dim)], -1 if forward else 1)
    return _joined(_scaled(x, normalization, _count(self.shape, dim)), _order(self.stride(), dim))


@translator("aten._fft_c2r.default", source=_DFT)
def fft_c2r(self: torch.Tensor, dim: list[int], normalization: int, last_dim_size: int) -> torch.Tensor:
    """Return the inverse transform to real numbers, of which the last dimension's second half is the first one's conjugate."""
    pairs = torch.view_as_real(self.resolve_conj())
    last = dim[-1]
    x = _along((pairs[..., 0], pairs[..., 1]), dim[:-1], 1)
    real, imaginary = (part.narrow(last, 0, last_dim_size // 2 + 1) for part in x)
    place = torch.arange(last_dim_size, device=self.device)
    mirrored = torch.minimum(place, last_dim_size - place)
    sign = torch.where(place > last_dim_size - place, -1.0, 1.0).to(real.dtype)
    sign = torch.where((place == 0) | (place == last_dim_size - place), 0.0, sign)  # ATen reads no imaginary part there
    shape = [-1 if d == last % real.dim() else 1 for d in range(real.dim())]
    full = torch.index_select(real, last, mirrored), torch.index_select(imaginary, last, mirrored) * sign.view(shape)
    count = last_dim_size * _count(self.shape, dim[:-1])
    result = _scaled(_along(full, [last], 1), normalization, count)[0]
    strides: Sequence[int] = self.stride()
    if dim[:-1]:  # the CPU transforms these first, and what it leaves decides
        strides = [-place for place in _places(_order(strides, dim[:-1]))]
    order = _order(strides, [last], last=True)
    return result.permute(order).contiguous().permute(_places(order))
