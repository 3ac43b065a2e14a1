"""Decides whether a call is fit to be a case: the CPU computes it, and computes the same bytes every time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.calls import perform
from neuron_ops.op_tests.packing import Sample
from neuron_ops.op_tests.tolerances import rows_for
from torch.utils._pytree import tree_flatten

if TYPE_CHECKING:
    from collections.abc import Iterator

REFUSALS = (
    RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError, AttributeError, ArithmeticError,
)  # fmt: skip
"""What an operator raises for a call that it does not support in this way."""

_FILLS = (0xA5, 0x5A, 0x3C)
"""One byte a run: a kernel that reads memory that it did not write reads something else every time."""

_BLOCKS = (16, 64, 256, 1024, 4096, 16384, 65536)
_WORDS = 300


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the CPU does with a call: the variants that agree, or the reason why there are none.

    `refused` says that the reason is the CPU's own refusal of the plain call, which makes a case `not_applicable`.
    """

    variants: tuple[str, ...]
    reason: str = ""
    refused: bool = False


def is_of_dtype(name: str, sample: Sample, dtype: torch.dtype) -> bool:
    """Return whether a call belongs to a dtype's bank: a tensor that it reads has the dtype, or it asks for the dtype.

    A call that reads no tensor asks by its dtype argument or its outputs; one without both belongs to float32.
    """
    outputs = {argument.name for argument in catalogue.resolve(name)._schema.arguments if argument.is_out}
    kwargs = sample.tree["kwargs"]
    read = Sample({"args": sample.tree["args"], "kwargs": {k: v for k, v in kwargs.items() if k not in outputs}}, ())
    dtypes = [node["dtype"] for node in read.tensors()]
    dtypes = dtypes or [node["dtype"] for node in sample.tensors()] or list(_asked(sample))
    return str(dtype).removeprefix("torch.") in (dtypes or ["float32"])


def _asked(sample: Sample) -> Iterator[str]:
    for value in [*sample.tree["args"], *sample.tree["kwargs"].values()]:
        if isinstance(value, dict) and set(value) == {"dtype"}:
            yield value["dtype"]


class Unreadable(ValueError):  # noqa: N818
    """The CPU computes the call, but what it leaves cannot be read: no case, and no refusal of the call either."""


def judge(name: str, sample: Sample) -> Verdict:
    """Return in which variants three runs over dirtied memory leave the same bytes.

    Overloads whose values are undefined by contract (`empty`) are kept: the comparer knows them. Wrong arguments can
    kill the process: call this in a child (see isolation.py) unless the call is known to be sound.
    """
    undefined = any(row.what == "values" for row in rows_for(name, "*"))
    try:
        agrees = _three_runs_agree(name, sample, "forward")
    except Unreadable as error:
        return Verdict((), str(error)[:_WORDS])
    except REFUSALS as error:
        return Verdict((), f"{type(error).__name__}: {error}"[:_WORDS], refused=True)
    if not agrees and not undefined:
        return Verdict((), "three runs over dirtied memory disagree")
    if catalogue.by_name()[name].kind != "functional" or undefined or "backward" in name:
        return Verdict(("forward",))
    try:
        return Verdict(("forward", "backward") if _three_runs_agree(name, sample, "backward") else ("forward",))
    except REFUSALS:
        return Verdict(("forward",))


def _three_runs_agree(name: str, sample: Sample, variant: str) -> bool:
    op = catalogue.resolve(name)
    digests = []
    for fill in _FILLS:
        args, kwargs = sample.unpack()
        _dirty_memory(fill)
        # Not torch.manual_seed: that seeds every device, and keeps a stack trace for each that is not there.
        torch.default_generator.manual_seed(0)
        outputs = perform(op, args, kwargs, variant)
        try:
            digests.append(_digest((outputs, args, kwargs)))
        except REFUSALS as error:  # such as a lazy negation of bool, which only reading it computes
            raise Unreadable(f"the result cannot be read: {error}") from error
        if digests[-1] != digests[0]:
            return False
    return True


def _digest(value: Any) -> list[Any]:
    """Return what must be equal in repeated runs: every tensor's bytes, every other value as text."""
    return [_bytes(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf) for leaf in tree_flatten(value)[0]]


def _bytes(tensor: torch.Tensor) -> tuple[str, tuple[int, ...], bytes]:
    if tensor.layout != torch.strided or tensor.is_quantized:
        raise ValueError(f"a tensor of layout {tensor.layout}, expected a strided one")
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous().view(-1)
    return str(tensor.dtype), tuple(tensor.shape), plain.view(torch.uint8).numpy().tobytes()


def _dirty_memory(fill: int) -> None:
    blocks = [torch.full((n,), fill, dtype=torch.uint8) for n in _BLOCKS for _ in range(4)]
    del blocks
