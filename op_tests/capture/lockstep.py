"""Runs each call that a model makes on a device on the CPU too, with the same arguments, and tells where results differ."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.capture.inputs import converted
from neuron_ops.op_tests.capture.measure import measure
from neuron_ops.op_tests.capture.rows import CallRoute, Compared, Difference, PartOfRow, Row
from neuron_ops.op_tests.records import Route
from neuron_ops.op_tests.tolerances import reduction_length, rows_for, tolerance_of
from neuron_ops.op_tests.values import ValueRule, values_message
from torch.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neuron_ops.op_tests.capture.places import Origins
    from neuron_ops.op_tests.capture.rows import Key
    from neuron_ops.op_tests.targets import Target

_UNDEFINED = {"values", "properties"}
"""What a row of exceptions.toml says of results that no two devices need to share."""
_ROUTES = {Route.NATIVE: CallRoute.NATIVE, Route.TRANSLATED: CallRoute.TRANSLATED, Route.FALLBACK: CallRoute.FALLBACK}


@dataclass(slots=True)
class _Tally:
    shapes: tuple[tuple[int, ...], ...]
    calls: Counter[CallRoute] = field(default_factory=Counter)
    reason: str | None = None
    parts: tuple[PartOfRow, ...] = ()
    message: str | None = None


class Lockstep(TorchDispatchMode):
    """The mode under which a model runs on `target`; `phase` is what the session is doing.

    Every call keeps its own inputs, so a call that differs is the operator's doing and not that of one before it.
    """

    def __init__(self, target: Target, origins: Origins) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = "forward"
        self.random = False
        self.first: Difference | None = None
        self.compared = self.differing = self.uncompared = 0
        self._target, self._origins = target, origins
        self._tallies: dict[Key, _Tally] = {}

    def rows(self) -> Iterator[Row]:
        """Yield a row for each operator, dtypes, phase, line and module."""
        for (name, dtypes, phase, where, module), tally in self._tallies.items():
            yield Row(
                name, dtypes, dict(tally.calls), tally.reason, tally.parts, where, module, phase, tally.message,
                tally.shapes,
            )  # fmt: skip

    def result(self, outputs: tuple[str, ...] | None) -> Compared:
        """Return the counts, the first difference, and the messages on the model's outputs."""
        build = self._target.build()
        return Compared(
            self._target.name, str(build.evidence), dict(build.versions), self.compared, self.uncompared, self.differing,
            self.first, outputs,
        )  # fmt: skip

    def __torch_dispatch__(
        self, op: torch._ops.OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run one call on the device, then on the CPU."""
        kwargs = kwargs or {}
        device = torch.device(self._target.device).type
        touched = any(t.device.type == device for t in tensors_in((args, kwargs)))
        if not touched and torch.device(kwargs.get("device") or "meta").type != device:
            return op(*args, **kwargs)
        self.random = self.random or torch.Tag.nondeterministic_seeded in op.tags
        known = _has_known_values(op, args)
        host = to_host((args, kwargs)) if known else None
        self._target.clear()
        out = op(*args, **kwargs)
        tally = self._tally(op, args, kwargs, out)
        if host is not None:
            message = self._compare(op, host, (args, kwargs), out)
            tally.message = tally.message or message
        else:
            self.uncompared += 1
        return out

    def _tally(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> _Tally:
        served = self._target.served(str(op))  # before anything reads the device's memory, which it tracks too
        where, module = self._origins.here()
        measured = measure(str(op), args, kwargs, out)
        key = (str(op), measured.dtypes, self.phase, where, module)
        tally = self._tallies.setdefault(key, _Tally(measured.shapes))
        route = CallRoute.UNSUPPORTED if served.route is None else _ROUTES[served.route]
        if route is CallRoute.NATIVE and served.composite:
            route = CallRoute.COMPOSITE
        tally.calls[CallRoute.METADATA if op.is_view else route] += 1
        tally.reason = tally.reason or (str(served.reason) if served.reason is not None else None)
        return tally

    def _compare(
        self, op: torch._ops.OpOverload, host: tuple[Any, Any], device: tuple[Any, Any], out: Any
    ) -> str | None:
        exact_of = to_host(host)
        want = _on_cpu(op, host)
        if want is None:
            self.uncompared += 1
            return None
        self.compared += 1
        message = self._message(op, (host, want[0]), (device, out), exact_of)
        if message is not None:
            self.differing += 1
            where, module = self._origins.here()
            self.first = self.first or Difference(str(op), message, where, module, self.phase)
        return message

    def _message(
        self, op: torch._ops.OpOverload, reference: tuple[Any, Any], device: tuple[Any, Any], exact_of: tuple[Any, Any]
    ) -> str | None:
        wanted, got = results_of(op, *reference), results_of(op, *device)
        length = sum(t.numel() for t in tensors_in(reference[0]))
        for number, (name, want) in enumerate(wanted.items()):
            rule = self._rule(str(op), number, want, length)
            message = difference(name, want, got.get(name), rule)
            if message is None:
                continue
            exact = results_of(op, *_in_double(op, exact_of)).get(name)  # no worse than the CPU is right too
            if exact is not None and exact.is_floating_point():
                rule = ValueRule(rule.tolerance, rule.length, exact, rule.zero_sign, rule.compute_dtype)
                message = difference(name, want, got.get(name), rule)
            if message is not None:
                return message
        return None

    def _rule(self, overload: str, number: int, want: torch.Tensor, length: int) -> ValueRule:
        rows = rows_for(overload, str(want.dtype).removeprefix("torch."))
        narrow = self._target.compute_dtypes.get(want.dtype)
        tolerance = tolerance_of(rows, number, want.dtype, narrow)
        return ValueRule(
            tolerance, reduction_length([length], want.numel()), zero_sign=False, compute_dtype=narrow
        )  # fmt: skip


def _on_cpu(op: torch._ops.OpOverload, arguments: tuple[Any, Any]) -> tuple[Any] | None:
    """Return what the CPU gives, alone in a tuple, or None where it has no kernel for the call."""
    with contextlib.suppress(RuntimeError), torch.no_grad():
        return (op(*arguments[0], **arguments[1]),)
    return None


def _has_known_values(op: torch._ops.OpOverload, args: tuple[Any, ...]) -> bool:
    """Return whether the same arguments must give the same values: no random numbers, no memory that nobody wrote."""
    first = next(tensors_in(args), None)
    dtype = "float32" if first is None else str(first.dtype).removeprefix("torch.")
    rows = rows_for(str(op), dtype)
    return torch.Tag.nondeterministic_seeded not in op.tags and not any(row.what in _UNDEFINED for row in rows)


def difference(name: str, want: torch.Tensor, got: torch.Tensor | None, rule: ValueRule) -> str | None:
    """Return in one line how a device's tensor differs from the CPU's, or None."""
    if got is None or got.dtype is not want.dtype or got.shape != want.shape:
        told = "nothing" if got is None else f"{_kind(got)}"
        return f"{name}: {told} on the device, {_kind(want)} on the CPU"
    if want.layout is not torch.strided:
        return None
    return values_message(name, want.detach().contiguous(), got.detach().cpu().contiguous(), rule)


def _kind(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in arguments or results, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def to_host(value: Any) -> Any:
    """Return the value with copies on the CPU of its tensors, one for each, and the CPU where a device is named."""

    def copied(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().cpu().clone()

    args, kwargs = converted(value, copied, {})
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    return args, kwargs


def results_of(op: torch._ops.OpOverload, arguments: tuple[Any, Any], out: Any) -> dict[str, torch.Tensor]:
    """Return the tensors that a call hands back or writes, by name."""
    found = {f"output {number}": tensor for number, tensor in enumerate(tensors_in(out))}
    args, kwargs = arguments
    for place, argument in enumerate(op._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        for number, tensor in enumerate(tensors_in(value)):
            found[f"argument {argument.name}[{number}]"] = tensor
    return found


def _in_double(op: torch._ops.OpOverload, arguments: tuple[Any, Any]) -> tuple[tuple[Any, Any], Any]:
    """Return arguments in float64 and what the CPU gives for them; nothing where it refuses."""

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    args, kwargs = converted(arguments, wide, {})
    out = _on_cpu(op, (args, kwargs))
    return (args, kwargs) if out is not None else ((), {}), out


def output_messages(want: object, got: object, narrow: Mapping[torch.dtype, torch.dtype]) -> tuple[str, ...]:
    """Return how a model's outputs on the device differ from those of its run on the CPU, one line a tensor."""
    wanted, found = list(tensors_in(want)), list(tensors_in(got))
    if len(wanted) != len(found):
        return (f"{len(found)} tensors on the device, {len(wanted)} on the CPU",)
    messages = []
    for number, (left, right) in enumerate(zip(wanted, found, strict=True)):
        tolerance = tolerance_of((), 0, left.dtype, narrow.get(left.dtype))
        rule = ValueRule(tolerance, zero_sign=False, compute_dtype=narrow.get(left.dtype))
        messages.append(difference(f"output {number}", left, right, rule))
    return tuple(message for message in messages if message is not None)
