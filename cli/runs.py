"""`neuron-ops runs`: list the stored runs with their counts, show, cancel or publish one, drop the results of old ones."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.coverage_db import environments, queries
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.coverage_db.retention import prune_results
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import STATUS_ORDER, BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuron_ops.coverage_db.environments import Account
    from neuron_ops.coverage_db.rows import RunRow
    from neuron_ops.op_tests.records import Environment

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


@runs.command()
@click.argument("run")
@_DB
def release(run: str, database: str | None) -> int:
    """Publish a quarantined run: the site's numbers may come from it then."""
    from neuron_ops.coverage_db import publishing

    engine = open_database(load_settings(database).database_url, create=False)
    try:
        with write(engine) as conn:
            publishing.release(conn, environments.named(conn, run))
    finally:
        engine.dispose()
    click.echo(f"run {run} is published")
    return 0


@runs.command()
@click.argument("run", default="latest")
@click.option("--freeze", is_flag=True, help="Print its packages alone, as `pip install --requirement` takes them.")
@_DB
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(run: str, freeze: bool, database: str | None, as_json: bool) -> int:
    """Say what a run ran in, so that it can be made again, and which earlier run was the last good one.

    RUN is a run's name; without one it is the newest.
    """
    engine = open_database(load_settings(database).database_url, create=False)
    try:
        with read(engine) as conn:
            account = environments.account(conn, run)
    finally:
        engine.dispose()
    if as_json:
        click.echo(json.dumps(_account_json(account), indent=2))
    elif freeze:
        click.echo(_environment(account).freeze(), nl=False)
    else:
        click.echo("\n".join(_account_lines(account)))
    return 0


@runs.command("device-tests")
@click.argument("run", default="latest")
@_DB
def device_tests(run: str, database: str | None) -> int:
    """Print the configuration that lets PyTorch's own device tests run what a run has shown to work.

    RUN is a run's name; without one it is the newest. Example: neuron-ops runs device-tests > device_tests.py, then
    python device_tests.py pytorch/test/test_ops.py.
    """
    from neuron_ops.coverage_db.reports import device_tests as settings

    engine = open_database(load_settings(database).database_url, create=False)
    try:
        with read(engine) as conn:
            tests = settings.device_tests(conn, environments.named(conn, run))
    finally:
        engine.dispose()
    click.echo(settings.python_file(tests), nl=False)
    return 0


def _json(run: RunRow) -> dict[str, Any]:
    """Return a run as JSON values; times are ISO 8601 in UTC. The database's row number stays inside."""
    times = {
        name: when.isoformat() if (when := getattr(run, name)) else None for name in ("started", "finished", "released")
    }
    return {key: value for key, value in asdict(run).items() if key != "id"} | times


def _line(run: RunRow) -> tuple[str, ...]:
    counts = " ".join(f"{s.value}:{run.counts[s.value]}" for s in STATUS_ORDER if s.value in run.counts)
    started = f"{run.started:%Y-%m-%d %H:%M}"
    return run.slug, run.target, run.evidence.value, _state(run), started, str(run.planned), counts


def _state(run: RunRow) -> str:
    if run.quarantine is None:
        return run.state
    return f"{run.state}, {'released' if run.published else 'quarantined'}"


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def _environment(account: Account) -> Environment:
    environment = account.setting.environment
    if environment is None:
        raise BadInput(
            f"The run {account.setting.run.slug} was stored before environments were; sweep again to have one."
        )
    return environment


def _account_json(account: Account) -> dict[str, Any]:
    environment, good = account.setting.environment, account.last_good
    return {
        **_json(account.setting.run),
        "environment": None if environment is None else asdict(environment),
        "last_good": None if good is None else good.run.slug,
        "changed_since_last_good": {name: {"then": a, "now": b} for name, (a, b) in account.changed.items()},
    }


def _account_lines(account: Account) -> list[str]:
    run, environment = account.setting.run, account.setting.environment
    lines = [
        f"run {run.slug} on {run.target} ({run.evidence.value}), {run.state}, {run.planned} cases, seed {run.seed}",
        *([f"  {_state(run).partition(', ')[2]}: {run.quarantine}"] if run.quarantine else []),
        f"  cases     {run.selection}",
        f"  build     {_pairs(run.versions)}",
    ]
    if environment is None:
        lines.append("  its environment was not stored: it is older than that")
    else:
        lines += [
            f"  harness   {_pairs(environment.harness)}",
            f"  device    {_pairs(environment.device)}",
            f"  switches  {_pairs(environment.switches) or 'none is set'}",
            f"  packages  {len(environment.packages)}; `neuron-ops runs show {run.slug} --freeze` prints them for pip",
            *(f"  torch     {line}" for line in environment.torch_config.splitlines()),
        ]
    return lines + _way_back(account)


def _way_back(account: Account) -> list[str]:
    good = account.last_good
    if good is None:
        return ["way back: none, it is the first of its kind"]
    here, there = environments.failing(account.setting.run), environments.failing(good.run)
    changed = "; ".join(f"{name} {a or 'absent'} → {b or 'absent'}" for name, (a, b) in account.changed.items())
    return [
        f"way back: run {good.run.slug}, {there} failing cases against {here} here; changed since: {changed or 'nothing'}",
        *(
            [f"  neuron-ops runs show {good.run.slug} --freeze > good.txt && pip install -r good.txt"]
            if good.environment
            else []
        ),
    ]


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
