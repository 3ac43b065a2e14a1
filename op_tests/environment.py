"""Reads what a run runs in, so that it can be made again. Imported by op_tests.plan."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.records import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.op_tests.targets import Target

# Neuron's compiler, runtime and eager backend (NEURON_, TORCH_NEURONX_), torch, and what decides how the host computes.
_SWITCHES = re.compile(
    r"(NEURON_|TORCH|PYTORCH_|XLA_|PJRT_|CUDA_|OMP_|MKL_|KMP_|GOMP_|ATEN_|ONEDNN_|DNNL_).*|LD_PRELOAD"
)
_NOT_OURS_TO_KEEP = re.compile(r"NEURON_OPS_(?!SIM_PROFILE)|.*(KEY|TOKEN|SECRET|PASSW|CREDENTIAL)")
_MACHINE_FILES = {
    "instance": Path("/sys/devices/virtual/dmi/id/product_name"),  # trn2.48xlarge on EC2
    "neuron driver": Path("/sys/module/neuron/version"),
}


def environment(target: Target, harness: Mapping[str, str]) -> Environment:
    """Return what cases on the target would run in, in this process."""
    return Environment(
        packages=installed_packages(),
        torch_config=torch.__config__.show().strip(),
        device=device_facts(target.device),
        switches=behaviour_switches(os.environ),
        harness={**harness, "python": platform.python_version()},
    )


def installed_packages() -> dict[str, str]:
    """Return the installed distributions with their versions, as `pip freeze` would, names in lower case with hyphens."""
    found = ((d.metadata["Name"], d.version) for d in importlib.metadata.distributions())
    return dict(sorted((re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in found if name))


def behaviour_switches(variables: Mapping[str, str]) -> dict[str, str]:
    """Return those environment variables that change what a device does, and none that may hold a secret."""
    return {
        name: value
        for name, value in sorted(variables.items())
        if _SWITCHES.fullmatch(name) and not _NOT_OURS_TO_KEEP.match(name)
    }


def device_facts(device: str) -> dict[str, str]:
    """Return facts of this machine and of the device type: instance, driver, cores, memory, how many devices."""
    facts = {
        "system": platform.platform(),
        "cpu": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        "cores": str(len(os.sched_getaffinity(0))),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f} GiB",
        "device": device,
        "devices": str(torch.get_device_module(device).device_count()),
    }
    for name, path in _MACHINE_FILES.items():
        if path.is_file():
            facts[name] = path.read_text().strip()
    return facts
