"""Counts the overloads of D_key that run with no work on the host, with translators and without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.bank import DTYPES
from neuron_ops.op_tests.targets.sim import state
from neuron_ops.op_tests.translation.planning import CASES, Bench
from neuron_ops.op_tests.translation.trials import Report, needing
from neuron_ops.translators.choices import shipped_choices

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


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


def count(folder: Path, jobs: int, progress: Callable[[str], None]) -> Counts:
    """Return the counts for the simulated device's profile; two minutes of CPU. The bank of all dtypes must exist."""
    bench, trials = Bench(folder, jobs, progress), needing(folder, CASES, DTYPES)
    bare = bench.run("without translators", trials, {})
    chosen = {c.overload: (c.source, c.dtypes) for c in shipped_choices().values()}
    native = {name for name, registration in state.profile.registrations.items() if not registration.host}
    helped = bench.run("with translators", trials, {n: c for n, c in chosen.items() if n not in native})
    return Counts(
        state.profile.title, catalogue.denominators().d_key, len(trials), sum(map(_stays, bare)), sum(map(_stays, helped)),
        tuple(sorted(r.trial.overload for r in helped if not _stays(r))),
    )  # fmt: skip
