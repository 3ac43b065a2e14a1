"""Records each call on fake tensors of the simulated device, judged by the device's own profile, its composites opened."""

from __future__ import annotations

import re
from typing import Any

import torch
from neuron_ops.op_tests.capture.fake.guesses import ASKING, Guesses
from neuron_ops.op_tests.capture.fake.known import LIMIT, Known, mapped, tensors_in
from neuron_ops.op_tests.capture.fake.tensors import DEVICE, device_of
from neuron_ops.op_tests.targets.sim import host, kernels, runtime
from neuron_ops.op_tests.targets.sim.journal import Entry
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

_UNSEEN = frozenset({"aten.detach.default", "aten.lift.default", "aten.lift_fresh.default"})
"""What never reaches a backend as a call of its own."""
_INDEXING = frozenset(
    {"aten.index.Tensor", "aten.index_put.default", "aten.index_put_.default", "aten._unsafe_index.Tensor"}
)
_ATTENTION = "aten.scaled_dot_product_attention.default"
_NO_VIEW = re.compile("Cannot view a tensor|view size is not compatible")
_NO_SHAPES = (
    UnsupportedOperatorException, UnsupportedFakeTensorException, DynamicOutputShapeException, DataDependentOutputException,
)  # fmt: skip


class Watch(TorchDispatchMode):
    """The mode above the fake one: every call at the Python key passes here before its shapes are computed."""

    def __init__(self, state: kernels.State, known: Known, guesses: Guesses) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._state, self._known, self._guesses = state, known, guesses
        self._opened: dict[Any, list[Entry]] = {}
        self._opening = False

    def __torch_dispatch__(
        self, op: torch._ops.OpOverload, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Record, judge and compute one call."""
        kwargs = kwargs or {}
        if op.namespace == "prim":
            return op(*args, **kwargs)
        result = self._decomposed(op, args, kwargs)
        if result is not NotImplemented:
            return result
        if str(op) in _UNSEEN or not _on_device(args, kwargs):
            return self._values(op, args, kwargs)
        entry = kernels.judged(op, self._state, args, kwargs)
        with self._state.journal.inside(entry):
            if entry.composite:
                self._open(op, entry, args, kwargs)
            result = None
            try:
                result = self._values(op, args, kwargs)
            finally:
                self._state.journal.note(entry, _noted(op, args), kwargs, result)
            return result

    def _decomposed(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the dispatcher would do above the device's key, which inference_mode skips, or NotImplemented."""
        name = op.name()
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        if str(op) == _ATTENTION and _on_device(args, kwargs):
            with self:
                return runtime._attention(*args, **kwargs)
        if not has(name, "CompositeImplicitAutograd") or (has(name, "PrivateUse1") and _on_device(args, kwargs)):
            return NotImplemented
        with self:
            return op.decompose(*args, **kwargs)

    def _open(self, op: torch._ops.OpOverload, entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record below the entry what PyTorch's composite kernel calls; once for each shape."""
        key = (str(op), _signature(args), _signature(kwargs))
        if key in self._opened:
            entry.below.extend(self._opened[key])
            return
        kernel = kernels.make_kernel(op, self._state)
        wrapped, named = host.wrap_numbers(kernel.signature, args, kwargs)
        outermost, self._opening = not self._opening, True
        try:
            with self, torch.no_grad():
                op._op_dk(kernel.composite or torch._C.DispatchKey.CompositeExplicitAutograd, *wrapped, **named)
        except (RuntimeError, ValueError) as error:
            # Most read memory, which fakes do not have: what they called until then stays. A view is another matter.
            if _NO_VIEW.search(str(error)):
                entry.below.append(Entry(str(op), entry.dtype, unsupported=True))
                self._guesses.note(
                    f"PyTorch's composite kernel of {op} raises: it cannot view a tensor with these strides"
                )
        finally:
            self._opening = not outermost
        self._opened[key] = list(entry.below)

    def _values(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the fake result, with its values beside it where they are known, guessed where code needs one."""
        if self._opening:
            return self._guessed(op, args, kwargs) if str(op) in ASKING else self._fake(op, args, kwargs)
        has_tensors = next(tensors_in((args, kwargs)), None) is not None
        value = self._known.compute(op, args, kwargs) if has_tensors else None
        if str(op) in ASKING:
            return self._asked(op, args, kwargs, value)
        if str(op) in _INDEXING and value is None:
            args = (args[0], self._indices(args[1]), *args[2:])
        if value is None:
            self._known.spoil(op, args, kwargs)
        result = self._fake(op, args, kwargs)
        if not has_tensors and _small(result):
            value = self._known.compute(
                op, args, {**kwargs, "device": torch.device("cpu")} if "device" in kwargs else kwargs
            )
        if value is not None:
            self._known.keep(result, value[0])
        return result

    def _asked(
        self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], value: tuple[Any] | None
    ) -> Any:
        if value is None:
            return self._guessed(op, args, kwargs)
        if isinstance(value[0], (bool, int, float, complex)):
            return value[0]
        result = _faked(value[0], device_of(args[0]))
        self._known.keep(result, value[0])
        return result

    def _guessed(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        constant = getattr(args[0], "constant", None)
        if constant is not None and str(op) == "aten._local_scalar_dense.default":
            with _disable_current_modes():
                return constant.item()
        return self._guesses.answer(op, args, kwargs)

    def _indices(self, indices: list[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Return the indices with unknown masks replaced by the positions of a mask that is all true."""
        found: list[torch.Tensor | None] = []
        for index in indices:
            if index is None or index.dtype not in (torch.bool, torch.uint8):
                found.append(index)
                continue
            with self:
                positions = torch.ops.aten.nonzero.default(index)
                found.extend(positions.select(1, axis) for axis in range(index.dim()))
        return found

    def _fake(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return op(*args, **kwargs)
        except _NO_SHAPES:
            return self._without_shapes(op, args, kwargs)
        except RuntimeError as error:
            if "no fake impl registered" not in str(error):  # custom operators say so with no type of their own
                raise
            return self._without_shapes(op, args, kwargs)

    def _without_shapes(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a result for an operator whose shapes PyTorch cannot compute without memory."""
        kernel = kernels.make_kernel(op, self._state)
        if kernel.values is not None and kernel.values is not op:  # written in terms of operators that have shapes
            return kernel.values(*args, **kwargs)
        inputs = list(tensors_in((args, kwargs)))
        if sum(tensor.numel() for tensor in inputs) <= _SMALL_ENOUGH_TO_RUN:
            return self._run_on_ones(op, args, kwargs)
        self._guesses.note(f"{op.name()} has no rule for its shapes: a result like its first tensor is assumed")
        likes = tuple(torch.empty_like(inputs[0]) for _ in op._schema.returns)
        return likes[0] if len(likes) == 1 else likes

    def _run_on_ones(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a fake of what the CPU computes for ones where values are unknown."""
        self._guesses.note(f"{op.name()} has no rule for its shapes: run on the CPU with ones")

        def real(tensor: torch.Tensor) -> torch.Tensor:
            value = self._known.of(tensor)
            return torch.ones(tensor.shape, dtype=tensor.dtype) if value is None else value

        with _disable_current_modes(), torch.no_grad():
            value = op(*mapped(args, real), **{name: mapped(item, real) for name, item in kwargs.items()})
        return _faked(value, DEVICE)


_SMALL_ENOUGH_TO_RUN = 20_000_000


def _noted(op: torch._ops.OpOverload, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments in the order in which the device's kernel gets them: `copy_` arrives as `_copy_from`."""
    return (args[1], args[0], *args[2:]) if str(op) == "aten.copy_.default" and len(args) > 1 else args


def _on_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a call reaches the device's key: a tensor of it comes in, or is asked for."""
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == DEVICE.type:
        return True
    return any(device_of(tensor).type == DEVICE.type for tensor in tensors_in((args, kwargs)))


def _small(result: Any) -> bool:
    return isinstance(result, FakeTensor) and result.numel() <= LIMIT


def _faked(value: Any, device: torch.device) -> Any:
    """Return fake tensors like the real ones in a result."""
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return type(value)(_faked(item, device) for item in value) if isinstance(value, (list, tuple)) else value


def _signature(value: Any) -> Any:
    """Return what tells two calls of an operator apart but values."""
    if isinstance(value, torch.Tensor):
        return value.dtype, value.shape, value.stride(), device_of(value).type
    if isinstance(value, (list, tuple)):
        return tuple(_signature(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _signature(item)) for name, item in value.items())
    return str(value)
