"""Chooses a translation for every overload that a device leaves to the host: the cheapest that is right and stays on it.

Plans in rounds: a candidate that passes all cases but needs an overload of the host waits until that one has a translation.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.op_tests.bank import DTYPES
from neuron_ops.op_tests.translation.trials import Report, Trial, needing, refused_because, try_all
from neuron_ops.translators.choices import Choice
from neuron_ops.translators.sources import OURS, candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    Progress = Callable[[str], None]

CASES = 16
"""Cases of an overload that decide in planning; verification takes all."""

BY_TEST = {
    "aten._thnn_fused_lstm_cell.default": 13, "aten._thnn_fused_lstm_cell_backward_impl.default": 26,
    "aten._thnn_fused_gru_cell.default": 13, "aten._thnn_fused_gru_cell_backward.default": 20,
}  # fmt: skip
"""Overloads that the CPU has no kernel for, and so no cases, with their device calls: verified in float32 by training an LSTM
and a GRU against the CPU's own layers (tests/test_translators_nets.py)."""

_PART = 40  # trials that one process gets at a time
_NOTE = 240  # characters of a note


@dataclass(frozen=True, slots=True)
class Planned:
    """The choices, and why the other overloads that the host computes have none (overload → sentence)."""

    choices: dict[str, Choice]
    without: dict[str, str]


def _part(
    folder: Path, trials: Sequence[Trial], beside: Mapping[str, tuple[str, tuple[str, ...] | None]]
) -> list[Report]:
    return list(try_all(folder, trials, beside))


class Bench:
    """Processes that run trials side by side, each with the simulated device in it."""

    def __init__(self, folder: Path, jobs: int, progress: Progress) -> None:
        self._folder, self._progress, self._jobs = folder, progress, jobs

    def run(
        self, what: str, trials: Sequence[Trial], beside: Mapping[str, tuple[str, tuple[str, ...] | None]]
    ) -> list[Report]:
        """Return the reports of all trials beside the translators given."""
        parts = [trials[first :: max(1, len(trials) // _PART)] for first in range(max(1, len(trials) // _PART))]
        reports: list[Report] = []
        context = multiprocessing.get_context("spawn")  # a process that has run device backward must not be forked
        with ProcessPoolExecutor(self._jobs, context) as pool:
            futures = [pool.submit(_part, self._folder, part, dict(beside)) for part in parts if part]
            for number, future in enumerate(futures, 1):
                reports += future.result()
                self._progress(f"{what}: {number} of {len(futures)} parts, {len(trials)} trials")
        return reports


def plan(folder: Path, jobs: int, progress: Progress) -> Planned:
    """Return the choices for the simulated device's profile; minutes of CPU. The bank of all dtypes must exist."""
    bench = Bench(folder, jobs, progress)
    alone = bench.run("without translators", needing(folder, CASES, DTYPES), {})
    lacking = {r.trial.overload: r for r in alone if not r.verified}
    chosen, without = _choose(bench, lacking)
    return _verified(bench, chosen, without)


def _choose(bench: Bench, lacking: Mapping[str, Report]) -> tuple[dict[str, Report], dict[str, str]]:
    """Return for each overload its best report, and the reasons of those that have none."""
    waiting = {name: [c.source for c in candidates(name)] for name in lacking}
    without = {name: "nothing computes it yet" for name, sources in waiting.items() if not sources}
    chosen: dict[str, Report] = {}
    news: set[str] | None = None
    blocked: dict[tuple[str, str], set[str]] = {}
    while True:
        trials = [
            Trial(name, source, lacking[name].trial.dtypes, CASES)
            for name, sources in waiting.items()
            for source in sources
            if news is None or blocked.get((name, source), set()) & news
        ]
        if not trials:
            break
        beside = {name: (report.trial.source or OURS, None) for name, report in chosen.items()}
        found: dict[str, Report] = {}
        for report in bench.run(f"round with {len(chosen)} chosen", trials, beside):
            name, source = report.trial.overload, report.trial.source or ""
            if report.verified:
                if name not in found or report.median_launches < found[name].median_launches:
                    found[name] = report
            elif report.passed == report.cases and report.host and not report.itself:
                blocked[name, source] = report.host
                without[name] = refused_because(report)
            else:
                waiting[name] = [s for s in waiting[name] if s != source]
                without.setdefault(name, refused_because(report))
        chosen |= found
        news = set(found)
        for name in found:
            waiting.pop(name)
            without.pop(name, None)
    return chosen, without


def _verified(bench: Bench, chosen: Mapping[str, Report], without: dict[str, str]) -> Planned:
    """Return choices with the dtypes in which all cases pass beside each other, and then again with just those dtypes."""
    sources = {name: report.trial.source or OURS for name, report in chosen.items()}
    dtypes: dict[str, tuple[str, ...] | None] = dict.fromkeys(sources)
    reports: dict[str, list[Report]] = {}
    for what, limit in (("every case of every dtype", None), ("again, in verified dtypes alone", CASES)):
        trials = [Trial(name, sources[name], dtypes[name] or DTYPES, limit) for name in sources if dtypes[name] != ()]
        seen: dict[str, list[Report]] = {}
        for report in bench.run(what, trials, {n: (sources[n], d) for n, d in dtypes.items() if d != ()}):
            seen.setdefault(report.trial.overload, []).append(report)
        for name in sources:
            dtypes[name] = tuple(d for d in DTYPES if any(r.verified and r.dtype == d for r in seen.get(name, ())))
        reports = {name: [*reports.get(name, ()), *seen.get(name, ())] for name in sources}
    choices = {}
    for name in sources:
        good = [r for r in reports[name] if r.dtype in (dtypes[name] or ()) and r.trial.limit is None]
        if good:
            choices[name] = _choice(name, sources[name], good, reports[name])
        else:
            without[name] = next((w for r in reports[name] if (w := refused_because(r))), "no case says anything")
    for name, launches in BY_TEST.items():
        note = "no case, for the CPU has no kernel: verified by training a layer against the CPU's"
        choices[name] = Choice(name, OURS, ("float32",), (), launches, 0, note)
    return Planned(choices, without)


def _choice(name: str, source: str, good: Sequence[Report], all_reports: Iterable[Report]) -> Choice:
    verified = {r.dtype for r in good}
    refused = {r.dtype: refused_because(r) for r in all_reports if r.dtype not in verified}
    note = "; ".join(f"not {dtype}: {words}" for dtype, words in refused.items() if words)
    return Choice(
        name, source, tuple(d for d in DTYPES if d in verified),
        tuple(sorted(set().union(*(r.parts for r in good)))),
        max(r.median_launches for r in good), max(r.median_bytes for r in good), " ".join(note.split())[:_NOTE],
    )  # fmt: skip
