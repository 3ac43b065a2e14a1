"""Writes a gate's verdict as SARIF 2.1.0, which code scanning services show."""

from __future__ import annotations

import importlib.metadata
import json
from typing import TYPE_CHECKING, Any

from neuron_ops.coverage_db.reports import RULES, Weight, findings, headline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.coverage_db.reports import Finding
    from neuron_ops.coverage_db.verdicts import GateResult

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Mapping[Weight, str] = {
    Weight.REFUSAL: "error", Weight.FAILURE: "error", Weight.FLAKY: "warning", Weight.KNOWN: "warning", Weight.GOOD: "note",
}  # fmt: skip
_STATES: Mapping[Weight, str] = {
    Weight.REFUSAL: "new", Weight.FAILURE: "new", Weight.FLAKY: "new", Weight.KNOWN: "unchanged", Weight.GOOD: "absent",
}  # fmt: skip


def sarif(result: GateResult, expectations: str | None = None) -> str:
    """Return the JSON text.

    Regressions and broken expectations are new errors, known ones are suppressed, improvements are absent notes.
    `expectations` is the path, within the repository, of the file that names known failures: services that want a file
    and a line for each result get the row there, or its first line where the file has none.
    """
    found = list(findings(result))
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "neuron-ops", "version": importlib.metadata.version("neuron-ops"), "rules": _rules()}},
        "automationDetails": {"id": f"gate/{result.after.target}/"},
        "invocations": [{"executionSuccessful": not result.refusals}],
        "results": [_result(finding, expectations) for finding in found],
        "properties": {
            "verdict": headline(result), "passed": result.passed, "run": result.after.label, "baseline": result.before.label,
            "changed": {c.name: [c.before, c.after] for c in result.product},
        },
    }  # fmt: skip
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _rules() -> list[dict[str, Any]]:
    return [{"id": _id(rule), "name": rule, "shortDescription": {"text": f"{text}."}} for rule, text in RULES.items()]


def _id(rule: str) -> str:
    return rule.replace(" ", "-")


def _result(finding: Finding, expectations: str | None) -> dict[str, Any]:
    text = finding.text if finding.detail is None else f"{finding.text}\n\n{finding.detail}"
    written: dict[str, Any] = {
        "ruleId": _id(finding.rule),
        "ruleIndex": list(RULES).index(finding.rule),
        "level": _LEVELS[finding.weight],
        "baselineState": _STATES[finding.weight],
        "message": {"text": text},
    }
    if location := _location(finding, expectations):
        written["locations"] = [location]
    if finding.case is not None:
        # Without the message, so that a service knows the case again when the words change.
        written["partialFingerprints"] = {"case/v1": f"{finding.rule}:{finding.case.key}"}
    if finding.weight is Weight.KNOWN:
        written["suppressions"] = [{"kind": "external", "justification": RULES[finding.rule]}]
    return written


def _location(finding: Finding, expectations: str | None) -> dict[str, Any]:
    location: dict[str, Any] = {}
    if expectations is not None:
        line = 1 if finding.row is None else finding.row.line
        location["physicalLocation"] = {"artifactLocation": {"uri": expectations}, "region": {"startLine": line}}
    if finding.case is not None:
        name = f"{finding.case.overload} {finding.case.dtype} {finding.case.variant}"
        location["logicalLocations"] = [{"name": finding.case.overload, "fullyQualifiedName": name, "kind": "function"}]
    return location
