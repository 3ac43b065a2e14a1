"""Decides which model, or which function that calls models, a user's module names."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.capture.entries import FunctionEntry
from neuron_ops.op_tests.records import BadInput
from torch.nn.modules.loss import _Loss

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

FACTORIES = ("build_model", "get_model", "model")
INPUTS = ("example_inputs", "get_inputs")
"""Names by which a file gives the inputs; functions of these names are no models."""


class NoModel(BadInput):
    """The file holds nothing that could be the model."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that a file names: what it is called there, and the call that returns it."""

    name: str
    build: Callable[[], object]


def find_model(module: ModuleType, attribute: str | None, *, call: bool = False) -> Candidate:
    """Return the model that the attribute names, or the only candidate; raises BadInput where there is none or several.

    Looked for in this order: module-level instances (losses and parts of other instances aside), factories without
    required arguments named in FACTORIES, classes of this file that can be built without arguments, and, where the file
    gives inputs, functions that take arguments: these are called, and the models they call are moved. With `call` the
    attribute is such a function whatever its arguments.
    """
    if attribute is not None:
        return _named(module, attribute, call=call)
    for found in (_instances(module), _factories(module), _classes(module), _entry_functions(module)):
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(candidate.name for candidate in found)
            raise BadInput(
                f"{module.__file__} has several models ({names}); expected one; name it, such as "
                f"`neuron-ops check {module.__file__}:{found[0].name}`"
            )
    raise NoModel(
        f"{module.__file__} has no model; expected an nn.Module instance, a function build_model() without arguments or "
        f"an nn.Module class without required arguments{_near_misses(module)}; {_what_to_name(module)}"
    )


def _named(module: ModuleType, attribute: str, *, call: bool) -> Candidate:
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            found = (*_instances(module), *_factories(module), *_classes(module), *_entry_functions(module))
            names = [candidate.name for candidate in found]
            hint = f"name one of: {', '.join(names)}" if names else "look at the names in the file"
            raise BadInput(f"{module.__file__} has no {attribute!r}; expected a model or what builds one; {hint}")
        value = getattr(value, part)
    if isinstance(value, torch.nn.Module):
        return Candidate(attribute, functools.partial(_itself, value))
    if not callable(value):
        raise BadInput(
            f"{attribute} in {module.__file__} is a {type(value).__name__}; expected an nn.Module, or a class or function "
            "that builds one; name another"
        )
    required = _required(value)
    is_method = isinstance(getattr(value, "__self__", None), torch.nn.Module)
    if call or is_method or (required and not isinstance(value, type) and _gives_inputs(module)):
        return _entry(attribute, value)
    if required == []:
        return Candidate(attribute, value)
    raise BadInput(
        f"{attribute} in {module.__file__} takes arguments ({', '.join(required or ['unknown'])}); expected a model, "
        f"or a class or function without required arguments; write `def build_model(): return {attribute}(...)`"
    )


def _itself(value: object) -> object:
    return value


def _entry(name: str, function: Callable[..., object]) -> Candidate:
    return Candidate(name, functools.partial(FunctionEntry, function))


def _required(function: Callable[..., object]) -> list[str] | None:
    """Return the names of the required parameters, or None where Python cannot tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in loose]


def _gives_inputs(module: ModuleType) -> bool:
    return any(hasattr(module, name) for name in INPUTS)


def _instances(module: ModuleType) -> list[Candidate]:
    named: dict[int, tuple[str, torch.nn.Module]] = {}
    for name, value in vars(module).items():
        if isinstance(value, torch.nn.Module) and not isinstance(value, _Loss):
            named.setdefault(id(value), (name, value))
    parts = {id(part) for _, whole in named.values() for part in whole.modules() if part is not whole}
    return [
        Candidate(name, functools.partial(_itself, value)) for key, (name, value) in named.items() if key not in parts
    ]


def _factories(module: ModuleType) -> list[Candidate]:
    found = ((name, getattr(module, name, None)) for name in FACTORIES)
    return [Candidate(name, value) for name, value in found if inspect.isfunction(value) and _required(value) == []]


def _own_classes(module: ModuleType) -> list[type[torch.nn.Module]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, torch.nn.Module) and value.__module__ == module.__name__
    ]


def _classes(module: ModuleType) -> list[Candidate]:
    return [Candidate(cls.__name__, cls) for cls in _own_classes(module) if _required(cls) == []]


def _functions(module: ModuleType) -> dict[str, Callable[..., object]]:
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name not in INPUTS
    }


def _entry_functions(module: ModuleType) -> list[Candidate]:
    if not _gives_inputs(module):
        return []
    named = getattr(module, "model", None)  # `from theirs import run as model`
    if inspect.isfunction(named):
        return [_entry("model", named)]
    return [_entry(name, value) for name, value in _functions(module).items() if _required(value)]


def _near_misses(module: ModuleType) -> str:
    """Return what else the file defines, in words, or nothing."""
    classes = [cls.__name__ for cls in _own_classes(module)]
    functions = list(_functions(module))
    named = [f"{kind} {', '.join(names)}" for kind, names in (("classes", classes), ("functions", functions)) if names]
    return f" (it has {' and '.join(named)})" if named else ""


def _what_to_name(module: ModuleType) -> str:
    builders = [name for name, value in _functions(module).items() if _required(value) == [] and name != "main"]
    if builders:
        return (
            f"name what builds it, such as {module.__file__}:{builders[0]}, or give the script its arguments after --"
        )
    return "write one, or name another attribute as FILE.py:NAME"
