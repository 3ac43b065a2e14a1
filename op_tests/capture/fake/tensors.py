"""Decides what a fake tensor of the simulated device is, and moves a model's tensors there."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.targets.sim import memory
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEVICE = torch.device(memory.DEVICE, 0)


class DeviceFakes(FakeTensorMode):
    """The mode in which tensors are fake: memory-less, on the CPU or on the simulated device."""

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)

    @property
    def avoid_device_init(self) -> bool:
        """Return True: with a registered PrivateUse1 device, `torch.tensor` would make real tensors (torch 2.13)."""
        return True


@contextlib.contextmanager
def foreach_accepted() -> Iterator[None]:
    """Return a context in which optimizers and gradient clipping take their foreach way, as with the device's tensors."""
    from torch.optim import optimizer
    from torch.utils import _foreach_utils

    # Both modules compare type(tensor) with these lists, so fake tensors would take the single-tensor way.
    lists: tuple[list[type], ...] = (optimizer._foreach_supported_types, _foreach_utils._foreach_supported_types)  # type: ignore[assignment]
    for known in lists:
        known.append(FakeTensor)
    try:
        yield
    finally:
        for known in lists:
            known.remove(FakeTensor)


def device_of(tensor: torch.Tensor) -> torch.device:
    """Return the tensor's device, of fake ones without a dispatch."""
    return tensor.fake_device if isinstance(tensor, FakeTensor) else tensor.device


def move(model: torch.nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Replace every parameter and buffer by what `change` returns for it; tied ones stay one tensor.

    `Module.to` raises for fake parameters that change their device (torch 2.13, `swap_tensors`).
    """
    moved: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # with the original, which keeps its id taken

    def once(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in moved:
            new = change(tensor.detach())
            if isinstance(tensor, torch.nn.Parameter):
                new = torch.nn.Parameter(new, requires_grad=tensor.requires_grad)
            moved[id(tensor)] = tensor, new
        return moved[id(tensor)][1]

    for module in model.modules():
        tables: tuple[dict[str, Any], ...] = (module._parameters, module._buffers)
        for held in tables:
            for name, tensor in held.items():
                if tensor is not None:
                    held[name] = once(tensor)
        if isinstance(module, torch.nn.RNNBase):  # reads its weights from a list of its own
            module._flat_weights = [getattr(module, name, None) for name in module._flat_weights_names]
