"""Shows what `neuron-ops check --device` found: operators by route, and the first whose result is not the CPU's."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.cli.check_text import device_failure
from neuron_ops.op_tests.capture.assessment import assess
from neuron_ops.op_tests.capture.report import plural
from neuron_ops.op_tests.capture.rows import ORDER, CallRoute, worst

if TYPE_CHECKING:
    from neuron_ops.op_tests.capture.report import Report
    from neuron_ops.op_tests.capture.rows import Compared


def print_compared(report: Report, *, as_json: bool) -> None:
    """Print the report of a run on a device, as one JSON object or as text."""
    if as_json:
        data = assess(report, ()).to_json()
        click.echo(json.dumps({**data, **_told(report)}, ensure_ascii=False))
        return
    click.echo(verdict(report))
    for line in _lines(report.compared):
        click.echo(f"  {line}")
    if report.failure is not None and report.failure.device_only:
        click.echo(device_failure(report))
    for route, names in by_route(report).items():
        click.echo(f"\n{route} ({len(names)}): {', '.join(names)}")


def verdict(report: Report) -> str:
    """Return the sentence that says whether the device computes what the CPU does."""
    compared = report.compared
    if compared is None:
        return f"The run on {report.request.target} did not reach its end, so nothing was compared."
    calls = f"{compared.calls} of {plural(compared.calls + compared.uncompared, 'call')} on {compared.target}"
    if not compared.differs:
        return f"{calls} were compared with the CPU: no result differs beyond its dtype's tolerance."
    return f"{calls} were compared with the CPU: {compared.differing} gave other results."


def by_route(report: Report) -> dict[CallRoute, list[str]]:
    """Return the overloads of each route, worst first, an overload at its worst."""
    routes: dict[str, list[CallRoute]] = {}
    for row in report.rows:
        routes.setdefault(row.overload, []).append(row.route)
    found = {name: worst(each) for name, each in routes.items()}
    return {route: names for route in ORDER if (names := sorted(n for n, r in found.items() if r is route))}


def _lines(compared: Compared | None) -> list[str]:
    if compared is None:
        return []
    lines = []
    first = compared.first
    if first is not None:
        module = f" ({first.module})" if first.module else ""
        where = first.where or "no line of yours"
        lines.append(f"first difference: {first.overload} at {where}{module}, {first.phase}: {first.message}")
    if compared.outputs is None:
        lines.append("the outputs of the whole were not compared: a function ran, or the device drew random numbers")
    else:
        lines += [f"of the whole model, {message}" for message in compared.outputs]
        lines += [] if compared.outputs else ["the outputs of the whole model are within tolerance"]
    if compared.uncompared:
        lines.append(
            f"{plural(compared.uncompared, 'call')} not compared: random or unwritten values, or no CPU kernel"
        )
    return [*lines, ", ".join(f"{name} {version}" for name, version in compared.versions.items())]


def _told(report: Report) -> dict[str, Any]:
    compared = report.compared
    evidence = {} if compared is None else {"evidence": compared.evidence}
    note = "The model ran on this device and each call on the CPU too, with the same inputs."
    return {"verdict": verdict(report), "evidence_note": note, **evidence}
