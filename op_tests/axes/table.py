"""The table of axes, and how a sample becomes the arguments of a variant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.axes import contents, draws, geometry, operands, refusals
from neuron_ops.op_tests.axes.arguments import Arguments, Call
from neuron_ops.op_tests.packing import Sample, Unpackable, pack
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch


@dataclass(frozen=True, slots=True)
class Axis:
    """One way to make a call from a sample: what it proves, and the function that changes the arguments (CPU tensors).

    The function gets the call and the variant's detail and returns the changed arguments, or None where the axis says
    nothing for that call. `must_raise`: PyTorch refuses the call, and so must the device.
    """

    name: str
    proves: str
    function: Callable[[Call, str], Arguments | None]
    must_raise: bool = False


def _unchanged(call: Call, detail: str) -> Arguments:
    del detail
    return call.args, call.kwargs


def _repeat(call: Call, detail: str) -> Arguments | None:
    return (call.args, call.kwargs) if not detail or geometry.longer(call, detail) is not None else None


AXES: tuple[Axis, ...] = (
    Axis("forward", "The call as recorded gives the CPU's result.", _unchanged),
    Axis("backward", "Gradients from a contiguous output gradient are the CPU's.", _unchanged),
    Axis("backward_expanded", "Gradients are right from an output gradient of stride 0, as .sum() hands down.", _unchanged),
    Axis("backward_zero_dim", "Gradients are right from 0-dim tensors and a 0-dim output gradient.", geometry.zero_dim),
    Axis("backward_large", "Gradients do not change just above a threshold of elements along a dimension.", geometry.large),
    Axis("backward_partial", "Gradients are right where the first input asks for none.", _unchanged),
    Axis("zero_dim", "Tensors without dimensions are served.", geometry.zero_dim),
    Axis("empty", "Tensors of no elements give a result of the right shape and no crash.", geometry.empty),
    Axis("transposed", "Strides in another order are read and written.", geometry.transposed),
    Axis("sliced", "A storage offset and a step are honoured, and the gaps are left alone.", geometry.sliced),
    Axis("expanded", "Inputs of stride 0 are read as what they show.", geometry.expanded),
    Axis("channels_last", "Images with channels last in memory are read and written.", geometry.channels_last),
    Axis("large", "Results do not change just above 16, 127, 256, 32768 or 65536 elements along a dimension.", geometry.large),
    Axis("special", "NaN, infinities, -0.0, subnormals, extremes and numbers past 2**24 and 2**31 are computed with.", contents.special),
    Axis("scalar", "Python numbers and tensors of another dtype promote as on the CPU.", operands.scalar),
    Axis("host_scalar", "A 0-dim CPU tensor mixes with device tensors.", operands.host_scalar),
    Axis("out_larger", "An out= of too many elements is resized.", operands.out_larger),
    Axis("out_wrong_shape", "An out= of another shape is resized.", operands.out_wrong_shape),
    Axis("out_wrong_dtype", "An out= of a dtype that cannot hold the result is refused.", operands.out_wrong_dtype, must_raise=True),
    Axis("aliased", "The same tensor twice, or neighbours in one storage, are told apart from copies.", operands.aliased),
    Axis("must_raise", "A mistake that the CPU refuses is refused.", refusals.must_raise, must_raise=True),
    Axis("random", "Draws that are certain are exact, seeds repeat them, and their distribution is the CPU's.", draws.random),
    Axis("repeat", "Three equal calls leave equal bytes, with a call of another shape in between.", _repeat),
)  # fmt: skip
"""Every axis once, by name. The order of cases in a sweep is no axis: it is a mode of the sweep."""

_BY_NAME = {axis.name: axis for axis in AXES}


@dataclass(frozen=True, slots=True)
class Prepared:
    """The arguments of a variant: its sample, one of another shape for a call in between, positions that stay on the CPU."""

    sample: Sample
    between: Sample | None = None
    on_host: tuple[int, ...] = ()


def axis_named(variant: str) -> Axis:
    """Return the axis of a variant such as ``large:65537,row``; raises BadInput for an unknown one."""
    name = variant.partition(":")[0]
    if name not in _BY_NAME:
        raise BadInput(
            f"unknown variant {variant!r}; expected one of {', '.join(_BY_NAME)}; run cases that the bank names"
        )
    return _BY_NAME[name]


def apply(axis: str, op: torch._ops.OpOverload, args: list[Any], kwargs: dict[str, Any]) -> Arguments | None:
    """Return the arguments (CPU tensors) that a variant makes of a sample's, or None where it says nothing for them.

    `axis` is a variant: an axis's name and, after a colon, its detail. Raises BadInput for an unknown one.
    """
    return axis_named(axis).function(Call(op, args, kwargs), axis.partition(":")[2])


def prepare(variant: str, op: torch._ops.OpOverload, sample: Sample) -> Prepared:
    """Return the arguments of a variant; raises BadInput for one that is unknown or says nothing for the sample."""
    axis, detail = axis_named(variant), variant.partition(":")[2]
    if axis.function is _unchanged:
        return Prepared(sample)
    args, kwargs = sample.unpack()
    try:
        changed = axis.function(Call(op, args, kwargs), detail)
        if axis.name == "repeat":
            longer = geometry.longer(Call(op, args, kwargs), detail) if detail else None
            return Prepared(sample, None if longer is None else pack(*longer, whole=True))
        packed = None if changed is None else pack(*changed, whole=True)
    except Unpackable as error:
        raise BadInput(
            f"variant {variant!r} of {op} cannot be kept: {error}; expected a smaller sample; choose another"
        ) from error
    if packed is None:
        raise BadInput(
            f"variant {variant!r} says nothing for this sample of {op}; expected one that the bank names; build the bank again"
        )
    on_host = operands.host_positions(Call(op, args, kwargs)) if axis.name == "host_scalar" else ()
    return Prepared(packed, None, on_host)
