"""Chooses a translation for every overload that a device leaves to the host: one that is right and stays on the device.

Plans in rounds: a candidate that passes all cases but needs an overload of the host waits until that one has a translation.
Of several that are right the one with the most dtypes wins, then the one with the fewest calls of the device, then ours.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import signal
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.op_tests.bank import DTYPES
from neuron_ops.op_tests.targets.sim import PROFILE_VARIABLE
from neuron_ops.op_tests.translation import cost
from neuron_ops.op_tests.translation.trials import Report, Trial, needing, refused_because, try_all
from neuron_ops.translators.choices import Choice
from neuron_ops.translators.sources import DERIVED, OURS, SOURCES, candidates

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from neuron_ops.op_tests.translation.trials import Installed

    Progress = Callable[[int, int, str], None]
    """Takes how many parts are done, of how many, and of what."""

CASES = 16
"""Cases of an overload that decide in planning; verification takes all."""

BY_TEST = {
    "aten._thnn_fused_lstm_cell.default": 13, "aten._thnn_fused_lstm_cell_backward_impl.default": 26,
    "aten._thnn_fused_gru_cell.default": 13, "aten._thnn_fused_gru_cell_backward.default": 20,
}  # fmt: skip
"""Overloads that the CPU has no kernel for, and so no cases, with their device calls: verified in float32 by training an LSTM
and a GRU against the CPU's own layers (tests/test_translators_nets.py)."""

_PR_SET_PDEATHSIG = 1
_PART = 40  # trials that one process gets at a time
_NOTE = 240  # characters of a note
_TURNS = 4  # at most; each leaves out dtypes that needed what the one before left out


@dataclass(frozen=True, slots=True)
class Planned:
    """The choices, and why the other overloads that the host computes have none (overload → sentence)."""

    choices: dict[str, Choice]
    without: dict[str, str]


def _part(folder: Path, trials: Sequence[Trial], beside: Installed) -> list[Report]:
    return list(try_all(folder, trials, beside))


def _end_with_parent(parent: int) -> None:
    """Let this process die with the one that started it: a pool's children wait for ever for a parent that was killed."""
    with contextlib.suppress(AttributeError):  # Linux alone has prctl
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it was killed before it could be said
        os._exit(1)


@contextlib.contextmanager
def _profile(name: str) -> Iterator[None]:
    """Let children that start meanwhile simulate the device of a profile; an empty name changes nothing."""
    before = os.environ.get(PROFILE_VARIABLE)
    if name:
        os.environ[PROFILE_VARIABLE] = name
    try:
        yield
    finally:
        os.environ.pop(PROFILE_VARIABLE, None)
        if before is not None:
            os.environ[PROFILE_VARIABLE] = before


