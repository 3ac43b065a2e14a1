"""Judges what a call did to memory: what its outputs share, which inputs changed, what was written around a view."""

from __future__ import annotations

import torch
from neuron_ops.op_tests.comparison import Comparison, root_of, short, tensors
from neuron_ops.op_tests.values import ValueRule, same_bits, values_message


def readable(call: Comparison) -> str | None:
    """Say which tensor has no values where the reference has some, or was read back as another one."""
    for _, want, got in tensors(call):
        if want.values is None:
            continue
        if got.values is None:
            place = "is on the meta device" if got.device == "meta" else "cannot be read or reaches beyond its storage"
            return f"{got.name}: has no values, it {place}"
        if got.values.dtype is not want.values.dtype or got.values.shape != want.values.shape:
            found = f"{short(got.values.dtype)} of shape {tuple(got.values.shape)}"
            return (
                f"{got.name}: read back as {found}, expected {short(want.values.dtype)} of {tuple(want.values.shape)}"
            )
    return None


def aliases(call: Comparison) -> str | None:
    """Say which output is not the argument, shares memory or starts elsewhere than the reference's."""
    for number, want, got in tensors(call):
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


def _same_start(call: Comparison, name: str) -> bool:
    offsets = [{s.name: s.offset for s in side.arguments}.get(name) for side in (call.reference, call.device)]
    return offsets[0] == offsets[1]


def inputs(call: Comparison) -> str | None:
    """Say which argument changed that must not: bits are compared, there is nothing to round."""
    for want, got in zip(call.reference.arguments, call.device.arguments, strict=True):
        if root_of(want) in call.written:
            continue
        left, right = want.memory, got.memory
        if left is None or right is None or left.numel() != right.numel():
            left, right = want.values, got.values
        if left is None or right is None or same_bits(left, right):
            continue
        if message := values_message(f"{got.name}, which the call must not change", left, right, ValueRule()):
            return message
    return None


def surroundings(call: Comparison) -> str | None:
    """Say which memory changed outside of the written views: before them, behind them, in their gaps."""
    if any(row.what in ("values", "around") for row in call.rows):
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
