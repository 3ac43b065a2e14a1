"""Finds calls where gradients stop without an error: the device registers the operator and nothing knows its derivative."""

from __future__ import annotations

import functools
from typing import Any

import torch
from neuron_ops.op_tests.capture.lockstep import tensors_in
from neuron_ops.op_tests.targets.sim import state


@functools.cache
def has_no_derivative(overload: str) -> bool:
    """Return whether the profile registers an overload that PyTorch differentiates through its composite kernel alone.

    A kernel at the device's key takes the composite's place, and with it what autograd would have seen.
    """
    if overload not in state.profile.registrations:
        return False
    namespace, _, rest = overload.partition(".")
    name, has = f"{namespace}::{rest.removesuffix('.default')}", torch._C._dispatch_has_kernel_for_dispatch_key
    return has(name, "CompositeImplicitAutograd") and not (has(name, "Autograd") or has(name, "AutogradPrivateUse1"))


def is_cut(overload: str, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> bool:
    """Return whether this call takes tensors that need gradients and hands back floating-point ones that get none."""
    if not torch.is_grad_enabled() or not has_no_derivative(overload):
        return False
    needed = any(tensor.requires_grad for tensor in tensors_in((args, kwargs)))
    return needed and any(tensor.is_floating_point() for tensor in tensors_in(out))
