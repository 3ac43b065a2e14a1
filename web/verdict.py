"""Says in words what a cell or a case did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from neuron_ops.op_tests.records import FallbackReason, Outcome, Status
from neuron_ops.web.words import EVIDENCE, REASONS, STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neuron_ops.coverage_db.queries import CaseResult, CellRow, RunRow
    from neuron_ops.op_tests.records import Evidence

_UNMEASURED = frozenset({Status.UNTESTED, Status.NOT_APPLICABLE})


def share_text(cell: CellRow) -> str:
    """Return `1/5` when one of five cases has the cell's status, nothing when all have it."""
    return f"{cell.k}/{cell.n}" if 0 < cell.k < cell.n else ""


def cell_name(cell: CellRow, evidence: Evidence) -> str:
    """Return the accessible name of a cell: `bfloat16: N, native pass, 5 of 5 cases, simulated`."""
    # What is seen comes first, so that someone who speaks to the browser can name the link by it.
    seen = f"{cell.status} {share_text(cell)}".strip()
    name = f"{cell.dtype}: {seen}, {STATUSES[cell.status].label}"
    if cell.status in _UNMEASURED:
        return name
    return f"{name}, {cell.k} of {cell.n} case{'' if cell.n == 1 else 's'}, {EVIDENCE[evidence].label}"


def cell_sentence(cell: CellRow, run: RunRow) -> str:
    """Return the verdict of one dtype: what, how often, by what evidence and when."""
    label = STATUSES[cell.status].label
    if cell.status is Status.NOT_APPLICABLE:
        return f"{label}: the CPU reference itself refuses this dtype."
    if cell.status is Status.UNTESTED:
        return f"{label}{f': {cell.reason}' if cell.reason else ''}."
    text = f"{label}{_way(cell)} in {_how_many(cell)}"
    if cell.k < cell.n:
        text += ", the other cases did better"
    return f"{text}; {EVIDENCE[run.evidence].label} on target {run.target}, {run.started:%Y-%m-%d}.{_why(cell)}"


def case_text(result: CaseResult) -> str:
    """Return what one case did, with the route and its reason."""
    if result.outcome is None:
        return "planned, no result arrived"
    if result.outcome is Outcome.SKIPPED:
        return "skipped"
    text = STATUSES[result.status].label
    if result.composite:
        text += " through composite"
    return f"{text} ({result.reason})" if result.reason else text


def letters_summary(results: Iterable[CaseResult]) -> str:
    """Return `5 cases: 4 N, 1 W`."""
    counts = Counter(result.status for result in results)
    number = sum(counts.values())
    parts = ", ".join(f"{counts[status]} {status}" for status in Status if status in counts)
    return f"{number} case{'' if number == 1 else 's'}: {parts}"


def _way(cell: CellRow) -> str:
    return " through PyTorch’s composite kernel" if cell.composite else ""


def _how_many(cell: CellRow) -> str:
    if cell.n == 1:
        return "the one case tested"
    return f"all {cell.n} cases" if cell.k == cell.n else f"{cell.k} of {cell.n} cases"


def _why(cell: CellRow) -> str:
    if not cell.reason:
        return ""
    if cell.reason in {reason.value for reason in FallbackReason}:
        return f" Reason: {cell.reason}. {REASONS[cell.reason].definition}"
    return f" First line: {cell.reason}"
