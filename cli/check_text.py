"""Shows a check on the terminal: findings by line, worst first, then what runs on the device."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import click
from neuron_ops.op_tests.capture.assessment import Kind, by_place
from neuron_ops.op_tests.capture.prose import (
    evidence_lines,
    finding_text,
    mode_lines,
    on_device,
    place_text,
    price_lines,
)
from neuron_ops.op_tests.capture.report import DOING, plural
from neuron_ops.op_tests.capture.rows import CallRoute

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.op_tests.capture.assessment import Assessment, Finding
    from neuron_ops.op_tests.capture.report import Report
    from rich.console import Console
    from rich.table import Table

_STYLES = {
    Kind.UNSUPPORTED: "bold red", Kind.WRONG: "bold magenta", Kind.FALLBACK: "yellow", Kind.UNKNOWN: "cyan", Kind.NOTE: "dim",
}  # fmt: skip
_WIDE = 4096  # files and pipes get whole lines


def print_assessment(assessment: Assessment, *, show_all: bool) -> None:
    """Print the verdict, the findings by place, the operators on the device, the price, what was run and the evidence."""
    from rich.console import Console

    report = assessment.report
    failure = report.failure
    if failure is not None and not failure.device_only and not report.rows:
        return  # nothing to show but the traceback, which follows on standard error
    terminal = sys.stdout.isatty()
    out = io.StringIO()
    console = Console(
        file=out, force_terminal=terminal, width=None if terminal else _WIDE, highlight=False, emoji=False
    )
    console.print(assessment.verdict, style="bold", markup=False)
    if failure is not None and failure.device_only:
        console.print(device_failure(report), markup=False)
    _print_findings(console, assessment, show_all=show_all)
    _print_rest(console, assessment, show_all=show_all)
    console.print()
    for line in (*mode_lines(report), *price_lines(assessment.price), *evidence_lines(assessment)):
        console.print(line, markup=False)
    click.echo("\n".join(line.rstrip() for line in out.getvalue().splitlines()))


def device_failure(report: Report) -> str:
    """Return the sentence on a run that fails on the device alone."""
    failure = report.failure
    assert failure is not None
    operator = f" in {failure.operator}" if failure.operator else ""
    where = f" at {failure.where}" if failure.where else ""
    return (
        f"{DOING[failure.phase].capitalize()} fails on the simulated device{operator}{where} and works on the CPU: "
        f"{failure.message}"
    )


def _print_findings(console: Console, assessment: Assessment, *, show_all: bool) -> None:
    shown = [f for f in assessment.findings if show_all or f.kind is not Kind.UNKNOWN]
    for place, findings in by_place(shown).items():
        module = findings[0].module if len({f.module for f in findings}) == 1 else None
        console.print()
        console.print(place_text(place) + (f"  {module}" if module else ""), style="bold", markup=False)
        console.print(_grid(findings, module))
    hidden = [f for f in assessment.findings if f.kind is Kind.UNKNOWN]
    if hidden and not show_all:
        names = plural(len({(f.row.overload, f.row.dtypes) for f in hidden}), "operator")
        console.print(f"\nno stored result says how {names} with these dtypes did (listed with --all)", markup=False)


def _grid(findings: Sequence[Finding], module: str | None) -> Table:
    """Return a line for each finding and for each thing to do about it, what wraps staying in its column."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for finding in findings:
        letter = "W" if finding.kind is Kind.WRONG else str(finding.row.route.status)
        where = f" ({finding.module})" if finding.module and finding.module != module else ""
        grid.add_row(Text(f"  {letter}", style=_STYLES[finding.kind]), Text(finding_text(finding) + where))
        for advice in finding.judged[0].advice:
            grid.add_row(Text(""), Text(f"→ {advice.text}").append(f" [{advice.evidence}]", style="dim"))
    return grid


def _print_rest(console: Console, assessment: Assessment, *, show_all: bool) -> None:
    """Print what runs on the device, one line an operator, dtypes and route."""
    from rich.table import Table

    lost = (Kind.UNSUPPORTED, Kind.FALLBACK)
    rest = [
        judged for judged in assessment.judged
        if judged.kind not in lost and (show_all or judged.row.route is not CallRoute.METADATA)
    ]  # fmt: skip
    if rest:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for head in ("", "on the device", "dtypes", "calls", "route", "first at"):
            table.add_column(head, overflow="fold", justify="right" if head == "calls" else "left")
        from rich.text import Text

        for line in on_device(rest):
            table.add_row(*(Text(str(cell)) for cell in line))
        console.print()
        console.print(table)
    metadata = assessment.report.metadata
    if metadata and not show_all:
        if not rest:
            console.print()
        overloads = plural(len({row.overload for row in metadata}), "operator")
        calls = plural(sum(row.total for row in metadata), "call")
        console.print(
            f"besides: {calls} of {overloads} whose only effect is on shape or strides (listed with --all)",
            markup=False,
        )
