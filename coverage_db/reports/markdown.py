"""Writes a gate's verdict as Markdown, for the summary of a CI job."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.reports import RULES, Weight, findings, headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.coverage_db.reports import Finding
    from neuron_ops.coverage_db.verdicts import GateResult

_SHOWN = 50  # rows of a group: GitHub drops a summary of more than 1 MiB
_MESSAGE = 300  # characters of a message
# Markdown's own characters, as references: messages come from backends, and a reader's browser must see them as text.
_MARKS = {ord(mark): f"&#{ord(mark)};" for mark in "\\`*_[]|#~!"}


def markdown(result: GateResult) -> str:
    """Return the summary: the verdict, what has changed in the build, the counts, then a table a group, worst first."""
    found = list(findings(result))
    lines = [f"## neuron-ops gate {_cell(headline(result))}", ""]
    if result.product:
        lines += ["| changed in the build | before | now |", "|---|---|---|"]
        lines += [
            f"| {_cell(c.name)} | {_cell(c.before or 'absent')} | {_cell(c.after or 'absent')} |"
            for c in result.product
        ]
        lines.append("")
    groups = {rule: [f for f in found if f.rule == rule] for rule in RULES if any(f.rule == rule for f in found)}
    if not groups:
        return "\n".join([*lines, "No case did otherwise than in the baseline.", ""])
    lines += ["| | findings |", "|---|---|", *(f"| {_cell(rule)} | {len(of)} |" for rule, of in groups.items()), ""]
    for rule, of in groups.items():
        lines += _group(rule, of)
    return "\n".join(lines)


def _group(rule: str, found: Sequence[Finding]) -> list[str]:
    opened = " open" if found[0].weight in (Weight.REFUSAL, Weight.FAILURE) else ""
    lines = [
        f"<details{opened}><summary>{_cell(rule)}: {len(found)}</summary>",
        "",
        "| finding | message |",
        "|---|---|",
    ]
    lines += [f"| {_cell(f.text)} | {_cell((f.detail or '')[:_MESSAGE])} |" for f in found[:_SHOWN]]
    if len(found) > _SHOWN:
        lines += [f"| and {len(found) - _SHOWN} more, in the artefacts | |"]
    if (case := found[0].case) is not None:
        lines += ["", f"Repeat the first one: `neuron-ops repro {case.key[:8]} --run`"]
    return [*lines, "", "</details>", ""]


def _cell(text: str) -> str:
    return " ".join(html.escape(text, quote=False).translate(_MARKS).split())
