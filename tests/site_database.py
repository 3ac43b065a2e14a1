"""A small database with known content for the tests of the site."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuron_ops.coverage_db.database import open_database, write
from neuron_ops.coverage_db.recorder import finalize_run, record_operators, record_results, start_run
from neuron_ops.op_tests.records import (
    Build,
    Case,
    Denominators,
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
    from collections.abc import Sequence
    from pathlib import Path

DTYPES = ("float32", "bfloat16", "int64")
HOSTILE = "values differ <script>alert(1)</script> & more"
FIGURES = Figures(0.0021, float("inf"), 9.0, 1e-9)


def _op(
    name: str, *, tags: tuple[str, ...] = (), tier: str = "T1", kind: str = "functional", excluded: str | None = None
):
    schema = f"aten::{name.removeprefix('aten.')}(Tensor self) -> Tensor"
    return Operator(name, schema, tags, "pointwise", kind, tier, excluded)


OPERATORS = (
    _op("aten.add.Tensor", tags=("core", "pointwise"), tier="T2"),
    _op("aten.add.Scalar", tags=("core",), tier="T2"),
    _op("aten.gelu.default", tags=("core",)),
    _op("aten.softmax.int", tier="T3"),
    _op("aten._softmax.default", tags=("core",)),
    _op("aten.sort.default"),
    _op("aten.relu6.default", tier="T2"),
    _op("aten.gelu_backward.default", excluded="backward of another operator"),
    *(_op(f"aten.zz{number:03}.default", tier="T2", kind="out") for number in range(120)),
)

_PASS = {
    "native": {"route": Route.NATIVE, "device_figures": FIGURES, "reference_figures": Figures(1e-7, 1e-7, 1.0, 1e-14)},
    "composite": {
        "route": Route.NATIVE, "composite": True,
        "parts": (Part("aten.add.Tensor", Route.NATIVE, 2), Part("aten.gelu.default", Route.NATIVE)),
    },
    "translated": {"route": Route.TRANSLATED, "parts": (Part("aten.add.Tensor", Route.NATIVE),)},
    "fallback": {"route": Route.FALLBACK, "reason": FallbackReason.UNIMPLEMENTED},
}  # fmt: skip
_FAIL = {
    "wrong": {"outcome": Outcome.WRONG, "message": HOSTILE, "route": Route.NATIVE, "received": "aten.add.out"},
    "unsupported": {"outcome": Outcome.UNSUPPORTED, "message": "NotImplementedError: int64 is not supported"},
    "error": {"outcome": Outcome.ERROR, "message": "RuntimeError: compilation failed\nsecond line"},
    "crash": {"outcome": Outcome.CRASH, "message": "the child process died with signal 11"},
    "timeout": {"outcome": Outcome.TIMEOUT, "message": "no answer within 30 s"},
    "n/a": {"outcome": Outcome.NOT_APPLICABLE, "message": "the reference refuses"},
}

# overload → what its cases do, by dtype
NEW = {
    "aten.add.Tensor": {"float32": ["native", "native"], "bfloat16": ["native", "wrong"], "int64": ["unsupported"]},
    "aten.add.Scalar": {"float32": ["native"], "bfloat16": ["translated"], "int64": ["n/a"]},
    "aten.gelu.default": {"float32": ["fallback"], "bfloat16": ["error"], "int64": ["timeout"]},
    "aten.softmax.int": {"float32": ["composite"], "bfloat16": ["composite"]},
    "aten._softmax.default": {"float32": ["native"] * 14, "bfloat16": ["crash"]},
}
LETTERS = {
    "aten.add.Tensor": {"float32": "N", "bfloat16": "W", "int64": "U"},
    "aten.add.Scalar": {"float32": "N", "bfloat16": "D", "int64": "n/a"},
    "aten.gelu.default": {"float32": "C", "bfloat16": "E", "int64": "T"},
    "aten.softmax.int": {"float32": "N", "bfloat16": "N", "int64": "–"},
    "aten._softmax.default": {"float32": "N", "bfloat16": "X", "int64": "–"},
}
"""What the matrix must show for NEW."""
OLD = {"aten.add.Tensor": {"float32": ["fallback"]}, "aten.gelu.default": {"float32": ["native"]}}
"""The run before: its last case, gelu, is lost."""


def _result(case: Case, word: str) -> Result:
    if word in _PASS:
        return Result(case.key, Outcome.PASS, **_PASS[word])
    return Result(case.key, **_FAIL[word])


def fill(path: Path, plans: Sequence[dict[str, dict[str, Sequence[str]]]] = (OLD, NEW)) -> tuple[str, ...]:
    """Fill a new SQLite file with simulated runs, OLD without its last case, and return their slugs, oldest first."""
    return tuple(
        _run(path, plan, "0.0.9" if plan is OLD else f"0.1.{number}", lost=int(plan is OLD))
        for number, plan in enumerate(plans, start=-1 if OLD in plans else 0)
    )


def _run(path: Path, plan: dict[str, dict[str, Sequence[str]]], version: str, *, lost: int) -> str:
    engine = open_database(str(path))
    words = {
        Case(name, dtype, f"opinfo/x/forward/{number}"): word
        for name, dtypes in plan.items()
        for dtype, does in dtypes.items()
        for number, word in enumerate(does)
    }
    build = Build("sim", Evidence.SIMULATED, {"neuron-ops": version, "torch": "2.13.0"})
    denominators = Denominators("2.13.0", 3110, 2526, 1896, 618, {"backward of another operator": 1})
    with write(engine) as conn:
        record_operators(conn, OPERATORS)
        start = start_run(conn, build=build, denominators=denominators, cases=list(words), seed=3, selection="all")
        results = [_result(case, word) for case, word in words.items()]
        record_results(conn, start.run_id, results[: len(results) - lost])
        finalize_run(conn, start.run_id)
    engine.dispose()
    return start.slug


def record_out_form(path: Path) -> str:
    """Add an out= overload of aten.sort, which is outside the denominator, and return its name."""
    engine = open_database(str(path))
    with write(engine) as conn:
        record_operators(conn, [_op("aten.sort.values", kind="out", excluded="out form")])
    engine.dispose()
    return "aten.sort.values"
