"""Decides how a planted fault spoils a call of the simulated device; each proves that the harness sees its kind."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.records import BadInput
from neuron_ops.op_tests.targets.sim import memory
from neuron_ops.op_tests.targets.sim import spoiling as sp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a kernel that carries a fault.

    `serve` serves it with the arguments that it is given, `hide` on the host behind the back of the tracking calls,
    `refuse` writes into the journal that nothing serves it. `written` are the device tensors that the call changes,
    `memory` is what this fault remembers from earlier calls.
    """

    overload: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    written: tuple[torch.Tensor, ...]
    serve: Callable[[tuple[Any, ...], dict[str, Any]], Any]
    hide: Callable[[], Any]
    refuse: Callable[[], None]
    memory: dict[str, Any]

    def honest(self) -> Any:
        """Return what the kernel computes."""
        return self.serve(self.args, self.kwargs)

    def reads(self) -> list[torch.Tensor]:
        """Return the device tensors that the call only reads."""
        written = {id(t) for t in self.written}
        found = sp.device_tensors((*self.args, *self.kwargs.values()))
        return [t for t in found if id(t) not in written]


def _outputs(change: Callable[[torch.Tensor], torch.Tensor], *, form: bool = False) -> Callable[[Call], Any]:
    """Return a fault that changes every output, and every written argument where there is none."""

    def act(call: Call) -> Any:
        out = call.honest()
        if out is None:
            sp.each(change)(list(call.written))
            return None
        return sp.each(change, form=form)(out)

    return act


def _one_element(call: Call) -> Any:
    return _outputs(sp.one_element(call.overload))(call)


def _inputs(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Call], Any]:
    """Return a fault that computes with changed inputs."""

    def act(call: Call) -> Any:
        keep = {id(t) for t in call.written}
        return call.serve(sp.replaced(call.args, change, keep), sp.replaced(call.kwargs, change, keep))

    return act


def _through_float32(call: Call) -> Any:
    change = sp.through(torch.float32)
    for tensor in call.written:
        memory.to_host(tensor).copy_(change(memory.to_host(tensor)))
    return _inputs(sp.host_copy(change))(call)


def _in_backward(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Call], Any]:
    """Return a fault that acts only while autograd computes gradients."""

    def act(call: Call) -> Any:
        inside = torch._C._current_autograd_node() is not None
        return _outputs(change)(call) if inside else call.honest()

    return act


# --- memory ----------------------------------------------------------------------------------------------------------


def _input_mutated(call: Call) -> Any:
    out = call.honest()
    for tensor in call.reads():
        if tensor.numel():
            host = memory.to_host(tensor)
            last = tuple(size - 1 for size in host.shape)
            host[last] = sp.other_value(host[last])
            break
    return out


def _mutation_missed(call: Call) -> Any:
    before = [memory.to_host(t).clone() for t in call.written]
    out = call.honest()
    for tensor, old in zip(call.written, before, strict=True):
        if tensor.shape == old.shape:
            memory.to_host(tensor).copy_(old)
    return out


def _out_not_resized(call: Call) -> Any:
    before = [(t.untyped_storage(), int(t.storage_offset()), t.shape, t.stride()) for t in call.written]
    out = call.honest()
    for tensor, geometry in zip(call.written, before, strict=True):
        memory.set_geometry(tensor, *geometry)
    return out


def _view_detached(call: Call) -> Any:
    def copied(value: Any) -> Any:
        if memory.is_device(value):
            copy = sp.base_of(value).clone().as_strided(value.shape, value.stride(), int(value.storage_offset()))
            return memory.to_device(copy)
        return type(value)(copied(item) for item in value) if isinstance(value, (list, tuple)) else value

    return copied(call.honest())


def _input_aliased(call: Call) -> Any:
    out = call.honest()
    same = (t for t in call.reads() if memory.is_device(out) and (t.shape, t.dtype) == (out.shape, out.dtype))
    source = next(same, None)
    return out if source is None else torch.ops.aten.alias.default(source)


