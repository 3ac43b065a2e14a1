"""Samples of operators that make a tensor from numbers: windows, ranges, indices of triangles, frequencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import (
    ALL,
    COMPLEX,
    FLOATS,
    NUMBERS,
    REAL,
    WHOLE,
    Arguments,
    Draw,
    call,
    row,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _window(*tail: float | bool) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        for length in (8, 5, 1, 0):
            yield call(length, *tail, dtype=d.dtype)
        if tail:
            yield call(6, not tail[0], *tail[1:], dtype=d.dtype)

    return make


def _triangle(d: Draw) -> Iterator[Arguments]:
    for rows_, columns, offset in ((3, 4, 0), (4, 3, 1), (3, 3, -1), (0, 2, 0)):
        yield call(rows_, columns, offset, dtype=d.dtype)


def _range(d: Draw) -> Iterator[Arguments]:
    yield call(1, 5, dtype=d.dtype)
    yield call(2, 2, dtype=d.dtype)


def _range_step(d: Draw) -> Iterator[Arguments]:
    yield call(1, 8, 3, dtype=d.dtype)
    yield call(5, 1, -2, dtype=d.dtype)


def _range_into(d: Draw) -> Iterator[Arguments]:
    yield call(1, 8, 3, out=d(3))
    yield call(5, 1, -2, out=d(3))


def _frequencies(d: Draw) -> Iterator[Arguments]:
    for n, spacing in ((8, 1.0), (5, 0.25), (1, 2.0)):
        yield call(n, spacing, dtype=d.dtype)


def _steps(*tensors: int) -> Callable[[Draw], Iterator[Arguments]]:
    """Return a maker of (start, end, steps); the ends at the positions `tensors` are tensors of no dimension."""

    def make(d: Draw) -> Iterator[Arguments]:
        for start, end, steps in ((0, 3, 4), (4, 1, 3), (2, 2, 1)):
            ends = [torch.tensor(v, dtype=d.dtype) if i in tensors else v for i, v in enumerate((start, end))]
            yield call(*ends, steps, dtype=d.dtype)

    return make


def _vandermonde(d: Draw) -> Iterator[Arguments]:
    yield call(d.unit(4))
    yield call(d.unit(3), 5, True)


_WINDOWS = "bartlett_window blackman_window hamming_window hann_window kaiser_window"
ROWS = [
    *rows(_WINDOWS, FLOATS, _window()),
    *rows(_WINDOWS, FLOATS, _window(True), overload="periodic"),
    row("aten.hamming_window.periodic_alpha", FLOATS, _window(True, 0.6)),
    row("aten.hamming_window.periodic_alpha_beta", FLOATS, _window(True, 0.6, 0.3)),
    row("aten.kaiser_window.beta", FLOATS, _window(True, 8.0)),
    *rows("tril_indices triu_indices", (torch.int32, torch.int64), _triangle),
    row("aten.range.default", REAL, _range),
    row("aten.range.step", REAL, _range_step),
    row("aten.range.out", REAL, _range_into),
    *rows("fft_fftfreq fft_rfftfreq", FLOATS, _frequencies),
    *(
        row(f"aten.{name}.{overload}", NUMBERS, _steps(*tensors))
        for name in ("linspace", "logspace")
        for overload, tensors in (("Tensor_Tensor", (0, 1)), ("Tensor_Scalar", (0,)), ("Scalar_Tensor", (1,)))
    ),
    row("aten.vander.default", NUMBERS, _vandermonde),
    row("aten.scalar_tensor.default", ALL, lambda d: [call(1, dtype=d.dtype), call(0, dtype=d.dtype)]),
    row("aten.complex.default", WHOLE, lambda d: [call(d(3, 4), d(3, 4))]),
    row("aten.view_as_complex_copy.default", WHOLE, lambda d: [call(d(3, 2)), call(d(0, 2))]),
    *rows("view_as_real view_as_real_copy imag", COMPLEX, lambda d: [call(d(3, 4)), call(d(0))])
]  # fmt: skip
