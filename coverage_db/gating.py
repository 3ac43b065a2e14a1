"""Judges a run by its baseline: what was found, what is known, what did not come back, and what makes it all worth nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import bulk, differences
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.expectations import OUTCOMES, Expectations, held_against, without
from neuron_ops.coverage_db.verdicts import (
    UNMEASURED,
    Breach,
    BrokenExpectation,
    Comparison,
    Difference,
    Flaky,
    GateResult,
    Group,
    Seen,
)
from neuron_ops.op_tests.records import BadInput, Status

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from neuron_ops.coverage_db.differences import Recording
    from neuron_ops.coverage_db.expectations import Standing
    from neuron_ops.coverage_db.rows import CaseRow, RunRow
    from sqlalchemy import Connection

RERUN_LIMIT = 200
"""Changed cases that are run again at most; what is beyond counts as it is, for so many are no accident."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a gate lets pass: shares of cases that may be missing, or crash and time out; growth of errors; known rows."""

    expectations: Expectations = field(default_factory=Expectations)
    factor: float = differences.FACTOR
    max_fewer: float = 0.05
    max_crashes: float = 0.05
    today: date = field(default_factory=lambda: datetime.now(UTC).date())


@dataclass(frozen=True, slots=True)
class Pending:
    """A comparison before anything was run again; `doubtful` are the differences that a re-run could refute."""

    comparison: Comparison
    rules: Rules
    refusals: tuple[str, ...]
    standing: Standing
    doubtful: tuple[Difference, ...]


def prepare(conn: Connection, before: RunRow | Recording, after: RunRow, rules: Rules) -> Pending | GateResult:
    """Return what there is to judge, or the verdict on a run of which nothing can be said.

    Raises BadInput where the baseline is of another target or harness, or nothing can be said of it.
    """
    if (sentence := differences.unusable(conn, after)) is not None:
        old = before.side if isinstance(before, differences.Recording) else differences.side_of(before)
        return GateResult(old, differences.side_of(after), (), rules.factor, (sentence,))
    comparison = differences.compare(conn, before, after, factor=rules.factor)
    _check_like(comparison)
    rows = rules.expectations.rows
    cases = differences.cases_of(conn, after, {row.overload for row in rows})
    standing = held_against(rows, comparison.after, cases, rules.today)
    return Pending(
        comparison, rules, _refusals(comparison, after, rules), standing, _doubtful(comparison, standing, cases)
    )


def comes_back(difference: Difference, again: Sequence[Seen], factor: float) -> bool:
    """Return whether every re-run shows the same difference."""
    assert difference.after is not None
    return all(
        seen.status is difference.after.status
        and differences.group_of(difference.before, seen, difference.case.dtype, factor) is difference.group
        for seen in again
    )


def conclude(
    pending: Pending, again: Mapping[str, Sequence[Seen]], rates: Mapping[str, tuple[int, int]] | None = None
) -> GateResult:
    """Return the verdict; `again` has what the doubtful cases did when they were run again, those that were.

    `rates` maps an overload to how many of its re-run cases, ever, did not come back, and of how many.
    """
    known, standing, rules = rates or {}, pending.standing, pending.rules
    flaky = tuple(
        Flaky(d, Counter(s.status.value for s in again[d.case.key]), *known.get(d.case.overload, (1, 1)))
        for d in pending.doubtful
        if d.case.key in again and not comes_back(d, again[d.case.key], rules.factor)
    )
    unsteady = {one.difference.case.key for one in flaky}
    found = pending.comparison.differences
    spoken_for = standing.covered.keys() | standing.quarantined.keys() | standing.otherwise.keys() | unsteady
    comparison = pending.comparison
    return GateResult(
        comparison.before, comparison.after, comparison.product, rules.factor,
        refusals=pending.refusals + _over_budget(len(flaky), len(standing.quarantined), rules.expectations.budget),
        differences=tuple(d for d in found if d.case.key not in spoken_for),
        broken=tuple(left for b in standing.broken if (left := _steady(b, unsteady)) is not None),
        flaky=flaky,
        quarantined=tuple(d for d in found if d.case.key in standing.quarantined),
        expected=tuple(d for d in found if d.case.key in standing.covered),
        rerun=len(again),
    )  # fmt: skip


def store_reruns(conn: Connection, run: RunRow, pending: Pending, again: Mapping[str, Sequence[Seen]]) -> None:
    """Store what cases did when they were run again, over what an earlier gate stored for this run."""
    rerun = {d.case.key: d for d in pending.doubtful if d.case.key in again}
    ids = {
        row.key.hex(): row.id
        for row in conn.execute(
            sa.select(m.case_.c.key, m.case_.c.id).where(m.case_.c.key.in_([bytes.fromhex(key) for key in rerun]))
        )
    }
    rows = [
        {"run_id": run.id, "case_id": ids[key], "letters": dict(Counter(s.status.value for s in again[key])),
         "steady": comes_back(difference, again[key], pending.rules.factor)}
        for key, difference in sorted(rerun.items())
    ]  # fmt: skip
    bulk.insert(conn, m.rerun, rows, keys=("run_id", "case_id"), update=True)


