"""What axes judge beside the comparison of one call: refusals, repeated calls, distributions."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from neuron_ops.op_tests.axes.draws import distribution_message
from neuron_ops.op_tests.observation import Observation, SeenTensor
from neuron_ops.op_tests.tolerances import rows_for
from neuron_ops.op_tests.values import same_bits

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import torch
    from neuron_ops.op_tests.records import Case

_ALIKE = (RuntimeError, IndexError, ValueError, TypeError)
"""What PyTorch raises for a wrong argument; which of these it is differs between its own backends."""


def missing_refusal(reference: Exception, device: Exception | None) -> str | None:
    """Return None where the device refused as the reference did, and else what is missing in one line."""
    expected = f"expected {type(reference).__name__}: {_line(reference)}"
    if device is None:
        return f"missing error: the device returned, {expected}"
    if isinstance(device, type(reference)) or (isinstance(reference, _ALIKE) and isinstance(device, _ALIKE)):
        return None
    return f"another error: the device raised {type(device).__name__}: {_line(device)}, {expected}"


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]


def tensors(seen: Observation) -> list[tuple[str, torch.Tensor]]:
    """Return name and values of all outputs and arguments that can be read."""
    group = (*seen.outputs, *seen.arguments)
    return [(t.name, t.values) for t in group if isinstance(t, SeenTensor) and t.values is not None]


def bits_differ(one: Observation, other: Observation, ignored: Collection[str] = ()) -> str | None:
    """Return the name of the first output or argument with other bits in the two, or None."""
    pairs = zip(tensors(one), tensors(other), strict=False)
    return next((n for (n, left), (_, right) in pairs if n not in ignored and not same_bits(left, right)), None)


def runs_message(case: Case, reference: Sequence[Observation], device: Sequence[Observation]) -> str | None:
    """Return what is wrong between the calls of one case on the device, or None.

    ``repeat``: all calls leave the same bytes, but for outputs that are undefined or that the reference's calls leave
    different. ``random:seed``: the first two do, and the third, with another seed, does not where the reference's does not.
    """
    if case.variant == "random:seed":
        if name := bits_differ(device[0], device[1]):
            return f"{name}: re-seeding: two draws with one seed differ"
        ignored = bits_differ(reference[1], reference[2]) and not bits_differ(device[1], device[2])
        return "re-seeding: another seed gives the same draw" if ignored else None
    loose = _undefined(case, device[0])
    for left, right in pairwise(reference):
        while name := bits_differ(left, right, loose):
            loose.add(name)
    for number, run in enumerate(device[1:], 2):
        if name := bits_differ(device[0], run, loose):
            return f"{name}: call {number} of {len(device)} with equal arguments left other bytes than the first"
    return None


def _undefined(case: Case, seen: Observation) -> set[str]:
    """Return the names of outputs whose values no contract defines."""
    rows = [row for row in rows_for(case.overload, case.dtype) if row.what == "values"]
    names = {name for name, _ in tensors(seen)}
    return {n for n in names if any(row.outputs is None or n in {f"output {o}" for o in row.outputs} for row in rows)}


def draws_message(reference: Observation, device: Observation) -> str | None:
    """Return where a large draw has another distribution than the reference's, or None."""
    for (name, want), (_, got) in zip(_drawn(reference), _drawn(device), strict=False):
        if message := distribution_message(name, want, got):
            return message
    return None


def _drawn(seen: Observation) -> list[tuple[str, torch.Tensor]]:
    outputs = [(t.name, t.values) for t in seen.outputs if isinstance(t, SeenTensor) and t.values is not None]
    return outputs or tensors(seen)