def _written_outside(call: Call) -> Any:
    """Write one element too many: the first of the storage that no argument reads, such as a gap between rows."""
    out = call.honest()
    for tensor in call.written:
        base = sp.base_of(tensor)
        free = torch.ones(base.numel(), dtype=torch.bool)
        places = torch.arange(base.numel())
        for view in (tensor, *call.reads()):
            if view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
                free[places.as_strided(view.shape, view.stride(), int(view.storage_offset())).flatten()] = False
        if bool(free.any()):
            base[int(free.nonzero()[0])] += 1
            break
    return out


def _written_at_the_start(call: Call) -> Any:
    before = [memory.to_host(t).clone() for t in call.written]
    out = call.honest()
    for tensor, old in zip(call.written, before, strict=True):
        result = memory.to_host(tensor).clone()
        memory.to_host(tensor).copy_(old)
        sp.base_of(tensor).as_strided(tensor.shape, tensor.stride(), 0).copy_(result)
    return out


# --- numbers ---------------------------------------------------------------------------------------------------------


def _identity(call: Call) -> Any:
    out = call.honest()
    source = next(iter(call.reads()), None)
    if source is None or not memory.is_device(out) or (source.shape, source.dtype) != (out.shape, out.dtype):
        return out
    memory.to_host(out).copy_(memory.to_host(source))
    return out


def _large_is_nan(call: Call) -> Any:
    """Return NaN where an input is above 10, as a formula does whose exponential overflows on the way."""
    inputs = [memory.to_host(t).abs() > 10 for t in call.reads() if t.is_floating_point()]

    def change(tensor: torch.Tensor) -> torch.Tensor:
        large = [mask for mask in inputs if mask.shape == tensor.shape]
        return tensor.masked_fill(torch.stack(large).any(0), float("nan")) if large else tensor

    return _outputs(change)(call)


def _saturated(call: Call) -> Any:
    """Return integer results clamped to their range, where they must wrap."""
    dtypes = {n: torch.int64 if isinstance(v, torch.dtype) else v for n, v in call.kwargs.items()}
    wide = call.serve(sp.replaced(call.args, sp.host_copy(lambda t: t.to(torch.int64)), set()), dtypes)
    out = call.honest()
    info = torch.iinfo(out.dtype)
    memory.to_host(out).copy_(memory.to_host(wide).clamp(info.min, info.max))
    return out


def _low_accumulator(call: Call) -> Any:
    out, source = call.honest(), memory.to_host(call.reads()[0])
    total = sp.added_up(source)
    memory.to_host(out).copy_(total / source.numel() if "mean" in call.overload else total)
    return out


def _keywords_ignored(call: Call) -> Any:
    numbers = (bool, int, float, complex)
    return call.serve(call.args, {n: v for n, v in call.kwargs.items() if not isinstance(v, numbers)})


def _wrong_past_65536(call: Call) -> Any:
    large = any(t.numel() > 65536 for t in call.reads())
    return _outputs(sp.other_value)(call) if large else call.honest()


# --- order and state -------------------------------------------------------------------------------------------------


def _rng_ignored(call: Call) -> Any:
    """Draw from a generator of the kernel's own that starts anew at each call."""
    state = torch.default_generator.get_state()
    torch.default_generator.manual_seed(20130213)
    try:
        return call.honest()
    finally:
        torch.default_generator.set_state(state)


def _state_leaked(call: Call) -> Any:
    """Go wrong on another shape than that of the first call, as a cache does whose key forgets the shape."""
    shapes = [tuple(t.shape) for t in call.reads()]
    first = call.memory.setdefault("shapes", shapes)
    return call.honest() if first == shapes else _outputs(sp.other_value)(call)


def _unrepeatable(call: Call) -> Any:
    """Change the last bit at every second call, as sums whose order depends on the scheduler."""
    call.memory["calls"] = call.memory.get("calls", 0) + 1
    if call.memory["calls"] % 2:
        return call.honest()
    up = torch.tensor(float("inf"))
    return _outputs(lambda t: torch.nextafter(t, up.to(t.dtype)) if t.is_floating_point() else t)(call)


