"""`neuron-ops gate`: judge a run by its baseline; exit code 1 where it is worse."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
from neuron_ops.cli.diff import SHOWN, group_lines, version_lines
from neuron_ops.coverage_db import baselines, differences, gating, leases, proposals, queries
from neuron_ops.coverage_db.database import open_database, read, transact
from neuron_ops.coverage_db.expectations import Expectations, read_expectations
from neuron_ops.coverage_db.gating import Pending, Rules
from neuron_ops.coverage_db.reports import files
from neuron_ops.coverage_db.reports.plain import as_json
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.coverage_db.verdicts import GateResult
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neuron_ops.coverage_db.differences import Recording
    from neuron_ops.coverage_db.rows import RunRow
    from neuron_ops.coverage_db.settings import Settings
    from neuron_ops.coverage_db.verdicts import Seen
    from sqlalchemy import Connection, Engine

_LATEST_GOOD = "latest-good"
_SHARE = click.FloatRange(0, 100)


def _reports(ctx: click.Context, param: click.Parameter, value: Sequence[str]) -> dict[str, Path]:
    """Return format → file for ``junit=gate.xml``; raises BadParameter for anything else."""
    pairs = [text.partition("=") for text in value]
    if any(kind not in files.FORMATS or not name for kind, _, name in pairs):
        raise click.BadParameter(f"expected FORMAT=FILE, with one of {', '.join(files.FORMATS)}.", ctx, param)
    return {kind: Path(name) for kind, _, name in pairs}


@click.command()
@click.argument("run", required=False)
@click.option(
    "--baseline", default=_LATEST_GOOD, show_default=True, metavar="RUN|latest-good|FILE",
    help="What to compare with; latest-good is the newest earlier run of the same cases that passed a gate.",
)  # fmt: skip
@click.option("--target", metavar="T", help="Without RUN: the newest run on this target.")
@click.option(
    "--expectations", "known", type=click.Path(path_type=Path), metavar="FILE", help="Known non-passes, as TOML rows."
)
@click.option(
    "--reruns", default=5, show_default=True, type=click.IntRange(0, 100),
    help="How often a changed case is run again, alone, before it counts.",
)  # fmt: skip
@click.option(
    "--error-factor", "factor", default=differences.FACTOR, show_default=True,
    type=click.FloatRange(min=1, min_open=True), help="By how much an error in ulp has to grow to be a finding.",
)  # fmt: skip
@click.option(
    "--max-fewer", default=5.0, show_default=True, type=_SHARE, help="Per cent of the cases that may be missing."
)
@click.option("--max-crashes", default=5.0, show_default=True, type=_SHARE, help="Per cent that may crash or time out.")
@click.option(
    "--write-baseline", "written", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write the run as a baseline file, and judge nothing.",
)  # fmt: skip
@click.option(
    "--report", "reports", multiple=True, callback=_reports, metavar="FORMAT=FILE",
    help=f"Also write the verdict to a file: {', '.join(files.FORMATS)}; may be given for each.",
)  # fmt: skip
@click.option(
    "--write-expectations", "patch", type=click.File("w"), metavar="PATCH",
    help="Write what would make the run pass, as a patch of --expectations for review; - is standard output.",
)  # fmt: skip
@click.option("--db", "database", metavar="URL", help="Database URL or SQLite file (default: from the settings).")
@click.option("--json", "in_json", is_flag=True, help="Print JSON.")
def gate(
    run: str | None, baseline: str, target: str | None, known: Path | None, reruns: int, factor: float,
    max_fewer: float, max_crashes: float, written: Path | None, reports: Mapping[str, Path], patch: IO[str] | None,
    database: str | None, in_json: bool,
) -> int:  # fmt: skip
    """Judge RUN, by default the newest, by its baseline; exit code 1 where it is worse.

    A case that changed is run again alone, in a fresh process, before it counts.
    """
    settings = load_settings(database)
    files.empty(reports)
    if patch and known is None:
        raise BadInput(
            "--write-expectations needs --expectations FILE, the file that the patch is of; it may be a new one."
        )
    expectations = read_expectations(known) if known and (known.exists() or not patch) else Expectations()
    rules = Rules(expectations, factor, max_fewer / 100, max_crashes / 100)
    engine = open_database(settings.database_url, create=False)
    try:
        if written is not None:
            return _write(engine, run, target, written)
        pending, result = _judge(settings, engine, (run, target, baseline), rules, reruns)
        if patch and known and pending:
            patch.write(_patch(engine, known, pending, result))
    finally:
        engine.dispose()
    files.write(reports, result, known)
    click.echo(as_json(result) if in_json else "\n".join(_report(result)), nl=not in_json)
    return 0 if result.passed else 1


def _judge(
    settings: Settings, engine: Engine, names: tuple[str | None, str | None, str], rules: Rules, times: int
) -> tuple[Pending | None, GateResult]:
    """Return the verdict, stored, and what there was to judge; `names` are a run, a target and a baseline."""
    with read(engine) as conn:
        run = _run(conn, *names[:2])
        pending = gating.prepare(conn, _baseline(conn, names[2], run), run, rules)
    if isinstance(pending, GateResult):
        transact(engine, partial(gating.store_verdict, run=run, result=pending))
        return None, pending
    again = _run_again(settings, engine, run, pending, times)
    transact(engine, partial(gating.store_reruns, run=run, pending=pending, again=again))
    with read(engine) as conn:
        rates = gating.flake_rates(conn, run.target, {d.case.overload for d in pending.doubtful})
    result = gating.conclude(pending, again, rates)
    transact(engine, partial(gating.store_verdict, run=run, result=result))
    return pending, result


def _patch(engine: Engine, known: Path, pending: Pending, result: GateResult) -> str:
    """Return the patch of the file of expectations, empty where there is nothing to change."""
    names = {d.case.overload for d in (*pending.doubtful, *result.differences)}
    globs = names | {row.overload for row in pending.rules.expectations.rows}
    with read(engine) as conn:
        cases = differences.cases_of(conn, differences.run_named(conn, result.after.label), globs)
    text = known.read_text() if known.exists() else None
    return proposals.patch(os.path.relpath(known), text, pending, result, cases)


def _run_again(
    settings: Settings, engine: Engine, run: RunRow, pending: Pending, times: int
) -> Mapping[str, tuple[Seen, ...]]:
    """Return what the doubtful cases do when they are run again, as many of them as are worth it."""
    doubtful = pending.doubtful[: gating.RERUN_LIMIT]
    if not doubtful or not times:
        return {}
    from neuron_ops.workers.reruns import run_again

    with read(engine) as conn:
        to_do = leases.run_to_do(conn, run.id)
    found = run_again(
        to_do, [d.case.case for d in doubtful], times, bank_folder=settings.cache_folder,
        progress=lambda done, total: click.echo(f"run again: {done} of {total} changed cases", err=True)
        if done in (1, total) else None,
    )  # fmt: skip
    return {key: tuple(map(differences.seen_of, results)) for key, results in found.items()}


def _run(conn: Connection, slug: str | None, target: str | None) -> RunRow:
    """Return the run to judge: by default the newest of any state, for one that was killed must not hide behind an older."""
    if slug is not None:
        return differences.run_named(conn, slug)
    newest = queries.runs(conn, target=target, limit=1)
    if not newest:
        of = f" on {target}" if target else ""
        raise BadInput(f"There is no run{of} in this database; make one with `neuron-ops sweep`.")
    return newest[0]


def _baseline(conn: Connection, name: str, run: RunRow) -> RunRow | Recording:
    if name == _LATEST_GOOD:
        return baselines.latest_good(conn, run)
    return baselines.read_baseline(Path(name)) if Path(name).is_file() else differences.run_named(conn, name)


def _write(engine: Engine, slug: str | None, target: str | None, path: Path) -> int:
    with read(engine) as conn:
        recording = differences.record(conn, _run(conn, slug, target))
    baselines.write_baseline(recording, path)
    click.echo(
        f"wrote {len(recording.seen)} cases of run {recording.side.label} to {path} ({path.stat().st_size} bytes)"
    )
    return 0


def _report(result: GateResult) -> Iterator[str]:
    """Yield the lines of a verdict; a run that did as its baseline did is one line."""
    yield (
        f"{'passed' if result.passed else 'failed'}: {result.after.label} against {result.before.label}, "
        f"{result.after.measured} cases measured"
    )
    yield from (f"  {sentence}" for sentence in result.refusals)
    yield from version_lines(result.product, "what was measured")
    yield from (f"\n{b.breach} expectation\n  {b.sentence}" for b in result.broken)
    yield from group_lines(result.differences)
    if result.flaky:
        yield f"\nflaky, not counted ({len(result.flaky)})"
    for one in result.flaky[:SHOWN]:
        letters = " ".join(f"{letter}:{count}" for letter, count in sorted(one.again.items()))
        yield f"  {one.difference.sentence}; run again: {letters}"
        yield f"    {one.unsteady} of {one.reruns} cases of {one.difference.case.overload} that were ever run again did not come back"
    for title, found in (("in quarantine", result.quarantined), ("as expected", result.expected)):
        if found:
            yield f"\n{title} ({len(found)})"
            yield from (f"  {one.sentence}" for one in found[:SHOWN])
    if result.rerun:
        yield f"\n{result.rerun} changed cases were run again alone"
