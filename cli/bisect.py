"""`neuron-ops bisect`: which build broke a case."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.coverage_db.verdicts import named, word
from neuron_ops.op_tests.records import BadInput, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neuron_ops.coverage_db.blame import Blame
    from neuron_ops.coverage_db.rows import CaseRow
    from neuron_ops.coverage_db.settings import Settings


@click.command()
@click.argument("case")
@click.option("--target", metavar="T", help="Only runs on this target; with --install the target to try, default: sim.")
@click.option(
    "--install", metavar="COMMAND",
    help="Try builds: a command, run without a shell, that installs one; {build} stands for its name.",
)  # fmt: skip
@click.option(
    "--builds", metavar="A,B,…", help="With --install: names of builds, oldest first, the first good, the last bad."
)
@click.option(
    "--times",
    default=3,
    show_default=True,
    type=click.IntRange(1, 100),
    help="How often a build's case is run; the worst counts.",
)
@click.option("--db", "database", metavar="URL", help="Database URL or SQLite file (default: from the settings).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def bisect(
    case: str, target: str | None, install: str | None, builds: str | None, times: int, database: str | None, as_json: bool
) -> int:  # fmt: skip
    """Say which build broke CASE, a key or its first digits; exit code 1 where none can be blamed.

    Without --install the stored runs tell: the first bad run of the newest stream of runs that has the case, and what
    changed since the last good one. With it, builds are installed and tried, half of those left at a time.

    Example: neuron-ops bisect 974d2b4b --install 'pip install torch-neuronx=={build}' --builds 0.1.0,0.1.1,0.2.0
    """
    if (install is None) is not (builds is None):
        raise BadInput("--install and --builds belong together; give both, or neither to ask the stored runs.")
    settings = load_settings(database)
    row = _stored(settings, case)
    if install is not None and builds is not None:
        return _try_builds(settings, row, target or "sim", install, builds, times, as_json=as_json)
    return _ask_runs(settings, row, target, as_json=as_json)


def _stored(settings: Settings, prefix: str) -> CaseRow:
    from neuron_ops.coverage_db import queries

    engine = open_database(settings.database_url, create=False)
    try:
        with read(engine) as conn:
            row = queries.case_by_key(conn, prefix)
    finally:
        engine.dispose()
    if row is None:
        raise BadInput(f"There is no case {prefix!r} in this database; the site and `neuron-ops gate` show keys.")
    return row


def _ask_runs(settings: Settings, row: CaseRow, target: str | None, *, as_json: bool) -> int:
    from neuron_ops.coverage_db.blame import blame

    engine = open_database(settings.database_url, create=False)
    try:
        with read(engine) as conn:
            found = blame(conn, row, target)
    finally:
        engine.dispose()
    click.echo(json.dumps(_as_json(found), indent=2) if as_json else "\n".join(_lines(found)))
    return 1 if found.bad is not None and found.good is None else 0


def _lines(found: Blame) -> Iterator[str]:
    yield f"{named(found.case)} on {found.target}: {word(found.now)} in the newest of {found.runs} runs"
    if found.bad is None:
        yield "it is good now; nothing to blame"
    elif found.good is None:
        yield f"it was never good: bad since run {found.bad.run.slug} of {found.bad.run.started:%Y-%m-%d}, the first that has it"
    else:
        yield f"first bad  run {found.bad.run.slug} of {found.bad.run.started:%Y-%m-%d %H:%M}"
        yield f"last good  run {found.good.run.slug} of {found.good.run.started:%Y-%m-%d %H:%M}"
        yield (
            "changed between them:"
            if found.changes
            else "nothing that was stored changed between them: look for chance"
        )
        width = max((len(change.part) for change in found.changes), default=0)
        for change in found.changes:
            before, after = change.before or "absent", change.after or "absent"
            yield f"  {change.part.ljust(width)}  {change.name} {before} → {after}"
    if found.turns > 1:
        yield f"it went bad {found.turns} times in these runs: perhaps a flaky case"


def _as_json(found: Blame) -> dict[str, Any]:
    return {
        "case": found.case.key, "target": found.target, "now": found.now, "runs": found.runs, "turns": found.turns,
        "first_bad": found.bad and found.bad.run.slug, "last_good": found.good and found.good.run.slug,
        "changes": [
            {"part": c.part, "name": c.name, "before": c.before, "after": c.after} for c in found.changes
        ],
    }  # fmt: skip


def _try_builds(
    settings: Settings, row: CaseRow, target: str, command: str, names: str, times: int, *, as_json: bool
) -> int:  # fmt: skip
    from neuron_ops.coverage_db.blame import is_bad
    from neuron_ops.workers import bisection

    builds = _builds(command, names)
    seen: dict[str, str] = {}
    wanted: list[Status] = []  # the first is that of the last build, which says what is looked for

    def probe(build: str) -> bool | None:
        found = bisection.install(command, build)
        status = (
            found
            if found is not None
            else bisection.try_case(row.case, target, times, bank_folder=settings.cache_folder)
        )
        seen[build] = status if not isinstance(status, Status) else word(status)
        click.echo(f"{build}: {seen[build]}", err=True)
        if not isinstance(status, Status):
            return None
        wanted.append(status)
        return not is_bad(status, wanted[0])

    answer = bisection.first_bad(builds, probe)
    written = {"first_bad": answer.bad, "last_good": answer.good, "untried_between": answer.between, "seen": seen}
    between = f"; could not be tried between them: {', '.join(answer.between)}" if answer.between else ""
    click.echo(
        json.dumps(written, indent=2) if as_json
        else f"first bad {answer.bad} ({seen[answer.bad]}), last good {answer.good} ({seen[answer.good]}){between}"
    )  # fmt: skip
    return 0


def _builds(command: str, names: str) -> Sequence[str]:
    from neuron_ops.workers.bisection import PLACE

    builds = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if len(builds) < 2:
        raise BadInput(
            f"--builds {names!r} names {len(builds)} builds; give at least a good and a bad one, oldest first."
        )
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise BadInput(f"The command {command!r} cannot be read ({error}); close its quotes.") from error
    if not any(PLACE in one for one in words):
        raise BadInput(f"The command {command!r} has no {PLACE}; write it where the name of a build belongs.")
    return builds
