"""Proves that the gate catches regressions: plants random ones into runs of a database of its own and judges each."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from neuron_ops.coverage_db import baselines, differences, gating, queries, recorder
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.coverage_db.gating import Rules
from neuron_ops.coverage_db.verdicts import GateResult, Group
from neuron_ops.op_tests.records import (
    BANK_VERSION,
    COMPARER_VERSION,
    Build,
    Case,
    Denominators,
    Evidence,
    Figures,
    Operator,
    Outcome,
    Result,
    Route,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Engine

_Plant: TypeAlias = "Callable[[Result], Result | None]"
_OVERLOADS = ("aten.add.Tensor", "aten.exp.default", "aten.mm.default")
_CASES = tuple(
    Case(name, dtype, f"selftest/{n}") for name in _OVERLOADS for dtype in ("float32", "bfloat16") for n in range(10)
)
_BUILD = Build(
    "selftest", Evidence.SIMULATED, {"bank": str(BANK_VERSION), "comparer": str(COMPARER_VERSION), "torch": "0"}
)


def _fails(outcome: Outcome) -> _Plant:
    return lambda result: Result(result.case, outcome, message=f"planted: {outcome}")


def _worse(by: float) -> _Plant:
    """Return a plant that makes an error larger, the NMSE by the square; it starts above what rounding alone does."""

    def plant(result: Result) -> Result:
        figures = result.device_figures
        assert figures is not None
        return replace(
            result, device_figures=replace(figures, max_ulp=figures.max_ulp * by, nmse=figures.nmse * by * by)
        )

    return plant


PLANTS: Mapping[str, tuple[Group, _Plant]] = {
    **{f"newly {outcome.value}": (Group.NEWLY_FAILING, _fails(outcome)) for outcome in (
        Outcome.WRONG, Outcome.UNSUPPORTED, Outcome.ERROR, Outcome.CRASH, Outcome.TIMEOUT,
    )},
    "newly on the host": (Group.FALLBACK_GAINED, lambda result: replace(result, route=Route.FALLBACK)),
    "newly translated": (Group.TRANSLATION_GAINED, lambda result: replace(result, route=Route.TRANSLATED)),
    "error times 8": (Group.ERROR_GROWN, _worse(8.0)),
    "error without a number": (Group.ERROR_GROWN, _worse(float("nan"))),
    "not planned": (Group.CASES_VANISHED, lambda result: None),  # noqa: ARG005 - one signature for all
    "skipped": (Group.CASES_VANISHED, _fails(Outcome.SKIPPED)),
    "refused by the reference": (Group.CASES_VANISHED, _fails(Outcome.NOT_APPLICABLE)),
}  # fmt: skip
"""Kind of a regression → the group that must name it, and how a native pass becomes one."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A planted regression: its kind, the case, and whether the gate failed for exactly that and said nothing else."""

    kind: str
    case: Case
    caught: bool


def plant_regressions(folder: Path, count: int, seed: int) -> tuple[tuple[Planted, ...], int]:
    """Return `count` random regressions, each judged alone, and how often the gate failed for an unchanged run.

    Every second one is judged by a baseline file in place of a stored run. An unchanged run is judged after every tenth.
    """
    engine = open_database(str(folder / "selftest.sqlite"))
    chance = random.Random(seed)  # noqa: S311 - the choice need not be secret
    usual = {case: _native(case, chance) for case in _CASES}
    try:
        run = _store(engine, usual)
        with read(engine) as conn:
            baselines.write_baseline(differences.record(conn, run), folder / "selftest.gz")
        recording = baselines.read_baseline(folder / "selftest.gz")
        found, alarms = [], 0
        for number in range(count):
            before = recording if number % 2 else run
            kind, case = chance.choice(list(PLANTS)), chance.choice(_CASES)
            group, plant = PLANTS[kind]
            verdict = _judge(engine, before, usual | {case: plant(usual[case])})
            found.append(Planted(kind, case, _only(verdict, case, group)))
            if number % 10 == 9:
                alarms += not _silent(_judge(engine, before, usual))
    finally:
        engine.dispose()
    return tuple(found), alarms


def _native(case: Case, chance: random.Random) -> Result:
    figures = Figures(1e-3, 1e-3, max_ulp=1 + 2 * chance.random(), nmse=1e-3 * (1 + chance.random()))
    return Result(case.key, Outcome.PASS, Route.NATIVE, device_figures=figures)


def _judge(engine: Engine, before: RunRow | differences.Recording, does: Mapping[Case, Result | None]) -> GateResult:
    """Return the verdict on a run that does this, in which every change comes back."""
    run = _store(engine, does)
    with read(engine) as conn:
        pending = gating.prepare(conn, before, run, Rules())
    if isinstance(pending, GateResult):
        return pending
    return gating.conclude(pending, {d.case.key: (d.after,) for d in pending.doubtful if d.after is not None})


def _only(verdict: GateResult, case: Case, group: Group) -> bool:
    named = [(d.case.key, d.group) for d in verdict.differences]
    return not verdict.passed and named == [(case.key, group)] and not _noise(verdict)


def _silent(verdict: GateResult) -> bool:
    return verdict.passed and not verdict.differences and not _noise(verdict)


def _noise(verdict: GateResult) -> bool:
    return bool(verdict.refusals or verdict.broken or verdict.flaky or verdict.quarantined or verdict.expected)


def _store(engine: Engine, does: Mapping[Case, Result | None]) -> RunRow:
    planned = [case for case, result in does.items() if result is not None]
    operators = [Operator(name, f"{name}() -> ()", (), "selftest", "functional", "T1") for name in _OVERLOADS]
    with write(engine) as conn:
        recorder.record_operators(conn, operators)
        run_id = recorder.start_run(
            conn, build=_BUILD, denominators=Denominators("0", 3, 3, 3, 3), cases=planned, seed=0, selection="all"
        ).run_id
        recorder.record_results(conn, run_id, [result for result in does.values() if result is not None])
        recorder.finalize_run(conn, run_id)
        run = queries.run_by_id(conn, run_id)
    assert run is not None
    return run
