"""`neuron-ops repro`: a script that repeats one stored case without us."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import click
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from neuron_ops.op_tests.records import Case

_SECONDS = 120


@click.command()
@click.argument("case")
@click.option("--target", default="sim", show_default=True, help="Where the script repeats the call beside the CPU.")
@click.option(
    "--run", "run_it", is_flag=True, help="Run the script instead of printing it; exit code 1 where the sides differ."
)
@click.option("--db", "database", metavar="URL", help="Database URL or SQLite file (default: from the settings).")
def repro(case: str, target: str, run_it: bool, database: str | None) -> None:
    """Print a standalone script that repeats one case; CASE is its key or the first digits of it.

    Example: neuron-ops repro 974d2b4b > case.py
    """
    from neuron_ops.coverage_db.settings import load_settings

    settings = load_settings(database)
    source = _source(_stored(case, settings.database_url), target, settings.cache_folder)
    if not run_it:
        click.echo(source, nl=False)
        return
    try:
        done = subprocess.run([sys.executable, "-c", source], check=False, timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        click.echo(f"the case did not finish within {_SECONDS} seconds", err=True)
        sys.exit(1)
    sys.exit(0 if done.returncode == 0 else 1)


def _stored(prefix: str, url: str) -> Case:
    from neuron_ops.coverage_db import queries
    from neuron_ops.coverage_db.database import open_database, read

    engine = open_database(url, create=False)
    try:
        with read(engine) as connection:
            row = queries.case_by_key(connection, prefix)
    finally:
        engine.dispose()
    if row is None:
        raise BadInput(
            f"no case {prefix!r} in {url}; expected the key of a stored case; the site and `sweep` show keys"
        )
    return row.case


def _source(case: Case, target: str, bank_folder: Path) -> str:
    from neuron_ops.op_tests.bank import Bank
    from neuron_ops.op_tests.script import script
    from neuron_ops.op_tests.targets import open_target

    device = open_target(target).device
    return script(case, Bank(bank_folder, case.seed).sample(case), target=target, device=device)
