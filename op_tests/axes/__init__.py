"""Further cases from the samples of the bank: each axis changes how a call is made, and nothing more is stored.

A variant is an axis's name, or its name and a detail: ``transposed``, ``large:65537,row``. Every change is made on CPU
tensors, so that the reference and the device get the same arguments in the same geometry.
"""

from __future__ import annotations

from neuron_ops.op_tests.axes.choice import accepted
from neuron_ops.op_tests.axes.spreading import spread, spread_isolated
from neuron_ops.op_tests.axes.table import AXES, Axis, Prepared, apply, axis_named, prepare

__all__ = [
    "AXES", "Axis", "Prepared", "accepted", "apply", "axis_named", "prepare", "spread", "spread_isolated",
]  # fmt: skip
