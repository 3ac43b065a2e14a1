"""Samples of random sampling. Generators cannot be kept, so every ``generator`` argument is None: the global one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.generators.rows import (
    BOOL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    REAL,
    WHOLE,
    Arguments,
    Draw,
    call,
    row,
    rows,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_SOBOL_BITS = 30


def _sized(d: Draw) -> Iterator[Arguments]:
    yield call([3, 4], generator=None, dtype=d.dtype)
    yield call([0, 2], generator=None, dtype=d.dtype)


def _bounded(d: Draw) -> Iterator[Arguments]:
    yield call(9, [3, 4], generator=None, dtype=d.dtype)
    yield call(1, [2], generator=None, dtype=d.dtype)


def _between(d: Draw) -> Iterator[Arguments]:
    yield call(2, 9, [3, 4], generator=None, dtype=d.dtype)
    yield call(0, 1, [5], generator=None, dtype=d.dtype)


def _permutation(d: Draw) -> Iterator[Arguments]:
    for n in (7, 1, 0):
        yield call(n, dtype=d.dtype)


def _own_permutation(d: Draw) -> Iterator[Arguments]:
    for n in (7, 1, 0):
        yield call(n, generator=None, dtype=d.dtype)


def _given(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4))
    yield call(d(0, 4))


def _own_given(d: Draw) -> Iterator[Arguments]:
    yield call(d(3, 4), generator=None)
    yield call(d(4, 3).t(), generator=None)


def _counts(d: Draw) -> Iterator[Arguments]:
    yield call(d.index(3, 4, high=9).to(d.dtype), d.probability(3, 4))
    yield call(d.index(5, high=30).to(d.dtype), d.probability(5))


def _sobol_state(dimension: int) -> torch.Tensor:
    """Return the direction numbers, int64, (dimension, 30), as torch.quasirandom.SobolEngine starts from."""
    state = torch.zeros(dimension, _SOBOL_BITS, dtype=torch.int64)
    return torch._sobol_engine_initialize_state_(state, dimension)


def _sobol_draw(d: Draw) -> Iterator[Arguments]:
    for dimension, n in ((3, 5), (1, 2)):
        state = _sobol_state(dimension)
        yield call(torch.zeros(dimension, dtype=torch.int64), n, state, dimension, 0, d.dtype)
        yield call(state[:, 0].contiguous(), n, state, dimension, 1, d.dtype)


def _sobol_forward(_: Draw) -> Iterator[Arguments]:
    yield call(torch.zeros(3, dtype=torch.int64), 4, _sobol_state(3), 3, 0)


def _sobol_scramble(d: Draw) -> Iterator[Arguments]:
    yield call(_sobol_state(2), torch.tril(d.index(2, _SOBOL_BITS, _SOBOL_BITS, high=2)), 2)


def _sobol_initialize(_: Draw) -> Iterator[Arguments]:
    for dimension in (1, 5):
        yield call(torch.zeros(dimension, _SOBOL_BITS, dtype=torch.int64), dimension)


_INT64 = (torch.int64,)
ROWS = [
    *rows("rand randn", (*FLOATS, *COMPLEX), _sized, overload="generator"),
    *rows("rand randn", (*FLOATS, *COMPLEX), lambda d: [call([3, 4], dtype=d.dtype), call([0, 2], dtype=d.dtype)]),
    row("aten.randint.default", REAL, lambda d: [call(9, [3, 4], dtype=d.dtype), call(1, [2], dtype=d.dtype)]),
    row("aten.randint.low", REAL, lambda d: [call(2, 9, [3, 4], dtype=d.dtype), call(0, 1, [2], dtype=d.dtype)]),
    row("aten.randint.generator", REAL, _bounded),
    row("aten.randint.low_generator", REAL, _between),
    *rows("rand_like randn_like", (*FLOATS, *COMPLEX), _given),
    *rows("rand_like randn_like", (*FLOATS, *COMPLEX), _own_given, overload="generator"),
    row("aten.randint_like.default", REAL, lambda d: [call(d(3, 4), 9), call(d(0, 2), 3)]),
    row("aten.randint_like.generator", REAL, lambda d: [call(d(3, 4), 9, generator=None), call(d(5), 1, generator=None)]),
    row("aten.randint_like.low_dtype", REAL, lambda d: [call(d(3, 4), 2, 9), call(d(5), 0, 1)]),
    row("aten.randint_like.low_generator_dtype", REAL, lambda d: [call(d(3, 4), 2, 9, generator=None), call(d(5), 0, 1, generator=None)]),
    row("aten.randint_like.Tensor", REAL, lambda d: [call(d(3, 4), torch.tensor(9)), call(d(5), torch.tensor(1))]),
    row("aten.randint_like.Tensor_generator", REAL, lambda d: [call(d(3, 4), torch.tensor(9), generator=None), call(d(5), torch.tensor(1), generator=None)]),
    row("aten.randperm.default", REAL, _permutation),
    row("aten.randperm.generator", REAL, _own_permutation),
    row("aten.random.default", (*REAL, *BOOL), _given),
    row("aten.random.to", REAL, lambda d: [call(d(3, 4), 9), call(d(2, 2), 1)]),
    row("aten.random.from", REAL, lambda d: [call(d(3, 4), 2, 9), call(d(3, 4), 0, None)]),
    row("aten.poisson.default", FLOATS, lambda d: [call(d.positive(3, 4)), call(torch.zeros(2, dtype=d.dtype))]),
    row("aten.binomial.default", WHOLE, _counts),
    row("aten._standard_gamma.default", WHOLE, lambda d: [call(d.positive(3, 4)), call(d.positive(2, 5) * 4)]),
    row("aten._standard_gamma_grad.default", WHOLE, lambda d: [call(d.positive(3, 4), d.positive(3, 4)), call(d.positive(5) * 4, d.positive(5) * 4)]),
    row("aten._sample_dirichlet.default", WHOLE, lambda d: [call(d.positive(3, 4)), call(d.positive(2, 5) * 4)]),
    row("aten._dirichlet_grad.default", WHOLE, lambda d: [call(d.probability(3, 4), d.positive(3, 4), d.positive(3, 4) + 4)]),
    row("aten.native_dropout.default", FLOATS, lambda d: [call(d(3, 4), 0.3, True), call(d(3, 4), 0.3, False), call(d(5), 0.0, True), call(d(2, 0), 0.5, None)]),
    row("aten.bernoulli.p", (*REAL, *BOOL), lambda d: [call(d(3, 4), 0.3), call(d(5), 1.0)]),
    row("aten.bernoulli.Tensor", (*REAL, *BOOL), lambda d: [call(d(3, 4), d(3, 4, low=0.05, high=0.95, dtype=torch.float32))]),
    row("aten.bernoulli.default", FLOATS, lambda d: [call(d.probability(3, 4))]),
    row("aten.normal.float_Tensor", FLOATS, lambda d: [call(0.5, d.positive(3, 4)), call(-1.0, d.positive(5))]),
    row("aten.normal_functional.default", FLOATS, lambda d: [call(d(3, 4)), call(d(2), 1.0, 0.5)]),
    *rows("cauchy log_normal uniform exponential", FLOATS, _given),
    row("aten.geometric.default", (*FLOATS, *INTEGERS), lambda d: [call(d(3, 4), 0.4), call(d(5), 0.9)]),
    row("aten.rrelu_with_noise.default", (*WHOLE, torch.bfloat16), lambda d: [call(d(3, 4), d(3, 4), 0.1, 0.3, True), call(d(3, 4), d(3, 4))]),
    *rows("dropout alpha_dropout", FLOATS, lambda d: [call(d(3, 4), 0.3, True), call(d(3, 4), 0.3, False)]),
    *rows("feature_dropout feature_alpha_dropout", FLOATS, lambda d: [call(d(2, 3, 4), 0.3, True)]),
    *rows("dropout_ alpha_dropout_", FLOATS, lambda d: [call(d(3, 4), 0.3, True), call(d(3, 4), 0.3, False)]),
    *rows("feature_dropout_ feature_alpha_dropout_", FLOATS, lambda d: [call(d(2, 3, 4), 0.3, True)]),
    row("aten.rrelu.default", (*WHOLE, torch.bfloat16), lambda d: [call(d(3, 4), 0.1, 0.3, True)]),
    row("aten._sobol_engine_draw.default", WHOLE, _sobol_draw),
    row("aten._sobol_engine_ff_.default", _INT64, _sobol_forward),
    row("aten._sobol_engine_scramble_.default", _INT64, _sobol_scramble),
    row("aten._sobol_engine_initialize_state_.default", _INT64, _sobol_initialize),
]  # fmt: skip
