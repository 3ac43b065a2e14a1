"""Judges one call: what the device left against what the CPU left, one kind of fact after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests import mutation
from neuron_ops.op_tests.comparison import (
    Comparison,
    is_written,
    number_of,
    root_of,
    schema_of,
    short,
    tensors,
    written_roots,
)
from neuron_ops.op_tests.figures import distances, largest, summary, widen
from neuron_ops.op_tests.observation import Observation, Seen, SeenTensor, SeenValue
from neuron_ops.op_tests.properties import freedom, loose_exact
from neuron_ops.op_tests.tolerances import EXACT, Tolerance, reduction_length, rows_for, tolerance_of
from neuron_ops.op_tests.values import ValueRule, cast_note, same_bits, values_message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neuron_ops.op_tests.records import Figures


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the device did what the CPU did; if not, `message` says in one line where and how.

    A message with `ok` is a note: results that differ where they may, such as a cast that the platform defines or
    another index of equal values. Figures are distances from the
    float64 reference, the largest over all float outputs; None without such a reference or float output.
    """

    ok: bool
    message: str | None
    device_figures: Figures | None
    reference_figures: Figures | None


def compare(
    overload: str,
    dtype: str,
    *,
    reference: Observation,
    device: Observation,
    exact: Observation | None,
    random: bool = False,
    compute_dtype: torch.dtype | None = None,
    tolerance: Tolerance | None = None,
) -> Verdict:
    """Return the verdict on one call of `overload` in a case of `dtype`; never raises for what a device hands back.

    `exact` is the same call with float inputs in float64 (complex128), or None. `random`: the device draws from another
    generator, so values of outputs and of written arguments are not compared. `compute_dtype`: the arithmetic that the
    target documents where it is narrower than an output's dtype; that dtype's tolerance then holds. `tolerance` takes
    the place of every tolerance, for results whose expected values are known to that precision.
    """
    schema, rows = schema_of(overload), rows_for(overload, dtype)
    written = written_roots(reference, schema, rows)
    call = Comparison(reference, device, exact, schema, rows, written, random, compute_dtype, tolerance)
    for facts in (_structure, _dtypes, _shapes, _strides):
        if message := facts(call):
            return Verdict(False, message, None, None)
    device_figures, reference_figures = _figures(call)
    memory = (mutation.readable, mutation.aliases, mutation.inputs, mutation.surroundings)
    message = next((m for facts in memory if (m := facts(call))), None)
    note = None
    if message is None:
        message, note = _values(call)
    return Verdict(message is None, message or note, device_figures, reference_figures)


# --- structure, dtype, shape, strides --------------------------------------------------------------------------------


def _structure(call: Comparison) -> str | None:
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


def _dtypes(call: Comparison) -> str | None:
    for _, want, got in tensors(call):
        if want.dtype is not got.dtype:
            return f"{got.name}: dtype {short(got.dtype)}, expected {short(want.dtype)}"
        if want.layout != got.layout:
            return f"{got.name}: layout {got.layout}, expected {want.layout}"
    return None


def _shapes(call: Comparison) -> str | None:
    for _, want, got in tensors(call):
        if want.shape != got.shape:
            return f"{got.name}: shape {got.shape}, expected {want.shape}"
    return None


def _strides(call: Comparison) -> str | None:
    if call.random:
        return None
    for number, want, got in tensors(call):
        # a device that shows no storage (XLA) has no strides either; those it reports are made up
        if want.stride is None or got.stride is None or got.memory is None or 0 in want.shape:
            continue
        if call.undefined("strides", number) and number >= 0:
            continue
        steps = zip(want.shape, want.stride, got.stride, strict=True)
        if any(size > 1 and left != right for size, left, right in steps):
            return f"{got.name}: stride {got.stride}, expected {want.stride}"
    return None


# --- values ----------------------------------------------------------------------------------------------------------


