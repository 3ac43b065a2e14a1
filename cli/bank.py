"""`neuron-ops bank`: the recorded samples that sweeps read."""

from __future__ import annotations

import sys

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


@click.group()
def bank() -> None:
    """Build the sample bank that sweeps read (they build what they lack by themselves)."""


@bank.command("build")
@click.option("--dtypes", default="float32,bfloat16", show_default=True, help="Dtypes to record, separated by commas.")
@click.option("--seed", default=0, show_default=True, help="Seed of the sample generators.")
def build(dtypes: str, seed: int) -> None:
    """Record the calls that torch's OpInfo entries make, for each dtype that has no bank file yet.

    Example: neuron-ops bank build --dtypes float32,bfloat16
    """
    from neuron_ops.coverage_db.settings import load_settings
    from neuron_ops.op_tests.bank import Bank, bank_file
    from neuron_ops.op_tests.plan import check_dtypes

    names = [name.strip() for name in dtypes.split(",") if name.strip()]
    check_dtypes(names)
    folder = load_settings().cache_folder
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stdout.isatty()) as bar:
        task = bar.add_task("recording", total=None)
        Bank(folder, seed).build(
            names, lambda done, total, text: bar.update(task, completed=done, total=total, description=text[:50])
        )
    for name in names:
        click.echo(bank_file(folder, name, seed))
