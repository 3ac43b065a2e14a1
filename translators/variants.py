"""Decides how the in-place and out= forms of an overload follow from its functional form, by schema and not by hand.

Imported by translators.sources.
"""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.registry import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_PLAIN = {"_fft_c2c": True, "_fft_c2r": True, "_fft_r2c": True, "ormqr": True, "linalg_lstsq": False}
"""Packets whose out= form, written by hand in ATen, makes a resized out contiguous, and whether also one that was empty.
Generated forms all do; structured ones give it the strides of the result."""


def written(op: torch._ops.OpOverload) -> tuple[str, ...]:
    """Return the names of the arguments that a call changes, in the order of the schema."""
    return tuple(a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write)


def functional_of(op: torch._ops.OpOverload) -> torch._ops.OpOverload | None:
    """Return the overload that computes the same and changes nothing, or None where there is none.

    It is the one of the same packet (without the trailing underscore) whose parameters are those of `op` less its outs.
    """
    changed = written(op)
    outs = _outs(op)
    if not changed or (not outs and changed != ("self",)):
        return None
    namespace, _, packet = op._schema.name.partition("::")
    wanted = [_parameter(a) for a in op._schema.arguments if a.name not in outs]
    found = getattr(getattr(torch.ops, namespace), packet if outs else packet.removesuffix("_"), None)
    for name in found.overloads() if found is not None else ():
        other: torch._ops.OpOverload = getattr(found, name)
        if not written(other) and [_parameter(a) for a in other._schema.arguments] == wanted:
            return other
    return None


def structured_outs(op: torch._ops.OpOverload) -> Iterator[torch._ops.OpOverload]:
    """Yield the out= form that PyTorch's structured kernel of a functional or in-place overload calls; most have none."""
    key = "CompositeExplicitAutogradNonFunctional"
    if _outs(op) or not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key):
        return
    namespace, _, packet = op._schema.name.partition("::")
    wanted = [_parameter(a) for a in op._schema.arguments]
    found = getattr(getattr(torch.ops, namespace), packet.removesuffix("_") if written(op) else packet, None)
    for name in found.overloads() if found is not None else ():
        other: torch._ops.OpOverload = getattr(found, name)
        outs = _outs(other)
        if outs and [_parameter(a) for a in other._schema.arguments if a.name not in outs] == wanted:
            yield other


def derive(op: torch._ops.OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the in-place or out= form of `function`, which is the functional form of `op` (see `functional_of`)."""
    outs = _outs(op)
    if not outs:
        return _in_place_form(function)
    packet = op._schema.name.partition("::")[2]
    return _out_form(outs, function, True if torch.Tag.generated in op.tags else _PLAIN.get(packet))


def _outs(op: torch._ops.OpOverload) -> tuple[str, ...]:
    arguments = {a.name: a for a in op._schema.arguments}
    return tuple(name for name in written(op) if arguments[name].kwarg_only)


def _parameter(argument: torch.Argument) -> tuple[str, str, bool]:
    return argument.name, str(argument.type), argument.kwarg_only


def _out_form(outs: Sequence[str], function: Callable[..., Any], plain: bool | None) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = [kwargs.pop(name) for name in outs]
        results = _unwritten(function, *args, **kwargs)
        # All results exist before the first out is written: an out may share memory with an input.
        for out, result in zip(given, results if len(outs) > 1 else (results,), strict=True):
            _write(out, result, plain)
        if isinstance(given[0], torch.Tensor):
            return tuple(given) if len(given) > 1 else given[0]
        return None

    return call


def _unwritten(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what the functional form computes; raises Refused where an operator below it has no kernel: nothing is changed yet."""
    try:
        return function(*args, **kwargs)
    except NotImplementedError as error:
        raise Refused(str(error)) from error


def _write(out: Any, result: Any, plain: bool | None) -> None:
    if isinstance(out, torch.Tensor):
        _castable(result, out)
        resize_out(out, result, plain=plain)
        out.copy_(result)
    else:
        for one, other in zip(out, result, strict=True):
            _write(one, other, plain)


def resize_out(out: torch.Tensor, result: torch.Tensor, *, plain: bool | None = None) -> None:
    """Give `out` the shape of `result`, with its strides where the shape changed, and ATen's warning where it had elements.

    With `plain` a changed out is contiguous, where it is False only one that had elements.
    """
    if out.shape == result.shape:
        return
    contiguous = bool(plain) or (plain is False and out.numel() > 0)
    if out.numel():
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not match "
            f"the required output shape {list(result.shape)}. This behavior is deprecated.",
            stacklevel=4,
        )
    out.resize_(result.shape)
    if contiguous:
        return
    # A meta copy keeps the strides of what is dense and does not overlap, and of nothing else.
    if result.stride() != out.stride() and torch.empty_like(result, device="meta").stride() == result.stride():
        out.as_strided_(result.shape, result.stride(), out.storage_offset())


def _in_place_form(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = _unwritten(function, self, *args, **kwargs)
        if not isinstance(self, torch.Tensor):  # a foreach form returns nothing
            for one, other in zip(self, result, strict=True):
                _castable(other, one)
                one.copy_(other)
            return None
        _castable(result, self)
        if result.shape != self.shape:
            raise RuntimeError(
                f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(result.shape)}"
            )
        return self.copy_(result)

    return call


_NAMES = {
    torch.bool: "Bool", torch.uint8: "Byte", torch.int8: "Char", torch.int16: "Short", torch.int32: "Int", torch.int64: "Long",
    torch.float16: "Half", torch.bfloat16: "BFloat16", torch.float32: "Float", torch.float64: "Double",
    torch.complex32: "ComplexHalf", torch.complex64: "ComplexFloat", torch.complex128: "ComplexDouble",
}  # fmt: skip
"""What ATen's errors call dtypes; others have the name of Python's."""


def _castable(result: torch.Tensor, out: torch.Tensor) -> None:
    if not torch.can_cast(result.dtype, out.dtype):
        names = [_NAMES.get(t.dtype, str(t.dtype).removeprefix("torch.")) for t in (result, out)]
        raise RuntimeError(f"result type {names[0]} can't be cast to the desired output type {names[1]}")
    if result.device != out.device:
        raise RuntimeError(f"Expected out tensor to have device {result.device}, but got {out.device} instead")
