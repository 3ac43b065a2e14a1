"""`neuron-ops export`: the site as files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import urlsplit

import click
from neuron_ops.op_tests.records import BadInput

_MOST_SHOWN = 20


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--db", "database", metavar="URL", help="Database URL or SQLite file; default: that of the settings.")
@click.option(
    "--url",
    default="http://localhost",
    show_default=True,
    help="Where it will be served, with a folder if there is one.",
)
@click.option("--jobs", default=min(4, os.cpu_count() or 1), show_default=True, type=click.IntRange(1, 64))
def export(folder: Path, database: str | None, url: str, jobs: int) -> int:
    """Write the whole site into FOLDER, to be served as files under the same addresses.

    Search and filters work in the reader's browser. Exits with 1 if a link leads nowhere.

    Example: neuron-ops export public --url https://name.github.io/neuron-ops
    """
    from neuron_ops.cli.bank import progress_of_parts
    from neuron_ops.coverage_db.settings import load_settings

    if folder.exists() and any(folder.iterdir()):
        raise BadInput(f"The folder {folder} is not empty: name a new one, or empty it first.")
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise BadInput(f"--url {url!r} is no address of a site: give one such as https://name.github.io/neuron-ops.")
    from neuron_ops.web import export as site

    begun = time.monotonic()
    with progress_of_parts() as progress:
        found = site.export(
            load_settings(database).database_url, folder, url.rstrip("/"), jobs,
            lambda done, known: progress(done, known, "addresses"),
        )  # fmt: skip
    click.echo(f"{found.files:,} files, {found.size / 1e6:.1f} MB, in {time.monotonic() - begun:.0f} s: {folder}")
    for page, address in found.broken[:_MOST_SHOWN]:
        click.echo(f"broken: {page} leads to {address}")
    click.echo(f"{len(found.broken)} broken links" if found.broken else "every link leads somewhere")
    return 1 if found.broken else 0
