"""Tries translations on the cases of the bank, on the simulated device, in children that may die."""

from __future__ import annotations

import collections
import functools
import importlib
import statistics
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.axes import axis_named
from neuron_ops.op_tests.bank import Bank
from neuron_ops.op_tests.isolation import Found, Place, isolated
from neuron_ops.op_tests.records import Outcome, Route
from neuron_ops.op_tests.runner import Session
from neuron_ops.op_tests.targets.sim import Sim
from neuron_ops.op_tests.targets.sim.journal import ALLOCATIONS
from neuron_ops.translators import uninstall
from neuron_ops.translators.installation import install_candidates
from neuron_ops.translators.sources import Candidate, function_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from neuron_ops.op_tests.records import Case, Result

    Installed = Mapping[str, tuple[str, tuple[str, ...] | None]]
    """Overload → (source, dtypes) of the translators that trials run beside; None: in every dtype."""

EXACTNESS = 4.0
"""Times the CPU's own error against float64 that a translation's may be."""

_READ = "aten._local_scalar_dense.default"  # what .item() calls: the host waits for the device
_MEMORY = 4 << 30  # bytes of address space that trials may add
_SECONDS = 20.0  # of processor time that a case may take


@dataclass(frozen=True, slots=True)
class Trial:
    """What to try: the translation of an overload from a source (None: what the device has), in dtypes, on how many cases.

    With `first` only the first dtype that has applicable cases: complex numbers are the first of a view of pairs.
    """

    overload: str
    source: str | None
    dtypes: tuple[str, ...]
    limit: int | None = None
    first: bool = False


@dataclass(slots=True)
class Report:
    """What the cases of one dtype showed.

    `cases` were applicable and `passed` of them passed. `host` are the overloads that the host computed in calls that are
    not gradients; `parts` what the device ran; `failure` the first failure in words: the variant and the message.
    `launches`: device calls a case, `bytes`: of the arguments' storages, both over forward cases. `axes`: what the
    applicable cases vary; `reads`: whether a call that is no gradient read a value back to the host. `declined`: the
    translator's words where it left a call to what served it before.
    """

    trial: Trial
    dtype: str
    cases: int = 0
    passed: int = 0
    failure: str = ""
    host: set[str] = field(default_factory=set)
    backward_host: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    launches: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    axes: set[str] = field(default_factory=set)
    reads: bool = False
    itself: bool = False
    declined: str = ""

    @property
    def verified(self) -> bool:
        """Return whether every case passed and none needed the host (gradients are overloads of their own)."""
        return self.cases > 0 and self.passed == self.cases and not self.host and not self.itself

    @property
    def waits(self) -> bool:
        """Return whether nothing is wrong but that the host serves overloads which may get a translation."""
        return self.cases == self.passed and bool(self.host) and not self.itself and not self.declined

    @property
    def median_launches(self) -> int:
        """Return the median number of device calls of a forward case."""
        return round(statistics.median(self.launches)) if self.launches else 0

    @property
    def median_bytes(self) -> int:
        """Return the median bytes of the arguments of a forward case."""
        return round(statistics.median(self.bytes)) if self.bytes else 0


class _Generating(Sim):
    """The simulated device whose random numbers may come from a translator: values of draws are not the CPU's."""

    same_generator = False


def try_all(folder: Path, trials: Sequence[Trial], beside: Installed) -> Iterator[Report]:
    """Yield a report for each dtype of each trial that has applicable cases.

    `beside` are installed too, save that of the overload on trial. A case that ends its process fails its dtype.
    """
    bench = _Bench(folder, beside)
    try:
        for event in isolated(trials, bench.reports, lambda _: False, memory=_MEMORY):
            if isinstance(event, Found):
                yield event.payload
            else:
                trial = trials[event.task]
                yield Report(trial, trial.dtypes[event.attempt], 1, 0, f"a call ended the process: {event.how}")
    finally:
        uninstall()


class _Bench:
    """The simulated device with the translators that trials run beside."""

    def __init__(self, folder: Path, beside: Installed) -> None:
        self._session, self._bank = Session(_Generating(), folder), Bank(folder)
        self._beside = {
            name: (Candidate(name, source, function), dtypes)
            for name, (source, dtypes) in beside.items()
            if (function := function_of(name, source)) is not None
        }
        install_candidates(self._beside.values())
        importlib.import_module("torch.fx.experimental.symbolic_shapes")  # each child's first gradient would import it
        catalogue.by_name()

    def reports(self, trial: Trial, place: Place) -> Iterator[Report]:
        """Yield the reports of one trial. An attempt is a dtype: what is known of one that a death ended is lost."""
        torch.set_num_threads(1)
        candidate: list[tuple[Candidate, None]] = []
        declined: list[str] = []
        if trial.source is not None:
            uninstall([trial.overload])
            if (function := function_of(trial.overload, trial.source)) is not None:
                candidate = [(Candidate(trial.overload, trial.source, _heard(function, declined)), None)]
        with install_candidates(candidate, ()):
            for number, dtype in enumerate(trial.dtypes):
                report = Report(trial, dtype)
                for case in _cases(self._bank, trial, dtype):
                    if place.starts(number, _SECONDS):
                        declined.clear()
                        result = self._session.run(case)
                        report.declined = report.declined or next(iter(declined), "")
                        _add(report, case, result, self._bank)
                if report.cases:
                    yield report
                    if trial.first:
                        break
        if trial.overload in self._beside:
            install_candidates([self._beside[trial.overload]])


