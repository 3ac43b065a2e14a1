"""`neuron-ops bank`: the recorded samples that sweeps read."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LINE_SECONDS = 5.0  # between two plain lines of progress


@click.group()
def bank() -> None:
    """Build the sample bank that sweeps read (they build what they lack by themselves)."""


@bank.command("build")
@click.option(
    "--dtypes", default="float32,bfloat16", show_default=True, help="Dtypes to record, separated by commas, or all."
)
@click.option("--jobs", default=2, show_default=True, type=click.IntRange(1), help="Dtypes recorded at a time.")
@click.option(
    "--axes/--plain",
    default=True,
    show_default="--axes",
    help="Find the variants of all axes too, or plain calls alone.",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the sample generators.")
def build(dtypes: str, jobs: int, axes: bool, seed: int) -> None:
    """Record, derive and search the samples of each dtype that has no bank file yet; half a minute to two minutes of CPU each.

    Example: neuron-ops bank build --dtypes all
    """
    from neuron_ops.coverage_db.settings import load_settings
    from neuron_ops.op_tests.bank import Bank, bank_file
    from neuron_ops.op_tests.plan import dtypes_named

    names = dtypes_named([name.strip() for name in dtypes.split(",") if name.strip()])
    folder = load_settings().cache_folder
    with progress_of_parts() as progress:
        Bank(folder, seed).build(names, progress, jobs=jobs, axes=axes)
    for name in names:
        click.echo(bank_file(folder, name, seed))


def progress_of_parts() -> contextlib.AbstractContextManager[Callable[[int, int, str], None]]:
    """Return a context whose value takes done, total and a text: a bar on a terminal, plain lines elsewhere."""
    return _bar() if sys.stderr.isatty() else _lines()


@contextlib.contextmanager
def _bar() -> Iterator[Callable[[int, int, str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text[:60])


@contextlib.contextmanager
def _lines() -> Iterator[Callable[[int, int, str], None]]:
    told = 0.0

    def line(done: int, total: int, text: str) -> None:
        nonlocal told
        if done >= total or time.monotonic() - told >= _LINE_SECONDS:
            told = time.monotonic()
            click.echo(f"{100 * done // total} % {text}", err=True)

    yield line
