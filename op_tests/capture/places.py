"""Tells where a call comes from: the line of the user's code and the module of the model."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import sysconfig
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.modules import module as hooks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_OURS = tuple(
    str(Path(__file__).parents[2] / name) + os.sep
    for name in ("cli", "coverage_db", "op_tests", "translators", "web", "workers")
)
_TORCH = str(Path(torch.__file__).parent) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep


class ModulePath:
    """The path of the module whose forward is running, such as ``encoder.layers.0``; kept by hooks of torch, per thread."""

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._thread = threading.local()

    @contextlib.contextmanager
    def follow(self, model: torch.nn.Module) -> Iterator[None]:
        """Return a context in which calls of the model's modules are followed; nothing of it stays on the model."""
        self._names = {id(part): name for name, part in model.named_modules()}
        # Global hooks: the model's own hook tables, which code may look at, stay as they are.
        before = hooks.register_module_forward_pre_hook(self._enter)
        after = hooks.register_module_forward_hook(self._leave, always_call=True)
        try:
            yield
        finally:
            before.remove()
            after.remove()

    def here(self) -> str | None:
        """Return the innermost named module, or None outside the model and in its own forward."""
        return next((name for name in reversed(self._stack()) if name is not None), None) or None

    def _stack(self) -> list[str | None]:
        if not hasattr(self._thread, "stack"):
            self._thread.stack = []
        stack: list[str | None] = self._thread.stack
        return stack

    def _enter(self, part: torch.nn.Module, args: Any) -> None:  # noqa: ARG002 - torch's signature
        self._stack().append(self._names.get(id(part)))

    def _leave(self, part: torch.nn.Module, args: Any, out: Any) -> None:  # noqa: ARG002 - torch's signature
        if self._stack():
            self._stack().pop()


class Origins:
    """Remembers where each node of autograd's graph comes from, so that backward is told by the line of its forward."""

    def __init__(self, places: Places, path: ModulePath) -> None:
        self._places, self._path = places, path
        self._known: dict[int, tuple[str | None, str | None]] = {}

    def here(self) -> tuple[str | None, str | None]:
        """Return ``file:line`` and module path of the running call, in backward those of the call that it derives."""
        node, module = torch._C._current_autograd_node(), self._path.here()
        if node is not None and module is None:  # with a module, forward runs again within backward (checkpointing)
            known = self._known.get(node._sequence_nr())
            if known is not None:
                return known
        place = self._places.here(), module
        if torch.is_grad_enabled():
            # Autograd makes its node before it calls the kernel, so the newest number is this call's, unless it has none.
            self._known.setdefault(torch._C._autograd._get_sequence_nr() - 1, place)
        return place


class Places:
    """Tells which frames are the user's: those of files below their folder, installed packages aside."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder) + os.sep
        self._ranks: dict[str, int] = {}

    def rank(self, filename: str) -> int:
        """Return 0 for the user's files, 1 for installed packages, 2 for torch, Python and ourselves."""
        if filename not in self._ranks:
            self._ranks[filename] = self._judge(filename)
        return self._ranks[filename]

    def _judge(self, filename: str) -> int:
        installed = "site-packages" in filename or "dist-packages" in filename
        if filename.startswith(_OURS):  # also where an environment lies in the user's folder
            return 2
        if filename.startswith((_TORCH, "<")) and not self._in_folder(filename):
            return 2
        if installed:
            return 1 if not filename.startswith(_TORCH) else 2
        if self._in_folder(filename):
            return 0
        return 2 if filename.startswith(_STDLIB) else 1

    def _in_folder(self, filename: str) -> bool:
        return filename.startswith(self._folder)

    def here(self) -> str | None:
        """Return ``file:line`` of the innermost frame of the user's, else of a package, or None."""
        best = self._innermost(sys._getframe(1))
        main = threading.main_thread().ident
        if best is None and main is not None and main != threading.get_ident():
            # Device backward runs in autograd's thread; the line that asked for it waits in the main one.
            best = self._innermost(sys._current_frames().get(main))
        return best

    def _innermost(self, frame: FrameType | None) -> str | None:
        package = None
        while frame is not None:
            rank = self.rank(frame.f_code.co_filename)
            if rank == 0:
                return shown(frame.f_code.co_filename, frame.f_lineno)
            if rank == 1 and package is None:
                package = shown(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return package


@functools.cache
def shown(filename: str, line: int | None) -> str:
    """Return ``file:line``, relative to the working directory where the file is below it."""
    path = Path(filename)
    return f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}:{line or 0}"
