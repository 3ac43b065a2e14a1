"""Gives the translators as a decomposition table for torch.compile backends and torch.export.

Exported by translators.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.choices import shipped_choices
from neuron_ops.translators.installation import call_dtype, torch_dtypes
from neuron_ops.translators.registry import exists, resolve
from neuron_ops.translators.sources import OURS, function_of
from neuron_ops.translators.variants import written

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_REINTERPRET = frozenset({"aten.complex.default", "aten.polar.default", "aten.view_as_complex.default"})
"""Overloads for which torch._refs has functions over `prims.view_of_dtype`, which a functional graph cannot hold."""


def decomposition_table(target_ops: Collection[str] = ()) -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """Return overload → function of the verified translators that change none of their arguments and draw no numbers.

    Give it to a backend's `decompositions=` or to `ExportedProgram.run_decompositions`. `target_ops` are overloads that
    the target serves itself; they are left out. A call in a dtype that was not verified, or that a translator refuses,
    is not decomposed. Our random numbers are left out: their seed, drawn when a graph is traced, would be that of every run.
    """
    table: dict[torch._ops.OpOverload, Callable[..., Any]] = {}
    for name, choice in shipped_choices().items():
        if name in target_ops or not exists(name) or written(op := resolve(name)):
            continue
        if torch.Tag.nondeterministic_seeded in op.tags if choice.source == OURS else name in _REINTERPRET:
            continue
        if (function := function_of(name, choice.source)) is not None:
            table[op] = _decomposition(function, torch_dtypes(choice.dtypes))
    return table


def _decomposition(function: Callable[..., Any], dtypes: frozenset[torch.dtype]) -> Callable[..., Any]:
    # A graph has no place for the writes into fresh tensors that translators do inside.
    from torch._subclasses.functional_tensor import dispatch_functionalize

    functional: Callable[..., Any] = dispatch_functionalize(function)

    @functools.wraps(function)
    def decompose(*args: Any, **kwargs: Any) -> Any:
        if call_dtype(args, kwargs) not in dtypes:
            return NotImplemented
        try:
            return functional(*args, **kwargs)
        except NotImplementedError:
            return NotImplemented

    return decompose
