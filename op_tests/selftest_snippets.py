"""Runs one snippet of a fault list and hands back what it set; snippets are code of others, so only in a throwaway process."""

from __future__ import annotations

import ast
import builtins
import contextlib
import importlib
import io
import re
import textwrap
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

ANY_ERROR = frozenset({"any-error", "any error", "any_error", "error", "raises"})
"""Words that stand for whatever exception."""

_LAST = "__value_of_the_last_line__"
_MODULES = {
    "F": "torch.nn.functional", "nn": "torch.nn", "np": "numpy", "numpy": "numpy", "math": "math", "os": "os", "sys": "sys", "time": "time",
    "random": "random", "warnings": "warnings", "itertools": "itertools", "functools": "functools", "copy": "copy", "re": "re", "gc": "gc",
}  # fmt: skip


class Unset(Exception):  # noqa: N818 - an answer, not an error
    """The snippet ran and set none of the names."""


class NotPython(Exception):  # noqa: N818
    """The text is no Python, however it is read."""


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that took the place of a result: the names of its class and of what that derives from, its words."""

    names: tuple[str, ...]
    words: str

    @classmethod
    def of(cls, error: BaseException) -> Raised:
        """Return the record of an exception."""
        return cls(tuple(c.__name__ for c in type(error).__mro__), f"{type(error).__name__}: {error}"[:300])

    def fits(self, name: str) -> bool:
        """Return whether this is the exception of that name, or any where any is meant."""
        return name.strip().lower() in ANY_ERROR or name.strip().rpartition(".")[2] in self.names


class RaisedName(str):
    """What `raises` returns: the name of the exception's class, which knows its bases and words."""

    raised: Raised


def raises(*arguments: Any, **keywords: Any) -> Any:
    """Return the name of the exception that a function raises, or what it returns; a context without a function.

    ``raises(lambda: f(x))``, ``raises(f, x)``, ``raises(RuntimeError, lambda: f(x))``.
    """
    function, rest = next(
        ((a, arguments[i + 1 :]) for i, a in enumerate(arguments) if callable(a) and not _is_error(a)), (None, ())
    )
    if function is None:
        return _expected(arguments)
    try:
        return function(*rest, **keywords)
    except Exception as error:  # noqa: BLE001 - what it raises is the answer
        name = RaisedName(type(error).__name__)
        name.raised = Raised.of(error)
        return name


@contextlib.contextmanager
def _expected(kinds: Sequence[Any]) -> Iterator[None]:
    wanted = tuple(k for k in kinds if _is_error(k)) or (Exception,)
    try:
        yield
    except wanted:
        return
    raise AssertionError("nothing was raised")


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def namespace(device: str) -> dict[str, Any]:
    """Return the names that a snippet may use: `dev`, `torch`, `F`, `nn`, `np`, `math`, `raises`, `aten`, `inf`, `nan`…"""
    names: dict[str, Any] = {"__name__": "snippet", "torch": torch, "dev": device, "device": device, "raises": raises}
    names |= {"aten": torch.ops.aten, "Tensor": torch.Tensor, "inf": float("inf"), "nan": float("nan")}
    return names | {name: importlib.import_module(module) for name, module in _MODULES.items()}


def run(text: str, names: dict[str, Any], results: Sequence[str]) -> Any:
    """Run the text in `names` and return what it set: the first of `results` that it bound, else its last expression.

    An exception is returned as Raised. Raises NotPython, or Unset where the text has no result.
    """
    tree = _parsed(text)
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        tree.body[-1] = ast.copy_location(ast.Assign([ast.Name(_LAST, ast.Store())], last.value), last)
        ast.fix_missing_locations(tree)
    before = {name: names.get(name) for name in results}
    names.pop(_LAST, None)
    try:
        exec(compile(tree, "<snippet>", "exec"), names)  # noqa: S102 - that is the task; see the first line
    except BaseException as error:  # noqa: BLE001 - SystemExit too: the snippet's own end is its result
        return Raised.of(error)
    bound = _bound(tree)
    for name in results:
        if name in names and (name in bound or names[name] is not before[name]):
            return names[name]
    if _LAST in names and names[_LAST] is not None:
        return names[_LAST]
    raise Unset


def _bound(tree: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _parsed(text: str) -> ast.Module:
    """Return the syntax tree of a snippet, tried as it is, without indentation, and with a line for each statement."""
    attempts: tuple[Callable[[str], str], ...] = (str, lambda t: textwrap.dedent(t).strip(), _one_a_line)
    for attempt in attempts:
        with contextlib.suppress(SyntaxError, tokenize.TokenError, ValueError):
            return ast.parse(attempt(text))
    raise NotPython


def _one_a_line(text: str) -> str:
    """Return the text with a line break for each semicolon outside of brackets and strings: ``x=1; for i in y: z``."""
    lines = textwrap.dedent(text).strip().splitlines(keepends=True)
    breaks = []
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO("".join(lines)).readline):
        if token.type == tokenize.OP:
            depth += (token.string in "([{") - (token.string in ")]}")
            if token.string == ";" and not depth:
                breaks.append(token.start)
    for row, column in reversed(breaks):
        line = lines[row - 1]
        indent = line[: len(line) - len(line.lstrip())]
        lines[row - 1] = line[:column] + "\n" + indent + line[column + 1 :].lstrip(" ")
    return "".join(lines)


def error_named(text: str) -> str | None:
    """Return the exception that a text names in words (``raises IndexError``), or None."""
    found = re.search(r"\b([A-Z]\w*(?:Error|Exception))\b", text)
    if found:
        return found[1]
    return "any-error" if text.strip().lower() in ANY_ERROR else None


def is_error_name(value: object) -> bool:
    """Return whether a string stands for an exception: ``IndexError``, ``any-error``."""
    if not isinstance(value, str):
        return False
    name = value.strip().rpartition(".")[2]
    return (
        value.strip().lower() in ANY_ERROR
        or _is_error(getattr(builtins, name, None))
        or name.endswith(("Error", "Exception"))
    )


def plain(value: Any) -> Mapping[str, Any] | Any:
    """Return a value in the forms that are compared: exceptions named, arrays as tensors, everything on the CPU."""
    if isinstance(value, Raised):
        return value
    if isinstance(value, RaisedName):
        return value.raised
    if _is_error(value):
        return value.__name__
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, torch.Tensor):
        return value.detach()
    if isinstance(value, torch.dtype | torch.device | torch.layout | torch.memory_format):
        return str(value)
    if isinstance(value, dict):
        return [[str(key), plain(item)] for key, item in value.items()]
    if isinstance(value, set | frozenset):
        return sorted((plain(item) for item in value), key=repr)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return _array(value)


def _array(value: Any) -> Any:
    """Return a numpy array as a tensor and a numpy number as Python's."""
    if type(value).__module__.partition(".")[0] != "numpy":
        return value
    return torch.as_tensor(value) if getattr(value, "shape", ()) else value.item()
