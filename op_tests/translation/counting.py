"""Counts the overloads of D_key that run with no work on the host, with translators and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.bank import DTYPES
from neuron_ops.op_tests.targets.sim import named_profile
from neuron_ops.op_tests.translation.planning import CASES
from neuron_ops.op_tests.translation.trials import Report, needing
from neuron_ops.translators.choices import shipped_choices

if TYPE_CHECKING:
    from pathlib import Path

    from neuron_ops.op_tests.translation.planning import Bench


PROFILES = {"neuron": None, "core": "core"}
"""Device of translators.choices.TABLES → what NEURON_OPS_SIM_PROFILE says for it (None: whatever it says)."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Overloads of D_key (`d_key`) that have cases, and of which every one passed with no part on the host.

    Up to CASES cases of each in the first dtype that it has cases in (float32 for nearly all); gradients count, with the
    overloads that compute them. `host` names those that stay on the host with translators.
    """

    profile: str
    d_key: int
    with_cases: int
    without: int
    with_translators: int
    host: tuple[str, ...]


def _stays(report: Report) -> bool:
    return report.verified and not report.backward_host


def count(bench: Bench, folder: Path, device: str) -> Counts:
    """Return the counts for the bench's device, with the choices planned for it; two minutes of CPU.

    `device` is ``neuron`` or ``core``. The bank of all dtypes must exist.
    """
    profile, trials = named_profile(PROFILES[device]), needing(folder, CASES, DTYPES)
    native = {name for name, registration in profile.registrations.items() if not registration.host}
    chosen = {c.overload: (c.source, c.dtypes) for c in shipped_choices(device).values() if c.overload not in native}
    bare = bench.run(f"{device} without translators", trials, {})
    helped = bench.run(f"{device} with translators", trials, chosen)
    return Counts(
        profile.title, catalogue.denominators().d_key, len(trials), sum(map(_stays, bare)), sum(map(_stays, helped)),
        tuple(sorted(r.trial.overload for r in helped if not _stays(r))),
    )  # fmt: skip
