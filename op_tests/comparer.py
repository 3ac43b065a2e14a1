"""Judges one call: what the device left against what the CPU left, one kind of fact after the other."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import torch
from neuron_ops.op_tests.figures import distances, largest, summary, widen
from neuron_ops.op_tests.observation import Observation, Seen, SeenTensor, SeenValue
from neuron_ops.op_tests.tolerances import ExceptionRow, reduction_length, rows_for, tolerance_of
from neuron_ops.op_tests.values import ValueRule, cast_note, same_bits, values_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from neuron_ops.op_tests.records import Figures


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the device did what the CPU did; if not, `message` says in one line where and how.

    A message with `ok` is a note: results that differ where the platform defines them. Figures are distances from the
    float64 reference, the largest over all float outputs; None without such a reference or float output.
    """

    ok: bool
    message: str | None
    device_figures: Figures | None
    reference_figures: Figures | None


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """Everything that is known about the call under judgement."""

    reference: Observation
    device: Observation
    exact: Observation | None
    schema: torch.FunctionSchema | None
    rows: tuple[ExceptionRow, ...]
    written: Mapping[str, list[SeenTensor]]
    random: bool
    compute_dtype: torch.dtype | None

    def undefined(self, what: str, output: int) -> bool:
        return any(row.what == what and row.covers(output) for row in self.rows)


_Pair: TypeAlias = tuple[int, SeenTensor, SeenTensor]


def compare(
    overload: str,
    dtype: str,
    *,
    reference: Observation,
    device: Observation,
    exact: Observation | None,
    random: bool = False,
    compute_dtype: torch.dtype | None = None,
) -> Verdict:
    """Return the verdict on one call of `overload` in a case of `dtype`; never raises for what a device hands back.

    `exact` is the same call with float inputs in float64 (complex128), or None. `random`: the device draws from another
    generator, so values of outputs and of written arguments are not compared. `compute_dtype`: the arithmetic that the
    target documents where it is narrower than an output's dtype; that dtype's tolerance then holds.
    """
    schema, rows = _schema(overload), rows_for(overload, dtype)
    written = _written_roots(reference, schema, rows)
    call = _Call(reference, device, exact, schema, rows, written, random, compute_dtype)
    for facts in (_structure, _dtypes, _shapes, _strides):
        if message := facts(call):
            return Verdict(False, message, None, None)
    device_figures, reference_figures = _figures(call)
    mutation: tuple[Callable[[_Call], str | None], ...] = (_readable, _aliases, _inputs, _surroundings)
    message = next((m for facts in mutation if (m := facts(call))), None)
    note = None
    if message is None:
        message, note = _values(call)
    return Verdict(message is None, message or note, device_figures, reference_figures)


@lru_cache(maxsize=4096)
def _schema(overload: str) -> torch.FunctionSchema | None:
    """Return the schema of the installed torch, or None for an overload that it lacks."""
    namespace, _, name = overload.partition(".")
    packet, _, variant = name.partition(".")
    op = getattr(getattr(getattr(torch.ops, namespace), packet, None), variant or "default", None)
    schema = getattr(op, "_schema", None)
    return schema if isinstance(schema, torch.FunctionSchema) else None


# --- structure, dtype, shape, strides --------------------------------------------------------------------------------


def _structure(call: _Call) -> str | None:
    want, got = call.reference, call.device
    names = [[seen.name for seen in side.arguments] for side in (want, got)]
    if names[0] != names[1]:
        return f"arguments: tensors {', '.join(names[1]) or 'none'}, expected {', '.join(names[0]) or 'none'}"
    if want.structure == got.structure:
        return None
    if len(want.outputs) == len(got.outputs):
        for left, right in zip(want.outputs, got.outputs, strict=True):
            if left.name == right.name and (expected := _kind(left)) != (found := _kind(right)):
                return f"{right.name}: {found}, expected {expected}"
    return f"outputs: {got.structure}, expected {want.structure}"


def _kind(seen: Seen) -> str:
    if isinstance(seen, SeenTensor):
        return "tensor"
    return "None" if seen.value is None else f"{type(seen.value).__name__} {seen.value}"


def _tensors(call: _Call) -> Iterator[_Pair]:
    """Yield every output tensor with its number, then every argument with -1."""
    for left, right in zip(call.reference.outputs, call.device.outputs, strict=True):
        if isinstance(left, SeenTensor) and isinstance(right, SeenTensor):
            yield _number(left.name), left, right
    for left, right in zip(call.reference.arguments, call.device.arguments, strict=True):
        yield -1, left, right


def _number(name: str) -> int:
    return int(name.removeprefix("output ").partition("[")[0])


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _dtypes(call: _Call) -> str | None:
    for _, want, got in _tensors(call):
        if want.dtype is not got.dtype:
            return f"{got.name}: dtype {_short(got.dtype)}, expected {_short(want.dtype)}"
        if want.layout != got.layout:
            return f"{got.name}: layout {got.layout}, expected {want.layout}"
    return None


