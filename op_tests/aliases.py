"""Write aliases.csv, which public name of torch leads to which operator, computed from the installed torch itself.

Run ``python -m neuron_ops.op_tests.aliases > coverage_db/data/aliases.csv``. Names that are an operator's own (torch.add,
F.gelu) are left out: the search knows them by rule.
"""

from __future__ import annotations

import ast
import csv
import inspect
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional
from torch._jit_internal import boolean_dispatched
from torch.jit import _builtins

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SPACES = ("torch", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special", "torch.nn", "torch.Tensor")
_DEEPEST = 4
"""Calls that are followed from a public function to the operator: nn.Conv2d needs three."""
_MOST = 6
"""Operators kept of one name: a longer list is a program, not a spelling."""
# A compiled function's name in torch's own table; the table of torch.jit is the only one that there is.
_BUILTINS: dict[int, str] = _builtins._get_builtin_table()
_FOLLOWED = ("torch.nn.", "torch.functional", "torch._tensor", "torch._lobpcg", "torch._lowrank")
_PLAIN = (torch, torch.Tensor, torch._VF)  # where recurrent modules find theirs
_DISPATCHED = frozenset(name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names())
"""What reaches a dispatcher; the table of torch.jit holds more, such as aten::warn."""
_SHAPE_TALK = frozenset(
    {"size", "dim", "numel", "stride", "is_floating_point", "is_complex", "to", "type", "item", "detach"}
)


def aliases() -> dict[str, tuple[str, ...]]:
    """Return each public name of torch that is no operator's own name → the packets it leads to, most direct first."""
    found = {}
    for path in _SPACES:
        space = _at(path)
        for name in dir(space):
            if name.startswith("_"):
                continue
            every = tuple(dict.fromkeys(_packets(getattr(space, name), space, 0)))
            # nn.SiLU(inplace=True) is an option of the name, not what it means.
            packets = tuple(p for p in every if not (p.endswith("_") and p.rstrip("_") in every))
            own = [_own_name(path, name), f"{_own_name(path, name)}_"]
            if packets and len(packets) <= _MOST and not set(packets) <= {f"aten.{one}" for one in own}:
                found[f"{path}.{name}"] = packets
    return found


def _own_name(path: str, name: str) -> str:
    module = path.rpartition(".")[2]
    return f"{module}_{name}" if module in {"linalg", "fft", "special"} else name


def _at(path: str) -> Any:
    found: Any = torch
    for piece in path.split(".")[1:]:
        found = getattr(found, piece)
    return found


def _packets(thing: Any, owner: Any, depth: int) -> Iterator[str]:
    """Yield the packets that a callable leads to: its own if it is compiled, else those of what it returns."""
    if depth > _DEEPEST or not callable(thing):
        return
    compiled = _compiled(thing, owner)
    if compiled:
        yield compiled
    elif inspect.isfunction(thing) and thing in boolean_dispatched:
        yield from (
            p for side in ("if_false", "if_true") for p in _packets(boolean_dispatched[thing][side], owner, depth)
        )
    elif inspect.isclass(thing) and issubclass(thing, torch.nn.Module) and thing.__module__.startswith(_FOLLOWED):
        yield from _packets(thing.forward, thing, depth)
    elif inspect.isfunction(thing) and thing.__module__.startswith(_FOLLOWED):
        yield from _packets_of_source(thing, owner, depth)


def _compiled(thing: Any, owner: Any) -> str | None:
    """Return the packet of a compiled function or of a compiled method of Tensor, or None."""
    name = _BUILTINS.get(id(thing), "")
    if not name and (inspect.isbuiltin(thing) or inspect.ismethoddescriptor(thing)) and any(owner is o for o in _PLAIN):
        name = f"aten::{thing.__name__}"
    return name.replace("::", ".") if name in _DISPATCHED else None


def _packets_of_source(function: Any, owner: Any, depth: int) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):  # made at run time
        return
    for calls in (_returned_calls(tree), (node for node in ast.walk(tree) if isinstance(node, ast.Call))):
        found = [p for call in calls for p in _packets(*_callee(call.func, function, owner), depth + 1)]
        if found:
            yield from found
            return


def _returned_calls(tree: ast.AST) -> Iterator[ast.Call]:
    """Yield the outermost calls whose value a function returns, at once or through a variable."""
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    names = {value.id for value in returned if isinstance(value, ast.Name)}
    given = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id in names for t in node.targets)
    ]
    yield from (value for value in [*returned, *given] if isinstance(value, ast.Call))


def _callee(node: ast.expr, function: Any, owner: Any) -> tuple[Any, Any]:
    """Return what an expression names as (object, its owner); a method of an unknown object counts as Tensor's."""
    if isinstance(node, ast.Name):
        return function.__globals__.get(node.id), None
    if not isinstance(node, ast.Attribute) or node.attr in _SHAPE_TALK:
        return None, None
    if isinstance(node.value, ast.Name) and node.value.id == "self" and inspect.isclass(owner):
        return getattr(owner, node.attr, None), owner
    above = _callee(node.value, function, owner)[0]
    if above is None:
        above = None if isinstance(node.value, ast.Constant) else torch.Tensor
    return getattr(above, node.attr, None), above


def write(rows: Iterable[tuple[str, tuple[str, ...]]]) -> None:
    """Write the table to standard output, packets separated by spaces."""
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(("name", "packets"))
    table.writerows((name, " ".join(packets)) for name, packets in rows)


if __name__ == "__main__":
    write(sorted(aliases().items()))
