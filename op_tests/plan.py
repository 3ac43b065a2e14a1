"""Decides which cases a sweep runs: the chosen operators, times the chosen dtypes, by what the bank has."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.metadata
import json
import sys
from typing import TYPE_CHECKING

from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.bank import DTYPES, Bank
from neuron_ops.op_tests.environment import environment
from neuron_ops.op_tests.records import (
    BANK_VERSION,
    COMPARER_VERSION,
    BadInput,
    Build,
    Case,
    Denominators,
    Environment,
    Operator,
)
from neuron_ops.op_tests.targets import open_target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What a sweep will do; `operators` are all of the installed torch, excluded ones too."""

    build: Build
    operators: tuple[Operator, ...]
    denominators: Denominators
    cases: tuple[Case, ...]
    environment: Environment


def dtypes_named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the dtypes of those names, each once; `all` stands for every one. Raises BadInput for an unknown dtype."""
    dtypes = tuple(dict.fromkeys(dtype for name in names for dtype in (DTYPES if name == "all" else (name,))))
    for dtype in dtypes:
        if dtype not in DTYPES:
            near = difflib.get_close_matches(dtype, DTYPES, n=1)
            hint = f"did you mean {near[0]}?" if near else "choose one with --dtypes"
            raise BadInput(f"unknown dtype {dtype!r}; expected all, or one of {', '.join(DTYPES)}; {hint}")
    return dtypes


def make_plan(
    target: str, ops: Sequence[str], dtypes: Sequence[str], limit: int | None, seed: int, bank_folder: Path
) -> Plan:
    """Return the plan of a sweep, recording the samples that the bank lacks first.

    `limit` is the most samples of one overload and dtype. While recording, progress goes to standard output as lines
    ``["p", done, total, text]``. Raises BadInput for unknown targets, operators and dtypes and for an empty plan.
    """
    dtypes = dtypes_named(dtypes)
    chosen = catalogue.select(ops)
    opened = open_target(target)
    build = opened.build()
    bank = Bank(bank_folder, seed)
    bank.build(bank.missing(dtypes), _print_progress)
    cases = [
        case
        for operator in chosen
        for dtype in dtypes
        for case in _limited(bank.cases(operator.name, dtype), limit)
    ]  # fmt: skip
    if not cases:
        raise BadInput(
            f"no samples for {', '.join(ops)} in {', '.join(dtypes)}: the {len(chosen)} operators chosen have none in the bank; "
            "expected at least one; choose other operators or dtypes"
        )
    harness = {
        "neuron-ops": importlib.metadata.version("neuron-ops"), "bank": str(BANK_VERSION), "comparer": str(COMPARER_VERSION),
    }  # fmt: skip
    return Plan(
        dataclasses.replace(build, versions={**build.versions, **harness}),
        catalogue.operators(),
        catalogue.denominators(),
        tuple(cases),
        environment(opened, harness),
    )


def _limited(cases: list[Case], limit: int | None) -> list[Case]:
    kept = list(dict.fromkeys(case.sample for case in cases))[:limit]
    return [case for case in cases if case.sample in kept]


def _print_progress(done: int, total: int, text: str) -> None:
    sys.stdout.write(json.dumps(["p", done, total, text]) + "\n")
    sys.stdout.flush()