def _shapes(call: _Call) -> str | None:
    for _, want, got in _tensors(call):
        if want.shape != got.shape:
            return f"{got.name}: shape {got.shape}, expected {want.shape}"
    return None


def _strides(call: _Call) -> str | None:
    if call.random:
        return None
    for number, want, got in _tensors(call):
        # a device that shows no storage (XLA) has no strides either; those it reports are made up
        if want.stride is None or got.stride is None or got.memory is None or 0 in want.shape:
            continue
        if call.undefined("strides", number) and number >= 0:
            continue
        steps = zip(want.shape, want.stride, got.stride, strict=True)
        if any(size > 1 and left != right for size, left, right in steps):
            return f"{got.name}: stride {got.stride}, expected {want.stride}"
    return None


# --- aliasing and mutation -------------------------------------------------------------------------------------------


def _readable(call: _Call) -> str | None:
    for _, want, got in _tensors(call):
        if want.values is None:
            continue
        if got.values is None:
            place = "is on the meta device" if got.device == "meta" else "cannot be read or reaches beyond its storage"
            return f"{got.name}: has no values, it {place}"
        if got.values.dtype is not want.values.dtype or got.values.shape != want.values.shape:
            found = f"{_short(got.values.dtype)} of shape {tuple(got.values.shape)}"
            return (
                f"{got.name}: read back as {found}, expected {_short(want.values.dtype)} of {tuple(want.values.shape)}"
            )
    return None


def _aliases(call: _Call) -> str | None:
    for number, want, got in _tensors(call):
        if number < 0:
            continue
        written, marked = _return_marks(call.schema, number)
        if want.same_as is not None and want.same_as != got.same_as and written:
            found = f"a view of {got.shares}" if got.shares else "another tensor"
            return f"{got.name}: is {found}, expected {want.same_as} itself"
        if 0 in want.shape or want.memory is None or got.memory is None:
            continue
        if got.shares != want.shares and (got.shares or marked):
            expected = f"memory shared with {want.shares}" if want.shares else "memory of its own"
            found = f"shares memory with {got.shares}" if got.shares else "has memory of its own"
            return f"{got.name}: {found}, expected {expected}"
        if want.shares and got.shares and got.offset != want.offset and _same_start(call, want.shares):
            return f"{got.name}: storage offset {got.offset}, expected {want.offset}"
    return None


def _return_marks(schema: torch.FunctionSchema | None, number: int) -> tuple[bool, bool]:
    """Return whether the schema marks this output as a written argument, and whether as any alias (unknown: both)."""
    if schema is None or not schema.returns:
        return True, True
    mark = schema.returns[min(number, len(schema.returns) - 1)].alias_info
    return mark is not None and mark.is_write, mark is not None


def _same_start(call: _Call, name: str) -> bool:
    offsets = [{s.name: s.offset for s in side.arguments}.get(name) for side in (call.reference, call.device)]
    return offsets[0] == offsets[1]


def _written(seen: SeenTensor, schema: torch.FunctionSchema | None, rows: tuple[ExceptionRow, ...]) -> bool:
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


def _root(seen: SeenTensor) -> str:
    return seen.shares or seen.name


def _written_roots(
    reference: Observation, schema: torch.FunctionSchema | None, rows: tuple[ExceptionRow, ...]
) -> dict[str, list[SeenTensor]]:
    """Return the written arguments by the first argument on their storage, as the reference left them."""
    roots: dict[str, list[SeenTensor]] = {}
    for seen in reference.arguments:
        if _written(seen, schema, rows):
            roots.setdefault(_root(seen), []).append(seen)
    return roots


def _inputs(call: _Call) -> str | None:
    """Say which argument changed that must not: bits are compared, there is nothing to round."""
    for want, got in zip(call.reference.arguments, call.device.arguments, strict=True):
        if _root(want) in call.written:
            continue
        left, right = want.memory, got.memory
        if left is None or right is None or left.numel() != right.numel():
            left, right = want.values, got.values
        if left is None or right is None or same_bits(left, right):
            continue
        if message := values_message(f"{got.name}, which the call must not change", left, right, ValueRule()):
            return message
    return None


def _surroundings(call: _Call) -> str | None:
    """Say which memory changed outside of the written views: before them, behind them, in their gaps."""
    if any(row.what == "values" for row in call.rows):
        return None  # a resize may move memory about
    after = {seen.name: seen for seen in call.device.arguments}
    for root, views in call.written.items():
        want, got = views[0].memory, after[views[0].name].memory
        if (
            want is None
            or got is None
            or want.numel() != got.numel()
            or any(v.dtype is not views[0].dtype for v in views)
        ):
            continue
        if same_bits(want, got):
            continue
        places, outside = torch.arange(want.numel()), torch.ones(want.numel(), dtype=torch.bool)
        for view in views:
            if view.values is not None and view.values.numel():
                outside[places.as_strided(view.shape, view.stride or (), view.offset).flatten()] = False
        message = values_message(
            f"the memory of {root} around what the call writes", want[outside], got[outside], ValueRule()
        )
        if message:
            return message
    return None


