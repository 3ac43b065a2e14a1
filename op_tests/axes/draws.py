"""The axis `random`: draws whose result is certain, that repeat with their seed, and that are distributed as the CPU's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.axes.geometry import resized

if TYPE_CHECKING:
    from neuron_ops.op_tests.axes.arguments import Arguments, Call

DRAWS = 16385
"""Elements of a large draw along one dimension."""

SIX_SIGMA = 1.97e-9
"""Probability that a normal variable is further than six standard deviations from its mean."""

_CHANCES = frozenset({"p", "dropout_p", "dropout", "p_dropout"})


def random(call: Call, detail: str) -> Arguments | None:
    """Return the arguments of one detail, or None where they do not allow it.

    ``p0``, ``p1``: a probability of 0 or 1. ``certain``: weights with a single candidate, no spread, a range of one value.
    ``seed``: as they are, drawn three times. ``statistics,row``: enlarged to DRAWS along a dimension (see RESIZINGS).
    """
    kind, _, how = detail.partition(",")
    if kind == "seed":
        return call.args, call.kwargs
    if kind == "statistics":
        return _many(call) or resized(call, how or "row", DRAWS)
    if kind in ("p0", "p1"):
        changes: dict[int | str, Any] = {
            slot.place: float(kind == "p1") for slot in call.slots() if slot.name in _CHANCES and type(slot.value) is float
        }  # fmt: skip
        return call.replaced(changes) if changes else None
    return _certain(call) if kind == "certain" else None


def _many(call: Call) -> Arguments | None:
    sizes = [slot for slot in call.slots() if slot.name == "size" and isinstance(slot.value, list)]
    return call.replaced({sizes[0].place: [DRAWS]}) if sizes else None


def _certain(call: Call) -> Arguments | None:
    """Return arguments that leave one possible result; None where no argument of the schema allows that."""
    slots = {slot.name: slot for slot in call.slots()}
    packet = call.op._schema.name.removeprefix("aten::").rstrip("_")
    first = next(iter(slots.values()), None)
    if first is None:
        return None
    changes: dict[int | str, Any] = {}
    if packet == "multinomial" and isinstance(first.value, torch.Tensor):
        weights = torch.zeros_like(first.value)
        weights[..., -1] = 1
        changes = {first.place: weights, slots["num_samples"].place: 1}
    elif packet in ("bernoulli", "poisson") and isinstance(first.value, torch.Tensor) and "p" not in slots:
        value = (first.value > 0.5) if packet == "bernoulli" else torch.zeros_like(first.value)
        changes = {first.place: value.to(first.value.dtype)}
    elif packet == "binomial" and "prob" in slots:
        changes = {slots["prob"].place: (slots["prob"].value > 0.5).to(slots["prob"].value.dtype)}
    elif "std" in slots:
        std = slots["std"].value
        changes = {slots["std"].place: torch.zeros_like(std) if isinstance(std, torch.Tensor) else 0.0}
    else:
        for low, high, step in (("low", "high", 1), ("from", "to", 1), ("lower", "upper", 0)):
            if low in slots and high in slots and isinstance(slots[low].value, (int, float)):
                start = slots[low].value
                changes = {slots[high].place: start + (step if packet in ("random", "randint", "randint_like") else 0)}
    return call.replaced(changes) if changes else None


def fixed(detail: str) -> bool:
    """Return whether the detail leaves nothing to chance, so that values are compared whatever the generator is."""
    return detail in ("p0", "p1", "certain")


def distribution_message(name: str, want: torch.Tensor, got: torch.Tensor) -> str | None:
    """Return how far two draws are from one distribution, or None where six standard deviations allow it.

    Both are CPU tensors of one dtype and shape. The distance is Kolmogorov and Smirnov's between the two samples: it
    needs no moments, which a Cauchy distribution has not. Its bound for n and n draws is sqrt(-ln(p / 2) / n).
    """
    rows = [_numbers(values) for values in (want, got)]
    if not rows[0].numel():
        return None
    unknown = [int(row.isnan().sum()) for row in rows]
    left, right = (row[~row.isnan()].sort().values for row in rows)
    points = torch.cat([left, right])
    shares = [torch.searchsorted(row, points, right=True) / max(row.numel(), 1) for row in (left, right)]
    distance = float((shares[0] - shares[1]).abs().max()) if points.numel() else 0.0
    distance = max(distance, abs(unknown[0] - unknown[1]) / rows[0].numel())
    bound = math.sqrt(-math.log(SIX_SIGMA / 2) / rows[0].numel())
    if distance <= bound:
        return None
    return (
        f"{name}: statistics: the distribution of {rows[0].numel()} draws is {distance:.3g} from the CPU's (Kolmogorov-Smirnov), "
        f"six standard deviations allow {bound:.3g}"
    )


def _numbers(values: torch.Tensor) -> torch.Tensor:
    plain: torch.Tensor = torch.view_as_real(values) if values.is_complex() else values
    return plain.reshape(-1).to(torch.float64)
