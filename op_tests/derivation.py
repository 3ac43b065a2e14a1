"""Decides how recorded arguments of one overload serve another: by argument name, with values converted by type."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.candidates import candidates
from neuron_ops.op_tests.packing import Sample, pack
from neuron_ops.op_tests.trials import Proposal
from torch.utils._pytree import tree_flatten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SAMPLES_OF_A_SOURCE = 8

_PREFIXES = ("_", "special_", "linalg_", "_unsafe_", "unsafe_", "_softmax_", "_linalg_")
_SUFFIXES = (
    "_functional",
    "_copy",
    "_impl",
    "_ex",
    "_mode",
    "_data",
    "_forward_only",
    "_with_update",
    "_no_update",
    "_v2",
    "_size",
    "_batch",
)
_ALIASES = {
    "_add_relu": "add", "_addmm_activation": "addmm", "_reshape_alias": "as_strided", "_is_all_true": "all",
    "_is_any_true": "any", "_int_mm": "mm", "_grouped_mm": "mm", "_safe_softmax": "softmax", "_masked_softmax": "softmax",
    "absolute": "abs", "clip": "clamp", "concat": "cat", "concatenate": "cat", "fix": "trunc", "orgqr": "linalg_householder_product",
    "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim", "row_stack": "vstack", "divide": "div",
    "true_divide": "div", "multiply": "mul", "negative": "neg", "greater": "gt", "less": "lt", "not_equal": "ne",
    "greater_equal": "ge", "less_equal": "le", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arctan2": "atan2",
    "floor_divide": "div", "_test_serialization_subcmul": "sub", "subtract": "sub", "chain_matmul": "linalg_multi_dot",
    "_weight_norm": "_weight_norm_interface", "ger": "outer", "_conj_copy": "conj", "rsub": "sub",
}  # fmt: skip
"""Operators without entries of their own in torch's test databases → one that takes the same arguments."""


@functools.cache
def _stem(packet: str) -> str:
    """Return an operator's name without what tells its in-place and copying forms apart."""
    if packet.startswith("__"):
        return packet.replace("__i", "__", 1) if packet.startswith("__i") else packet
    bare = packet.rstrip("_")
    for suffix in ("_functional", "_copy"):
        bare = bare.removesuffix(suffix) or bare
    return bare


@functools.cache
def _related(packet: str) -> tuple[str, ...]:
    """Return the stems whose overloads may lend arguments to an operator, nearest first."""
    stem = _stem(packet)
    found = [stem]
    if stem in _ALIASES:
        found.append(_ALIASES[stem])
    bare = [stem, *(stem.removesuffix(suffix) for suffix in _SUFFIXES)]
    for name in bare:
        found += [name, *(name.removeprefix(prefix) for prefix in _PREFIXES), *(prefix + name for prefix in _PREFIXES)]
    return tuple(dict.fromkeys(found))


@functools.cache
def _families() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for operator in catalogue.operators():
        found.setdefault(_stem(operator.packet.removeprefix("aten.")), []).append(operator.name)
    return {stem: tuple(names) for stem, names in found.items()}


def _inputs(name: str) -> list[Any]:
    """Return the schema's arguments that are not outputs."""
    return [argument for argument in catalogue.resolve(name)._schema.arguments if not argument.is_out]


@functools.cache
def _signature(name: str) -> tuple[tuple[str, str], ...]:
    return tuple((argument.name, str(argument.real_type)) for argument in _inputs(name))


@functools.cache
def sources(name: str) -> tuple[str, ...]:
    """Return the overloads whose samples may serve this one: those of the same signature first, then by kinship.

    Of the same signature are an operator's functional, in-place, out and view-copy forms.
    """
    packet = catalogue.by_name()[name].packet.removeprefix("aten.")
    family = [n for stem in _related(packet) for n in _families().get(stem, ()) if n != name]
    twins = [n for n in family if _signature(n) == _signature(name)]
    return tuple(dict.fromkeys([*twins, *family]))


def proposals(name: str, shelves: Mapping[str, Mapping[str, Sample]], dtype: torch.dtype) -> Iterator[Proposal]:
    """Yield the calls of an overload that its relatives' samples suggest, labelled ``sibling/<relative>/<number>``."""
    outputs = [None] if not _outputs(name) else [None, dtype, torch.int64, torch.bool]
    for given in outputs:
        for source in sources(name):
            for number, sample in enumerate(itertools.islice(shelves.get(source, {}).values(), SAMPLES_OF_A_SOURCE)):
                tail = f"/{given}".replace("torch.", "empty-") if given else ""
                yield Proposal(
                    f"sibling/{source}/{number}{tail}", functools.partial(_made, name, source, sample, dtype, given)
                )


