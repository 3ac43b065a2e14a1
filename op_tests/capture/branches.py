"""Decides from the source whether data that a line takes from the device may steer what runs next.

A value that is read may serve as a size or a number, and then the operators are the same for all data. It steers where
it, or a name that it went into, is in a condition, counts a loop or picks what is called, and where it goes out of sight:
returned, stored on an object, or given to other code than torch's. What cannot be read counts as steering.
"""

from __future__ import annotations

import ast
import functools
import linecache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Source = Callable[[ast.AST], bool]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_READERS = frozenset({"item", "tolist", "numpy", "cpu", "to", "equal", "allclose", "is_nonzero"})
_CONVERSIONS = frozenset(
    {"int", "float", "bool", "str", "len", "min", "max", "abs", "round", "sum", "tuple", "list", "sorted"}
)
"""Calls whose result is the value again; they decide nothing themselves."""
_MUTE = frozenset({"print", "repr", "enumerate", "zip", "isinstance"})
_LIBRARIES = frozenset({"torch", "F", "nn", "np", "numpy", "math", "logger", "logging", "warnings"})


@functools.cache
def may_steer(filename: str, line: int, *, sized: bool = False) -> bool:
    """Return whether what the line takes may decide which operators run next.

    With `sized` it is a tensor whose size follows the data: it steers in conditions and loops alone, since layers take
    tensors of any size.
    """
    tree = _tree(filename)
    scope = _innermost(tree, line) if tree is not None else None
    statement = _statement(scope, line) if scope is not None else None
    if scope is None or statement is None:
        return True
    covers = functools.partial(_covers, line=line)
    readings = [node for node in ast.walk(statement) if _reads(node) and covers(node)]
    if not readings and not sized:  # the condition reads, or something within torch, whose result is a tensor again
        return any(covers(part) for node in _own_nodes(statement) for part in _tests(node) if part is not None)
    source: Source = covers if sized else readings.__contains__
    if _steers(statement, source, sized=sized):
        return True
    names = set(_targets(statement))
    return bool(names) and _flows(scope, names, sized=sized)


@functools.cache
def _tree(filename: str) -> ast.Module | None:
    lines = linecache.getlines(filename)
    try:
        return ast.parse("".join(lines)) if lines else None
    except SyntaxError:
        return None


def _innermost(tree: ast.AST, line: int) -> ast.AST:
    """Return the smallest function around the line, else the module."""
    around = [node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS) and _covers(node, line)]
    return min(around, key=_length, default=tree)


def _covers(node: ast.AST, line: int) -> bool:
    first = getattr(node, "lineno", None)
    return first is not None and first <= line <= (getattr(node, "end_lineno", None) or first)


def _length(node: ast.AST) -> int:
    return (getattr(node, "end_lineno", 0) or 0) - getattr(node, "lineno", 0)


def _statement(scope: ast.AST, line: int) -> ast.AST | None:
    """Return the smallest statement that covers the line."""
    if isinstance(scope, ast.Lambda):
        return scope.body
    return min((node for node in _statements(scope) if _covers(node, line)), key=_length, default=None)


def _statements(scope: ast.AST) -> list[ast.stmt]:
    return [node for node in ast.walk(scope) if isinstance(node, ast.stmt) and node is not scope]


def _own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield the statement and its expressions, without the statements inside it."""
    yield statement
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt):
            yield from _own_nodes(child)


def _reads(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if not isinstance(node, ast.Call):
        return False
    function = node.func
    if isinstance(function, ast.Name):
        return function.id in ("int", "float", "bool")
    return isinstance(function, ast.Attribute) and function.attr in _READERS


def _steers(statement: ast.AST, source: Source, *, sized: bool) -> bool:
    """Return whether the statement lets what comes from a source decide, or lets it out of sight."""
    for node in _own_nodes(statement):
        deciding = _deciding(node, sized=sized)
        if any(_carries(part, source, sized=sized) for part in deciding if part is not None):
            return True
    return False


def _deciding(node: ast.AST, *, sized: bool) -> list[ast.expr | None]:
    """Return the parts of the node that decide, or go out of sight."""
    tests = _tests(node)
    if tests:
        return tests
    match node:
        case ast.comprehension():
            return [node.iter] if sized else []
        case ast.For() | ast.AsyncFor() if sized:
            return [node.iter]
        case ast.Call(func=ast.Name(id="range")):
            return list(node.args)
        case ast.Call() if not sized and not _is_harmless(node):
            return [node.func, *node.args, *(keyword.value for keyword in node.keywords)]
        case ast.Return() | ast.Yield() | ast.YieldFrom() if not sized:
            return [node.value]
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() if not sized and _leaves(node):
            return [node.value]
    return []


def _tests(node: ast.AST) -> list[ast.expr | None]:
    """Return the conditions of the node."""
    match node:
        case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
            return [node.test]
        case ast.Match():
            return [node.subject]
        case ast.BoolOp():
            return list(node.values[:-1])
        case ast.comprehension():
            return list(node.ifs)
    return []


def _carries(node: ast.AST, source: Source, *, sized: bool) -> bool:
    """Return whether the expression's value is, or is computed in Python from, what comes from a source."""
    if isinstance(node, ast.Compare) and all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops):
        return False  # `x is None` does not look at the data
    if isinstance(node, (ast.expr, ast.arg)) and source(node):
        return True
    if not sized and (
        isinstance(node, ast.Slice) or (isinstance(node, ast.Call) and _is_harmless(node) and not _converts(node))
    ):
        return False  # it went into a tensor
    return any(_carries(child, source, sized=sized) for child in ast.iter_child_nodes(node))


def _leaves(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(part, ast.Attribute) for target in targets for part in ast.walk(target))


def _converts(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in _CONVERSIONS | _MUTE


def _is_harmless(call: ast.Call) -> bool:
    """Return whether what is called takes numbers without deciding by them: torch, methods of tensors, conversions."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in _CONVERSIONS | _MUTE
    if not isinstance(function, ast.Attribute):
        return False
    root: ast.AST = function
    while isinstance(root, ast.Attribute):
        root = root.value
    if isinstance(root, ast.Name) and root.id in _LIBRARIES:
        return True
    # `self.split(n)` is the model's own; `x.split(n)` and `self.weight.split(n)` are most likely a tensor's.
    own = isinstance(function.value, ast.Name) and function.value.id == "self"
    return hasattr(torch.Tensor, function.attr) and not own


def _targets(statement: ast.AST) -> Iterator[str]:
    """Yield the names that the statement gives a value."""
    for node in _own_nodes(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _flows(scope: ast.AST, names: set[str], *, sized: bool) -> bool:
    """Return whether one of the names, or one that is computed from them, steers anything in the scope."""
    statements = _statements(scope)
    known: set[str] = set()
    while names != known:
        known = set(names)

        def source(node: ast.AST, known: set[str] = known) -> bool:
            return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in known

        for statement in statements:
            if _steers(statement, source, sized=sized):
                return True
            if any(_carries(value, source, sized=sized) for value in _given(statement)):
                names |= set(_targets(statement))
    return False


def _given(statement: ast.AST) -> list[ast.AST]:
    """Return the expressions whose values the statement's names take."""
    match statement:
        case ast.Assign() | ast.AugAssign() | ast.NamedExpr():
            return [statement.value]
        case ast.AnnAssign() if statement.value is not None:
            return [statement.value]
        case ast.For() | ast.AsyncFor():
            return [statement.iter]
    return []
