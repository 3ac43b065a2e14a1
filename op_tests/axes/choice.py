"""Decides which variants the samples of an overload get: those that the CPU accepts, each axis on one of them."""

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
    from collections.abc import Callable, Collection, Mapping

    from neuron_ops.op_tests.packing import Sample

AXES_OF_A_SAMPLE = 6
"""Variants beside forward and backward that one sample gets while an overload has samples enough."""

SAMPLES_TRIED = 3
"""Samples of an overload on which a variant is tried before it is given up."""

# Processor time, so that the choice does not depend on what else the machine does.
_SECONDS = {"large": 0.01, "backward_large": 0.02, "random": 0.05}
_MOST_SECONDS = 0.2

_FILLS = (0x11, 0x5A, 0xA5)
"""What memory holds before each of the three runs."""

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


def axes_of(
    op: torch._ops.OpOverload, overload: str, sample: Sample, taken: Collection[str] = ()
) -> tuple[str, ...]:  # fmt: skip
    """Return variants beside forward and backward for a sample: what the CPU accepts and repeats, at most AXES_OF_A_SAMPLE.

    `taken` are variants that other samples of the overload and dtype have: what they prove is not repeated. Calls kernels
    with odd arguments, which may end the process: see `spread_isolated`.
    """
    found: list[str] = []
    for alternatives in _wanted(op, overload):
        if len(found) >= AXES_OF_A_SAMPLE:
            break
        if not any(variant in taken for variant in alternatives):
            found += _first(alternatives, lambda variant: accepted(op, overload, sample, variant))
    return tuple(found)


def spread(
    op: torch._ops.OpOverload,
    overload: str,
    samples: Mapping[str, Sample],
    accepts: Callable[[str, str], bool] | None = None,
) -> dict[str, tuple[str, ...]]:
    """Return label → variants: every axis that the CPU accepts for one of the samples, on the one that has the fewest.

    `accepts` judges (label, variant); the default calls the CPU in this process, see `axes_of`.
    """
    judge = accepts or (lambda label, variant: accepted(op, overload, samples[label], variant))
    found: dict[str, list[str]] = {label: [] for label in samples}
    room = max(AXES_OF_A_SAMPLE, math.ceil(len(WANTED) / max(len(samples), 1)))
    for alternatives in _wanted(op, overload):
        free = sorted((label for label in found if len(found[label]) < room), key=lambda label: len(found[label]))
        for label in free[:SAMPLES_TRIED]:
            if taken := _first(alternatives, lambda variant, label=label: judge(label, variant)):  # type: ignore[misc]
                found[label] += taken
                break
    return {label: tuple(variants) for label, variants in found.items()}


def _first(alternatives: tuple[str, ...], accepts: Callable[[str], bool]) -> list[str]:
    return next(([variant] for variant in alternatives if accepts(variant)), [])


def _wanted(op: torch._ops.OpOverload, overload: str) -> list[tuple[str, ...]]:
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

    kept = [alternatives for alternatives in WANTED if sensible(alternatives[0])]
    return [tuple(v for v in alternatives if reason_against(overload, v) is None) for alternatives in kept]


def _undefined(overload: str) -> bool:
    return any(row.what == "values" and row.outputs is None for row in rows_for(overload, "*"))


# --- what the CPU says -----------------------------------------------------------------------------------------------


def accepted(op: torch._ops.OpOverload, overload: str, sample: Sample, variant: str) -> bool:
    """Return whether the CPU does the same three times over dirtied memory, and what the axis expects.

    That is to raise for axes of refusals, and else a result, within the time that a case may cost.
    """
    try:
        prepared = prepare(variant, op, sample)
    except (BadInput, *_REFUSALS):  # the change itself may be refused: no kernel for such a dtype
        return False
    if axis_named(variant).must_raise:
        return _is_refused(op, overload, prepared, variant) and _returns(op, overload, Prepared(sample), "forward")
    runs: list[list[Observation]] = []
    for fill in _FILLS:
        start = time.process_time()
        with contextlib.suppress(*_REFUSALS):
            runs.append(_run(op, overload, prepared, variant, fill=fill))
        limit = _SECONDS.get(variant.partition(":")[0], _MOST_SECONDS)
        if not runs or time.process_time() - start > limit or _too_large(runs[0]):
            return False
    if len(runs) < 3 or not all(_agree(overload, runs[0], other) for other in runs[1:]):
        return False
    return _says_something(op, overload, prepared, variant, runs[0])


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
