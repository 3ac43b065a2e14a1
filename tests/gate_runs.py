"""Runs of a hundred cases, most of them native, that the tests of diff and gate change one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neuron_ops.coverage_db import queries, recorder
from neuron_ops.coverage_db.database import read, write
from neuron_ops.op_tests.records import (
    Build,
    Case,
    Denominators,
    Evidence,
    FallbackReason,
    Figures,
    Operator,
    Outcome,
    Result,
    Route,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Engine

NAMES = ("aten.add.Tensor", "aten.exp.default", "aten.gelu.default", "aten.mm.default", "aten.sort.default")
VERSIONS = {"torch": "2.13.0", "profile": "one", "bank": "2", "comparer": "1"}
CASES = tuple(Case(name, dtype, f"hand/{n}") for name in NAMES for dtype in ("float32", "bfloat16") for n in range(10))
"""Number i: operator i // 20, float32 before bfloat16, sample i % 10."""
ULP = Figures(1e-6, 1e-6, 1.0, 1e-14)
NATIVE = Result("", Outcome.PASS, Route.NATIVE, device_figures=ULP)
FALLBACK = Result("", Outcome.PASS, Route.FALLBACK, FallbackReason.UNIMPLEMENTED, device_figures=ULP)
TRANSLATED = Result("", Outcome.PASS, Route.TRANSLATED, device_figures=ULP)
WRONG = Result("", Outcome.WRONG, Route.NATIVE, message="output 0: wrong\nsecond line")
CRASH = Result("", Outcome.CRASH, message="SIGSEGV")
SKIPPED = Result("", Outcome.SKIPPED, message="not run (breaker)")
USUAL: dict[int, Result] = {20: FALLBACK, 21: FALLBACK, 40: WRONG, 41: CRASH, 42: TRANSLATED, 43: SKIPPED}
MEASURED = len(CASES) - 1


def ulps(count: float, nmse: float = 1e-14) -> Result:
    """Return a native pass with this error."""
    return replace(NATIVE, device_figures=Figures(1e-6, 1e-6, count, nmse))


def operators() -> list[Operator]:
    return [Operator(name, f"{name}() -> ()", ("core",), "other", "functional", "T1") for name in NAMES]


def night(
    engine: Engine, changed: Mapping[int, Result | None] | None = None, *, target: str = "sim",
    versions: Mapping[str, str] = VERSIONS, lost: int = 0, usual: Mapping[int, Result] = USUAL,
) -> RunRow:  # fmt: skip
    """Store a run in which the cases of these numbers do something else, or are not planned (None), and return it.

    The last `lost` cases have no result.
    """
    does: dict[int, Result | None] = {**dict.fromkeys(range(len(CASES)), NATIVE), **usual, **(changed or {})}
    results = [replace(result, case=CASES[n].key) for n, result in does.items() if result is not None]
    planned = [CASES[n] for n, result in does.items() if result is not None]
    with write(engine) as conn:
        recorder.record_operators(conn, operators())
        run_id = recorder.start_run(
            conn, build=Build(target, Evidence.SIMULATED, versions), denominators=Denominators("2.13.0", 9, 8, 7, 6),
            cases=planned, seed=0, selection="all",
        ).run_id  # fmt: skip
        recorder.record_results(conn, run_id, results[: len(results) - lost])
        recorder.finalize_run(conn, run_id)
    with read(engine) as conn:
        run = queries.run_by_id(conn, run_id)
    assert run is not None
    return run
