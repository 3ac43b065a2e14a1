"""Decides what a translator is: one function for one overload, checked against the schema when it is registered.

Needs torch. Imported by every family file and by translators.installation.
"""

from __future__ import annotations

import inspect
import keyword
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


class Unregistrable(TypeError):  # noqa: N818 - it names what the decorated function is
    """A function that cannot be a translator: the sentence says of which overload and why."""


class Refused(NotImplementedError):  # noqa: N818 - it says what the translator did
    """A translator does not serve this call, and has changed no argument of it: the device may serve it in its own way."""


@dataclass(frozen=True, slots=True)
class Translator:
    """A function that computes `overload` (three parts: ``aten.hardswish.default``) by other operators.

    `source` says where the formula is from: ours, a paper, a table of torch.
    """

    overload: str
    function: Callable[..., Any]
    source: str


REGISTRY: dict[str, Translator] = {}
"""Overload → its translator; filled by importing the family files."""


def resolve(overload: str) -> torch._ops.OpOverload:
    """Return the overload of that three-part name; raises Unregistrable for packets and unknown names."""
    namespace, _, rest = overload.partition(".")
    packet, _, name = rest.partition(".")
    if not name:
        raise Unregistrable(f"{overload!r} is a packet or no name at all; expected three parts such as aten.add.Tensor")
    try:
        found = getattr(getattr(getattr(torch.ops, namespace), packet), name)
    except AttributeError:
        raise Unregistrable(
            f"this torch ({torch.__version__}) knows no overload {overload!r}; see `neuron-ops ops`"
        ) from None
    assert isinstance(found, torch._ops.OpOverload)
    return found


def exists(overload: str) -> bool:
    """Return whether this torch knows the overload."""
    try:
        resolve(overload)
    except Unregistrable:
        return False
    return True


def translator(*overloads: str, source: str) -> Callable[[F], F]:
    """Register the decorated function for overloads of one schema; it comes back unchanged.

    Raises Unregistrable at import for a packet, an unknown overload, a second translator of an overload, and parameters
    that are not those of the schema: same names, order, kinds and defaults.
    """
    if not overloads:
        raise Unregistrable("translator() names no overload; expected at least one such as aten.add.Tensor")

    def register(function: F) -> F:
        for overload in overloads:
            op = resolve(overload)
            if overload in REGISTRY:
                raise Unregistrable(f"{overload} already has a translator, {REGISTRY[overload].function.__qualname__}")
            _check_signature(op, function)
            REGISTRY[overload] = Translator(overload, function, source)
        return function

    return register


def _check_signature(op: torch._ops.OpOverload, function: Callable[..., Any]) -> None:
    expected = [
        (a.name + "_" if keyword.iskeyword(a.name) else a.name, a.kwarg_only, _default(a)) for a in op._schema.arguments
    ]
    parameters = inspect.signature(function).parameters.values()
    found = [(p.name, p.kind is inspect.Parameter.KEYWORD_ONLY, p.default) for p in parameters]
    if len(found) == len(expected) and all(_same(f, e) for f, e in zip(found, expected, strict=True)):
        return
    wanted = ", ".join(
        f"{'*' if kind else ''}{name}{'' if default is inspect.Parameter.empty else f'={default!r}'}"
        for name, kind, default in expected
    )
    raise Unregistrable(
        f"{function.__qualname__}{inspect.signature(function)} differs from the schema of {op}; expected ({wanted}), "
        "where * marks keyword-only parameters"
    )


def _default(argument: torch.Argument) -> Any:
    return argument.default_value if argument.has_default_value() else inspect.Parameter.empty


def _same(found: tuple[str, bool, Any], expected: tuple[str, bool, Any]) -> bool:
    if found[:2] != expected[:2]:
        return False
    ours, theirs = found[2], expected[2]
    if isinstance(ours, float) and isinstance(theirs, float) and math.isnan(ours) and math.isnan(theirs):
        return True
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return list(ours) == list(theirs)
    return bool(ours == theirs and type(ours) is type(theirs)) or ours is theirs
