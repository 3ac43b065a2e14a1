"""Decides which model and which inputs a user's file names."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.records import BadInput
from torch.nn.modules.loss import _Loss

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import ModuleType

FACTORIES = ("build_model", "get_model", "model")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that a file names: what it is called there, and the call that returns it."""

    name: str
    build: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of one call of the model."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def import_folder(file: Path) -> tuple[Path, str]:
    """Return the folder that must be on sys.path to import the file, and its module name (``pkg.model`` in a package)."""
    folder, name = file.parent, file.stem
    while (folder / "__init__.py").exists() and folder != folder.parent:
        folder, name = folder.parent, f"{folder.name}.{name}"
    return folder, name


def load_file(file: Path) -> ModuleType:
    """Import the file as if it were found on sys.path, its folder first; raises whatever its code raises.

    Its name is never ``__main__``, so that guarded blocks do not run.
    """
    folder, name = import_folder(file)
    sys.path.insert(0, str(folder))
    if "." in name:
        return importlib.import_module(name)
    if name in sys.modules or name in sys.stdlib_module_names:  # a file called types.py must not replace that module
        name = f"checked_{name}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # files beside it may import it, and dataclasses look themselves up here
    spec.loader.exec_module(module)
    return module


def find_model(module: ModuleType, attribute: str | None) -> Candidate:
    """Return the model that the attribute names, or the only candidate; raises BadInput where there is none or several.

    Looked for in this order: module-level instances (losses and parts of other instances aside), factories without
    required arguments named in FACTORIES, classes of this file that can be built without arguments.
    """
    if attribute is not None:
        return _named(module, attribute)
    for found in (_instances(module), _factories(module), _classes(module)):
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(candidate.name for candidate in found)
            raise BadInput(
                f"{module.__file__} has several models ({names}); expected one; name it, such as "
                f"`neuron-ops check {module.__file__}:{found[0].name}`"
            )
    raise BadInput(
        f"{module.__file__} has no model; expected an nn.Module instance, a function build_model() without arguments or "
        f"an nn.Module class without required arguments{_near_misses(module)}; write one, or name another attribute as "
        "FILE.py:NAME"
    )


def find_inputs(module: ModuleType, model: torch.nn.Module) -> Inputs:
    """Return the arguments that `example_inputs` or `get_inputs()` in the file give; raises BadInput without either."""
    if hasattr(module, "example_inputs"):
        name, value = "example_inputs", module.example_inputs
        value = value() if inspect.isfunction(value) else value
    elif hasattr(module, "get_inputs"):
        name, value = "get_inputs()", module.get_inputs()
    else:
        raise BadInput(
            f"{module.__file__} does not say what to call the model with; expected `example_inputs` (a tensor, a tuple "
            f"of arguments or a dict of keyword arguments) or a function `get_inputs()` that returns one; "
            f"write for example `{_suggestion(model)}` at the end of the file"
        )
    if isinstance(value, torch.Tensor):
        return Inputs((value,), {})
    if isinstance(value, (tuple, list)):
        return Inputs(tuple(value), {})
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        keys = list(value.keys())
        if all(isinstance(key, str) for key in keys):
            return Inputs((), {key: value[key] for key in keys})
    raise BadInput(
        f"{name} in {module.__file__} is a {type(value).__name__}; expected a tensor, a tuple of arguments or a dict of "
        "keyword arguments; change it"
    )


def describe(value: object) -> str:
    """Return tensors as ``float32[2, 3]`` and containers around them, other values shortened."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, Inputs):
        return ", ".join([describe(v) for v in value.args] + [f"{k}={describe(v)}" for k, v in value.kwargs.items()])
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {describe(v)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "(" + ", ".join(describe(item) for item in value) + ")"
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        text = repr(value)
        return text if len(text) <= 40 else f"{text[:39]}…"
    return type(value).__name__


def converted(value: Any, change: Callable[[torch.Tensor], torch.Tensor], seen: dict[int, Any] | None = None) -> Any:
    """Return the value with every tensor changed; a tensor that occurs twice stays one tensor.

    Looks into tuples, lists and dicts. Other objects that hold tensors stay as they are.
    """
    # Models ask `query is key`, so identity matters; `seen` also keeps the originals' ids taken.
    seen = {} if seen is None else seen
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen[id(value)] = change(value)
        return seen[id(value)]
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):  # its batch sizes belong on the CPU
        names = ("data", "sorted_indices", "unsorted_indices")
        return value._replace(**{name: converted(getattr(value, name), change, seen) for name in names})
    if isinstance(value, dict):
        return _rebuilt(value, {k: converted(v, change, seen) for k, v in value.items()})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(converted(item, change, seen) for item in value))
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(converted(item, change, seen) for item in value)
    return value


def _rebuilt(original: dict[Any, Any], items: dict[Any, Any]) -> Any:
    return items if type(original) is dict else type(original)(**items)


def _named(module: ModuleType, attribute: str) -> Candidate:
    value: object = module
    for part in attribute.split("."):
        if not hasattr(value, part):
            names = [c.name for c in (*_instances(module), *_factories(module), *_classes(module))]
            hint = f"name one of: {', '.join(names)}" if names else "look at the names in the file"
            raise BadInput(f"{module.__file__} has no {attribute!r}; expected a model or what builds one; {hint}")
        value = getattr(value, part)
    if isinstance(value, torch.nn.Module):
        return Candidate(attribute, functools.partial(_itself, value))
    if callable(value):
        required = _required(value)
        if required == []:
            return Candidate(attribute, value)
        raise BadInput(
            f"{attribute} in {module.__file__} takes arguments ({', '.join(required or ['unknown'])}); expected a model, "
            f"or a class or function without required arguments; write `def build_model(): return {attribute}(...)`"
        )
    raise BadInput(
        f"{attribute} in {module.__file__} is a {type(value).__name__}; expected an nn.Module, or a class or function "
        "that builds one; name another"
    )


def _itself(value: object) -> object:
    return value


def _required(function: Callable[..., object]) -> list[str] | None:
    """Return the names of the required parameters, or None where Python cannot tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in loose]


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


def _near_misses(module: ModuleType) -> str:
    """Return what else the file defines, in words, or nothing."""
    classes = [cls.__name__ for cls in _own_classes(module)]
    functions = [n for n, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
    named = [f"{kind} {', '.join(names)}" for kind, names in (("classes", classes), ("functions", functions)) if names]
    return f" (it has {' and '.join(named)})" if named else ""


def _suggestion(model: torch.nn.Module) -> str:
    """Return a line that names the parameters of `forward`, with the values left to the user."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return "example_inputs = (...,)"
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p for p in parameters if p.kind not in loose and p.default is p.empty] or list(parameters)[:1]
    if any(p.kind is p.KEYWORD_ONLY for p in needed):
        return "example_inputs = {" + ", ".join(f'"{p.name}": ...' for p in needed) + "}"
    names = ", ".join(f"<{p.name}>" for p in needed)
    return f"example_inputs = ({names},)" if len(needed) == 1 else f"example_inputs = ({names})"
