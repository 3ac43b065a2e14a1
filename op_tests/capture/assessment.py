"""Joins a report with what is known, what it costs and what can be done: the findings that every format shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.capture.advice import Advice, advise
from neuron_ops.op_tests.capture.evidence import Catalogue, Closeness, Known, closest
from neuron_ops.op_tests.capture.price import Price, price, traffic
from neuron_ops.op_tests.capture.report import SYNC
from neuron_ops.op_tests.capture.rows import CallRoute
from neuron_ops.op_tests.records import Evidence, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuron_ops.op_tests.capture.report import Report
    from neuron_ops.op_tests.capture.rows import Row


class Kind(StrEnum):
    """What is to be said of an operator on a line, worst first."""

    UNSUPPORTED = "unsupported"
    WRONG = "wrong"
    FALLBACK = "fallback"
    UNKNOWN = "unknown"
    NOTE = "note"


FAIL_ON = ("unsupported", "wrong", "fallback", "unknown", "never")
"""Thresholds of --fail-on: each takes the kinds up to it, ``never`` none."""
_MEASURED = {
    Status.CRASH: Kind.UNSUPPORTED, Status.TIMEOUT: Kind.UNSUPPORTED, Status.UNSUPPORTED: Kind.UNSUPPORTED,
    Status.ERROR: Kind.UNSUPPORTED, Status.FALLBACK: Kind.FALLBACK,
}  # fmt: skip
_ORDER = tuple(Kind)
_NUMBER = re.compile(r"(?<=\.)\d+(?=\.|$)|^\d+(?=\.|$)")


@dataclass(frozen=True, slots=True)
class Judged:
    """A row with the kind of finding that it is (None: it runs on the device), and what is known of it."""

    row: Row
    kind: Kind | None
    known: Known
    advice: tuple[Advice, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """Rows of one operator on one line that are alike but for the layer that they are in.

    `module` is their path with ``*`` for the numbers in which they differ.
    """

    kind: Kind
    judged: tuple[Judged, ...]
    module: str | None

    @property
    def row(self) -> Row:
        """Return the first row, which stands for all."""
        return self.judged[0].row

    @property
    def count(self) -> int:
        """Return the number of calls."""
        return sum(j.row.total for j in self.judged)

    @property
    def bytes_moved(self) -> int:
        """Return the bytes over the host link, both ways."""
        moved = [traffic(j.row) for j in self.judged]
        return sum(t.bytes_to_host + t.bytes_to_device for t in moved)

    @property
    def seconds(self) -> float:
        """Return the estimated seconds of the fallbacks."""
        return sum(traffic(j.row).seconds for j in self.judged)

    @property
    def text(self) -> str:
        """Return what happens, in one sentence without a full stop."""
        row, known = self.row, self.judged[0].known
        what = f"{row.overload} in {', '.join(dict.fromkeys(row.dtypes)) or 'no dtype'}"
        if self.kind is Kind.WRONG and row.cuts_autograd:
            return (
                f"{what} lets no gradient through: the device registers it without a derivative, in place of PyTorch's "
                "composite kernel that has one"
            )
        if self.kind is Kind.WRONG:
            assert known.source is not None
            return f"{what} gave wrong results in {known.k} of {known.n} {known.detail} ({known.source.title}, {known.source.evidence})"
        if self.kind is Kind.UNKNOWN:
            return f"{what}: {known.detail}; the simulated device serves it {row.route}"
        if self.kind is Kind.NOTE:
            return (
                f"the host waits {_times(self.count)} for a value of the device"
                if row.overload == SYNC
                else f"{what} runs on the device"
            )
        parts = ", ".join(dict.fromkeys(p.overload for p in row.parts if p.route is row.route))
        parts = f" through {parts}" if parts else ""
        if self.kind is Kind.UNSUPPORTED:
            return f"{what} {'raises' if row.route is CallRoute.ERROR else 'is not supported'}{parts}" + (
                f": {row.message}" if row.message else ""
            )
        return f"{what} falls back to the host CPU{parts}" + (f" ({row.reason})" if row.reason else "")


@dataclass(frozen=True, slots=True)
class Assessment:
    """A report, its rows judged, its price and the sources of what is known, nearest first."""

    report: Report
    judged: tuple[Judged, ...]
    price: Price
    catalogues: tuple[Catalogue, ...]

    @property
    def verdict(self) -> str:
        """Return the report's verdict, and what stored runs and autograd say against it."""
        text = self.report.verdict
        wrong = len({judged.row.overload for judged in self.judged if judged.known.wrong})
        cut = len({judged.row.overload for judged in self.judged if judged.row.cuts_autograd})
        text += f" In stored runs {wrong} of its operators gave wrong results." if wrong else ""
        return text + (f" Gradients stop at {cut} of its operators." if cut else "")

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return what is to be said, worst first, then by line; rows that differ only in their layer are one finding."""
        groups: dict[tuple[Any, ...], list[Judged]] = {}
        for judged in self.judged:
            row = judged.row
            if judged.kind is not None:
                key = (
                    judged.kind,
                    row.overload,
                    row.dtypes,
                    row.phase,
                    row.where,
                    folded(row.module),
                    row.route,
                    row.reason,
                    row.cuts_autograd,
                )
                groups.setdefault(key, []).append(judged)
        found = [Finding(key[0], tuple(rows), _common(rows)) for key, rows in groups.items()]
        return tuple(sorted(found, key=_rank))

    def found(self, fail_on: str) -> bool:
        """Return whether there is a finding at or above one of FAIL_ON."""
        if fail_on == "never":
            return False
        kinds = set(_ORDER[: _ORDER.index(Kind(fail_on)) + 1])
        return self.report.failure is not None or any(judged.kind in kinds for judged in self.judged)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `check --json` prints."""
        data = self.report.to_json()
        data["verdict"] = self.verdict
        data["operators"] = [
            {
                **judged.row.to_json(), "finding": None if judged.kind is None else str(judged.kind),
                "known": judged.known.to_json(), "advice": [advice.to_json() for advice in judged.advice],
            }
            for judged in self.judged
        ]  # fmt: skip
        data["price"] = self.price.to_json()
        data["catalogues"] = [catalogue.source.to_json() for catalogue in self.catalogues]
        return data


