"""What the schema says about each tensor of a call, and how a call with other tensors is made from it."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Arguments = tuple[list[Any], dict[str, Any]]

INDEX_NAMES = frozenset(
    {"index", "indices", "target", "targets", "offsets", "offset2bag", "bag_size", "maximum_indices", "min_indices", "lengths",
     "batch_sizes", "input_lengths", "target_lengths", "tensor_indices_or_sections", "repeats", "pivots", "LU_pivots", "shape",
     "sorter"}
)  # fmt: skip
"""Names of integer arguments that say where, and are no values to compute with."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One argument of a call that the caller gave: `place` is its position or keyword, `kind` the schema's type.

    `written` says that the call changes it, `out` that it only receives a result.
    """

    name: str
    place: int | str
    kind: str
    value: Any
    written: bool
    out: bool

    @property
    def where(self) -> bool:
        """Return whether it holds places and not values."""
        return self.name in INDEX_NAMES


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call of an overload, on the CPU."""

    op: torch._ops.OpOverload
    args: list[Any]
    kwargs: dict[str, Any]

    def slots(self) -> Iterator[Slot]:
        """Yield the arguments that were given, in the schema's order."""
        for position, argument in enumerate(self.op._schema.arguments):
            if position < len(self.args):
                place: int | str = position
                value = self.args[position]
            elif argument.name in self.kwargs:
                place, value = argument.name, self.kwargs[argument.name]
            else:
                continue
            info = argument.alias_info
            written = info is not None and info.is_write
            out = argument.is_out or (written and argument.kwarg_only)
            yield Slot(argument.name, place, str(argument.type), value, written, out)

    def tensors(self) -> Iterator[tuple[Slot, torch.Tensor]]:
        """Yield every tensor, those in lists too, with its slot."""
        for slot in self.slots():
            for leaf in slot.value if isinstance(slot.value, (list, tuple)) else (slot.value,):
                if isinstance(leaf, torch.Tensor):
                    yield slot, leaf

    def inputs(self) -> Iterator[tuple[Slot, torch.Tensor]]:
        """Yield every tensor that the call reads values from: no ``out=``, no index."""
        return ((slot, tensor) for slot, tensor in self.tensors() if not slot.out and not slot.where)

    @property
    def main(self) -> torch.Tensor | None:
        """Return the first tensor that is read and has elements in dimensions, or None."""
        return next((t for slot, t in self.tensors() if not slot.out and t.dim() and t.numel()), None)

    def replaced(self, changes: Mapping[int | str, Any]) -> Arguments:
        """Return the arguments with those at the given places replaced."""
        return (
            [changes.get(i, value) for i, value in enumerate(self.args)],
            {name: changes.get(name, value) for name, value in self.kwargs.items()},
        )

    def mapped(self, change: Callable[[Slot, torch.Tensor], torch.Tensor]) -> Arguments | None:
        """Return the arguments with every tensor changed, or None where no tensor changed.

        Tensors that share memory with another tensor of the call in another geometry stay as they are; those that are
        the same memory in the same geometry become one tensor.
        """
        tied = self._tied()
        done: dict[tuple[Any, ...], torch.Tensor] = {}
        changed = False

        def one(slot: Slot, value: Any) -> Any:
            nonlocal changed
            if not isinstance(value, torch.Tensor) or value.untyped_storage()._cdata in tied:
                return value
            key = (value.untyped_storage()._cdata, value.dtype, value.is_conj(), value.is_neg(), slot.out)
            if key not in done:
                done[key] = change(slot, value)
                changed = changed or done[key] is not value
            return done[key]

        changes = {
            slot.place: [one(slot, v) for v in slot.value] if isinstance(slot.value, (list, tuple)) else one(slot, slot.value)
            for slot in self.slots()
            if "Tensor" in slot.kind
        }  # fmt: skip
        return self.replaced(changes) if changed else None

    def _tied(self) -> set[int]:
        """Return the storages that tensors of different geometry share."""
        seen: dict[int, tuple[Any, ...]] = {}
        tied: set[int] = set()
        for _, tensor in self.tensors():
            storage = tensor.untyped_storage()._cdata
            geometry = (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
            if seen.setdefault(storage, geometry) != geometry:
                tied.add(storage)
        return tied


def emptied(slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of no elements in place of an ``out=`` one, which the call resizes without a warning."""
    assert slot.out
    return tensor.new_empty(0)


@functools.cache
def kind_of(op: torch._ops.OpOverload) -> str:
    """Return functional, out, inplace or mutable."""
    from neuron_ops.op_tests import catalogue

    operator = catalogue.by_name().get(str(op))
    return operator.kind if operator is not None else "functional"


def pointwise(op: torch._ops.OpOverload) -> bool:
    """Return whether torch tags the overload, or the functional one beside it, as elementwise with broadcasting."""
    if torch.Tag.pointwise in op.tags:
        return True
    packet = op._overloadpacket
    names = (op._overloadname.removesuffix("_out").removesuffix("out") or "default", "Tensor")
    found = [getattr(packet, name) for name in names if name in packet.overloads()]
    return op._overloadname.endswith("out") and any(torch.Tag.pointwise in other.tags for other in found)
