"""Decides how a case's calls are made: how many, with which seeds, and how gradients flow through one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from neuron_ops.op_tests.packing import Sample

    Arguments = tuple[list[Any], dict[str, Any]]

VARIANTS = ("forward", "backward")
"""The plain variants; the others are those of `axes`."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a case: with the seed moved by `reseed`, or (`between`) of another shape and not looked at."""

    reseed: int = 0
    between: bool = False


_STEPS = {
    "repeat": (Step(), Step(between=True), Step(), Step()),
    "random:seed": (Step(), Step(), Step(reseed=1)),
}


def steps(variant: str) -> tuple[Step, ...]:
    """Return the calls that a variant makes, one after the other in one process; most make one."""
    name = variant.partition(":")[0]
    return _STEPS.get(variant) or _STEPS.get(name) or (Step(),)


def arguments(
    variant: str, unpack: Callable[[Sample], Arguments], sample: Sample, between: Sample | None
) -> list[tuple[Step, Arguments]]:  # fmt: skip
    """Return each step with fresh (args, kwargs) of its own; a step between is left out where there is no sample for it."""
    return [
        (step, unpack(between if step.between and between is not None else sample))
        for step in steps(variant)
        if not step.between or between is not None
    ]


def perform(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], variant: str) -> Any:
    """Return the outputs of one call; for ``backward`` variants a pair of outputs and gradients of differentiable inputs.

    Gradients flow from fixed output gradients between 0.5 and 1.5, so that no symmetry hides a wrong one; for
    ``backward_expanded`` from one number with stride 0. For ``backward_partial`` the first input asks for no gradient.
    Raises whatever the operator raises.
    """
    name = variant.partition(":")[0]
    if not name.startswith("backward"):
        return op(*args, **kwargs)
    leaves: list[torch.Tensor] = []
    spared = 1 if name == "backward_partial" else 0

    def leaf(value: Any) -> Any:
        nonlocal spared
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            return value
        if spared:
            spared -= 1
            return value.detach()
        leaves.append(value.detach().requires_grad_())
        return leaves[-1]

    args, kwargs = tree_map(leaf, list(args)), tree_map(leaf, kwargs)
    with torch.enable_grad():
        outputs = op(*args, **kwargs)
        ends = [t for t in tree_flatten(outputs)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
        flowing = [_expanded(t) if name == "backward_expanded" else _gradient(t) for t in ends]
        gradients = torch.autograd.grad(ends, leaves, flowing, allow_unused=True)
    return tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, outputs), gradients


def flat(outputs: Any, variant: str) -> Any:
    """Return what `perform` returned in the form that is observed: gradients behind the outputs."""
    if not variant.startswith("backward"):
        return outputs
    forward = outputs[0]
    return (*(forward if isinstance(forward, (list, tuple)) else (forward,)), *outputs[1])


def _gradient(output: torch.Tensor) -> torch.Tensor:
    # In steps of 1/64, which every dtype from bfloat16 up holds: the float64 reference then gets the same gradients, and
    # the CPU's error against it is not that of rounding its inputs.
    values = torch.linspace(0.5, 1.5, max(output.numel(), 1), dtype=torch.float64)[: output.numel()]
    values = values.mul(64).round().div(64)
    return values.reshape(output.shape).to(output.dtype).to(output.device)


def _expanded(output: torch.Tensor) -> torch.Tensor:
    """Return what the backward of ``output.sum()`` hands down: one number in every place, all strides 0."""
    return torch.tensor(0.75, dtype=torch.float64).to(output.dtype).to(output.device).expand(output.shape)
