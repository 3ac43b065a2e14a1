"""Decides how a case's call is made: forward as it is, or backward through autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_flatten, tree_map

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIANTS = ("forward", "backward")


def perform(op: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any], variant: str) -> Any:
    """Return the outputs of the call; for ``backward`` a pair of outputs and gradients of the differentiable inputs.

    Gradients flow from fixed output gradients between 0.5 and 1.5, so that no symmetry hides a wrong one. Raises
    whatever the operator raises.
    """
    if variant == "forward":
        return op(*args, **kwargs)
    leaves: list[torch.Tensor] = []

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
            return value
        leaves.append(value.detach().requires_grad_())
        return leaves[-1]

    args, kwargs = tree_map(leaf, list(args)), tree_map(leaf, kwargs)
    with torch.enable_grad():
        outputs = op(*args, **kwargs)
        ends = [t for t in tree_flatten(outputs)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
        gradients = torch.autograd.grad(ends, leaves, [_gradient(t) for t in ends], allow_unused=True)
    return tree_map(lambda t: t.detach() if isinstance(t, torch.Tensor) else t, outputs), gradients


def _gradient(output: torch.Tensor) -> torch.Tensor:
    # In steps of 1/64, which every dtype from bfloat16 up holds: the float64 reference then gets the same gradients, and
    # the CPU's error against it is not that of rounding its inputs.
    values = torch.linspace(0.5, 1.5, max(output.numel(), 1), dtype=torch.float64)[: output.numel()]
    values = values.mul(64).round().div(64)
    return values.reshape(output.shape).to(output.dtype).to(output.device)
