"""Decides how functions of each tensor in a list are computed: one after the other.

Imported by translators.families.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.translators.registry import exists, translator

if TYPE_CHECKING:
    from collections.abc import Callable

UNARY = (
    "abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1", "floor", "frac", "lgamma", "log", "log10",
    "log1p", "log2", "neg", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip


def _each(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    def call(self: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return the function of each tensor."""
        return [function(tensor) for tensor in self]

    return call


for _name in UNARY:
    if exists(_overload := f"aten._foreach_{_name}.default"):
        translator(_overload, source=f"definition, {_name} of each tensor")(_each(getattr(torch, _name)))
