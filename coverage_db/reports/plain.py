"""Writes a gate's verdict as JSON, complete, for programs."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from neuron_ops.coverage_db.reports import findings, headline

if TYPE_CHECKING:
    from neuron_ops.coverage_db.reports import Finding
    from neuron_ops.coverage_db.verdicts import GateResult, Side


def as_json(result: GateResult) -> str:
    """Return the JSON text: the verdict, both sides, what changed in the build, and every finding."""
    written = {
        "passed": result.passed,
        "verdict": headline(result),
        "run": _side(result.after),
        "baseline": _side(result.before),
        "changed": [dataclasses.asdict(change) for change in result.product],
        "error_factor": result.factor,
        "findings": [_finding(finding) for finding in findings(result)],
    }
    return json.dumps(written, indent=1) + "\n"


def _side(side: Side) -> dict[str, Any]:
    return dataclasses.asdict(side) | {"versions": dict(side.versions)}


def _finding(finding: Finding) -> dict[str, Any]:
    written: dict[str, Any] = {"weight": finding.weight, "rule": finding.rule, "text": finding.text}
    if finding.case is not None:
        written["case"] = dataclasses.asdict(finding.case)
    if finding.row is not None:
        written["expectation_line"] = finding.row.line
    return written if finding.detail is None else {**written, "message": finding.detail}
