"""Records what moves a host tensor to the simulated device under the name that the user's call dispatches to."""

from __future__ import annotations

from typing import Any

import torch
from neuron_ops.op_tests.targets.sim import kernels, memory, state


def record_moves() -> torch.library.Library:
    """Return a library, to be kept, that records `_to_copy` of host tensors to the device.

    The dispatcher goes by the tensor that comes in, so the device's own kernels see memory and a copy and not the
    conversion that `torch.tensor(..., device="neuron")` and `.to("neuron")` ask for.
    """
    library = torch.library.Library("aten", "IMPL")
    library.impl("_to_copy", _to_copy, "CPU")
    return library


def _to_copy(*args: Any, **kwargs: Any) -> Any:
    device = kwargs.get("device")
    if device is not None and torch.device(device).type == memory.DEVICE:
        return kernels.conversion(state, args, kwargs)
    key = torch._C.DispatchKey.CompositeExplicitAutograd
    return torch.ops.aten._to_copy.default._op_dk(key, *args, **kwargs)