def assess(report: Report, catalogues: Sequence[Catalogue]) -> Assessment:
    """Return the report with everything that can be said of it."""
    judged = []
    for row in report.rows:
        known = closest(row, catalogues)
        advice = advise(row, catalogues, train=report.request.train)
        kind = _kind(row, known, noted=bool(advice), any_source=bool(catalogues))
        judged.append(Judged(row, kind, known, advice))
    return Assessment(report, tuple(judged), price(report.rows, report.waits), tuple(catalogues))


def _kind(row: Row, known: Known, *, noted: bool, any_source: bool) -> Kind | None:
    if row.route is CallRoute.METADATA:
        return None
    kinds = []
    if row.route in (CallRoute.ERROR, CallRoute.UNSUPPORTED):
        kinds.append(Kind.UNSUPPORTED)
    if known.wrong or row.cuts_autograd:
        kinds.append(Kind.WRONG)
    if row.route is CallRoute.FALLBACK:
        kinds.append(Kind.FALLBACK)
    measured = known.source is not None and known.source.evidence is Evidence.HARDWARE
    if measured and known.status in _MEASURED:  # what hardware did counts for more than what the simulation predicts
        kinds.append(_MEASURED[known.status])
    if noted:
        kinds.append(Kind.NOTE)
    if row.overload != SYNC and any_source and known.closeness in (Closeness.OVERLOAD, Closeness.UNKNOWN):
        kinds.append(Kind.UNKNOWN)
    return min(kinds, key=_ORDER.index, default=None)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def folded(module: str | None) -> str | None:
    """Return a module path with ``*`` for the numbers in it: ``blocks.*.norm``."""
    return None if module is None else _NUMBER.sub("*", module)


def _common(rows: Sequence[Judged]) -> str | None:
    modules = {judged.row.module for judged in rows}
    return folded(rows[0].row.module) if len(modules) > 1 else rows[0].row.module


def _rank(finding: Finding) -> tuple[Any, ...]:
    row = finding.row
    return (_ORDER.index(finding.kind), -finding.seconds, row.file or "", row.line or 0, row.overload, row.dtypes)


def by_place(findings: Sequence[Finding]) -> Mapping[str, list[Finding]]:
    """Return ``file:line`` (or the phase, where no line is known) → its findings, the place of the worst first."""
    places: dict[str, list[Finding]] = {}
    for finding in findings:
        places.setdefault(finding.row.where or f"in {finding.row.phase}", []).append(finding)
    return places
