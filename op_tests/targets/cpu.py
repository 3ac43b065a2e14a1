"""The target `cpu`: the reference against itself, which proves the harness and not a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.records import Build, Evidence, Route
from neuron_ops.op_tests.targets.served import Served

if TYPE_CHECKING:
    from collections.abc import Mapping


class Cpu:
    """The host CPU. Everything on it is native."""

    name = "cpu"
    device = "cpu"
    same_generator = True
    seeded_by_cpu = True
    compute_dtypes: Mapping[torch.dtype, torch.dtype] = {}

    def available(self) -> str | None:
        """Return None: it is always there."""
        return None

    def build(self) -> Build:
        """Return torch's version and the instruction set that its kernels use."""
        versions = {"torch": torch.__version__.partition("+")[0], "cpu": torch.backends.cpu.get_cpu_capability()}
        return Build(self.name, Evidence.HARDWARE, versions)

    def clear(self) -> None:
        """Do nothing: nothing is tracked."""

    def served(self, overload: str) -> Served:
        """Return that the CPU ran the overload itself."""
        return Served(Route.NATIVE, None, overload, composite=False, parts=())

    def plant(self, plants: Mapping[str, str]) -> None:
        """Refuse: faults are planted into the simulated device."""
        if plants:
            from neuron_ops.op_tests.records import BadInput

            raise BadInput(
                f"cannot plant {', '.join(plants)} on target 'cpu'; faults live in the simulated device; use --target sim"
            )
