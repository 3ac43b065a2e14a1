"""Plants faults into the simulated device and says which of them the harness catches.

The way of a case is the one of every sweep: a bank file, the runner's session, the comparer. Faults that end the process
or never end are for a sandbox, which is above this layer: `ending_cases` names them and `ended` judges what came back.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.bank import BankWriter, bank_file
from neuron_ops.op_tests.packing import pack
from neuron_ops.op_tests.records import BadInput, Case, FallbackReason, Outcome, Result, Route
from neuron_ops.op_tests.runner import open_session
from neuron_ops.op_tests.selftest_samples import ENDINGS, Plot, one, plots, wave

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    from neuron_ops.op_tests.runner import Session

_SOURCE = "selftest"
_EXPECTED = {
    "raise": Outcome.ERROR, "unsupported": Outcome.UNSUPPORTED, "abort": Outcome.CRASH, "segfault": Outcome.CRASH,
    "hang": Outcome.TIMEOUT,
}  # fmt: skip
"""What a caught fault turns a case into, where that is not wrong."""


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault at one place: whether a case showed it, and what the cases came to."""

    overload: str
    dtype: str
    variant: str
    fault: str
    caught: bool
    seen: str

    def to_json(self) -> dict[str, Any]:
        """Return the object that stands in the list of missed faults."""
        return {name: getattr(self, name) for name in ("overload", "dtype", "variant", "fault", "seen")}


def write_samples(folder: Path) -> None:
    """Write bank files with the samples of all plots into the folder."""
    rows = [(plot.dtype, plot.overload, f"{_label(n)}/{i}", pack(*sample), plot.variant)
            for n, plot in enumerate(plots()) for i, sample in enumerate(plot.samples())]  # fmt: skip
    rows += [("float32", name, f"{_SOURCE}/end/0", pack(*one(wave(6))[0]), "forward") for name, _ in ENDINGS]
    for dtype, group in itertools.groupby(sorted(rows, key=lambda row: row[:3]), key=lambda row: row[0]):
        path = bank_file(folder, dtype, 0)
        path.parent.mkdir(parents=True, exist_ok=True)
        with BankWriter(path, dtype, 0) as writer:
            for _, overload, label, sample, variant in group:
                writer.add(overload, label, sample, [variant])


def _label(number: int) -> str:
    return f"{_SOURCE}/{number:03}"


def plant_all(target: str, folder: Path, only: Collection[str] = ()) -> Iterator[Planted]:
    """Yield every planted fault with whether it was caught; raises BadInput for a target that takes no faults.

    With `only`, faults of other names are left out. The cases of a plot run without a fault first: where one does not pass, its faults count as missed.
    """
    if target != "sim":
        raise BadInput(f"cannot plant faults on target {target!r}; they live in the simulated device; use --target sim")
    session = open_session(target, folder, {})
    for number, plot in enumerate(plots()):
        faults = [fault for fault in dict.fromkeys(plot.faults) if not only or fault in only]
        if faults:
            yield from _planted(session, plot, number, faults)


def _planted(session: Session, plot: Plot, number: int, faults: Iterable[str]) -> Iterator[Planted]:
    from neuron_ops.op_tests.targets import sim
    from neuron_ops.op_tests.targets.sim import kernels

    count = len(plot.samples())
    cases = [Case(plot.overload, plot.dtype, f"{_label(number)}/{i}", plot.variant) for i in range(count)]
    healthy = [session.run(case) for case in cases]
    ill = next((result for result in healthy if result.outcome is not Outcome.PASS), None)
    for fault in faults:
        if ill is not None:
            yield Planted(plot.overload, plot.dtype, plot.variant, fault, False, f"without the fault: {_words([ill])}")
            continue
        with kernels.planted(sim.state, {plot.place: fault}):
            results = [session.run(case) for case in cases]
        caught = any(map(_shows, itertools.repeat(fault), results))
        yield Planted(plot.overload, plot.dtype, plot.variant, fault, caught, _words(results))


def _shows(fault: str, result: Result) -> bool:
    """Return whether a result is what the fault must turn its case into."""
    if fault == "hidden-fallback":
        return (result.outcome, result.route, result.reason) == (Outcome.PASS, Route.FALLBACK, FallbackReason.HOST)
    return result.outcome is _EXPECTED.get(fault, Outcome.WRONG)


def _words(results: Iterable[Result]) -> str:
    return "; ".join(f"{r.outcome} {r.message or r.route or ''}".strip().partition("\n")[0] for r in results)


def ending_plants() -> dict[str, str]:
    """Return overload → fault for a sandbox."""
    return dict(ENDINGS)


def ending_cases() -> list[Case]:
    """Return the cases of `ending_plants`, in the same order."""
    return [Case(name, "float32", f"{_SOURCE}/end/0") for name, _ in ENDINGS]


def ended(results: Sequence[Result]) -> list[Planted]:
    """Return what a sandbox's results for `ending_cases` say of their faults; a result too few is a fault missed."""
    by_key = {result.case: result for result in results}
    found = []
    for (name, fault), case in zip(ENDINGS, ending_cases(), strict=True):
        result = by_key.get(case.key)
        seen = "no result" if result is None else _words([result])
        found.append(Planted(name, "float32", "forward", fault, result is not None and _shows(fault, result), seen))
    return found


def report(target: str, planted: Sequence[Planted]) -> dict[str, Any]:
    """Return the object that `neuron-ops selftest --json` prints."""
    return {
        "target": target,
        "planted": len(planted),
        "caught": sum(p.caught for p in planted),
        "missed": [p.to_json() for p in planted if not p.caught],
        "overloads": len({p.overload for p in planted}),
        "faults": sorted({p.fault for p in planted}),
    }
