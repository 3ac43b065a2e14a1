"""Samples of the entry points that PyTorch calls for PrivateUse1 devices only.

The CPU has no kernel for them: their reference is the overload that data/exclusions.toml names. Only those whose
arguments are also that overload's have a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuron_ops.op_tests.generators.rows import FLOATS, Arguments, Draw, call, row

if TYPE_CHECKING:
    from collections.abc import Iterator


def _convolution(d: Draw) -> Iterator[Arguments]:
    yield call(d(2, 3, 6, 6), d(4, 3, 3, 3), d(4), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    yield call(d(1, 4, 7), d(4, 2, 3), None, [2], [0], [2], False, [0], 2)
    yield call(d(1, 4, 5, 5), d(4, 1, 3, 3), d(2), [2, 2], [1, 1], [1, 1], True, [1, 1], 2)


ROWS = [row("aten.convolution_overrideable.default", FLOATS, _convolution)]
