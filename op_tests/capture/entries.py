"""What is run in place of a model: a function that calls models, or a whole script."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class FunctionEntry(torch.nn.Module):
    """A function as a module whose parts are the models that the function reaches, so that they move with it.

    It runs as it is: nothing sets train or eval mode of its models, or takes gradients away. Tensors that it makes
    without naming a device are made on `device`, because a step that builds its own model builds it where it runs.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function
        self.device: str | None = None
        self.reached = torch.nn.ModuleList(_modules_of(function))

    def train(self, mode: bool = True) -> FunctionEntry:  # noqa: ARG002 - torch's signature
        """Return self: the function's models keep their modes."""
        return self

    def forward(self, *args: Any, **kwargs: Any) -> object:
        """Return what the function returns."""
        with torch.device(self.device) if self.device else contextlib.nullcontext():
            return self.function(*args, **kwargs)


def kind_of(model: torch.nn.Module) -> str:
    """Return what the report calls the model's type."""
    return "called as it is" if isinstance(model, FunctionEntry) else type(model).__name__


def on_device(model: torch.nn.Module, device: str) -> torch.nn.Module:
    """Return the model on the device; TorchScript cannot exchange its parameters, so it is written and read again."""
    if not isinstance(model, torch.jit.ScriptModule):
        return model.to(device)
    archive = io.BytesIO()
    torch.jit.save(model, archive)
    archive.seek(0)
    moved: torch.nn.Module = torch.jit.load(archive, map_location=device)
    return moved


def _modules_of(function: Callable[..., object]) -> list[torch.nn.Module]:
    """Return the models that the function names: globals that its code uses, closures, bound and partial arguments."""
    found: dict[int, torch.nn.Module] = {}
    for value in _reached(function, set()):
        if isinstance(value, torch.nn.Module):
            found.setdefault(id(value), value)
    parts = {id(part) for whole in found.values() for part in whole.modules() if part is not whole}
    return [module for key, module in found.items() if key not in parts]


def _reached(function: object, seen: set[int]) -> Iterator[object]:
    """Yield the values that a function names, and those that its neighbours which it calls name."""
    if isinstance(function, functools.partial):
        yield from (*function.args, *function.keywords.values())
        yield from _reached(function.func, seen)
        return
    owner = getattr(function, "__self__", None)
    if owner is not None:
        yield owner
        yield from getattr(owner, "__dict__", {}).values()
    function = inspect.unwrap(function) if callable(function) else function
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen:
        return
    seen.add(id(code))
    cells = [cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _is_filled(cell)]
    space = getattr(function, "__globals__", {})
    for value in (*cells, *(space[name] for name in code.co_names if name in space)):
        yield value
        if inspect.isfunction(value) and value.__globals__ is space:
            yield from _reached(value, seen)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading is the test
    except ValueError:
        return False
    return True
