"""`neuron-ops worker`: take batches of runs from a broker and run them on this machine."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import click
from neuron_ops.coverage_db.database import open_database
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.workers import dispatch
from neuron_ops.workers.celery_app import queue_of, schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from celery import Celery

_CORES = "NEURON_RT_VISIBLE_CORES"


def _cores(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Return core numbers of ``0,2,4-7``; raises BadParameter for anything else."""
    cores: list[int] = []
    for part in (value or "").split(",") if value is not None else ():
        found = re.fullmatch(r"\s*(\d+)(?:-(\d+))?\s*", part)
        if not found or (last := int(found[2] or found[1])) < (first := int(found[1])):
            raise click.BadParameter(
                f"{value!r} names no cores; write numbers and ranges, such as 0,2,4-7.", ctx, param
            )
        cores.extend(range(first, last + 1))
    return tuple(dict.fromkeys(cores))


def _time(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    found = re.fullmatch(r"(\d\d?):(\d\d)", value)
    if not found or int(found[1]) > 23 or int(found[2]) > 59:
        raise click.BadParameter(
            f"{value!r} is no time of day; write hours and minutes in UTC, such as 02:30.", ctx, param
        )
    return int(found[1]), int(found[2])


@click.command()
@click.option("--target", required=True, help="Take batches for this target.")
@click.option(
    "--cores", callback=_cores, help="One worker a core, such as 0-7; default: one worker, all cores visible."
)
@click.option("--broker", metavar="URL", help="redis:// or amqp:// URL; default: that of the settings.")
@click.option("--db", "database", metavar="URL", help="Database URL or SQLite file; default: that of the settings.")
@click.option(
    "--pool", type=click.Choice(["prefork", "solo", "threads"]), default="prefork", show_default=True,
    help="How Celery runs the task; prefork answers while it is busy.",
)  # fmt: skip
@click.option(
    "--nightly", callback=_time, metavar="HH:MM", help="Be the scheduler instead: start a run every night (UTC)."
)
@click.option("--ops", default="all", show_default=True, help="What the nightly run sweeps.")
@click.option("--dtypes", default="float32,bfloat16", show_default=True, help="Dtypes of the nightly run.")
@click.option("--parent", type=click.INT, hidden=True, help="End when this process does.")
def worker(
    target: str, cores: Sequence[int], broker: str | None, database: str | None, pool: str,
    nightly: tuple[int, int] | None, ops: str, dtypes: str, parent: int | None,
) -> int:  # fmt: skip
    """Take batches of runs from a broker and run them on this machine, until it is stopped.

    SIGTERM or Ctrl-C lets the batch at hand finish; a second one does not. Whatever ends a worker, its batch is run by
    another one.
    """
    if parent is not None:
        ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)
        if os.getppid() != parent:
            return 0
    settings = load_settings(database, broker)
    app = dispatch.connect(settings, target)
    open_database(settings.database_url).dispose()
    # The tasks read the settings anew, in processes that know no flags.
    os.environ["NEURON_OPS_DATABASE_URL"] = settings.database_url
    os.environ["NEURON_OPS_BROKER_URL"] = dispatch.broker_url(settings)
    if nightly is not None:
        chosen = {"ops": ops.split(","), "dtypes": dtypes.split(",")}
        schedule(app, target, hour=nightly[0], minute=nightly[1], chosen=chosen)
        state = settings.data_folder / "nightly-schedule"
        state.parent.mkdir(parents=True, exist_ok=True)
        app.Beat(schedule=str(state), loglevel="WARNING").run()
        return 0
    if len(cores) > 1:
        return _one_a_core(target, cores, pool)
    if cores:
        os.environ[_CORES] = str(cores[0])
    return _consume(app, target, pool, name=f"core{cores[0]}" if cores else f"p{os.getpid()}")


def _consume(app: Celery, target: str, pool: str, *, name: str) -> int:
    """Run one Celery worker in this process."""
    arguments = [
        "--quiet", "worker", "--pool", pool, "--concurrency", "1", "--queues", queue_of(target), "--hostname", f"{name}@%h",
        "--loglevel", "WARNING", "--without-gossip", "--without-mingle",
    ]  # fmt: skip
    try:
        app.worker_main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def _one_a_core(target: str, cores: Sequence[int], pool: str) -> int:
    """Run one worker process for each core and return the worst of their exit codes."""
    code = "from neuron_ops.cli.main import main; main()"
    common = ["--target", target, "--pool", pool, "--parent", str(os.getpid())]
    processes = [
        subprocess.Popen([sys.executable, "-c", code, "worker", *common, "--cores", str(core)]) for core in cores
    ]

    def stop(*_: object) -> None:
        for process in processes:
            process.terminate()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    return max(process.wait() for process in processes)
