"""The JSON of what the pages show, with where it comes from."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from neuron_ops.web.figures import percent
from neuron_ops.web.words import EVIDENCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neuron_ops.coverage_db.numbers import Number
    from neuron_ops.coverage_db.queries import CaseResult, CellRow, OpRow, RunRow, Totals
    from neuron_ops.op_tests.records import Part

SCHEMA_VERSION = 1
"""Version of the JSON's layout; a field that leaves or changes its meaning raises it, a new field does not."""


def document(run: RunRow | None, **content: Any) -> dict[str, Any]:
    """Return a page's JSON: the layout's version, the run that everything in it comes from, and the content."""
    return {"schema_version": SCHEMA_VERSION, "run": run_json(run) if run else None, **content}


def run_json(run: RunRow) -> dict[str, Any]:
    """Return a run with its provenance; times are ISO 8601 in UTC, `cases` has cases by status letter."""
    return {
        "slug": run.slug, "target": run.target, "evidence": run.evidence,
        "evidence_definition": EVIDENCE[run.evidence].definition,
        "versions": dict(run.versions), "state": run.state, "started": run.started.isoformat(),
        "finished": run.finished.isoformat() if run.finished else None, "seed": run.seed, "planned": run.planned,
        "cases": dict(run.counts), "dtypes": list(run.dtypes), "selection": run.selection,
        "denominators": dict(run.denominators), "published": run.published, "quarantine": run.quarantine,
    }  # fmt: skip


def number_json(number: Number) -> dict[str, Any]:
    """Return a published number; `percent` is the text of the page."""
    return {**asdict(number), "percent": percent(number.n, number.m)}


def op_json(op: OpRow) -> dict[str, Any]:
    """Return an overload."""
    return asdict(op)


def parts_json(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """Return the operators that a call reached."""
    return [asdict(part) for part in parts]


def cell_json(cell: CellRow) -> dict[str, Any]:
    """Return a cell; `k` of its `n` cases have its status."""
    return {
        "status": cell.status, "k": cell.k, "n": cell.n, "reason": cell.reason, "composite": cell.composite,
        "parts": parts_json(cell.parts),
    }  # fmt: skip


def case_json(result: CaseResult) -> dict[str, Any]:
    """Return a case with what it did; times are milliseconds, figures are distances from the float64 reference."""
    values = {name: _finite(value) for name, value in asdict(result).items() if name != "case"}
    case = result.case
    return {
        "key": case.key, "dtype": case.dtype, "sample": case.sample, "variant": case.variant, "seed": case.seed,
        "status": result.status, **values,
    }  # fmt: skip


def _finite(value: Any) -> Any:
    """Return figures with infinity and NaN as text, which JSON has no numbers for; anything else as it is."""
    if not isinstance(value, dict):
        return value
    return {name: figure if math.isfinite(figure) else str(figure) for name, figure in value.items()}


def totals_json(totals: Totals) -> dict[str, Any]:
    """Return the counts of a run by status letter."""
    return {
        "planned": totals.planned, "recorded": totals.recorded, "lost": totals.lost, "cases": dict(totals.counts),
        "cells": dict(totals.cells),
    }  # fmt: skip


def split_suffix(name: str) -> tuple[str, bool]:
    """Return the last piece of an address without `.json`, and whether it had that."""
    return name.removesuffix(".json"), name.endswith(".json")