def flake_rates(conn: Connection, target: str, overloads: Collection[str] | None = None) -> dict[str, tuple[int, int]]:
    """Return overload → how many of its re-run cases on a target did not come back, and of how many, over all runs."""
    query = (
        sa.select(m.op.c.name, sa.func.sum(sa.case((m.rerun.c.steady, 0), else_=1)), sa.func.count())
        .select_from(m.rerun)
        .join(m.case_, m.case_.c.id == m.rerun.c.case_id)
        .join(m.op, m.op.c.id == m.case_.c.op_id)
        .join(m.run, m.run.c.id == m.rerun.c.run_id)
        .join(m.target, m.target.c.id == m.run.c.target_id)
        .where(m.target.c.name == target)
        .group_by(m.op.c.name)
        .order_by(m.op.c.name)
    )
    if overloads is not None:
        query = query.where(m.op.c.name.in_(list(overloads)))
    return {name: (unsteady, count) for name, unsteady, count in conn.execute(query)}


def store_verdict(conn: Connection, run: RunRow, result: GateResult) -> None:
    """Store a verdict on a run over the one before: `latest-good` is the newest run that passed."""
    counts = Counter(d.group.value for d in result.differences) + Counter(b.breach.value for b in result.broken)
    counts += Counter({"refused": len(result.refusals), "flaky": len(result.flaky)})
    conn.execute(sa.delete(m.gate).where(m.gate.c.run_id == run.id))
    conn.execute(
        sa.insert(m.gate).values(
            run_id=run.id, baseline=m.sanitize(result.before.label), passed=result.passed, judged=datetime.now(UTC),
            counts=dict(counts),
        )
    )  # fmt: skip


def _check_like(found: Comparison) -> None:
    """Raise BadInput where a difference would say nothing of the product."""
    before, after = found.before, found.after
    if before.target != after.target:
        raise BadInput(
            f"The baseline {before.label} ran on {before.target} and {after.label} on {after.target}; name a baseline of "
            "the same target, or see `neuron-ops diff`."
        )
    if found.harness:
        changes = ", ".join(f"{c.name} {c.before or 'none'} → {c.after or 'none'}" for c in found.harness)
        raise BadInput(
            f"The baseline {before.label} was measured by another harness than {after.label} ({changes}); run both "
            "builds again with this version of neuron-ops."
        )


def _refusals(found: Comparison, run: RunRow, rules: Rules) -> tuple[str, ...]:
    """Return the sentences for what makes a run worth nothing although it is done."""
    sentences = []
    before, after = found.before.measured, found.after.measured
    if after < before * (1 - rules.max_fewer):
        sentences.append(
            f"The run {run.slug} measured {after} cases and the baseline {before}, {1 - after / before:.1%} fewer; up to "
            f"{rules.max_fewer:.1%} is allowed."
        )
    ended = run.counts.get(Status.CRASH.value, 0) + run.counts.get(Status.TIMEOUT.value, 0)
    if ended > after * rules.max_crashes:
        sentences.append(
            f"In the run {run.slug} {ended} of {after} cases ({ended / after:.1%}) crashed or timed out; up to "
            f"{rules.max_crashes:.1%} is allowed."
        )
    return tuple(sentences)


def _doubtful(found: Comparison, standing: Standing, cases: Sequence[tuple[CaseRow, Seen]]) -> tuple[Difference, ...]:
    """Return the differences that a re-run could refute, regressions first, also those from what a row says."""
    spoken_for = standing.covered.keys() | standing.quarantined.keys()
    doubtful = {d.case.key: d for d in found.differences if _can_be_refuted(d) and d.case.key not in spoken_for}
    for case, seen in cases:
        row = standing.otherwise.get(case.key)
        if row is None or case.key in doubtful:
            continue
        said = Seen(OUTCOMES[row.outcome or ""])
        group = differences.group_of(said, seen, case.dtype, found.factor)
        assert group is not None
        doubtful[case.key] = Difference(group, case, said, seen)
    return tuple(sorted(doubtful.values(), key=lambda d: not d.regression))


def _can_be_refuted(difference: Difference) -> bool:
    """Return whether a case was measured in the later run, and does not merely pass as a new one."""
    measured = difference.after is not None and difference.after.status not in UNMEASURED
    return measured and (difference.group is not Group.CASES_ADDED or difference.regression)


def _steady(broken: BrokenExpectation, unsteady: Collection[str]) -> BrokenExpectation | None:
    """Return a breach without the cases that did not come back; an expired row is one whatever they do."""
    return without(broken, unsteady) if broken.breach in (Breach.HEALED, Breach.OTHERWISE) else broken


def _over_budget(flaky: int, quarantined: int, budget: int) -> tuple[str, ...]:
    together = flaky + quarantined
    sentence = (
        f"Flaky cases ({flaky}) and cases in quarantine ({quarantined}) are {together} and the budget is {budget}; mend "
        "some, or raise it in the file of expectations."
    )
    return (sentence,) if together > budget else ()
