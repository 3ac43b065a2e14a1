"""`neuron-ops sweep`: plan, run, store, and say what came out."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.coverage_db.database import checked_url, open_database, read, shown
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import STATUS_ORDER, Status
from neuron_ops.workers import local
from neuron_ops.workers.batch import RunOptions
from neuron_ops.workers.planner import PlanRequest, request_plan
from neuron_ops.workers.sandbox import ISOLATIONS, Limits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuron_ops.coverage_db.rows import Number
    from neuron_ops.coverage_db.settings import Settings
    from neuron_ops.workers.runs import Progress, SweepReport
    from rich.progress import TaskID

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_LINE_SECONDS = 5.0  # between two plain lines of progress


class Size(click.ParamType[int]):
    """A number of bytes: ``4GiB``, ``512MiB``, ``4G`` or plain bytes."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the bytes; fails with click's usage error."""
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMG]?)i?B?\s*", str(value), re.IGNORECASE)
        if not found or not (size := int(float(found[1]) * _UNITS[found[2].upper()])):
            self.fail(f"{value!r} is no size; write a number with a unit, such as 4GiB or 512MiB.", param, ctx)
        return size


def _names(ctx: click.Context, param: click.Parameter, value: str) -> tuple[str, ...]:
    """Return the parts of a comma-separated option; raises BadParameter when there are none."""
    if not (names := tuple(part.strip() for part in value.split(",") if part.strip())):
        raise click.BadParameter("expected at least one name; separate several with commas.", ctx, param)
    return names


