"""Returns a check as Markdown for a pull request, and as one HTML file."""

from __future__ import annotations

import html
import importlib.resources
from string import Template
from typing import TYPE_CHECKING

from neuron_ops.op_tests.capture.assessment import Kind, by_place
from neuron_ops.op_tests.capture.prose import (
    evidence_lines,
    finding_text,
    mode_lines,
    on_device,
    place_text,
    price_lines,
)
from neuron_ops.op_tests.capture.rows import CallRoute

if TYPE_CHECKING:
    from neuron_ops.op_tests.capture.assessment import Assessment, Finding, Judged

_WORDS = {
    Kind.UNSUPPORTED: "not runnable", Kind.WRONG: "wrong result", Kind.FALLBACK: "CPU fallback",
    Kind.UNKNOWN: "not verified", Kind.NOTE: "can be cheaper",
}  # fmt: skip


def to_markdown(assessment: Assessment) -> str:
    """Return the verdict, a table of findings, a folded table of the rest, and the small print."""
    report = assessment.report
    lines = [
        f"### {_cell(report.model or report.request.file)} on the simulated Neuron device",
        "",
        _cell(assessment.verdict),
        "",
    ]
    findings = [f for found in by_place(assessment.findings).values() for f in found]
    if findings:
        lines += ["| where | finding | what to do |", "|---|---|---|"]
        lines += [_row(finding) for finding in findings] + [""]
    rest = on_device(_rest(assessment))
    if rest:
        lines += [f"<details><summary>{len(rest)} operators and dtypes on the device</summary>", ""]
        lines += ["| operator | dtypes | calls | route | first at |", "|---|---|---|---|---|"]
        lines += ["| " + " | ".join(_cell(str(cell)) for cell in line[1:]) + " |" for line in rest] + [
            "",
            "</details>",
            "",
        ]
    for line in (*mode_lines(report), *price_lines(assessment.price), *evidence_lines(assessment)):
        lines.append(f"- {_cell(line)}")
    return "\n".join(lines) + "\n"


def to_html(assessment: Assessment) -> str:
    """Return one HTML page that needs nothing beside it."""
    report = assessment.report
    small = "\n".join(
        f"<li>{html.escape(line)}"
        for line in (*mode_lines(report), *price_lines(assessment.price), *evidence_lines(assessment))
    )
    rest = "\n".join(
        "<tr>" + "".join(f"<td>{html.escape(str(cell))}" for cell in line[1:]) for line in on_device(_rest(assessment))
    )
    page = importlib.resources.files("neuron_ops.op_tests.capture").joinpath("page.html").read_text("utf-8")
    places = "\n".join(_place(place, found) for place, found in by_place(assessment.findings).items())
    return Template(page).substitute(
        title=html.escape(report.model or report.request.file), verdict=html.escape(assessment.verdict), small=small, rest=rest,
        places=places or "<p>No findings.</p>",
    )  # fmt: skip


def _rest(assessment: Assessment) -> list[Judged]:
    lost = (Kind.UNSUPPORTED, Kind.FALLBACK)
    return [j for j in assessment.judged if j.kind not in lost and j.row.route is not CallRoute.METADATA]


def _cell(text: str) -> str:
    """Return text that stays within a cell and shows as it is, names of operators too."""
    for sign in "\\|*_<`":
        text = text.replace(sign, f"\\{sign}" if sign != "<" else "&lt;")
    return " ".join(text.split())


def _row(finding: Finding) -> str:
    where = place_text(finding.row.where or f"in {finding.row.phase}")
    where = (
        "`"
        + where.replace("|", "\\|").replace("`", "'")
        + "`"
        + (f" {_cell(finding.module)}" if finding.module else "")
    )
    advice = "<br>".join(f"{_cell(a.text)} ({_cell(a.evidence)})" for a in finding.judged[0].advice)
    return f"| {where} | **{_WORDS[finding.kind]}**: {_cell(finding_text(finding))} | {advice} |"


def _place(place: str, findings: list[Finding]) -> str:
    items = []
    for finding in findings:
        advice = "".join(
            f"<li>{html.escape(a.text)} <small>{html.escape(a.evidence)}</small>" for a in finding.judged[0].advice
        )
        module = f" <code>{html.escape(finding.module)}</code>" if finding.module else ""
        items.append(
            f'<li class="{finding.kind}"><strong>{_WORDS[finding.kind]}</strong>{module} '
            f"{html.escape(finding_text(finding))}" + (f"<ul>{advice}</ul>" if advice else "")
        )
    return f"<section><h3><code>{html.escape(place_text(place))}</code></h3><ul>{''.join(items)}</ul></section>"
