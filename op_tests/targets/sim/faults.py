"""Decides how a planted fault spoils a call of the simulated device; each proves that the harness sees its kind."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.records import BadInput
from neuron_ops.op_tests.targets.sim import memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _each(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Any], Any]:
    """Return a function that changes every CPU tensor in an output and puts it back on the device."""

    def spoil(value: Any) -> Any:
        if memory.is_device(value):
            host = memory.to_host(value)
            changed = change(host)
            if changed is host:
                return value
            if changed.shape == host.shape and changed.dtype == host.dtype and changed.stride() == host.stride():
                host.copy_(changed)  # in place, so that in-place and out= calls are spoilt too
                return value
            return memory.to_device(changed)
        if isinstance(value, (list, tuple)):
            return type(value)(spoil(item) for item in value)
        return value

    return spoil


def _first_element(tensor: torch.Tensor, value: float) -> torch.Tensor:
    if not tensor.numel() or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    changed = tensor.clone()
    changed.view(-1)[0] = value
    return changed


def _value(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.bool:
        return ~tensor
    if tensor.is_floating_point() or tensor.is_complex():
        return tensor * 1.25 + 0.5
    return tensor + 1


def _other_dtype(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.float64 if tensor.dtype == torch.float32 else torch.float32)


def _other_stride(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dim() < 2:  # a vector gets a gap between its elements
        return torch.stack([tensor, tensor], -1)[..., 0] if tensor.dim() else tensor
    return tensor.transpose(0, -1).contiguous().transpose(0, -1)


def _segfault(_: Any) -> Any:
    ctypes.string_at(0)


def _abort(_: Any) -> Any:
    os.abort()


def _hang(_: Any) -> Any:
    while True:
        pass


def _hog(_: Any) -> Any:
    held = []
    while True:
        held.append(b"x" * (64 << 20))  # not zeros: untouched pages would not be resident


OUTPUT_FAULTS: Mapping[str, Callable[[Any], Any]] = {
    "value": _each(_value),
    "nan": _each(lambda t: _first_element(t, float("nan"))),
    "infinity": _each(lambda t: _first_element(t, float("inf"))),
    "negative-infinity": _each(lambda t: _first_element(t, float("-inf"))),
    "dtype": _each(_other_dtype),
    "stride": _each(_other_stride),
    "shape": _each(lambda t: t.unsqueeze(0)),
    "zeros": _each(torch.zeros_like),
    "segfault": _segfault,
    "abort": _abort,
    "hang": _hang,
    "memory": _hog,
}
"""Fault → what becomes of the outputs."""

OTHER_FAULTS = frozenset({"input-mutated", "mutation-missed", "hidden-fallback", "unsupported", "raise"})
"""Faults that are no change of an output; kernels.py acts on them."""


def check_fault(fault: str) -> str:
    """Return the fault's name; raises BadInput when there is no such fault."""
    if fault not in OUTPUT_FAULTS and fault not in OTHER_FAULTS:
        known = ", ".join(sorted((*OUTPUT_FAULTS, *OTHER_FAULTS)))
        raise BadInput(f"unknown fault {fault!r}; expected one of {known}; plant one of these")
    return fault


def mutate_first(args: tuple[Any, ...]) -> None:
    """Change the first floating-point device tensor among the arguments, as a kernel that writes where it must not."""
    for value in args:
        if memory.is_device(value) and value.numel() and value.is_floating_point():
            memory.to_host(value).add_(1)
            return
