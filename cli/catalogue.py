"""`neuron-ops catalogue`: a stored run as one small file that `check --catalogue` judges by."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from neuron_ops.coverage_db.rows import RunRow
    from neuron_ops.op_tests.capture.evidence import StoredCase
    from sqlalchemy import Connection


@click.group()
def catalogue() -> None:
    """Write stored results as one small file that `check --catalogue` judges models by."""


@catalogue.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--run", "slug", help="The run to write; default: the newest done one.")
@click.option("--db", help="Database URL or SQLite file; default: that of the settings.")
def build(file: Path, slug: str | None, db: str | None) -> None:
    """Write a run to FILE: for each overload and dtype how its cases did, by the ranks of their tensors and by axis.

    Reads the ranks in the sample bank that the run used. Example: neuron-ops catalogue build catalogue.json.gz
    """
    from neuron_ops.cli.stored import source_of
    from neuron_ops.coverage_db.database import open_database
    from neuron_ops.coverage_db.settings import load_settings
    from neuron_ops.op_tests.capture.evidence import collect, write_catalogue

    settings = load_settings(db)
    engine = open_database(settings.database_url, create=False)
    with engine.connect() as conn:
        run = _run(conn, slug)
        made = collect(source_of(run), _cases(conn, run, settings.cache_folder))
    engine.dispose()
    data = write_catalogue(made)
    file.write_bytes(data)
    overloads, cases = (
        {name for name, _ in made.forms},
        sum(sum(f.counts.values()) for fs in made.forms.values() for f in fs),
    )
    click.echo(
        f"{file}: {len(overloads)} overloads, {cases} cases of {made.source.title}, {made.source.evidence}, {len(data) >> 10} KiB"
    )


def _run(conn: Connection, slug: str | None) -> RunRow:
    from neuron_ops.coverage_db import queries
    from neuron_ops.coverage_db.publishing import public_run
    from neuron_ops.op_tests.records import BadInput

    run = public_run(conn) if slug is None else queries.run_by_slug(conn, slug)
    if run is None or run.state != "done":
        asked = f"run {slug!r}" if slug else "run"
        raise BadInput(f"there is no done {asked} in the database; expected one; list them with `neuron-ops runs`")
    return run


def _cases(conn: Connection, run: RunRow, folder: Path) -> Iterator[StoredCase]:
    """Yield the run's cases with the ranks of their tensors, None where the bank has no such sample."""
    from neuron_ops.coverage_db import known
    from neuron_ops.op_tests.bank import Bank
    from neuron_ops.op_tests.capture.evidence import StoredCase
    from neuron_ops.op_tests.records import Case

    bank = Bank(folder, run.seed)
    missing = set(bank.missing(run.dtypes))
    ranks: dict[tuple[str, str, str], tuple[int, ...] | None] = {}
    for case in known.judged_cases(conn, run):
        key = (case.overload, case.dtype, case.sample)
        if key not in ranks:
            sample = None if case.dtype in missing else bank.find(Case(*key, seed=case.seed))
            ranks[key] = None if sample is None else tuple(len(tensor["shape"]) for tensor in sample.tensors())
        yield StoredCase(*key, case.variant, case.status, ranks[key])
