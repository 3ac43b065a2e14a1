"""Decides how sequences, index pairs and windows are made on a device that has arange and full.

Imported by translators.installation.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from neuron_ops.translators.registry import Refused, translator

_INT64 = 4
"""How schemas write torch.int64 as a default."""


def _device(device: Any) -> torch.device:
    return torch.device("cpu" if device is None else device)


def _refuse_complex(dtype: torch.dtype | None, *values: Any) -> None:
    if (dtype is not None and dtype.is_complex) or any(isinstance(v, complex) for v in values):
        raise Refused("this translator makes real numbers only; a complex sequence stays with the host")


def _spaced(start: Any, end: Any, steps: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return steps values from start to end, both exact, in the dtype to compute in; from the nearer end, as ATen."""
    inner = dtype if dtype == torch.float64 else torch.float32
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    if steps <= 1:
        return torch.full((steps,), start, dtype=inner, device=device)
    step = (float(end) - float(start)) / (steps - 1)
    place = torch.arange(steps, dtype=inner, device=device)
    return torch.where(place < steps // 2, place * step + start, end - (steps - 1 - place) * step)


@translator("aten.linspace.default", source="definition")
def linspace(
    start: Any,
    end: Any,
    steps: int,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return evenly spaced numbers."""
    _refuse_complex(dtype, start, end)
    result = dtype or torch.get_default_dtype()
    return _spaced(start, end, steps, result, _device(device)).to(result)


@translator("aten.logspace.default", source="definition")
def logspace(
    start: Any,
    end: Any,
    steps: int,
    base: float = 10.0,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return powers of base with evenly spaced exponents."""
    _refuse_complex(dtype, start, end)
    result = dtype or torch.get_default_dtype()
    exponents = _spaced(start, end, steps, result, _device(device))
    return torch.pow(torch.full_like(exponents, base), exponents).to(result)


def _inclusive(start: Any, end: Any, step: Any, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    _refuse_complex(dtype, start, end, step)
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    inner = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    if not inner.is_floating_point:
        start, step = int(start), int(step)
    places = torch.arange(count, dtype=inner, device=device)
    return torch.add(places * step, start).to(dtype)


@translator("aten.range.step", source="definition")
def range_step(
    start: Any,
    end: Any,
    step: Any = 1,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return start, start + step, … with the end included."""
    return _inclusive(start, end, step, dtype or torch.get_default_dtype(), _device(device))


@translator("aten.range.default", source="definition")
def range_(
    start: Any,
    end: Any,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return start, start + 1, … with the end included."""
    return _inclusive(start, end, 1, dtype or torch.get_default_dtype(), _device(device))


@translator("aten.range.out", source="definition")
def range_out(start: Any, end: Any, step: Any = 1, *, out: torch.Tensor) -> torch.Tensor:
    """Fill out with start, start + step, … with the end included."""
    values = _inclusive(start, end, step, out.dtype, out.device)
    if out.numel() != values.numel():
        out.resize_(values.shape)
    return out.copy_(values.view(out.shape))  # ATen keeps the shape of an out that has as many elements


def _indices(row: int, col: int, offset: int, device: Any, dtype: Any, *, upper: bool) -> torch.Tensor:
    """Return the positions of one triangle, row by row: their number is known from the sizes."""
    rows = torch.arange(row, dtype=torch.int64, device=_device(device)).unsqueeze(1)
    cols = torch.arange(col, dtype=torch.int64, device=_device(device)).unsqueeze(0)
    inside = cols - rows >= offset if upper else cols - rows <= offset
    if upper:
        count = sum(col - min(max(r + offset, 0), col) for r in range(row))
    else:
        count = sum(min(max(r + offset + 1, 0), col) for r in range(row))
    found = torch.nonzero_static(inside, size=count)
    return found.t().contiguous().to(torch.int64 if dtype in (None, _INT64) else dtype)


@translator("aten.tril_indices.default", source="definition")
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = _INT64,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return [2, n] positions on and below a diagonal."""
    return _indices(row, col, offset, device, dtype, upper=False)


@translator("aten.triu_indices.default", source="definition")
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: Any = _INT64,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return [2, n] positions on and above a diagonal."""
    return _indices(row, col, offset, device, dtype, upper=True)


def _bessel_i0(x: float) -> float:
    """Return I0 of a number by its series."""
    total, term, k = 1.0, 1.0, 1
    while term > total * 1e-17:
        term *= (x / (2 * k)) ** 2
        total += term
        k += 1
    return total


def _kaiser(length: int, periodic: bool, beta: float, dtype: Any, device: Any) -> torch.Tensor:
    result = dtype or torch.get_default_dtype()
    if length < 0:
        raise RuntimeError("kaiser_window requires non-negative window_length, got window_length=" + str(length))
    if length <= 1:
        return torch.ones(length, dtype=result, device=_device(device))
    inner = torch.float64 if result == torch.float64 else torch.float32
    middle = (length if periodic else length - 1) / 2
    place = (torch.arange(length, dtype=inner, device=_device(device)) - middle) / middle
    return (torch.i0(torch.sqrt(1 - place * place) * beta) / _bessel_i0(beta)).to(result)


@translator("aten.kaiser_window.default", source="Kaiser & Schafer 1980")
def kaiser_window(
    window_length: int,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return the periodic Kaiser window of shape 12."""
    return _kaiser(window_length, True, 12.0, dtype, device)


@translator("aten.kaiser_window.periodic", source="Kaiser & Schafer 1980")
def kaiser_window_periodic(
    window_length: int,
    periodic: bool,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return the Kaiser window of shape 12."""
    return _kaiser(window_length, periodic, 12.0, dtype, device)


@translator("aten.kaiser_window.beta", source="Kaiser & Schafer 1980")
def kaiser_window_beta(
    window_length: int,
    periodic: bool,
    beta: float,
    *,
    dtype: torch.dtype | None = None,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return the Kaiser window of shape beta."""
    return _kaiser(window_length, periodic, beta, dtype, device)
