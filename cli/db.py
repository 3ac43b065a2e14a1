"""`neuron-ops db`: upgrade or check the database."""

from __future__ import annotations

import click
from neuron_ops.coverage_db.database import check_database, shown_name, upgrade_database
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.coverage_db.upgrade import HEAD

_DB = click.option("--db", "database", metavar="URL", help="Database URL or SQLite file (default: from the settings).")


@click.group()
def db() -> None:
    """Upgrade or check the database."""


@db.command()
@_DB
def upgrade(database: str | None) -> None:
    """Create the tables, or bring those of an older version up to date."""
    url = load_settings(database).database_url
    click.echo(f"{shown_name(url)} is at revision {upgrade_database(url)}")


@db.command()
@_DB
def check(database: str | None) -> int:
    """Compare the tables with those that this version expects; change nothing. Exit code 1 when they differ."""
    url = load_settings(database).database_url
    revision, differences = check_database(url)
    click.echo(f"{shown_name(url)} is {f'at revision {revision}' if revision else 'empty'}, expected {HEAD}")
    for line in differences:
        click.echo(f"differs: {line}")
    if revision != HEAD:
        click.echo("run `neuron-ops db upgrade`")
    return 1 if differences or revision != HEAD else 0
