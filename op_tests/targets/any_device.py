"""Any device type that the installed torch can use: the dispatcher's table tells how it serves an overload."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.records import BadInput, Build, Evidence, FallbackReason, Route
from neuron_ops.op_tests.targets import TARGETS, open_target
from neuron_ops.op_tests.targets.served import Served

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.op_tests.targets import Target

_COMPOSITES = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


_KEYS = {"cuda": "CUDA", "mps": "MPS", "xpu": "XPU", "hpu": "HPU", "mtia": "MTIA", "xla": "XLA"}
"""Device type → the dispatch key of its kernels; installed backends have PrivateUse1."""


class AnyDevice:
    """A device such as cuda, mps or a backend that an installed package registers."""

    same_generator = seeded_by_cpu = False
    compute_dtypes: Mapping[torch.dtype, torch.dtype] = {}

    def __init__(self, device: str) -> None:
        self.name = self.device = device
        self._key = _KEYS.get(device, "PrivateUse1")

    def available(self) -> str | None:
        """Return None, or in a sentence that torch sees no such device."""
        module = getattr(torch, self.device, None)
        there = module is not None and getattr(module, "is_available", lambda: False)()
        return None if there else f"torch {torch.__version__} sees no {self.device} device here"

    def build(self) -> Build:
        """Return the versions of torch and the name of the device."""
        name = getattr(getattr(torch, self.device), "get_device_name", lambda: self.device)()
        return Build(self.name, Evidence.HARDWARE, {"torch": torch.__version__, "device": name})

    def clear(self) -> None:
        """Do nothing: the dispatcher's table does not change."""

    def served(self, overload: str) -> Served:
        """Return whether the device has a kernel, PyTorch a composite one, or what is left: the backend's fallback."""
        name = _qualified(overload)
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        if has(name, self._key):
            return Served(Route.NATIVE, None, overload, composite=False, parts=())
        if any(has(name, key) for key in _COMPOSITES):
            return Served(Route.NATIVE, None, overload, composite=True, parts=())
        return Served(Route.FALLBACK, FallbackReason.UNIMPLEMENTED, overload, composite=False, parts=())

    def plant(self, plants: Mapping[str, str]) -> None:
        """Refuse: faults are planted into the simulated device."""
        if plants:
            raise BadInput(f"cannot plant {', '.join(plants)} on {self.name!r}; expected the simulated device; use sim")


def _qualified(overload: str) -> str:
    namespace, _, rest = overload.partition(".")
    return f"{namespace}::{rest.removesuffix('.default')}"


def open_device(name: str) -> Target:
    """Return the target or the device of that name; raises BadInput, in a sentence, where there is none."""
    if name in TARGETS:
        return open_target(name)
    known = sorted({*TARGETS, "cuda", "mps", "xpu"})
    try:
        device = torch.device(name).type
    except RuntimeError as error:
        raise BadInput(
            f"there is no device {name!r} in this torch; expected one that an installed package brings, or one of "
            f"{', '.join(known)}; leave --device out to check on the simulated device"
        ) from error
    target = AnyDevice(device)
    reason = target.available()
    if reason is not None:
        raise BadInput(f"{reason}; expected one for --device {name}; leave it out to check on the simulated device")
    return target
