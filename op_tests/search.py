"""Decides what to try on an overload that nothing lends arguments to: combinations of likely values, named by the schema.

The CPU is the oracle: what it computes, three times alike, is a sample. Many combinations are wrong, some kill the
process; trials.py makes them in a child.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
import re
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.candidates import INDICES, SHAPES, candidates
from neuron_ops.op_tests.derivation import call_form, with_outputs
from neuron_ops.op_tests.packing import Sample, pack
from neuron_ops.op_tests.trials import Proposal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ALIGNED, COMBINATIONS = 160, 400
"""Combinations tried of an overload: with all tensors of one shape, and in all."""

SEARCHED = (torch.float32, torch.int64, torch.bool, torch.complex64)
"""Dtypes in which the search is made; its finds are cast to the others."""


def proposals(name: str, dtype: torch.dtype) -> Iterator[Proposal]:
    """Yield calls in one dtype, labelled ``search/<number>``: aligned shapes first, then a fixed random choice."""

    def made(values: dict[str, Any], given: torch.dtype | None) -> Sample:
        return pack(*call_form(name, with_outputs(name, values, given)))

    schema = catalogue.resolve(name)._schema.arguments
    outputs = [None, dtype, torch.int64, torch.bool] if any(a.is_out for a in schema) else [None]
    required = [a for a in schema if not a.is_out and not a.has_default_value()]
    kinds = [(a.name, str(a.real_type)) for a in required]
    for number, (values, given) in enumerate(itertools.product(_combinations(name, kinds, dtype), outputs)):
        arguments = {argument.name: value for argument, value in zip(required, values, strict=True)}
        yield Proposal(f"search/{number}", functools.partial(made, arguments, given))


def _combinations(name: str, kinds: Sequence[tuple[str, str]], dtype: torch.dtype) -> Iterator[tuple[Any, ...]]:
    pools = [_of_length(name, kind, candidates(argument, kind, dtype)) for argument, kind in kinds]
    chance = random.Random(name)  # noqa: S311 - the same choice every time is the point
    tensors = [kind in _TENSORS and _floating(argument) for argument, kind in kinds]
    for shape in range(len(SHAPES) if sum(tensors) > 1 else 0):
        aligned = [
            [pool[shape + _before(kind)]] if same else pool
            for pool, same, (_, kind) in zip(pools, tensors, kinds, strict=True)
        ]
        yield from _some(aligned, chance, ALIGNED // len(SHAPES))
    yield from _some(pools, chance, COMBINATIONS)


def _of_length(name: str, kind: str, pool: list[Any]) -> list[Any]:
    """Return of lists of integers those that fit the dimensions in the operator's name: two or four for ``conv2d``."""
    hint = re.search(r"(\d)d", name)
    if hint is None or (not kind.endswith("List[int]") and not kind.endswith("List[int]]")):
        return pool
    fitting = [value for value in pool if value is None or len(value) in (int(hint[1]), 2 + int(hint[1]))]
    return fitting if any(value is not None for value in fitting) else [[1] * int(hint[1])]


def _some(pools: Sequence[Sequence[Any]], chance: random.Random, most: int) -> Iterator[tuple[Any, ...]]:
    """Yield all combinations of the pools, or `most` that are drawn at random where there are more."""
    if math.prod(len(pool) for pool in pools) <= most:
        yield from itertools.product(*pools)
    else:
        yield from (tuple(chance.choice(pool) for pool in pools) for _ in range(most))


_TENSORS = ("Tensor", "Optional[Tensor]")


def _floating(argument: str) -> bool:
    return not INDICES.search(argument) and "mask" not in argument


def _before(kind: str) -> int:
    """Return how many candidates come before the tensors: None, where it is one."""
    return int(kind.startswith("Optional["))
