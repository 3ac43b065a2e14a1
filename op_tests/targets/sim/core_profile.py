"""The profile of a device that serves what torch tags as core ATen and what no runtime can do without, and nothing else.

Imported by op_tests.targets.sim. It is no real device: it says how far translations reach from a small operator set.
"""

from __future__ import annotations

import torch
from neuron_ops.op_tests.targets.sim.profile import Profile, Registration

NAME = "core"
"""What the variable NEURON_OPS_SIM_PROFILE says instead of a file."""

PRIMITIVES = (
    "_local_scalar_dense.default", "_reshape_alias.default", "_to_copy.default", "_unsafe_view.default", "alias.default",
    "as_strided.default", "clone.default", "copy_.default", "detach.default", "empty.memory_format", "empty_strided.default",
    "fill_.Scalar", "fill_.Tensor", "is_same_size.default", "lift_fresh.default", "resize_.default", "set_.default",
    "set_.source_Storage_storage_offset", "set_.source_Tensor", "view.default", "zero_.default",
)  # fmt: skip
"""Memory, copies and geometry: every backend has them, whatever it computes."""


def _names() -> list[str]:
    found = {f"aten.{name}" for name in PRIMITIVES}
    for qualified in torch._C._dispatch_get_all_op_names():
        packet, _, overload = qualified.removeprefix("aten::").partition(".")
        if qualified.startswith("aten::"):
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            if torch.Tag.core in op.tags:
                found.add(str(op))
    return sorted(found)


def core_profile() -> Profile:
    """Return the profile for the installed torch; its kernels take every dtype and narrow none."""
    names = _names()
    rows = {name: Registration(name, host=False, narrows=False, limits="", source="torch.Tag.core") for name in names}
    version = torch.__version__.partition("+")[0]
    return Profile(f"torch {version}'s core tag and runtime primitives, {len(names)} overloads", rows, (), {})
