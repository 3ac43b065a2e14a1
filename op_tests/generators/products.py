"""Samples of matrix products in unusual forms, of solvers' inner steps and of matrix norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import (
    ALL,
    COMPLEX,
    FLOATS,
    HALF,
    NUMBERS,
    WHOLE,
    Arguments,
    Draw,
    call,
    row,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_EIGHT = torch.float8_e4m3fn
_TENSORWISE, _ROWWISE = 0, 1
"""Recipes of torch.nn.functional.ScalingType that the CPU kernel takes."""


def _eight_bits(d: Draw, *shape: int) -> torch.Tensor:
    return d(*shape, dtype=torch.float32).to(_EIGHT)


def _scale(d: Draw, *shape: int) -> torch.Tensor:
    return d.positive(*shape, dtype=torch.float32)


def _scaled_mm(d: Draw) -> Iterator[Arguments]:
    def right(k: int, n: int) -> torch.Tensor:
        return _eight_bits(d, n, k).t()

    yield call(_eight_bits(d, 4, 16), right(16, 8), _scale(d), _scale(d), out_dtype=d.dtype)
    yield call(_eight_bits(d, 16, 32), right(32, 16), _scale(d, 16, 1), _scale(d, 1, 16), out_dtype=d.dtype)
    yield call(_eight_bits(d, 3, 16), right(16, 16), _scale(d), _scale(d), d(16), out_dtype=d.dtype)


def _scaled_mm_v2(d: Draw) -> Iterator[Arguments]:
    left, right = _eight_bits(d, 16, 32), _eight_bits(d, 16, 32).t()
    yield call(left, right, [_scale(d)], [_TENSORWISE], [0], [_scale(d)], [_TENSORWISE], [0], None, d.dtype)
    rowwise = ([_scale(d, 16, 1)], [_ROWWISE], [0], [_scale(d, 1, 16)], [_ROWWISE], [0])
    yield call(left, right, *rowwise, d(16), d.dtype)


def _grouped_mm(d: Draw) -> Iterator[Arguments]:
    ends = torch.tensor([16, 16, 48], dtype=torch.int32)
    yield call(d(3, 8, 16), d(3, 16, 24))
    yield call(d(48, 16), d(3, 16, 24), ends)
    yield call(d(3, 8, 16), d(16, 48), ends)
    yield call(d(8, 48), d(48, 16), ends)


def _matrix_pairs(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), d(4, 5))
    yield call(d(2, 3, 4), d(4, 2))
    yield call(d(0, 4), d(4, 5))


def _int_mm(d: Draw) -> Iterator[Arguments]:
    yield call(d(4, 8), d(8, 3, dtype=torch.int8))
    yield call(d(17, 32), d(16, 32, dtype=torch.int8).t())
    yield call(d(0, 8), d(8, 3, dtype=torch.int8))


def _activation(d: Draw) -> Iterator[Arguments]:
    yield call(d(5), d(3, 4), d(4, 5))
    yield call(d(3, 5), d(3, 4), d(4, 5), beta=0.5, alpha=2, use_gelu=True)


def _cholesky_solve(d: Draw) -> Iterator[Arguments]:
    for upper, batch in ((False, ()), (True, (2,))):
        factor = torch.linalg.cholesky(d.definite(*batch, 3, 3))
        yield call(d(*batch, 3, 2), factor.mH.contiguous() if upper else factor, upper)


def _powers(d: Draw) -> Iterator[Arguments]:
    for n in (0, 1, 3, -2):
        yield call(d.definite(3, 3), n)


def _squares(d: Draw) -> Iterator[Arguments]:
    yield call(d.definite(3, 3))
    yield call(d.definite(2, 4, 4))
    yield call(d(0, 0))


def _reflectors(d: Draw) -> Iterator[Arguments]:
    yield call(d(4, 3), d.unit(3))
    yield call(d(2, 3, 3), d.unit(2, 2))


def _named_norms(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), "fro")
    yield call(d(3, 4), "nuc")
    yield call(d(2, 3, 4), "fro", [1, 2], True)


def _matrix_norms(d: Draw) -> Iterator[Arguments]:
    for order in (1, -1, 2, float("inf")):
        yield call(d(3, 4), order)
    yield call(d(4, 2, 3), 2, [0, 2], True)


def _deficient(d: Draw) -> torch.Tensor:
    """Return a 4 by 4 matrix of rank 2."""
    return d(4, 2) @ d(2, 4)


def _spectrum(d: Draw) -> Iterator[Arguments]:
    for dims, scaling, forward in (([1], 0, True), ([0, 1], 1, False), ([0], 2, True)):
        yield call(d(3, 4), dims, scaling, forward)


ROWS = [
    row("aten._fft_c2c.default", COMPLEX, _spectrum),
    row("aten._fft_c2r.default", COMPLEX, lambda d: [call(d(3, 4), [1], 2, 6), call(d(3, 4), [0, 1], 0, 7)]),
    row("aten._fft_r2c.default", WHOLE, lambda d: [call(d(3, 4), [1], 0, True), call(d(3, 5), [0, 1], 1, False)]),
    row("aten._int_mm.default", (torch.int8, torch.uint8), _int_mm),
    row("aten._scaled_mm.default", (torch.float32, *HALF), _scaled_mm),
    row("aten._scaled_mm_v2.default", (torch.float32, *HALF), _scaled_mm_v2),
    row("aten._grouped_mm.default", (torch.float32, *HALF), _grouped_mm),
    row("aten.linalg_matmul.default", NUMBERS, _matrix_pairs),
    row("aten._addmm_activation.default", FLOATS, _activation),
    row("aten.ger.default", ALL, lambda d: [call(d(3), d(4)), call(d(0), d(4))]),
    row("aten.chain_matmul.default", NUMBERS, lambda d: [call([d(3, 4), d(4, 2), d(2, 5)]), call([d(2, 3)])]),
    row("aten.linalg_multi_dot.default", NUMBERS, lambda d: [call([d(3), d(3, 4), d(4)])]),
    row("aten._euclidean_dist.default", FLOATS, lambda d: [call(d(3, 4), d(5, 4)), call(d(2, 3, 2), d(2, 1, 2))]),
    row(
        "aten._compute_linear_combination.default",
        ALL,
        lambda d: [call(d(4, 2, 3), d(3, 4)), call(d(2, 5), d(1, 2))],
        filled=0.0,  # the CPU kernel adds to what the result tensor holds
    ),
    row("aten._cholesky_solve_helper.default", (*WHOLE, *COMPLEX), _cholesky_solve),
    row("aten.matrix_power.default", (*WHOLE, *COMPLEX), _powers),
    row("aten.matrix_exp_backward.default", (*WHOLE, *COMPLEX), lambda d: [call(d.unit(3, 3), d(3, 3))]),
    *rows("inverse det slogdet _linalg_eigvals", (*WHOLE, *COMPLEX), _squares),
    row("aten.orgqr.default", (*WHOLE, *COMPLEX), _reflectors),
    row("aten.svd.default", (*WHOLE, *COMPLEX), lambda d: [call(d(3, 4)), call(d(4, 2), False), call(d(2, 2), True, False)]),
    row("aten.linalg_norm.ord_str", (*WHOLE, *COMPLEX), _named_norms),
    row("aten.linalg_matrix_norm.default", (*WHOLE, *COMPLEX), _matrix_norms),
    row("aten.linalg_matrix_norm.str_ord", (*WHOLE, *COMPLEX), _named_norms),
    row("aten.linalg_cond.p_str", (*WHOLE, *COMPLEX), lambda d: [call(d.definite(3, 3), "fro"), call(d.definite(2, 3, 3), "nuc")]),
    row("aten.linalg_matrix_rank.default", (*WHOLE, *COMPLEX), lambda d: [call(_deficient(d), 1e-3), call(d.definite(3, 3), 0.5, True)]),
    row("aten.linalg_matrix_rank.tol_tensor", (*WHOLE, *COMPLEX), lambda d: [call(_deficient(d), torch.tensor(1e-3))]),
    row("aten.linalg_matrix_rank.atol_rtol_float", (*WHOLE, *COMPLEX), lambda d: [call(_deficient(d), atol=1e-3, rtol=1e-4), call(_deficient(d), atol=1e-3, hermitian=False)]),
    row("aten.linalg_matrix_rank.atol_rtol_tensor", (*WHOLE, *COMPLEX), lambda d: [call(_deficient(d), atol=torch.tensor(1e-3))]),
    row("aten.linalg_pinv.default", (*WHOLE, *COMPLEX), lambda d: [call(d(3, 4), 1e-6), call(d.definite(3, 3), 1e-6, True)]),
    row("aten.linalg_pinv.rcond_tensor", (*WHOLE, *COMPLEX), lambda d: [call(d(3, 4), torch.tensor(1e-6))]),
    row("aten.linalg_pinv.atol_rtol_float", (*WHOLE, *COMPLEX), lambda d: [call(d(4, 3), atol=0.0, rtol=1e-6)]),
    row("aten.linalg_eigh.default", (*WHOLE, *COMPLEX), lambda d: [call(d.definite(3, 3)), call(d.definite(2, 3, 3), "U")]),
]  # fmt: skip
