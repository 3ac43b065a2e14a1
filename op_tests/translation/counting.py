"""Counts the overloads that run with no work on the host, with translators and without: of D_key, and of what models call."""

from __future__ import annotations

import csv
import importlib.resources
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.bank import DTYPES
from neuron_ops.op_tests.targets.sim import named_profile
from neuron_ops.op_tests.translation.planning import CASES
from neuron_ops.op_tests.translation.trials import Report, Trial, needing
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


@dataclass(frozen=True, slots=True)
class Called:
    """An overload that `models` of 33 model families call, and how its samples are served: native, translated or host.

    `reason` says for ``host`` which overloads the host computes, and of others that no sample shows it.
    """

    overload: str
    models: int
    served: str
    reason: str = ""


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


def called_by_models(bench: Bench, device: str) -> tuple[Called, ...]:
    """Return the overloads of data/model_operators.csv, those that most models call first; a minute of CPU.

    Each is judged by up to CASES samples of its calls in the first dtype that has some, gradients aside: these are overloads
    of their own. `device` and the bank are those of `count`.
    """
    text = importlib.resources.files("neuron_ops.op_tests").joinpath("data/model_operators.csv").read_text("utf-8")
    models = {row["overload"]: int(row["models"]) for row in csv.DictReader(text.splitlines()[2:])}
    trials = [Trial(name, None, DTYPES, CASES, first=True) for name in models]
    chosen = {c.overload: (c.source, c.dtypes) for c in shipped_choices(device).values()}
    bare = {r.trial.overload: r for r in bench.run(f"{device}, models, without translators", trials, {})}
    helped = {r.trial.overload: r for r in bench.run(f"{device}, models, with translators", trials, chosen)}
    native = {name for name, r in named_profile(PROFILES[device]).registrations.items() if not r.host}
    unsampled = dict.fromkeys(chosen, "translated") | dict.fromkeys(native, "native")
    return tuple(
        Called(name, n, *_served(bare.get(name), helped.get(name), unsampled.get(name))) for name, n in models.items()
    )


def _served(bare: Report | None, helped: Report | None, unsampled: str | None) -> tuple[str, str]:
    """Return how an overload is served, and what must be said of that; `unsampled` is how where no sample tells."""
    if bare is None or helped is None:
        return unsampled or "host", "the CPU has no kernel of it to compare with, so no sample"
    if helped.host:
        return "host", "the host computes " + ", ".join(sorted(helped.host))
    return ("translated" if bare.host else "native"), "" if bare.verified or helped.verified else helped.failure
