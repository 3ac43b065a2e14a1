"""The frozen records of a comparison of two runs and of a gate's verdict; what prints or exports them reads nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from neuron_ops.op_tests.records import STATUS_ORDER, Status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import date

    from neuron_ops.coverage_db.rows import CaseRow
    from neuron_ops.op_tests.records import Evidence

FAILING = frozenset({Status.WRONG, Status.UNSUPPORTED, Status.ERROR, Status.CRASH, Status.TIMEOUT})
UNMEASURED = frozenset({Status.UNTESTED, Status.NOT_APPLICABLE})


class Group(StrEnum):
    """What became of a case from the baseline to the run. Each has a mirror: the group that the way back would give."""

    NEWLY_FAILING = "newly failing"
    NEWLY_PASSING = "newly passing"
    FAILING_OTHERWISE = "failing otherwise"
    FALLBACK_GAINED = "fallback gained"
    FALLBACK_LOST = "fallback lost"
    TRANSLATION_GAINED = "translation gained"
    TRANSLATION_LOST = "translation lost"
    ERROR_GROWN = "error grown"
    ERROR_SHRUNK = "error shrunk"
    CASES_VANISHED = "cases vanished"
    CASES_ADDED = "cases added"

    @property
    def mirror(self) -> Group:
        """Return the group of the same change with the runs the other way round."""
        return _MIRRORS[self]


_PAIRS = (
    (Group.NEWLY_FAILING, Group.NEWLY_PASSING), (Group.FALLBACK_GAINED, Group.FALLBACK_LOST),
    (Group.ERROR_GROWN, Group.ERROR_SHRUNK), (Group.CASES_VANISHED, Group.CASES_ADDED),
    (Group.TRANSLATION_GAINED, Group.TRANSLATION_LOST), (Group.FAILING_OTHERWISE, Group.FAILING_OTHERWISE),
)  # fmt: skip
_MIRRORS = dict(_PAIRS) | {b: a for a, b in _PAIRS}


@dataclass(frozen=True, slots=True)
class Seen:
    """What a case did in a run: its letter, and how far the result was from the float64 reference where that is known."""

    status: Status
    max_ulp: float | None = None
    nmse: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A case that one run did otherwise than the other.

    `before` or `after` is None where the run did not plan the case. `message` is what the later run said of it.
    """

    group: Group
    case: CaseRow
    before: Seen | None
    after: Seen | None
    message: str | None = None

    @property
    def regression(self) -> bool:
        """Return whether the later run is the worse one; a case that is measured no more is, so is a new one that fails."""
        if self.group is Group.CASES_ADDED:
            return self.after is not None and self.after.status in FAILING
        if self.before is None or self.after is None or self.group is Group.CASES_VANISHED:
            return True
        if self.before.status is self.after.status:
            return self.group is Group.ERROR_GROWN
        return STATUS_ORDER.index(self.after.status) < STATUS_ORDER.index(self.before.status)

    @property
    def sentence(self) -> str:
        """Return the case and what changed in one line, without the message."""
        return f"{named(self.case)}: {self.change}"

    @property
    def change(self) -> str:
        """Return what changed, with the errors where the letter did not."""
        if self.before and self.after and self.before.status is self.after.status:
            return f"{word(self.after.status)}, {_figures(self.before)} before, {_figures(self.after)} now"
        before, after = (word(seen.status) if seen else "not planned" for seen in (self.before, self.after))
        return f"{before} before, {after} now"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two compared: `label` is a run's slug or a file, `measured` counts cases that passed or failed."""

    label: str
    target: str
    evidence: Evidence
    versions: Mapping[str, str]
    selection: str
    measured: int


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A part of the build that differs; None where one side has no such part."""

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The exact difference of two runs, by group, overload, dtype, variant and sample.

    `product` names what differs in what is measured (torch, profile, compiler …), `harness` what differs in what
    measures: with that, no difference can be blamed on the product. `factor` is by how much an error has to grow.
    """

    before: Side
    after: Side
    product: tuple[VersionChange, ...]
    harness: tuple[VersionChange, ...]
    differences: tuple[Difference, ...]
    factor: float


@dataclass(frozen=True, slots=True)
class Flaky:
    """A difference that did not come back: `again` counts the letters of the re-runs.

    `unsteady` of the `reruns` cases of this overload that a gate ever re-ran did not come back.
    """

    difference: Difference
    again: Mapping[str, int]
    unsteady: int
    reruns: int


@dataclass(frozen=True, slots=True)
class Expectation:
    """A known non-pass, or a case whose changes are not counted for a while (`outcome` None: quarantine).

    Selectors are globs; `builds` are ``target`` or ``target part=version``. `outcome` is a failing outcome's word or
    ``fallback``. `line` is where the row begins in its file.
    """

    overload: str
    reason: str
    link: str
    expires: date
    line: int
    outcome: str | None
    dtypes: tuple[str, ...] = ("*",)
    axes: tuple[str, ...] = ("*",)
    samples: tuple[str, ...] = ("*",)
    builds: tuple[str, ...] = ("*",)


class Breach(StrEnum):
    """How a row of the expectations fails the gate."""

    UNMATCHED = "unmatched"
    EXPIRED = "expired"
    HEALED = "healed"
    OTHERWISE = "fails otherwise"


@dataclass(frozen=True, slots=True)
class BrokenExpectation:
    """A row that no longer says what is; `cases` are those that show it, with what each does now."""

    breach: Breach
    row: Expectation
    cases: tuple[tuple[CaseRow, Status], ...]
    sentence: str


@dataclass(frozen=True, slots=True)
class GateResult:
    """A gate's verdict.

    `refusals` are sentences for what makes the run, or the comparison, worth nothing; with one, `differences` may be
    empty. `differences` are those that count (they came back in every re-run, or were not re-run), improvements
    included. `expected` are differences that an expectation covers, `quarantined` those of cases in quarantine. `rerun`
    counts the cases that were run again.
    """

    before: Side
    after: Side
    product: tuple[VersionChange, ...]
    factor: float
    refusals: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    broken: tuple[BrokenExpectation, ...] = ()
    flaky: tuple[Flaky, ...] = ()
    quarantined: tuple[Difference, ...] = ()
    expected: tuple[Difference, ...] = ()
    rerun: int = 0

    @property
    def regressions(self) -> tuple[Difference, ...]:
        """Return the differences for which the run fails."""
        return tuple(d for d in self.differences if d.regression)

    @property
    def improvements(self) -> tuple[Difference, ...]:
        """Return the differences that are good news or none."""
        return tuple(d for d in self.differences if not d.regression)

    @property
    def passed(self) -> bool:
        """Return whether there is nothing for which the run fails."""
        return not (self.refusals or self.broken or self.regressions)


def named(case: CaseRow) -> str:
    """Return a case as people read it, with the first digits of its key for `repro`."""
    return f"{case.overload} {case.dtype} {case.variant} {case.sample} ({case.key[:8]})"


def word(status: Status) -> str:
    """Return a status as a word: ``fallback``, ``not applicable``."""
    return status.name.lower().replace("_", " ")


def _figures(seen: Seen) -> str:
    figures = [f"{seen.max_ulp:.3g} ulp"] if seen.max_ulp is not None else []
    return " ".join(figures + ([f"(NMSE {seen.nmse:.2g})"] if seen.nmse is not None else []))
