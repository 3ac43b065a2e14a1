"""`neuron-ops runs`: list the stored runs with their counts, cancel one, drop the results of old ones."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.coverage_db import queries
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.coverage_db.retention import prune_results
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import STATUS_ORDER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.coverage_db.rows import RunRow

_HEADER = ("run", "target", "evidence", "state", "started (UTC)", "cases", "by status")


_DB = click.option("--db", "database", metavar="URL", help="Database URL or SQLite file (default: from the settings).")


@click.group(invoke_without_command=True)
@click.option("--target", metavar="T", help="Only runs on this target.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, newest first."
)
@_DB
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def runs(ctx: click.Context, target: str | None, limit: int, database: str | None, as_json: bool) -> None:
    """List the stored runs with their counts, newest first."""
    if ctx.invoked_subcommand is not None:
        return
    engine = open_database(load_settings(database).database_url, create=False)
    try:
        with read(engine) as conn:
            found = queries.runs(conn, target=target, limit=limit)
    finally:
        engine.dispose()
    if as_json:
        click.echo(json.dumps([_json(run) for run in found], indent=2))
    elif found:
        click.echo(_table([_HEADER, *(_line(run) for run in found)]))
    else:
        of = f" of target {target}" if target else ""
        click.echo(f"no runs{of} yet; `neuron-ops sweep` makes one", err=True)


@runs.command()
@click.argument("run")
@_DB
def cancel(run: str, database: str | None) -> int:
    """Stop the workers of a run; what they have finished is kept, and `sweep --resume RUN` goes on."""
    from neuron_ops.workers.runs import cancel as stop
    from neuron_ops.workers.runs import find

    engine = open_database(load_settings(database).database_url, create=False)
    try:
        with read(engine) as conn:
            run_id = find(conn, run).id
        stopped = stop(engine, run_id)
    finally:
        engine.dispose()
    click.echo(f"run {run} is cancelled" if stopped else f"run {run} was not running")
    return 0


@runs.command()
@click.option(
    "--keep", type=click.IntRange(min=1), default=30, show_default=True, help="Newest done runs of each stream."
)
@_DB
def prune(keep: int, database: str | None) -> int:
    """Drop the single results of old runs; their cells, totals and spans stay, so pages and history do too."""
    engine = open_database(load_settings(database).database_url, create=False)
    try:
        dropped = prune_results(engine, keep=keep)
    finally:
        engine.dispose()
    click.echo(f"dropped the results of {len(dropped)} runs" + (f": {', '.join(dropped)}" if dropped else ""))
    return 0


def _json(run: RunRow) -> dict[str, Any]:
    """Return a run as JSON values; times are ISO 8601 in UTC. The database's row number stays inside."""
    times = {"started": run.started.isoformat(), "finished": run.finished.isoformat() if run.finished else None}
    return {key: value for key, value in asdict(run).items() if key != "id"} | times


def _line(run: RunRow) -> tuple[str, ...]:
    counts = " ".join(f"{s.value}:{run.counts[s.value]}" for s in STATUS_ORDER if s.value in run.counts)
    started = f"{run.started:%Y-%m-%d %H:%M}"
    return run.slug, run.target, run.evidence.value, run.state, started, str(run.planned), counts


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