class Bench:
    """Processes that run trials side by side, each with the simulated device in it.

    `profile` is what NEURON_OPS_SIM_PROFILE says in them: a file or ``core``; where it is empty, what it says here.
    """

    def __init__(self, folder: Path, jobs: int, progress: Progress, profile: str = "") -> None:
        self._folder, self._progress, self._jobs, self._name = folder, progress, jobs, profile
        self._always: Installed = {}

    def beside(self, always: Installed) -> Bench:
        """Return a bench whose trials run beside these translators too."""
        other = Bench(self._folder, self._jobs, self._progress, self._name)
        other._always = {**self._always, **always}
        return other

    def run(self, what: str, trials: Sequence[Trial], beside: Installed) -> list[Report]:
        """Return the reports of all trials beside the translators given, in the order of the trials."""
        number = max(1, len(trials) // _PART)
        parts = [trials[first::number] for first in range(number)]
        reports: list[Report] = []
        context = multiprocessing.get_context("spawn")  # a process that has run device backward must not be forked
        with _profile(self._name), ProcessPoolExecutor(self._jobs, context, _end_with_parent, (os.getpid(),)) as pool:
            futures = [pool.submit(_part, self._folder, part, {**self._always, **beside}) for part in parts if part]
            for done, future in enumerate(futures, 1):
                reports += future.result()
                self._progress(done, len(futures), f"{what}, {len(trials)} trials")
        place = {trial: position for position, trial in enumerate(trials)}
        return sorted(reports, key=lambda report: place[report.trial])


def plan(
    bench: Bench, folder: Path, *, names: Collection[str] | None = None, kept: Iterable[Choice] = (), by_cost: bool = False
) -> Planned:  # fmt: skip
    """Return the choices for the bench's device; minutes of CPU. The bank of all dtypes must exist.

    With `names` only these overloads are planned, beside the choices in `kept`, which are not tried again and come back as
    they were. With `by_cost` the host keeps an overload where every sample is estimated to be cheaper there (see cost.py).
    """
    trials = [trial for trial in needing(folder, CASES, DTYPES) if names is None or trial.overload in names]
    alone = bench.run("without translators", trials, {})
    before = {c.overload: c for c in kept if names is not None and c.overload not in names}
    beside: Installed = {name: (c.source, c.dtypes) for name, c in before.items()}
    bench = bench.beside(beside)
    right, without = _right(bench, {r.trial.overload: r for r in alone if not r.verified})
    reports = _best(bench, right)
    if by_cost:
        without |= {name: words for name, found in reports.items() if (words := _cheaper_on_host(found))}
        reports = {name: found for name, found in reports.items() if name not in without}
    planned = _beside_each_other(bench, reports, without)
    for name, launches in BY_TEST.items():
        note = "no case, for the CPU has no kernel: verified by training a layer against the CPU's"
        planned.choices[name] = Choice(name, OURS, ("float32",), (), launches, 0, note)
    planned.choices.update(before)
    return planned


def _right(bench: Bench, lacking: Mapping[str, Report]) -> tuple[dict[str, list[Report]], dict[str, str]]:
    """Return for each overload the reports of the candidates that are right, the cheapest first, and why others have none."""
    waiting = {name: [c.source for c in candidates(name)] for name in lacking}
    without = {name: "nothing computes it yet" for name, sources in waiting.items() if not sources}
    right: dict[str, list[Report]] = {}
    blocked: dict[tuple[str, str], set[str]] = {}
    news: set[str] | None = None
    while trials := [
        Trial(name, source, (lacking[name].dtype,), CASES)
        for name, sources in waiting.items()
        for source in sources
        if news is None or blocked.get((name, source), set()) & news
    ]:
        known = set(right)
        beside = {name: (reports[0].trial.source or OURS, None) for name, reports in right.items()}
        for report in bench.run(f"round with {len(known)} chosen", trials, beside):
            name, source = report.trial.overload, report.trial.source or ""
            if report.verified:
                right[name] = sorted([*right.get(name, ()), report], key=_cost)
                without.pop(name, None)
            if report.waits:
                blocked[name, source] = report.host
            else:
                waiting[name].remove(source)
            if name not in right and (report.waits or name not in without):
                without[name] = refused_because(report)
        news = set(right) - known
    return right, without


def _cost(report: Report) -> tuple[int, int]:
    """Return what sorts reports of right candidates: calls of the device, then the place of the source."""
    source = report.trial.source or OURS
    return report.median_launches, 2 * SOURCES.index(source.removesuffix(DERIVED)) + source.endswith(DERIVED)


def _best(bench: Bench, right: Mapping[str, Sequence[Report]]) -> dict[str, list[Report]]:
    """Return for each overload the reports, one a dtype, of the candidate that serves most dtypes, of equals the cheapest."""
    trials = [Trial(name, r.trial.source, DTYPES) for name, reports in right.items() for r in reports]
    beside: Installed = {name: (reports[0].trial.source or OURS, None) for name, reports in right.items()}
    found: dict[str, dict[str | None, list[Report]]] = {name: {} for name in right}
    for report in bench.run("every case of every dtype", trials, beside):
        found[report.trial.overload].setdefault(report.trial.source, []).append(report)

    def rank(reports: Sequence[Report]) -> tuple[int, tuple[int, int]]:
        return -sum(r.verified for r in reports), min((_cost(r) for r in reports if r.verified), default=(0, 0))

    return {name: min(by_source.values(), key=rank) for name, by_source in found.items() if by_source}


def _beside_each_other(bench: Bench, reports: Mapping[str, list[Report]], without: dict[str, str]) -> Planned:
    """Return choices with the dtypes that still pass when every other translation serves its verified dtypes alone."""
    dtypes = {name: tuple(r.dtype for r in found if r.verified) for name, found in reports.items()}
    sources = {name: found[0].trial.source or OURS for name, found in reports.items()}
    lost: dict[str, list[Report]] = {}
    for _ in range(_TURNS):
        trials = [Trial(name, sources[name], dtypes[name], CASES) for name in reports if dtypes[name]]
        beside: Installed = {trial.overload: (sources[trial.overload], trial.dtypes) for trial in trials}
        failed = [r for r in bench.run("verified dtypes alone", trials, beside) if not r.verified]
        if not failed:
            break
        for report in failed:
            name = report.trial.overload
            lost.setdefault(name, []).append(report)
            dtypes[name] = tuple(dtype for dtype in dtypes[name] if dtype != report.dtype)
    choices = {}
    for name, found in reports.items():
        good = [r for r in found if r.dtype in dtypes[name]]
        bad = [*(r for r in found if not r.verified), *lost.get(name, ())]
        if good:
            choices[name] = _choice(name, sources[name], good, bad)
        else:
            without[name] = next((words for r in bad if (words := refused_because(r))), "no case says anything")
    return Planned(choices, without)


def _choice(name: str, source: str, good: Sequence[Report], bad: Iterable[Report]) -> Choice:
    refused = [f"not {r.dtype}: {words}" for r in bad if (words := refused_because(r))]
    note = "; ".join([*(["it reads a value back to the host"] if any(r.reads for r in good) else []), *refused])
    return Choice(
        name, source, tuple(r.dtype for r in good), tuple(sorted(set().union(*(r.parts for r in good)))),
        max(r.median_launches for r in good), max(r.median_bytes for r in good), " ".join(note.split())[:_NOTE],
        tuple(sorted(set().union(*(r.axes for r in good)))),
    )  # fmt: skip


def _cheaper_on_host(reports: Sequence[Report]) -> str:
    """Return the sentence that keeps an overload on the host, or nothing where one sample is cheaper on the device."""
    samples = [pair for r in reports if r.verified for pair in zip(r.launches, r.bytes, strict=True)]
    if not samples or any(cost.translated_seconds(n) <= cost.fallback_seconds(moved) for n, moved in samples):
        return ""
    fewest, most = min(n for n, _ in samples), max(moved for _, moved in samples)
    return (
        f"the fallback is estimated to be cheaper for all {len(samples)} samples: at least {fewest} calls of the device, "
        f"at most {most} bytes of arguments"
    )
