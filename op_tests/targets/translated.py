"""The target `sim+translators`: the simulated device with every verified translator installed."""

from __future__ import annotations

import hashlib

from neuron_ops.op_tests.records import Build
from neuron_ops.op_tests.targets.sim import Sim
from neuron_ops.translators import install
from neuron_ops.translators.choices import shipped_choices


class TranslatedSim(Sim):
    """The simulated device with translators: its own target, so that its runs are never taken for the bare device's.

    Random numbers come from the translators' own stream, which the CPU generator's seed decides.
    """

    name = "sim+translators"
    same_generator = False

    def __init__(self) -> None:
        install()

    def build(self) -> Build:
        """Return the simulated device's versions with a mark of the installed translators' table."""
        bare, choices = super().build(), shipped_choices()
        mark = hashlib.sha256("\n".join(map(str, choices.values())).encode()).hexdigest()[:8]
        return Build(self.name, bare.evidence, {**bare.versions, "translators": f"{len(choices)} ({mark})"})