def _heard(function: Callable[..., Any], declined: list[str]) -> Callable[..., Any]:
    """Return the function, with the words of each NotImplementedError that leaves it kept."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NotImplementedError as error:
            declined.append(str(error) or "without a word")
            raise

    return call


def _cases(bank: Bank, trial: Trial, dtype: str) -> list[Case]:
    """Return the cases of an overload that have a result; of more than the limit, some of each variant.

    What must raise is left out: that a translation accepts what the CPU refuses makes none of its results wrong.
    """
    cases = [case for case in bank.cases(trial.overload, dtype) if not axis_named(case.variant).must_raise]
    if trial.limit is None or len(cases) <= trial.limit:
        return cases
    turns: collections.Counter[str] = collections.Counter()

    def turn(case: Case) -> int:
        turns[case.variant] += 1
        return turns[case.variant]

    return sorted(cases, key=turn)[: trial.limit]


def _add(report: Report, case: Case, result: Result, bank: Bank) -> None:
    if result.outcome is Outcome.NOT_APPLICABLE:
        return
    report.cases += 1
    report.axes.add(case.variant.partition(":")[0])
    passed = result.outcome is Outcome.PASS or _as_exact(result)
    report.passed += passed
    if not passed and not report.failure:
        report.failure = f"{case.dtype} {case.variant} of {case.sample}: {(result.message or result.outcome)[:200]}"
    gradient = case.variant.startswith("backward")
    parts = result.parts
    host = {part.overload for part in parts if part.route is Route.FALLBACK or part.route is None}
    if result.route is Route.FALLBACK and not parts:
        host.add(report.trial.overload)
    (report.backward_host if gradient else report.host).update(host)
    report.itself = report.itself or (
        report.trial.source is not None and not gradient and not report.declined and report.trial.overload in host
    )
    report.reads = report.reads or (not gradient and any(part.overload == _READ for part in parts))
    report.parts.update(part.overload for part in parts)
    if case.variant == "forward":
        report.launches.append(sum(part.count for part in parts if part.overload not in ALLOCATIONS))
        report.bytes.append(sum(map(len, bank.sample(case).storages)))


def _as_exact(result: Result) -> bool:
    """Return whether values that differ from the CPU's are as exact: no further from float64 than EXACTNESS times the CPU's.

    A sweep calls such a case wrong at the limit of the dtype; another order of the same sums is no wrong translation.
    """
    device, cpu = result.device_figures, result.reference_figures
    return (
        result.outcome is Outcome.WRONG and device is not None and cpu is not None
        and "dtype limit" in (result.message or "")
        and device.max_abs <= EXACTNESS * cpu.max_abs
    )  # fmt: skip


def refused_because(report: Report) -> str:
    """Return in one sentence why a trial is no translation in its dtype, and which kind of wrong it is; empty if it is one."""
    if report.itself:
        return f"it reaches {report.trial.overload} itself"
    if report.passed < report.cases:
        return f"{_kind(report)}: {report.failure}"
    if report.declined and report.host:
        return f"missing dtype: the translator declines {report.dtype} ({report.declined.splitlines()[0][:120]})"
    if report.host:
        return f"in {report.dtype} it needs the host: {', '.join(sorted(report.host))}"
    return "" if report.cases else "no case says anything"


def _kind(report: Report) -> str:
    where, _, message = report.failure.partition(": ")
    for fact in ("stride", "dtype", "shape"):
        if f": {fact} " in f": {message}":
            return f"wrong {fact}"
    if "ended the process" in report.failure:
        return "crash"
    gradient = "backward" in report.trial.overload or " backward" in where
    return "wrong gradient" if gradient else "wrong result"


def needing(folder: Path, limit: int, dtypes: Sequence[str]) -> list[Trial]:
    """Return one trial without translators for each overload of D_key that has cases, in the first dtype that has any.

    The bank says for which dtypes there are cases; whether they are applicable is known when the CPU has run them.
    """
    bank = Bank(folder)
    have = {dtype: bank.overloads(dtype) for dtype in dtypes}
    found = []
    for operator in catalogue.operators():
        if operator.excluded is None and operator.tier != "T3":
            some = tuple(dtype for dtype in dtypes if operator.name in have[dtype])
            if some:
                found.append(Trial(operator.name, None, some, limit, first=True))
    return found
