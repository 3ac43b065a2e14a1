"""A run small enough to count by hand, for the tests of the database.

| overload                       | tier, tags | float32          | bfloat16      |
|--------------------------------|------------|------------------|---------------|
| aten.add.Tensor                | T1 core    | N N N → N 3/3    | N N W → W 1/3 |
| aten.add.Scalar                | T2 core    | D → D 1/1        | n/a           |
| aten.add_.Tensor               | T1         | T E → T 1/2      |               |
| aten.gelu.default              | T1 core    | C C N → C 2/3    | N (composite) |
| aten.addmm.default             | T1 core    | N N → N 2/2      | X             |
| aten.native_layer_norm.default | T2 core    | N n/a → N 1/1    |               |
| aten._flash.default            | T1         | U                |               |
| aten.linalg_inv.default        | T3         | – (skipped)      |               |
| aten.scaled_dot_product_attention.default | T3 |               |               |
| aten.quantize.default          | T1 core, excluded | N         |               |

22 cases, 13 cells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neuron_ops.coverage_db import recorder
from neuron_ops.coverage_db.database import write
from neuron_ops.op_tests.records import (
    Build,
    Case,
    Denominators,
    Environment,
    Evidence,
    FallbackReason,
    Figures,
    Operator,
    Outcome,
    Part,
    Result,
    Route,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Engine

SIM = Build("sim", Evidence.SIMULATED, {"torch": "2.13.0"})
NEURON = Build("neuron", Evidence.HARDWARE, {"torch": "2.13.0", "driver": "2.24"})
DENOMINATORS = Denominators("2.13.0", registered=3000, d_all=10, d_key=7, t1=5, excluded={"quantized": 1})


def _operator(
    name: str, tier: str, tags: tuple[str, ...] = (), kind: str = "functional", excluded: str | None = None
) -> Operator:
    family = "pointwise" if "add" in name or "gelu" in name else "other"
    return Operator(name, f"{name.removeprefix('aten.')}(Tensor self) -> Tensor", tags, family, kind, tier, excluded)


OPERATORS = (
    _operator("aten.add.Tensor", "T1", ("core", "pointwise")),
    _operator("aten.add.Scalar", "T2", ("core", "pointwise")),
    _operator("aten.add_.Tensor", "T1", ("pointwise",), "inplace"),
    _operator("aten.gelu.default", "T1", ("core", "pointwise")),
    _operator("aten.addmm.default", "T1", ("core",)),
    _operator("aten.native_layer_norm.default", "T2", ("core",)),
    _operator("aten._flash.default", "T1"),
    _operator("aten.linalg_inv.default", "T3"),
    _operator("aten.scaled_dot_product_attention.default", "T3"),
    _operator("aten.quantize.default", "T1", ("core",), excluded="needs a quantized dtype"),
)
FIGURES = Figures(max_abs=0.5, max_rel=float("inf"), max_ulp=3.0, nmse=1e-9)
_N, _D, _C = (Outcome.PASS, Route.NATIVE), (Outcome.PASS, Route.TRANSLATED), (Outcome.PASS, Route.FALLBACK)
_LETTERS = {
    "N": _N, "D": _D, "C": _C, "W": (Outcome.WRONG, Route.NATIVE), "U": (Outcome.UNSUPPORTED, None),
    "E": (Outcome.ERROR, None), "X": (Outcome.CRASH, None), "T": (Outcome.TIMEOUT, None),
    "–": (Outcome.SKIPPED, None), "n/a": (Outcome.NOT_APPLICABLE, None),
}  # fmt: skip
TABLE = {
    ("aten.add.Tensor", "float32"): "N N N", ("aten.add.Tensor", "bfloat16"): "N N W",
    ("aten.add.Scalar", "float32"): "D", ("aten.add.Scalar", "bfloat16"): "n/a",
    ("aten.add_.Tensor", "float32"): "T E",
    ("aten.gelu.default", "float32"): "C C N", ("aten.gelu.default", "bfloat16"): "N",
    ("aten.addmm.default", "float32"): "N N", ("aten.addmm.default", "bfloat16"): "X",
    ("aten.native_layer_norm.default", "float32"): "N n/a",
    ("aten._flash.default", "float32"): "U", ("aten.linalg_inv.default", "float32"): "–",
    ("aten.quantize.default", "float32"): "N",
}  # fmt: skip


def _result(case: Case, letter: str) -> Result:
    outcome, route = _LETTERS[letter]
    composite = (case.overload, case.dtype) == ("aten.gelu.default", "bfloat16")
    return Result(
        case=case.key,
        outcome=outcome,
        route=route,
        reason=FallbackReason.UNIMPLEMENTED if letter == "C" else None,
        message=None if outcome is Outcome.PASS else f"{outcome.value} of {case.overload}\nsecond line",
        received=f"{case.overload}.out",
        composite=composite,
        parts=(Part("aten.mul.Tensor", Route.NATIVE, 2), Part("aten.erf.default", None)) if composite else (),
        device_figures=FIGURES if letter == "W" else None,
        device_ms=1.5,
    )


def cases() -> list[Case]:
    return [
        Case(name, dtype, f"opinfo/{name}/{number}")
        for (name, dtype), letters in TABLE.items()
        for number in range(len(letters.split()))
    ]


def results() -> list[Result]:
    letters = [letter for row in TABLE.values() for letter in row.split()]
    return [_result(case, letter) for case, letter in zip(cases(), letters, strict=True)]


def start(engine: Engine, build: Build = SIM, environment: Environment | None = None) -> int:
    """Store the operators and a started run; return its id."""
    with write(engine) as conn:
        recorder.record_operators(conn, OPERATORS)
        return recorder.start_run(
            conn, build=build, denominators=DENOMINATORS, cases=cases(), seed=7, selection="--all",
            environment=environment,
        ).run_id  # fmt: skip


def record(
    engine: Engine, build: Build = SIM, environment: Environment | None = None, changed: Mapping[int, Result] | None = None
) -> int:  # fmt: skip
    """Store the whole run, finalized, with some results, by their number, replaced by others; return its id."""
    run_id = start(engine, build, environment)
    found = results()
    for number, result in (changed or {}).items():
        found[number] = replace(result, case=found[number].case)
    with write(engine) as conn:
        recorder.record_results(conn, run_id, found)
        recorder.finalize_run(conn, run_id)
    return run_id
