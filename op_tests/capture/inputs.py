"""Decides what a model is called with, and how that is written in a report."""

from __future__ import annotations

import ast
import copy
import inspect
import re
from dataclasses import dataclass
from types import FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.capture.entries import FunctionEntry
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_SPEC = re.compile(r"(\w+)\[([\d,\s]*)\](?:>=(-?\d+))?(?:<(-?\d+))?")
_NAMED = re.compile(r"([A-Za-z_]\w*)\s*:\s*(.+)", re.DOTALL)
_LOOSE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of one call of the model; `assumed` says what they were guessed from."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    assumed: str | None = None


def given_inputs(module: ModuleType) -> Inputs | None:
    """Return the arguments that `example_inputs` or `get_inputs()` in the file give, or None; raises BadInput."""
    if hasattr(module, "example_inputs"):
        name, value = "example_inputs", module.example_inputs
        value = value() if inspect.isfunction(value) else value
    elif hasattr(module, "get_inputs"):
        name, value = "get_inputs()", module.get_inputs()
    else:
        return None
    if isinstance(value, torch.Tensor):
        return Inputs((value,), {})
    if isinstance(value, (tuple, list)):
        if len(value) == 2 and isinstance(value[0], (tuple, list)) and isinstance(value[1], dict):  # as torch.export
            return Inputs(tuple(value[0]), value[1])
        return Inputs(tuple(value), {})
    if hasattr(value, "keys") and hasattr(value, "__getitem__"):
        keys = list(value.keys())
        if all(isinstance(key, str) for key in keys):
            return Inputs((), {key: value[key] for key in keys})
    raise BadInput(
        f"{name} in {module.__file__} is a {type(value).__name__}; expected a tensor, a tuple of arguments or a dict of "
        "keyword arguments; change it"
    )


def described_inputs(specs: Sequence[str]) -> Inputs:
    """Return the arguments that ``x:float32[1,3,224,224]`` and the like describe; raises BadInput.

    Without a name it is a positional argument. Integers are below 2 unless a range follows (``ids:int64[1,16]<1000``,
    ``>=5<9``), because every table has two rows; what is no tensor is a Python literal (``use_cache:False``).
    """
    generator = torch.Generator().manual_seed(0)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for spec in specs:
        named = _NAMED.fullmatch(spec.strip())
        value = _made(named[2] if named else spec.strip(), spec, generator)
        if named:
            kwargs[named[1]] = value
        else:
            args.append(value)
    return Inputs(tuple(args), kwargs)


def _made(text: str, spec: str, generator: torch.Generator) -> Any:
    found = _SPEC.fullmatch(text)
    if found is None:
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError):
            raise BadInput(
                f"{spec!r} is no input; expected NAME:DTYPE[SIZES] such as x:float32[1,3,224,224] or "
                "ids:int64[1,16]<1000; write it so"
            ) from None
    dtype = getattr(torch, found[1], None)
    if not isinstance(dtype, torch.dtype):
        raise BadInput(f"{found[1]!r} in {spec!r} is no dtype; expected one such as float32 or int64; change it")
    sizes = [int(size) for size in found[2].split(",") if size.strip()]
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(sizes, generator=generator).to(dtype)
    low, high = int(found[3] or 0), int(found[4] or 2)
    if high <= low:
        raise BadInput(f"the range of {spec!r} is empty; expected >=LOW<HIGH with LOW below HIGH; change it")
    return torch.randint(low, high, sizes, generator=generator).to(dtype)


def accepted(model: torch.nn.Module, inputs: Inputs, source: str) -> Inputs:
    """Return the inputs if the model's parameters take them; raises BadInput that names the parameters otherwise."""
    signature = _signature(model)
    if signature is not None:
        try:
            signature.bind(*inputs.args, **inputs.kwargs)
        except TypeError as error:
            raise BadInput(
                f"{_called(model)} cannot be called with {describe(inputs) or 'no arguments'} ({error}); expected what "
                f"{signature} takes; change {source}"
            ) from None
    return inputs


def missing_inputs(file: str, model: torch.nn.Module, tried: str = "") -> BadInput:
    """Return the error that says what is missing and names the parameters."""
    return BadInput(
        f"{file} does not say what to call the model with{tried}; expected `example_inputs` (a tensor, a tuple "
        f"of arguments or a dict of keyword arguments), a function `get_inputs()` that returns one, or --input; "
        f"write for example `{_suggestion(model)}` at the end of the file"
    )


def needed(model: torch.nn.Module) -> list[inspect.Parameter] | None:
    """Return the required parameters, else the first one; None where Python cannot tell."""
    signature = _signature(model)
    if signature is None:
        return None
    parameters = [p for p in signature.parameters.values() if p.kind not in _LOOSE]
    return [p for p in parameters if p.default is p.empty] or parameters[:1]


def _called(model: torch.nn.Module) -> str:
    if isinstance(model, FunctionEntry):
        return getattr(model.function, "__name__", "the function")
    return f"{type(model).__name__}.forward"


def _signature(model: torch.nn.Module) -> inspect.Signature | None:
    try:
        return inspect.signature(model.function if isinstance(model, FunctionEntry) else model.forward)
    except (TypeError, ValueError):
        return None


def _suggestion(model: torch.nn.Module) -> str:
    """Return a line that names the parameters of `forward`, with the values left to the user."""
    parameters = needed(model)
    if not parameters:
        return "example_inputs = (...,)"
    if any(p.kind is p.KEYWORD_ONLY for p in parameters):
        return "example_inputs = {" + ", ".join(f'"{p.name}": ...' for p in parameters) + "}"
    names = ", ".join(f"<{p.name}>" for p in parameters)
    return f"example_inputs = ({names},)" if len(parameters) == 1 else f"example_inputs = ({names})"


def describe(value: object) -> str:
    """Return tensors as ``float32[2, 3]`` and containers around them, other values shortened."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, Inputs):
        text = ", ".join([describe(v) for v in value.args] + [f"{k}={describe(v)}" for k, v in value.kwargs.items()])
        return f"{text} (assumed from {value.assumed})" if value.assumed else text
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

    Looks into tuples, lists, dicts, and into the attributes of other objects (caches, batches), which are copied where
    they hold tensors.
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
    return _with_attributes(value, change, seen)


def _with_attributes(value: Any, change: Callable[[torch.Tensor], torch.Tensor], seen: dict[int, Any]) -> Any:
    """Return a copy of the object with changed tensors in its attributes, or the object where there are none."""
    if id(value) in seen:
        return seen[id(value)]
    held = _attributes(value)
    if not _holds_tensor(held, set()):
        return value
    seen[id(value)] = moved = copy.copy(value)
    seen[id(moved)] = moved  # objects may refer to each other; this one also keeps the original's id taken
    moved.__dict__.update({name: converted(item, change, seen) for name, item in held.items()})
    return moved


def _attributes(value: Any) -> dict[str, Any]:
    """Return the attributes of an object that is data: not of types, modules and functions."""
    if isinstance(value, (type, ModuleType, FunctionType, MethodType, torch.nn.Module)):
        return {}
    held = getattr(value, "__dict__", None)
    return held if isinstance(held, dict) else {}


def _holds_tensor(value: Any, seen: set[int]) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    inner = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, (list, tuple))
        else _attributes(value).values()
    )
    return any(_holds_tensor(item, seen) for item in inner)


def _rebuilt(original: dict[Any, Any], items: dict[Any, Any]) -> Any:
    return items if type(original) is dict else type(original)(**items)