def _made(name: str, source: str, sample: Sample, dtype: torch.dtype, given: torch.dtype | None) -> Sample:
    values = mapped(name, source, by_name(source, *sample.unpack()), dtype)
    return pack(*call_form(name, with_outputs(name, values, given)))


def by_name(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments by their names in the schema."""
    names = [argument.name for argument in catalogue.resolve(name)._schema.arguments]
    return {**dict(zip(names, args, strict=False)), **kwargs}


def call_form(name: str, values: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return (args, kwargs) of a call; raises ValueError where a required argument is missing."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in catalogue.resolve(name)._schema.arguments:
        if argument.name not in values:
            if not argument.has_default_value():
                raise ValueError(f"no value for {argument.name}")
        elif argument.kwarg_only or len(args) + len(kwargs) > len(args):
            kwargs[argument.name] = values[argument.name]
        else:
            args.append(values[argument.name])
    return args, kwargs


def mapped(name: str, source: str, values: Mapping[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Return arguments for `name` from those of `source`: by name, by position where a name is new, or made up."""
    wanted, lent = _inputs(name), _inputs(source)
    names = {argument.name for argument in wanted}
    found = {}
    for position, argument in enumerate(wanted):
        kind = str(argument.real_type)
        peer = lent[position].name if position < len(lent) and not argument.kwarg_only else ""
        if argument.name in values:
            found[argument.name] = converted(values[argument.name], kind, dtype)
        elif peer in values and peer not in names:
            found[argument.name] = converted(values[peer], kind, dtype)
        elif argument.has_default_value():
            continue
        elif kind.startswith("Optional["):
            found[argument.name] = None
        else:
            found[argument.name] = candidates(argument.name, kind, dtype)[0]
    return found


def converted(value: Any, kind: str, dtype: torch.dtype) -> Any:
    """Return a value in the shape of a schema type: a tensor as its first number, a number as a list of one, …"""
    kind = kind.removeprefix("Optional[").removesuffix("]") if kind.startswith("Optional[") else kind
    if value is None:
        return None
    if kind in ("number", "float", "int", "bool"):
        return _number(value, kind)
    if kind == "Tensor":
        return _tensor(value, dtype)
    if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
        return [value] if isinstance(value, torch.Tensor) else value
    if kind.startswith("List["):
        listed = value.flatten().tolist() if isinstance(value, torch.Tensor) else value
        return list(listed) if isinstance(listed, (list, tuple)) else [listed]
    return value


def _tensor(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, (bool, int, float, complex)):
        return torch.tensor(value).to(dtype)
    if isinstance(value, (list, tuple)) and value:
        return value[0] if isinstance(value[0], torch.Tensor) else torch.tensor(value)
    return value


def _number(value: Any, kind: str) -> Any:
    if isinstance(value, (list, tuple)):
        value = value[0] if value else 1
    if isinstance(value, torch.Tensor):
        value = value.flatten()[0].item() if value.numel() else 1
    if kind == "number" or not isinstance(value, (bool, int, float, complex)):
        return value
    real = value.real if isinstance(value, complex) else value
    return {"float": float, "int": int, "bool": bool}[kind](real)


def _outputs(name: str) -> list[Any]:
    return [argument for argument in catalogue.resolve(name)._schema.arguments if argument.is_out]


def with_outputs(name: str, values: Mapping[str, Any], given: torch.dtype | None) -> dict[str, Any]:
    """Return the arguments with tensors for the outputs, zeros of the shapes that a relative returns.

    With `given`, the outputs are empty tensors of that dtype, which the operator must resize. Raises ValueError where
    no relative returns as many tensors.
    """
    outputs = _outputs(name)
    if not outputs:
        return dict(values)
    lists = any("List" in str(argument.real_type) for argument in outputs)
    if given is not None:
        length = len(next((v for v in values.values() if isinstance(v, (list, tuple))), ()))
        made = [torch.empty(0, dtype=given) for _ in range(length if lists else len(outputs))]
    else:
        made = _returned(name, values, len(outputs), lists=lists)
    filled = {outputs[0].name: made} if lists else dict(zip((o.name for o in outputs), made, strict=False))
    return {**values, **filled}


def _returned(name: str, values: Mapping[str, Any], count: int, *, lists: bool) -> list[torch.Tensor]:
    for relative in sources(name):
        if _outputs(relative) or _signature(relative) != _signature(name):
            continue
        args, kwargs = pack(*call_form(relative, values)).unpack()  # copies: an in-place relative must not change them
        returned = tree_flatten(catalogue.resolve(relative)(*args, **kwargs))[0]
        tensors = [torch.zeros_like(t).contiguous() for t in returned if isinstance(t, torch.Tensor)]
        if lists or len(tensors) >= count:
            return tensors if lists else tensors[:count]
    raise ValueError(f"no relative of {name} returns {count} tensors")
