"""Decides which variants an overload should have, and whether the CPU accepts one for a sample."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.axes.arguments import kind_of
from neuron_ops.op_tests.axes.draws import fixed
from neuron_ops.op_tests.axes.exclusions import reason_against
from neuron_ops.op_tests.axes.table import Prepared, axis_named, prepare
from neuron_ops.op_tests.axes.verdicts import bits_differ, tensors
from neuron_ops.op_tests.calls import arguments, flat, perform
from neuron_ops.op_tests.comparer import compare
from neuron_ops.op_tests.observation import Observation, SeenTensor, observe
from neuron_ops.op_tests.packing import ON_HOST
from neuron_ops.op_tests.records import BadInput
from neuron_ops.op_tests.tolerances import rows_for

if TYPE_CHECKING:
    from neuron_ops.op_tests.packing import Sample

# Processor time, so that the choice does not depend on what else the machine does.
_SECONDS = {"large": 0.01, "backward_large": 0.02, "random": 0.05}
_MOST_SECONDS = 0.2

DEADLY_SECONDS = 0.3
"""Processor time after which a trial is ended with its process: a call that takes this long is far beyond its limit."""

_FILLS = (0x11, 0xA5)
"""What memory holds before each run; the sample itself has three runs behind it."""

GEOMETRY_DTYPES = frozenset({torch.float32, torch.bfloat16, torch.int64, torch.bool})
"""Dtypes in which every axis is looked for: a float, a half, an integer, and what masks are. Geometry, aliasing, refusals of
dimensions and gradients depend on the kernel's way through memory and not on the other ten dtypes, whose trials would
take as long again."""

_OF_EVERY_DTYPE = ("special", "scalar", "large:257", "out_wrong_dtype", "must_raise:dtype", "random")
"""Beginnings of the variants that say something about the dtype itself: they are looked for in all fourteen."""

LARGEST_RESULT = 1 << 20
"""Elements that one output may have; with stride 0 it may have more than there is memory for."""

WANTED: tuple[tuple[str, ...], ...] = (
    ("transposed",), ("sliced",), ("expanded",), ("channels_last",), ("zero_dim",),
    ("empty:last", "empty:all"), ("empty:first", "empty:only"),
    ("large:65537,row", "large:65537,last", "large:65537,all", "large:32769,last"),
    ("large:65537,column", "large:65537,only", "large:32769,only"),
    ("large:257,first", "large:257,only", "large:257,last", "large:128,only", "large:128,last", "large:17,only", "large:17,last"),
    ("special",), ("special:finite",),
    ("scalar",), ("scalar:dtype",), ("scalar:zero_dim",), ("host_scalar",),
    ("out_larger",), ("out_wrong_shape",), ("out_wrong_dtype",), ("aliased",), ("aliased:base",),
    ("must_raise:dim",), ("must_raise:index",), ("must_raise:index_dtype",), ("must_raise:dtype", "must_raise:shape"),
    ("backward_expanded",), ("backward_zero_dim",), ("backward_partial",),
    ("backward_large:65537,row", "backward_large:65537,last", "backward_large:257,last", "backward_large:17,last"),
    ("backward_large:65537,column", "backward_large:65537,only", "backward_large:257,first", "backward_large:257,only"),
    ("random:p0",), ("random:p1",), ("random:certain",), ("random:seed",),
    ("random:statistics,row", "random:statistics,last", "random:statistics,only"),
    ("repeat:last", "repeat:first", "repeat:only", "repeat"),
)  # fmt: skip
"""What an overload and dtype should have once; of the alternatives in a row the first that is accepted is taken."""

_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, AssertionError, AttributeError, ZeroDivisionError, OverflowError,
             MemoryError)  # fmt: skip
"""What PyTorch raises for a call that it does not accept (NotImplementedError is a RuntimeError)."""


def wanted(op: torch._ops.OpOverload, overload: str, dtype: torch.dtype) -> list[tuple[str, ...]]:
    """Return the rows of WANTED that make sense for an overload and dtype, without what is excluded for it."""
    seeded = torch.Tag.nondeterministic_seeded in op.tags
    kind = kind_of(op)
    undefined = _undefined(overload)

    def sensible(variant: str) -> bool:
        name = variant.partition(":")[0]
        if name.startswith("backward"):
            return kind == "functional" and "backward" not in overload and not undefined
        if name == "random":
            return seeded
        return not (name == "repeat" and (seeded or undefined)) and (kind == "out" or not name.startswith("out_"))

    everywhere = dtype in GEOMETRY_DTYPES
    kept = [row for row in WANTED if sensible(row[0]) and (everywhere or row[0].startswith(_OF_EVERY_DTYPE))]
    return [tuple(v for v in alternatives if reason_against(overload, v) is None) for alternatives in kept]


def _undefined(overload: str) -> bool:
    return any(row.what == "values" and row.outputs is None for row in rows_for(overload, "*"))


# --- what the CPU says -----------------------------------------------------------------------------------------------


def accepted(op: torch._ops.OpOverload, overload: str, sample: Sample, variant: str) -> bool:
    """Return whether the CPU does the same each time over dirtied memory, and what the axis expects.

    That is to raise for axes of refusals, and else a result, within the time that a case may cost.
    """
    try:
        prepared = prepare(variant, op, sample)
    except (BadInput, *_REFUSALS):  # the change itself may be refused: no kernel for such a dtype
        return False
    if axis_named(variant).must_raise:
        return _is_refused(op, overload, prepared, variant) and _returns(op, overload, Prepared(sample), "forward")
    if "large" in variant and _grows(prepared):
        return False
    runs: list[list[Observation]] = []
    for fill in _FILLS:
        start = time.process_time()
        with contextlib.suppress(*_REFUSALS):
            runs.append(_run(op, overload, prepared, variant, fill=fill))
        if (
            not runs
            or time.process_time() - start > _SECONDS.get(variant.partition(":")[0], _MOST_SECONDS)
            or _too_large(runs[0])
        ):
            return False
    if len(runs) < len(_FILLS) or not all(_agree(overload, runs[0], other) for other in runs[1:]):
        return False
    return _says_something(op, overload, prepared, variant, runs[0])


def _grows(prepared: Prepared) -> bool:
    """Return whether the arguments broadcast to too many elements, such as a row against a column of 65537.

    Asked before the CPU computes it: in float32 such results took three quarters of the time of all trials.
    """
    shapes = [torch.Size(tensor["shape"]) for tensor in prepared.sample.tensors()]
    try:
        together: tuple[int, ...] = torch.broadcast_shapes(*shapes)
    except RuntimeError:  # they do not broadcast
        return False
    return math.prod(together) > LARGEST_RESULT


def _run(
    op: torch._ops.OpOverload, overload: str, prepared: Prepared, variant: str, seed: int = 0, fill: int = 0
) -> list[Observation]:  # fmt: skip
    held: list[torch.Tensor] = []

    def unpack(sample: Sample) -> tuple[list[Any], dict[str, Any]]:
        if variant.startswith("repeat"):  # at other addresses: LAPACK's bits depend on the alignment (gelsy, MKL 2024)
            held.append(torch.empty(17 + 40 * len(held)))
        return sample.unpack(on_host=ON_HOST.get(overload, ()))

    plan = arguments(variant, unpack, prepared.sample, prepared.between)
    seen = []
    for step, (args, kwargs) in plan:
        _dirty_memory(fill)
        torch.default_generator.manual_seed(seed + step.reseed)
        outputs = flat(perform(op, args, kwargs, variant), variant)
        if not step.between:
            seen.append(observe(outputs, args, kwargs))
    return seen


def _too_large(run: list[Observation]) -> bool:
    return any(values.numel() > LARGEST_RESULT for seen in run for _, values in tensors(seen))


def _is_refused(op: torch._ops.OpOverload, overload: str, prepared: Prepared, variant: str) -> bool:
    kinds = []
    for _ in range(3):
        try:
            _run(op, overload, prepared, variant)
        except _REFUSALS as error:
            kinds.append(type(error))
        else:
            return False
    return len(set(kinds)) == 1 and kinds[0] is not NotImplementedError


def _returns(op: torch._ops.OpOverload, overload: str, prepared: Prepared, variant: str) -> bool:
    with contextlib.suppress(*_REFUSALS):
        _run(op, overload, prepared, variant)
        return True
    return False


def _agree(overload: str, left: list[Observation], right: list[Observation]) -> bool:
    for one, other in zip(left, right, strict=True):
        if one.structure != other.structure or not _equal_tensors(one, other):
            masked = any(row.what == "values" for row in rows_for(overload, "*"))
            if not masked or not compare(overload, "*", reference=one, device=other, exact=None).ok:
                return False
    return True


def _equal_tensors(one: Observation, other: Observation) -> bool:
    return len(tensors(one)) == len(tensors(other)) and not bits_differ(one, other)


def _says_something(
    op: torch._ops.OpOverload, overload: str, prepared: Prepared, variant: str, run: list[Observation]
) -> bool:  # fmt: skip
    """Return whether the result shows what the axis is about."""
    axis, _, detail = variant.partition(":")
    if axis.startswith("backward"):
        gradients = [t for t in run[0].outputs if isinstance(t, SeenTensor)]
        shown = len(gradients) > len(op._schema.returns) if gradients else False
        return shown and (axis != "backward_zero_dim" or any(not t.shape for t in gradients))
    if axis == "repeat" or detail == "seed":
        return not bits_differ(run[0], run[1])
    if axis == "random" and fixed(detail):
        return _agree(overload, run, _run(op, overload, prepared, variant, seed=1))
    if axis == "random":
        drawn = [t for t in run[0].outputs if isinstance(t, SeenTensor)]
        return any(t.values is not None and t.values.numel() > 1000 for t in drawn)
    return True


def _dirty_memory(fill: int) -> None:
    """Leave freed blocks of one byte, another one in each run, so that memory that is read and not written shows."""
    sizes = (64, 128, 256, 512, 1024, 2048, 4096, 16384)
    blocks = [torch.full((n,), fill, dtype=torch.uint8) for n in sizes for _ in range(4)]
    del blocks