def _refusal_missed(call: Call) -> Any:
    try:
        return call.honest()
    except (RuntimeError, IndexError, ValueError, TypeError):
        return memory.to_device(torch.zeros(1))


def _unsupported(call: Call) -> Any:
    call.refuse()
    raise NotImplementedError(f"{call.overload} is not supported on neuron (planted)")


def _raise(call: Call) -> Any:
    raise RuntimeError(f"{call.overload} failed to execute on Neuron (planted)")


def _segfault(call: Call) -> Any:
    call.honest()
    ctypes.string_at(0)


def _abort(call: Call) -> Any:
    call.honest()
    os.abort()


def _hang(call: Call) -> Any:
    call.honest()
    while True:
        pass


def _hog(call: Call) -> Any:
    held = [call.honest()]
    while True:
        held.append(b"x" * (64 << 20))  # not zeros: untouched pages would not be resident


FAULTS: Mapping[str, Callable[[Call], Any]] = {
    "value": _outputs(sp.other_value),
    "one-element": _one_element,
    "zeros": _outputs(torch.zeros_like),
    "nan": _outputs(sp.first_element(float("nan"))),
    "infinity": _outputs(sp.first_element(float("inf"))),
    "negative-infinity": _outputs(sp.first_element(float("-inf"))),
    "nan-dropped": _outputs(sp.where(torch.isnan, torch.zeros_like)),
    "infinity-sign": _outputs(sp.where(torch.isinf, torch.neg)),
    "zero-sign": _outputs(sp.where(lambda t: t == 0, torch.neg)),
    "large-is-nan": _large_is_nan,
    "truncated": _outputs(lambda t: t.trunc() if t.is_floating_point() else t),
    "transposed": _outputs(lambda t: t.mT.clone() if t.dim() > 1 and t.shape[-1] == t.shape[-2] else t),
    "identity": _identity,
    "past-16-zero": _outputs(sp.tail_zero(16)),
    "every-second-zero": _outputs(sp.tail_zero(1, 2)),
    "wrong-past-65536": _wrong_past_65536,
    "keywords-ignored": _keywords_ignored,
    "integer-through-float32": _through_float32,
    "integer-through-int8": _outputs(sp.through(torch.int8)),
    "saturated": _saturated,
    "low-precision": _inputs(sp.host_copy(sp.coarse)),
    "low-accumulator": _low_accumulator,
    "dtype": _outputs(sp.other_dtype, form=True),
    "shape": _outputs(lambda t: t.unsqueeze(0), form=True),
    "empty": _outputs(lambda t: t.new_empty(0), form=True),
    "stride": _outputs(sp.other_stride, form=True),
    "strides-ignored": _inputs(sp.as_if_contiguous),
    "offset-ignored": _inputs(sp.as_if_at_the_start),
    "input-mutated": _input_mutated,
    "input-aliased": _input_aliased,
    "mutation-missed": _mutation_missed,
    "out-not-resized": _out_not_resized,
    "view-detached": _view_detached,
    "written-outside": _written_outside,
    "written-at-the-start": _written_at_the_start,
    "gradient-scaled": _in_backward(lambda t: t * 1.5),
    "gradient-zero": _in_backward(torch.zeros_like),
    "rng-ignored": _rng_ignored,
    "state-leaked": _state_leaked,
    "unrepeatable": _unrepeatable,
    "refusal-missed": _refusal_missed,
    "hidden-fallback": lambda call: call.hide(),
    "unsupported": _unsupported,
    "raise": _raise,
    "segfault": _segfault,
    "abort": _abort,
    "hang": _hang,
    "memory": _hog,
}
"""Fault → what becomes of a call."""


def check_fault(fault: str) -> str:
    """Return the fault's name; raises BadInput when there is no such fault."""
    if fault not in FAULTS:
        raise BadInput(f"unknown fault {fault!r}; expected one of {', '.join(sorted(FAULTS))}; plant one of these")
    return fault
