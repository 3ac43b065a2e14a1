"""Where cases run: one module with one class a target, and the one table that names them.

Needs torch. Imported by op_tests.runner and op_tests.plan.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Protocol

from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch
    from neuron_ops.op_tests.records import Build
    from neuron_ops.op_tests.targets.served import Served

TARGETS: dict[str, tuple[str, str]] = {
    "sim": ("neuron_ops.op_tests.targets.sim", "Sim"),
    "sim+translators": ("neuron_ops.op_tests.targets.translated", "TranslatedSim"),
    "cpu": ("neuron_ops.op_tests.targets.cpu", "Cpu"),
}
"""Name → (module, class). A new target is one module and one line here."""


class Target(Protocol):
    """What a target offers.

    `device` is the string for `.to()`. `same_generator` says that random numbers come from the CPU generator, so that
    equal seeds give equal values; `seeded_by_cpu` that seeding that generator is enough to repeat what the device draws. `compute_dtypes` maps a dtype to the narrower one in which the target computes it.
    """

    name: str
    device: str
    same_generator: bool
    seeded_by_cpu: bool

    @property
    def compute_dtypes(self) -> Mapping[torch.dtype, torch.dtype]:
        """Return the dtypes that are computed in a narrower one, with that one."""

    def available(self) -> str | None:
        """Return None, or in one sentence why nothing can run here."""

    def build(self) -> Build:
        """Return name, evidence and versions."""

    def clear(self) -> None:
        """Forget what was recorded; called after the arguments are on the device and before the call."""

    def served(self, overload: str) -> Served:
        """Return how the call of `overload` made since `clear` was served."""

    def plant(self, plants: Mapping[str, str]) -> None:
        """Plant faults for the rest of the process (overload → fault); raises BadInput where that is impossible."""


def open_target(name: str) -> Target:
    """Return the target of that name, loaded into this process; raises BadInput for an unknown or unavailable one."""
    if name not in TARGETS:
        raise BadInput(f"unknown target {name!r}; expected one of {', '.join(TARGETS)}; choose one with --target")
    module, cls = TARGETS[name]
    target: Target = getattr(importlib.import_module(module), cls)()
    reason = target.available()
    if reason is not None:
        raise BadInput(f"target {name!r} is not available: {reason}")
    return target
