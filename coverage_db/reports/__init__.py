"""Files that a gate's verdict is written to, and the findings that all of them list.

Each module writes one format from a `GateResult` and reads nothing else: no database, no torch. Imported by cli.gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.verdicts import Breach, Group

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neuron_ops.coverage_db.rows import CaseRow
    from neuron_ops.coverage_db.verdicts import Difference, Expectation, GateResult


class Weight(StrEnum):
    """What a finding means for the verdict."""

    REFUSAL = "refusal"
    FAILURE = "failure"
    FLAKY = "flaky"
    KNOWN = "known"
    GOOD = "good"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a verdict; `rule` is a key of RULES, `text` one sentence, `detail` what the target said or None."""

    weight: Weight
    rule: str
    text: str
    case: CaseRow | None = None
    detail: str | None = None
    row: Expectation | None = None


RULES: dict[str, str] = {
    "refused": "The run, or its baseline, is worth nothing",
    **{group.value: f"Against the baseline: {group.value}" for group in Group},
    **{f"expectation {breach.value}": f"A row of the expectations: {breach.value}" for breach in Breach},
    "flaky": "A difference that did not come back when the case was run again alone",
    "expected": "A known failure, named by the expectations",
    "quarantined": "A change of a case in quarantine",
}
"""Rule → its meaning. Every finding has one of these."""


def findings(result: GateResult) -> Iterator[Finding]:
    """Yield all that a verdict says, what fails the run first."""
    for sentence in result.refusals:
        yield Finding(Weight.REFUSAL, "refused", sentence)
    for difference in result.regressions:
        yield _of(difference, Weight.FAILURE, difference.group.value)
    for broken in result.broken:
        case, status = broken.cases[0] if broken.cases else (None, None)
        shown = f"{case.key} is {status.value}" if case and status else None
        rule = f"expectation {broken.breach.value}"
        yield Finding(Weight.FAILURE, rule, broken.sentence, case, shown, broken.row)
    for flaky in result.flaky:
        letters = ", ".join(f"{count} × {letter}" for letter, count in flaky.again.items())
        text = (
            f"{flaky.difference.sentence}; run again alone: {letters}; {flaky.unsteady} of {flaky.reruns} re-runs of "
            "this overload did not come back"
        )
        yield Finding(Weight.FLAKY, "flaky", text, flaky.difference.case, flaky.difference.message)
    for difference in result.quarantined:
        yield _of(difference, Weight.KNOWN, "quarantined")
    for difference in result.expected:
        yield _of(difference, Weight.KNOWN, "expected")
    for difference in result.improvements:
        yield _of(difference, Weight.GOOD, difference.group.value)


def headline(result: GateResult) -> str:
    """Return the verdict in one sentence."""
    if result.refusals:
        return f"refused: {result.refusals[0]}"
    against = f"{result.after.label} against {result.before.label} on {result.after.target} ({result.after.evidence})"
    if result.passed:
        return f"passed: {against}, {result.after.measured} cases measured, nothing got worse"
    broken = f", {len(result.broken)} rows of the expectations do not hold" if result.broken else ""
    return f"failed: {against}, {len(result.regressions)} of {result.after.measured} cases got worse{broken}"


def _of(difference: Difference, weight: Weight, rule: str) -> Finding:
    return Finding(weight, rule, difference.sentence, difference.case, difference.message)
