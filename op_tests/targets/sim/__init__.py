"""The simulated `neuron` device: real dispatch over CPU memory, with the operator set that the vendor's source registers.

Importing this module makes `torch.ones(2, device="neuron")` work in this process. It predicts how an operator would be
served; it says nothing of device numerics, speed or memory. Imported by op_tests.targets and by capture.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.records import BadInput, Build, Evidence, FallbackReason, Route
from neuron_ops.op_tests.targets.sim import core_profile, kernels, memory, runtime
from neuron_ops.op_tests.targets.sim.journal import summarize
from neuron_ops.op_tests.targets.sim.profile import Profile, read_profile, shipped_profile
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neuron_ops.op_tests.targets.served import Served
    from neuron_ops.op_tests.targets.sim.journal import Entry

PROFILE_VARIABLE = "NEURON_OPS_SIM_PROFILE"
"""Environment variable that names another profile file than the shipped one, or ``core`` (core_profile.py)."""


def named_profile(name: str | None = None) -> Profile:
    """Return the profile of that file, the one called ``core``, or without a name what the environment says."""
    name = name or os.environ.get(PROFILE_VARIABLE)
    if name == core_profile.NAME:
        return core_profile.core_profile()
    return read_profile(Path(name)) if name else shipped_profile()


def _install() -> tuple[kernels.State, list[torch.library.Library]]:
    state = kernels.State(named_profile())
    name = torch._C._get_privateuse1_backend_name()
    if name != "privateuseone":
        raise BadInput(
            f"a backend named {name!r} already owns PyTorch's PrivateUse1 key in this process; expected none; "
            "start a fresh process with TORCH_DEVICE_BACKEND_AUTOLOAD=0"
        )
    _setup_privateuseone_for_python_backend(memory.DEVICE, backend_module=runtime.DeviceModule(state))
    memory.patch_storages()
    libraries = [*kernels.register(state), *runtime.register_autocast(), runtime.register_attention()]
    return state, libraries


state, _libraries = _install()
journal = state.journal


def _names(entries: Iterator[Entry]) -> list[str]:
    return list(
        dict.fromkeys(entry.overload.replace("aten.", "aten::", 1).removesuffix(".default") for entry in entries)
    )


def clear_op_tracking() -> None:
    """Forget executed and fallback operators, as `torch_neuronx.clear_op_tracking` does."""
    journal.clear()


def get_executed_ops() -> list[str]:
    """Return the names that ran on the device, as `torch_neuronx.get_executed_ops`: ``aten::mul.Tensor``, no views."""
    leaves = (leaf for entry in journal.entries() for leaf in entry.leaves())
    return _names(leaf for leaf in leaves if (leaf.route is Route.NATIVE or leaf.claims_native) and not leaf.view)


def get_fallback_ops() -> list[str]:
    """Return the names that the host computed, as `torch_neuronx.get_fallback_ops`; kernels that hide host work are absent."""
    leaves = (leaf for entry in journal.entries() for leaf in entry.leaves())
    return _names(
        leaf
        for leaf in leaves
        if leaf.route is Route.FALLBACK and leaf.reason is not FallbackReason.HOST and not leaf.claims_native
    )


class Sim:
    """The target `sim`."""

    name = "sim"
    device = memory.DEVICE
    same_generator = True
    seeded_by_cpu = True

    def available(self) -> str | None:
        """Return None: it needs nothing but torch."""
        return None

    def build(self) -> Build:
        """Return torch's version and the profile that the device carries."""
        versions = {"torch": torch.__version__.partition("+")[0], "profile": state.profile.title}
        return Build(self.name, Evidence.SIMULATED, versions)

    @property
    def compute_dtypes(self) -> Mapping[torch.dtype, torch.dtype]:
        """Return the dtypes that are computed in a narrower one, with that one."""
        return state.profile.narrow

    def clear(self) -> None:
        """Forget what was recorded so far."""
        journal.clear()

    def served(self, overload: str) -> Served:
        """Return how the call of `overload` made since `clear` was served."""
        return summarize(overload, journal.entries())

    def plant(self, plants: Mapping[str, str]) -> None:
        """Plant faults for the rest of the process: overload → fault (see faults.py)."""
        kernels.check_plants(plants)
        state.faults.update(plants)
