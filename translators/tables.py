"""Gives the translators as a decomposition table for torch.compile backends and torch.export.

Exported by translators.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from neuron_ops.translators.choices import shipped_choices
from neuron_ops.translators.registry import exists, resolve
from neuron_ops.translators.sources import function_of
from neuron_ops.translators.variants import written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    import torch


def decomposition_table(target_ops: Collection[str] = ()) -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """Return overload → function of all verified translators that change none of their arguments.

    Give it to a backend's `decompositions=` or to `ExportedProgram.run_decompositions`. `target_ops` are overloads that
    the target serves itself; they are left out.
    """
    table: dict[torch._ops.OpOverload, Callable[..., Any]] = {}
    for name, choice in shipped_choices().items():
        if name in target_ops or not exists(name) or written(op := resolve(name)):
            continue
        if (function := function_of(name, choice.source)) is not None:
            table[op] = function
    return table
