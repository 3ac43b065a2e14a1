"""What is known of one call under judgement, and how its tensors and written arguments are found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import torch
from neuron_ops.op_tests.observation import Observation, SeenTensor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neuron_ops.op_tests.tolerances import ExceptionRow, Tolerance


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Everything that is known about the call under judgement."""

    reference: Observation
    device: Observation
    exact: Observation | None
    schema: torch.FunctionSchema | None
    rows: tuple[ExceptionRow, ...]
    written: Mapping[str, list[SeenTensor]]
    random: bool
    compute_dtype: torch.dtype | None
    tolerance: Tolerance | None = None

    def undefined(self, what: str, output: int) -> bool:
        """Return whether a row says `what` of this output."""
        return any(row.what == what and row.covers(output) for row in self.rows)

    def argument(self, name: str) -> object:
        """Return the reference's argument of that name in the schema: tensor values, a plain value or the default."""
        found = [(i, a) for i, a in enumerate(self.schema.arguments) if a.name == name] if self.schema else []
        if not found:
            return None
        place, argument = found[0]
        for seen in self.reference.arguments:
            if seen.name in (f"argument {place}", f"argument {name}"):
                return seen.values
        for key in (str(place), name):
            if key in self.reference.plain:
                return self.reference.plain[key]
        return argument.default_value if argument.has_default_value() else None


Pair: TypeAlias = tuple[int, SeenTensor, SeenTensor]


@lru_cache(maxsize=4096)
def schema_of(overload: str) -> torch.FunctionSchema | None:
    """Return the schema of the installed torch, or None for an overload that it lacks."""
    namespace, _, name = overload.partition(".")
    packet, _, variant = name.partition(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet, None), variant or "default", None)
    schema = getattr(op, "_schema", None)
    return schema if isinstance(schema, torch.FunctionSchema) else None


def tensors(call: Comparison) -> Iterator[Pair]:
    """Yield every output tensor with its number, then every argument with -1."""
    for left, right in zip(call.reference.outputs, call.device.outputs, strict=True):
        if isinstance(left, SeenTensor) and isinstance(right, SeenTensor):
            yield number_of(left.name), left, right
    for left, right in zip(call.reference.arguments, call.device.arguments, strict=True):
        yield -1, left, right


def number_of(name: str) -> int:
    """Return the number of an output: 1 for ``output 1[2]``."""
    return int(name.removeprefix("output ").partition("[")[0])


def short(dtype: torch.dtype) -> str:
    """Return ``float32`` for torch.float32."""
    return str(dtype).removeprefix("torch.")


def is_written(seen: SeenTensor, schema: torch.FunctionSchema | None, rows: tuple[ExceptionRow, ...]) -> bool:
    """Return whether the call may write this argument, by the schema or a row; an unknown schema may write any."""
    if schema is None:
        return True
    place = seen.name.removeprefix("argument ").partition("[")[0]
    named = [a for i, a in enumerate(schema.arguments) if place in {str(i), a.name}]
    if not named:
        return True
    argument = named[0]
    if argument.alias_info is not None and argument.alias_info.is_write:
        return True
    return any(row.what == "writes" and argument.name in row.arguments for row in rows)


def root_of(seen: SeenTensor) -> str:
    """Return the first argument on the same storage."""
    return seen.shares or seen.name


def written_roots(
    reference: Observation, schema: torch.FunctionSchema | None, rows: tuple[ExceptionRow, ...]
) -> dict[str, list[SeenTensor]]:
    """Return the written arguments by the first argument on their storage, as the reference left them."""
    roots: dict[str, list[SeenTensor]] = {}
    for seen in reference.arguments:
        if is_written(seen, schema, rows):
            roots.setdefault(root_of(seen), []).append(seen)
    return roots
