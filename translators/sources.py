"""Decides what could compute an overload: our translators, torch's tables and references, and forms derived from them.

Imported by translators.installation, translators.tables and by what plans and verifies.
"""

from __future__ import annotations

import functools
import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_ops.translators.families import load
from neuron_ops.translators.registry import resolve
from neuron_ops.translators.variants import derive, functional_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch

OURS, CORE_TABLE, AUTOGRAD_TABLE, REFERENCES, FUNCTIONAL = (
    "ours",
    "torch core_aten_decompositions",
    "torch post_autograd",
    "torch _refs",
    "functional form",
)
SOURCES = (OURS, CORE_TABLE, AUTOGRAD_TABLE, REFERENCES, FUNCTIONAL)
"""Where functions come from, in the order in which equals are preferred. The last is the overload of PyTorch that computes
the same and changes nothing: a device may have it, or another translation serves it. It only ever serves derived forms."""

DERIVED = ", derived"
"""What a source's name ends with where the function was derived from the functional form."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A function that may compute `overload`, and where it comes from: one of SOURCES, perhaps with `DERIVED`."""

    overload: str
    source: str
    function: Callable[..., Any]


@functools.cache
def _core_table() -> Mapping[Any, Callable[..., Any]]:
    from torch._decomp import core_aten_decompositions

    table: Mapping[Any, Callable[..., Any]] = core_aten_decompositions()
    return table


@functools.cache
def _autograd_table() -> Mapping[Any, Callable[..., Any]]:
    importlib.import_module("torch._refs")  # fills the table
    from torch._decomp import global_decomposition_table

    return global_decomposition_table["post_autograd"]


def _reference(op: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """Return the function of torch._refs with the packet's name; whether it fits the overload only trying tells."""
    import torch._refs

    name = op._schema.name.partition("::")[2]
    return getattr(torch._refs, name) if name in torch._refs.__all__ else None


def _direct(op: torch._ops.OpOverload, source: str) -> Callable[..., Any] | None:
    if source == OURS:
        found = load().get(str(op))
        return None if found is None else found.function
    if source == FUNCTIONAL:
        return None  # it would be the overload itself
    if source == REFERENCES:
        return _reference(op)
    return (_core_table() if source == CORE_TABLE else _autograd_table()).get(op)


def function_of(overload: str, source: str) -> Callable[..., Any] | None:
    """Return the function that a source has for an overload, or None where this torch or we have none any more."""
    op = resolve(overload)
    if not source.endswith(DERIVED):
        return _direct(op, source)
    functional = functional_of(op)
    if functional is None or source == FUNCTIONAL + DERIVED:
        return None if functional is None else derive(op, functional)
    found = _direct(functional, source.removesuffix(DERIVED))
    return None if found is None else derive(op, found)


def candidates(overload: str) -> tuple[Candidate, ...]:
    """Return all functions that may compute the overload, ours first; nothing is said of whether they are right."""
    found: dict[Any, Candidate] = {}
    for source in SOURCES:
        for name in (source, source + DERIVED):
            function = function_of(overload, name)
            if function is not None:
                inner = getattr(function, "__wrapped__", function) if name.endswith(DERIVED) else function
                found.setdefault((inner, name.endswith(DERIVED)), Candidate(overload, name, function))
    return tuple(found.values())