def _values(call: Comparison) -> tuple[str | None, str | None]:
    """Return a message on the first output or written argument with wrong values, and a note on others."""
    note: str | None = None
    for left, right in zip(call.reference.outputs, call.device.outputs, strict=True):
        if isinstance(left, SeenValue) and isinstance(right, SeenValue) and (message := _plain(call, left, right)):
            return message, None
    free = freedom(call)
    if free.message is not None:
        return free.message, None
    note = free.note
    for (number, want, got), exact in zip(tensors(call), _exact_values(call), strict=True):
        if want.values is None or got.values is None or not _is_compared(call, number, want) or number in free.free:
            continue
        values = free.instead.get(number, got.values)
        if same_bits(want.values, values):
            continue
        rule = _rule(call, number, want, exact)
        name = got.name if number >= 0 else f"{got.name} after the call, which writes it,"
        message = values_message(name, want.values, values, rule)
        if message and call.undefined("casts", max(number, 0)):
            platform = cast_note(name, want.values, values, [a.values for a in call.reference.arguments])
            note, message = platform or note, None if platform else message
        if message:
            return message, None
    return None, note


def _is_compared(call: Comparison, number: int, want: SeenTensor) -> bool:
    if number >= 0:
        return not call.random and not call.undefined("values", number)
    if root_of(want) not in call.written or call.random:
        return False
    # what the outputs are, is judged as an output, or is undefined with it
    outputs = [o for o in call.reference.outputs if isinstance(o, SeenTensor)]
    loose = {o.shares for o in outputs if call.undefined("values", number_of(o.name))}
    return want.name not in {o.same_as for o in outputs} | loose


def _exact_values(call: Comparison) -> Iterator[torch.Tensor | None]:
    """Yield for every tensor of `tensors` the values of the float64 call, None where they do not correspond."""
    exact, loose = call.exact, loose_exact(call)
    for number, want, _ in tensors(call):
        group: tuple[Seen, ...] = () if exact is None else exact.outputs if number >= 0 else exact.arguments
        match = next((e for e in group if e.name == want.name), None)
        floating = want.dtype.is_floating_point or want.dtype.is_complex
        values = match.values if isinstance(match, SeenTensor) and floating else None
        if values is not None and (number in loose or want.values is None or values.shape != want.values.shape):
            values = None
        yield None if values is None or values.is_complex() != want.dtype.is_complex else values


def _rule(call: Comparison, number: int, want: SeenTensor, exact: torch.Tensor | None) -> ValueRule:
    inputs = [a.values.numel() for a in call.reference.arguments if a.values is not None and not _is_result(call, a)]
    count = want.values.numel() if want.values is not None else 0
    return ValueRule(
        tolerance=call.tolerance or tolerance_of(call.rows, max(number, 0), want.dtype, call.compute_dtype),
        length=reduction_length(inputs, count),
        exact=exact,
        zero_sign=not call.undefined("zero_sign", max(number, 0)),
        compute_dtype=call.compute_dtype,
    )


def _is_result(call: Comparison, argument: SeenTensor) -> bool:
    """Return whether an argument only receives a result (``out=``), so that it is no input of a sum."""
    place = argument.name.removeprefix("argument ").partition("[")[0]
    return not place.isdigit() and is_written(argument, call.schema, call.rows)


def _plain(call: Comparison, want: SeenValue, got: SeenValue) -> str | None:
    if call.random or call.undefined("values", number_of(want.name)):
        return None
    left, right = want.value, got.value
    if isinstance(left, float | complex) and isinstance(right, float | complex):
        numbers = [
            torch.tensor(value, dtype=torch.complex128 if isinstance(value, complex) else torch.float64)
            for value in (left, right)
        ]
        zero_sign = not call.undefined("zero_sign", number_of(want.name))
        return values_message(got.name, numbers[0], numbers[1], ValueRule(call.tolerance or EXACT, zero_sign=zero_sign))
    comparable = bool | int | str | torch.dtype | torch.layout | torch.memory_format
    if isinstance(left, comparable) and left != right:
        return f"{got.name}: {right}, expected {left}"
    return None


def _figures(call: Comparison) -> tuple[Figures | None, Figures | None]:
    """Return the largest distances from the float64 call over all float outputs and written arguments: device, CPU."""
    device: list[Figures | None] = []
    reference: list[Figures | None] = []
    for (number, want, got), exact in zip(tensors(call), _exact_values(call), strict=True):
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