# --- values ----------------------------------------------------------------------------------------------------------


def _values(call: _Call) -> tuple[str | None, str | None]:
    """Return a message on the first output or written argument with wrong values, and a note on others."""
    note: str | None = None
    for left, right in zip(call.reference.outputs, call.device.outputs, strict=True):
        if isinstance(left, SeenValue) and isinstance(right, SeenValue) and (message := _plain(call, left, right)):
            return message, None
    for (number, want, got), exact in zip(_tensors(call), _exact_values(call), strict=True):
        if want.values is None or got.values is None or not _is_compared(call, number, want):
            continue
        if same_bits(want.values, got.values):
            continue
        rule = _rule(call, number, want, exact)
        name = got.name if number >= 0 else f"{got.name} after the call, which writes it,"
        message = values_message(name, want.values, got.values, rule)
        if message and call.undefined("casts", max(number, 0)):
            platform = cast_note(name, want.values, got.values, [a.values for a in call.reference.arguments])
            note, message = platform or note, None if platform else message
        if message:
            return message, None
    return None, note


def _is_compared(call: _Call, number: int, want: SeenTensor) -> bool:
    if number >= 0:
        return not call.random and not call.undefined("values", number)
    if _root(want) not in call.written or call.random:
        return False
    # what the outputs are, is judged as an output, or is undefined with it
    outputs = [o for o in call.reference.outputs if isinstance(o, SeenTensor)]
    loose = {o.shares for o in outputs if call.undefined("values", _number(o.name))}
    return want.name not in {o.same_as for o in outputs} | loose


def _exact_values(call: _Call) -> Iterator[torch.Tensor | None]:
    """Yield for every tensor of `_tensors` the values of the float64 call, None where they do not correspond."""
    exact = call.exact
    for number, want, _ in _tensors(call):
        group: tuple[Seen, ...] = () if exact is None else exact.outputs if number >= 0 else exact.arguments
        match = next((e for e in group if e.name == want.name), None)
        floating = want.dtype.is_floating_point or want.dtype.is_complex
        values = match.values if isinstance(match, SeenTensor) and floating else None
        if values is not None and (want.values is None or values.shape != want.values.shape):
            values = None
        yield None if values is None or values.is_complex() != want.dtype.is_complex else values


def _rule(call: _Call, number: int, want: SeenTensor, exact: torch.Tensor | None) -> ValueRule:
    inputs = [a.values.numel() for a in call.reference.arguments if a.values is not None and not _is_result(call, a)]
    count = want.values.numel() if want.values is not None else 0
    return ValueRule(
        tolerance=tolerance_of(call.rows, max(number, 0), want.dtype, call.compute_dtype),
        length=reduction_length(inputs, count),
        exact=exact,
        zero_sign=not call.undefined("zero_sign", max(number, 0)),
        compute_dtype=call.compute_dtype,
    )


def _is_result(call: _Call, argument: SeenTensor) -> bool:
    """Return whether an argument only receives a result (``out=``), so that it is no input of a sum."""
    place = argument.name.removeprefix("argument ").partition("[")[0]
    return not place.isdigit() and _written(argument, call.schema, call.rows)


def _plain(call: _Call, want: SeenValue, got: SeenValue) -> str | None:
    if call.random or call.undefined("values", _number(want.name)):
        return None
    left, right = want.value, got.value
    if isinstance(left, float | complex) and isinstance(right, float | complex):
        numbers = [
            torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)
            for value in (left, right)
        ]
        return values_message(got.name, numbers[0], numbers[1], ValueRule())
    comparable = bool | int | str | torch.dtype | torch.layout | torch.memory_format
    if isinstance(left, comparable) and left != right:
        return f"{got.name}: {right}, expected {left}"
    return None


def _figures(call: _Call) -> tuple[Figures | None, Figures | None]:
    """Return the largest distances from the float64 call over all float outputs and written arguments: device, CPU."""
    device: list[Figures | None] = []
    reference: list[Figures | None] = []
    for (number, want, got), exact in zip(_tensors(call), _exact_values(call), strict=True):
        if exact is None or want.values is None or got.values is None or not _is_compared(call, number, want):
            continue
        if got.values.shape != want.values.shape or got.values.dtype is not want.values.dtype:
            continue
        truth = widen(exact)
        cpu = summary(distances(widen(want.values), truth, want.dtype))
        same = same_bits(want.values, got.values)
        device.append(cpu if same else summary(distances(widen(got.values), truth, want.dtype)))
        reference.append(cpu)
    return largest(device), largest(reference)