def _plants(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> dict[str, str]:
    """Return overload → fault for ``OVERLOAD=FAULT``; raises BadParameter for anything else."""
    pairs = [text.partition("=") for text in value]
    if any(not name or not fault for name, _, fault in pairs):
        raise click.BadParameter("expected OVERLOAD=FAULT, such as aten.add.Tensor=segfault.", ctx, param)
    return {name: fault for name, _, fault in pairs}


@click.command()
@click.option("--target", default="sim", show_default=True, help="Where the cases run.")
@click.option(
    "--ops", default="all", show_default=True, callback=_names,
    help="core, all, or comma-separated globs of overloads, such as 'aten.add.*,aten.mm.default'.",
)  # fmt: skip
@click.option(
    "--dtypes", default="float32,bfloat16", show_default=True, callback=_names, help="Comma-separated dtypes, or all."
)
@click.option("--limit", type=click.IntRange(min=1), help="At most this many samples of one overload and dtype.")
@click.option("--db", "database", metavar="URL", help="Database URL or SQLite file; default: that of the settings.")
@click.option("--seed", default=0, show_default=True, type=click.INT, help="Seed of the cases.")
@click.option("--jobs", type=click.IntRange(1, 256), help="Sandboxes side by side; default: one a core.")
@click.option(
    "--timeout", default=30.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
    help="Seconds that one case may take.",
)  # fmt: skip
@click.option("--memory", default="4GiB", show_default=True, type=Size(), help="Memory that one sandbox may take.")
@click.option(
    "--isolation", type=click.Choice(ISOLATIONS), default=ISOLATIONS[0], show_default=True,
    help="How a sandbox's child starts: forked with its imports done, or a new interpreter.",
)  # fmt: skip
@click.option(
    "--resume", "resumed", is_flag=False, flag_value="", metavar="[RUN]",
    help="Go on with a run that did not end well, the newest if none is named; what to run is as it was.",
)  # fmt: skip
@click.option(
    "--celery", "shared", is_flag=True, help="Let workers on any machine run the cases; see `neuron-ops worker`."
)
@click.option("--broker", metavar="URL", help="redis:// or amqp:// URL for --celery; default: that of the settings.")
@click.option("--detach", is_flag=True, help="With --celery: print the run and return while the workers go on.")
@click.option("--plant", "plants", multiple=True, hidden=True, callback=_plants, help="OVERLOAD=FAULT, for tests.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; progress goes to standard error.")
def sweep(
    target: str, ops: tuple[str, ...], dtypes: tuple[str, ...], limit: int | None, database: str | None, seed: int,
    jobs: int | None, timeout: float, memory: int, isolation: str, resumed: str | None, shared: bool, broker: str | None,
    detach: bool, plants: Mapping[str, str], as_json: bool,
) -> int:  # fmt: skip
    """Run cases on a target and store the results.

    Every case runs in a sandbox: a crash, a hang or a memory hog becomes that case's result and the sweep goes on.
    """
    settings = load_settings(database, broker)
    open_database(settings.database_url).dispose()  # before the plan, which may take minutes
    request = PlanRequest(target, ops, dtypes, limit, seed, settings.cache_folder)
    run_options = RunOptions(Limits(seconds=timeout, memory=memory), plants, isolation=isolation)
    with _Display.choose() as display:
        if shared:
            report = _share(settings, request, run_options, resumed, display, detach=detach)
            if report is None:
                return 0
        else:
            options = local.SweepOptions(settings.cache_folder, jobs or len(os.sched_getaffinity(0)), run_options)
            if resumed is not None:
                report = local.resume(settings, resumed or None, options=options, progress=display.cases)
            else:
                plan = request_plan(request, progress=display.bank)
                report = local.sweep(settings, plan, options=options, progress=display.cases)
    engine = open_database(settings.database_url)
    with read(engine) as conn:
        published = numbers(conn, report.run.id)
    engine.dispose()
    if as_json:
        click.echo(json.dumps(_as_json(report, published), ensure_ascii=False))
    else:
        _print_report(report, published)
        click.echo(f"\nstored in {shown(checked_url(settings.database_url))}\nlook at it with:")
        click.echo(f"  neuron-ops serve --db {database}" if database else "  neuron-ops serve")
    if report.totals.lost:
        click.echo(f"neuron-ops: {report.totals.lost} planned cases have no result; this is our fault", err=True)
        return 4
    return 0


def _share(
    settings: Settings,
    request: PlanRequest,
    options: RunOptions,
    resumed: str | None,
    display: _Display,
    *,
    detach: bool,
) -> SweepReport | None:
    """Let workers run the cases and return the report, or None at once when detached."""
    from neuron_ops.workers import dispatch

    if resumed is not None:
        start = dispatch.resume(settings, resumed or None)
    else:
        dispatch.connect(settings, request.target)  # before the plan, which may take minutes
        start = dispatch.start(settings, request_plan(request, progress=display.bank), options=options)
    if detach:
        click.echo(start.slug)
        return None
    return dispatch.follow(settings, start.run_id, progress=display.cases)


@dataclass
class _Display:
    """Progress as plain lines on standard error, one every few seconds."""

    _told: float = field(default=0.0, init=False)

    @staticmethod
    def choose() -> _Display:
        """Return a bar for a terminal, plain lines for anything else."""
        return _Bars() if sys.stderr.isatty() else _Display()

    def __enter__(self) -> _Display:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def bank(self, done: int, total: int, text: str) -> None:
        """Show how far the sample bank is."""
        self._line(f"{text}: {done} of {total}", last=done >= total)

    def cases(self, progress: Progress) -> None:
        """Show how far the cases are."""
        left = f", {_duration(progress.seconds_left)} left" if progress.seconds_left else ""
        self._line(
            f"{progress.done} of {progress.total} cases, {_rate(progress.rate)}{left}  {_letters(progress.counts)}",
            last=progress.done >= progress.total,
        )

    def _line(self, text: str, *, last: bool) -> None:
        if last or time.monotonic() - self._told >= _LINE_SECONDS:
            self._told = time.monotonic()
            click.echo(text, err=True)


class _Bars(_Display):
    """Progress bars on a terminal, with rate, time left and counts per letter."""

    def __enter__(self) -> _Display:
        from rich import progress as rich
        from rich.console import Console

        columns = (
            "{task.description}",
            rich.BarColumn(),
            rich.MofNCompleteColumn(),
            rich.TextColumn("{task.fields[rest]}", markup=False),
        )
        self._bars = rich.Progress(*columns, console=Console(stderr=True), transient=True)
        self._tasks: dict[str, TaskID] = {}
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def bank(self, done: int, total: int, text: str) -> None:
        """Show how far the sample bank is."""
        self._show("samples", done, total, text)

    def cases(self, progress: Progress) -> None:
        """Show how far the cases are."""
        left = _duration(progress.seconds_left or 0.0)
        self._show(
            "cases", progress.done, progress.total, f"{_rate(progress.rate)}, {left} left  {_letters(progress.counts)}"
        )

    def _show(self, name: str, done: int, total: int, rest: str) -> None:
        if name not in self._tasks:
            self._tasks[name] = self._bars.add_task(name, total=total, rest=rest)
        self._bars.update(self._tasks[name], completed=done, total=total, rest=rest)


def _letters(counts: Mapping[Status, int]) -> str:
    """Return counts with the best letter first: ``N 310 C 12 X 1``."""
    return " ".join(f"{status} {counts[status]}" for status in reversed(STATUS_ORDER) if counts.get(status))


def _rate(rate: float) -> str:
    """Return cases per second as ``312/s`` or ``0.4/s``."""
    return f"{rate:.0f}/s" if rate >= 10 else f"{rate:.1f}/s"


def _duration(seconds: float | None) -> str:
    """Return whole seconds as ``42 s``, ``3 min 5 s`` or ``2 h 4 min``."""
    total = round(seconds or 0)
    if total < 60:
        return f"{total} s"
    return f"{total // 60} min {total % 60} s" if total < 3600 else f"{total // 3600} h {total % 3600 // 60} min"


def _as_json(report: SweepReport, published: Sequence[Number]) -> dict[str, Any]:
    """Return the object that --json prints."""
    totals = report.totals
    return {
        "run": report.run.slug, "target": report.run.target, "evidence": report.run.evidence,
        "versions": dict(report.run.versions), "planned": totals.planned, "recorded": totals.recorded,
        "lost": totals.lost, "counts": dict(totals.counts), "cells": dict(totals.cells),
        "numbers": [
            {"id": n.id, "label": n.label, "n": n.n, "m": n.m, "evidence": n.evidence, "definition": n.definition}
            for n in published
        ],
        "seconds": round(report.seconds, 3),
    }  # fmt: skip


def _print_report(report: SweepReport, published: Sequence[Number]) -> None:
    """Print the summary."""
    totals = report.totals
    children = "one child process" if report.children == 1 else f"{report.children} child processes"
    click.echo(
        f"run {report.run.slug} on {report.run.target} ({report.run.evidence}): {totals.recorded} of {totals.planned} "
        f"cases in {_duration(report.seconds)}, {children}"
    )
    rows = [
        (str(status), _word(status), str(totals.cells.get(status, 0)), str(totals.counts.get(status, 0)))
        for status in reversed(STATUS_ORDER)
        if totals.cells.get(status) or totals.counts.get(status)
    ]
    _print_table(("", "status", "cells", "cases"), rows)
    _print_table(
        ("number", "n of m", "evidence"), [(n.label, f"{n.n} of {n.m}", str(n.evidence or "none")) for n in published]
    )
    worst = [
        (str(r.status), r.case.overload, r.case.dtype, r.case.key[:8], (r.message or "").partition("\n")[0][:60])
        for r in report.worst
    ]
    _print_table(("worst", "overload", "dtype", "case", "message"), worst)
    slowest = [(f"{r.device_ms:.1f} ms", r.case.overload, r.case.dtype, r.case.key[:8]) for r in report.slowest]
    _print_table(("slowest", "overload", "dtype", "case"), slowest)


def _word(status: Status) -> str:
    """Return a status as a word: ``fallback``, ``not applicable``."""
    return status.name.lower().replace("_", " ")


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads after an empty line, columns as wide as they need; nothing when there is no row."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    click.echo()
    for row in (heads, *rows):
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
