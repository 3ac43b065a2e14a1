"""Writes a gate's verdict as JUnit XML, as Jenkins' schema junit-10 has it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from neuron_ops.coverage_db.reports import Weight, findings, headline

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.coverage_db.reports import Finding
    from neuron_ops.coverage_db.verdicts import GateResult

_ELEMENTS: Mapping[Weight, str] = {
    Weight.REFUSAL: "error", Weight.FAILURE: "failure", Weight.FLAKY: "skipped", Weight.KNOWN: "skipped",
}  # fmt: skip
# What XML 1.0 cannot hold in any spelling.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(result: GateResult) -> str:
    """Return the XML; a test case for each finding, and one for the verdict, so that a silent gate is no empty suite.

    Regressions and broken expectations are failures, refusals errors, what is flaky, known or in quarantine is skipped,
    improvements pass.
    """
    found = list(findings(result))
    kinds = [_ELEMENTS.get(finding.weight) for finding in found] + [None if result.passed else "failure"]
    counts = {name: str(kinds.count(kind)) for name, kind in (("failures", "failure"), ("errors", "error"))}
    counts = {"tests": str(len(kinds)), **counts, "skipped": str(kinds.count("skipped"))}
    suites = ET.Element(
        "testsuites", {"name": "neuron-ops gate", **{k: v for k, v in counts.items() if k != "skipped"}}
    )
    suite = ET.SubElement(suites, "testsuite", {"name": f"gate.{_text(result.after.target)}", **counts})
    properties = ET.SubElement(suite, "properties")
    for name, value in _facts(result).items():
        ET.SubElement(properties, "property", {"name": _text(name), "value": _text(value)})
    _add(suite, "gate", "verdict", None if result.passed else "failure", headline(result), "verdict", None)
    for finding in found:
        name, of = _names(finding)
        _add(suite, of, name, _ELEMENTS.get(finding.weight), finding.text, finding.rule, finding.detail)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def _add(
    suite: ET.Element, classname: str, name: str, kind: str | None, text: str, rule: str, detail: str | None
) -> None:  # fmt: skip
    case = ET.SubElement(suite, "testcase", {"classname": _text(classname), "name": _text(name)})
    if kind is None:
        ET.SubElement(case, "system-out").text = _text(text)
        return
    # "skipped" has no type in the schema.
    kept = {"message": _text(text), "type": _text(rule)} if kind != "skipped" else {"message": _text(f"{rule}: {text}")}
    ET.SubElement(case, kind, kept).text = _text(detail or "")


def _names(finding: Finding) -> tuple[str, str]:
    """Return a test's name and class: ``float32 forward opinfo/add/0 (1b2c3d4e)`` of ``aten.add.Tensor``."""
    case = finding.case
    if finding.row is not None:
        return f"line {finding.row.line}: {finding.rule}", finding.row.overload
    if case is None:
        return finding.rule, "gate"
    return f"{case.dtype} {case.variant} {case.sample} ({case.key[:8]})", case.overload


def _facts(result: GateResult) -> dict[str, str]:
    sides = {"run": result.after.label, "baseline": result.before.label, "evidence": result.after.evidence.value}
    changed = {f"changed {c.name}": f"{c.before or 'absent'} to {c.after or 'absent'}" for c in result.product}
    return {**sides, **{f"version {k}": v for k, v in result.after.versions.items()}, **changed}


def _text(text: str) -> str:
    return _NO_XML.sub("\ufffd", text)
