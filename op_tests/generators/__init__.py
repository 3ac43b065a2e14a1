"""Decides the hand-written samples: overloads whose arguments neither OpInfo records nor another overload lends."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.generators import (
    attention,
    convolution,
    derivatives,
    elementwise,
    factories,
    foreach,
    indexing,
    normalization,
    optimizers,
    privateuse1,
    products,
    quantization,
    random_numbers,
    recurrent,
    resampling,
    views,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import torch
    from neuron_ops.op_tests.generators.rows import Row

FAMILIES: Mapping[str, Sequence[Row]] = {
    "attention": attention.ROWS,
    "convolution": convolution.ROWS,
    "derivatives": derivatives.ROWS,
    "elementwise": elementwise.ROWS,
    "factories": factories.ROWS,
    "foreach": foreach.ROWS,
    "indexing": indexing.ROWS,
    "normalization": normalization.ROWS,
    "optimizers": optimizers.ROWS,
    "privateuse1": privateuse1.ROWS,
    "products": products.ROWS,
    "quantization": quantization.ROWS,
    "random": random_numbers.ROWS,
    "recurrent": recurrent.ROWS,
    "resampling": resampling.ROWS,
    "views": views.ROWS,
}
"""Family → rows. The key is the first part of the labels, so that renaming it makes other cases."""


def hand_samples(dtype: torch.dtype) -> Iterator[tuple[str, str, tuple[tuple[Any, ...], dict[str, Any]]]]:
    """Yield (overload name, label ``family/number``, (args, kwargs)) of every hand-written sample of a dtype.

    Tensors are on the CPU and no two calls share memory. The values depend on the dtype only: no global random state is
    read, and none is changed.
    """
    numbers: collections.Counter[tuple[str, str]] = collections.Counter()
    for family, rows in FAMILIES.items():
        for row in rows:
            for name, arguments in row.calls(dtype):
                number = numbers[name, family]
                numbers[name, family] += 1
                yield name, f"{family}/{number}", arguments
