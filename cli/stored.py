"""Finds the stored results that a check judges by: a file that is named, the local database, the shipped catalogue."""

from __future__ import annotations

import importlib.resources
from pathlib import Path
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.settings import DATABASE_FILE, load_settings
from neuron_ops.op_tests.capture.evidence import (
    LABEL,
    Catalogue,
    Source,
    StoredCase,
    collect,
    read_catalogue,
)
from neuron_ops.op_tests.records import Evidence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection

SHIPPED = "data/catalogue.json.gz"
_TARGETS = ("neuron", "sim")
"""Whose runs speak of the device, the better evidence first."""
_RUNS = 5
"""How many published runs of each are asked, the newest first: a run of a few cases must not hide a whole one."""


def stored_results(db: str | None, overloads: Collection[str]) -> list[Catalogue]:
    """Return what the database says of the overloads, then the shipped catalogue.

    Raises BadInput where the database cannot be read.
    """
    return [*_local(db, overloads), *shipped_catalogue(overloads)]


def shipped_catalogue(overloads: Collection[str]) -> tuple[Catalogue, ...]:
    """Return what the catalogue in the package says of the overloads, nothing where it was not built."""
    file = importlib.resources.files("neuron_ops.op_tests").joinpath(SHIPPED)
    return (read_catalogue(file.read_bytes(), str(file), overloads),) if file.is_file() else ()


def _local(db: str | None, overloads: Collection[str]) -> Iterator[Catalogue]:
    settings = load_settings(db)
    url = settings.database_url
    path = Path(url.removeprefix("sqlite:///"))
    if db is None and url.startswith("sqlite:///") and path.name == DATABASE_FILE and not path.exists():
        return  # nobody has swept here
    from neuron_ops.coverage_db import queries  # SQLAlchemy takes 0.3 s, which most users need not pay
    from neuron_ops.coverage_db.database import open_database

    engine = open_database(url, create=False)
    with engine.connect() as conn:
        for target in _TARGETS:
            done = [run for run in queries.runs(conn, target=target) if run.published]
            for run in done[:_RUNS]:
                yield collect(source_of(run), stored_cases(conn, run, overloads))
    engine.dispose()


def source_of(run: RunRow) -> Source:
    """Return a run as a source of results."""
    return Source(
        f"run {run.slug} on {run.target}",
        f"{run.started:%Y-%m-%d}",
        Evidence(run.evidence),
        run.versions.get("torch", ""),
    )


def stored_cases(conn: Connection, run: RunRow, overloads: Collection[str] | None = None) -> Iterator[StoredCase]:
    """Yield what a run says of each case, only of those overloads where given."""
    from neuron_ops.coverage_db import known

    for case in known.judged_cases(conn, run, overloads, LABEL):
        yield StoredCase(case.overload, case.dtype, case.sample, case.variant, case.status)
