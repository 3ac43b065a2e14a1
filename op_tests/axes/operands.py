"""Axes that give a call another second operand, another ``out=``, or the same memory twice."""

from __future__ import annotations

import functools
import importlib.resources
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.axes.arguments import Arguments, Call, Slot, kind_of, pointwise

if TYPE_CHECKING:
    from collections.abc import Callable

_TAKES_HOST_SCALARS = frozenset(
    {"aten.fill_.Tensor", "aten.copy_.default", "aten.masked_fill_.Tensor", "aten.index_put_.default"}
)
"""Overloads beside the elementwise ones that take a 0-dim CPU tensor with a device's tensors: assignment is made of them."""


@functools.cache
def _mixing() -> frozenset[str]:
    """Return the overloads whose devices PyTorch's dispatcher does not compare, because TensorIterator takes host scalars."""
    path = importlib.resources.files("torchgen").joinpath("packaged/ATen/native/native_functions.yaml")
    found = set()
    for entry in path.read_text("utf-8").split("\n- func: ")[1:]:
        if "\n  device_check: NoCheck" in entry:
            name, _, overload = entry.partition("(")[0].partition(".")
            found.add(f"aten.{name}.{overload or 'default'}")
    return frozenset(found)


def takes_host_scalars(op: torch._ops.OpOverload) -> bool:
    """Return whether PyTorch lets the overload mix a 0-dim CPU tensor with tensors of a device."""
    return str(op) in _mixing() and (pointwise(op) or str(op) in _TAKES_HOST_SCALARS)


def _second(call: Call) -> Slot | None:
    """Return the second tensor operand that is no index and is not written, or None."""
    single = [slot for slot in call.slots() if isinstance(slot.value, torch.Tensor) and not slot.out and not slot.where]
    return next((slot for slot in single[1:] if not slot.written), None)


# --- type promotion --------------------------------------------------------------------------------------------------


def scalar(call: Call, detail: str) -> Arguments | None:
    """Return the call with a Python number of another category as its second operand.

    Detail ``dtype``: the operand as a tensor of another dtype. ``zero_dim``: as a 0-dim tensor of a wider dtype, which
    must not widen the result.
    """
    main = next((t for _, t in call.inputs()), None)
    operand = _second(call)
    if main is None:
        return None
    if operand is None:
        return _other_number(call, main) if not detail else None
    if detail == "dtype":
        return call.replaced({operand.place: operand.value.resolve_conj().to(_other(operand.value.dtype))})
    if detail == "zero_dim":
        wide = _wider(operand.value.dtype)
        if wide is None or not operand.value.numel():
            return None
        return call.replaced({operand.place: operand.value.resolve_conj().reshape(-1)[0].to(wide)})
    return call.replaced({operand.place: 3 if main.is_floating_point() or main.is_complex() else 2.5})


def _other_number(call: Call, main: torch.Tensor) -> Arguments | None:
    numbers = [slot for slot in call.slots() if slot.kind == "number" and type(slot.value) in (int, float, complex)]
    if not numbers:
        return None
    number = 3 if main.is_floating_point() or main.is_complex() else 2.5
    return call.replaced({numbers[0].place: number}) if type(numbers[0].value) is not type(number) else None


def _other(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex or dtype == torch.bool:
        return torch.float32
    return torch.int64 if dtype.is_floating_point else torch.float32


def _wider(dtype: torch.dtype) -> torch.dtype | None:
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    return None if dtype in (wide, torch.bool) else wide


# --- a scalar that stays on the host ---------------------------------------------------------------------------------


def host_scalar(call: Call, detail: str) -> Arguments | None:
    """Return the call with a 0-dim tensor as its second operand; `host_positions` names it."""
    del detail
    found = host_positions(call)
    if not found:
        return None
    value = call.args[found[0]]
    return call.replaced({found[0]: value.resolve_conj().resolve_neg().reshape(-1)[0].clone()})


def host_positions(call: Call) -> tuple[int, ...]:
    """Return the positions of the arguments that stay on the CPU beside a device's tensors; none where that is not allowed."""
    operand = _second(call)
    if operand is None or not isinstance(operand.place, int) or not operand.value.numel():
        return ()
    return (operand.place,) if takes_host_scalars(call.op) else ()


# --- out= ------------------------------------------------------------------------------------------------------------


def _outs(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments | None:
    changes: dict[int | str, Any] = {}
    for slot in call.slots():
        if slot.out and isinstance(slot.value, torch.Tensor):
            changes[slot.place] = change(slot.value)
        elif slot.out and isinstance(slot.value, list):
            changes[slot.place] = [change(t) if isinstance(t, torch.Tensor) else t for t in slot.value]
    return call.replaced(changes) if changes else None


def out_larger(call: Call, detail: str) -> Arguments | None:
    """Return the call with ``out=`` tensors of more elements and dimensions than the result, full of ones."""
    del detail
    return _outs(call, lambda out: torch.ones((*out.shape, 3), dtype=out.dtype))


def out_wrong_shape(call: Call, detail: str) -> Arguments | None:
    """Return the call with ``out=`` tensors of as many elements as the result in another shape (no room is missing)."""
    del detail
    return _outs(call, lambda out: torch.ones((1, *reversed(out.shape), 1), dtype=out.dtype))


def out_wrong_dtype(call: Call, detail: str) -> Arguments | None:
    """Return the call with ``out=`` tensors of a dtype that the result cannot be cast to: the call must raise."""
    del detail
    return _outs(call, lambda out: torch.zeros(out.shape, dtype=_narrower(out.dtype)))


def _narrower(dtype: torch.dtype) -> torch.dtype:
    if dtype.is_complex:
        return torch.float32
    return torch.int64 if dtype.is_floating_point else torch.bool if dtype != torch.bool else torch.uint8


# --- the same memory twice -------------------------------------------------------------------------------------------


def aliased(call: Call, detail: str) -> Arguments | None:
    """Return the call with one tensor given twice; an elementwise call writes the tensor that it reads.

    Detail ``base``: the written tensor and what is read are neighbours in one buffer. Other calls that write do not get
    the same tensor twice: no contract says what they leave.
    """
    if detail == "base":
        return _in_one_buffer(call)
    single = [slot for slot in call.slots() if isinstance(slot.value, torch.Tensor) and not slot.where]
    written = [slot for slot in single if slot.written]
    if written and not pointwise(call.op):
        return None
    for first in written or single:
        for second in single:
            if second.place != first.place and _alike(first.value, second.value):
                return call.replaced({second.place: first.value})
    return None


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.numel() > 0


def _in_one_buffer(call: Call) -> Arguments | None:
    if kind_of(call.op) not in ("inplace", "out"):
        return None
    written = next((slot.value for slot in call.slots() if slot.written and isinstance(slot.value, torch.Tensor)), None)
    if written is None or not written.numel():
        return None
    group = {
        slot.place: slot.value
        for slot in call.slots()
        if isinstance(slot.value, torch.Tensor) and slot.value.dtype == written.dtype and slot.value.numel()
    }
    if len(group) < 2:
        return None
    buffer = torch.cat([t.resolve_conj().resolve_neg().reshape(-1) for t in group.values()])
    changes: dict[int | str, Any] = {}
    start = 0
    for place, tensor in group.items():
        changes[place] = buffer[start : start + tensor.numel()].view(tensor.shape)
        start += tensor.numel()
    return call.replaced(changes)
