"""Announces batches to Celery workers and follows a run through the database."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any

import kombu.exceptions
from neuron_ops.coverage_db import leases, queries
from neuron_ops.coverage_db.database import open_database, read, transact
from neuron_ops.op_tests.records import BadInput
from neuron_ops.workers import runs
from neuron_ops.workers.batch import RunOptions
from neuron_ops.workers.celery_app import EXECUTE, make_app, queue_of
from neuron_ops.workers.runs import Progress, SweepReport

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery import Celery
    from neuron_ops.coverage_db.rows import RunStart
    from neuron_ops.coverage_db.settings import Settings
    from neuron_ops.workers.planner import SweepPlan
    from sqlalchemy import Engine

_POLL_SECONDS = 1.0
_PUBLISH_SECONDS = 5.0  # between two looks for batches to announce
_AFTER_LOSS_SECONDS = 5.0  # an empty queue with batches waiting: their messages are lost, or just being taken
_WORKERS = 16  # to cut batches for; more share them as well


class BrokerAway(BadInput):
    """The broker cannot be reached just now."""


def broker_url(settings: Settings) -> str:
    """Return the broker's URL; raises BadInput where none is set."""
    if settings.broker_url is None:
        raise BadInput(
            "No broker is set; give one such as redis://host:6379/0 or amqp://host with --broker or "
            "NEURON_OPS_BROKER_URL, or run without --celery."
        )
    return settings.broker_url


def connect(settings: Settings, target: str) -> Celery:
    """Return an application whose broker answers; raises BadInput where it does not."""
    url = broker_url(settings)
    app = make_app(url, [target])
    with _broker_errors(app), app.connection_for_write() as connection:
        connection.ensure_connection(max_retries=1, interval_start=0.2)
    return app


def start(
    settings: Settings, plan: SweepPlan, *, options: RunOptions | None = None, channel: str = "default"
) -> RunStart:
    """Store a plan as a run and announce its batches once that is committed; return the run's id and slug."""
    app = connect(settings, plan.build.target)
    engine = open_database(settings.database_url)
    try:
        begun = runs.begin(engine, plan, options or RunOptions(), workers=_WORKERS, channel=channel)
        announce(engine, app, begun.run_id, plan.build.target)
    finally:
        engine.dispose()
    return begun


def resume(settings: Settings, slug: str | None) -> RunStart:
    """Make a run that did not end well run again and announce what is open of it; return its id and slug."""
    engine = open_database(settings.database_url)
    try:
        begun = runs.resume(engine, slug)
        target = _target(engine, begun.run_id)
        announce(engine, connect(settings, target), begun.run_id, target)
    finally:
        engine.dispose()
    return begun


def follow(settings: Settings, run_id: int, *, progress: Callable[[Progress], None]) -> SweepReport:
    """Return the report of a run when its workers have ended it, announcing again what gets lost meanwhile.

    Ctrl-C cancels the run. Raises BadInput where the database goes away for good.
    """
    began = time.monotonic()
    engine = open_database(settings.database_url)
    try:
        try:
            _until_ended(
                engine, make_app(broker_url(settings), [target := _target(engine, run_id)]), run_id, target, progress
            )
        except KeyboardInterrupt:
            runs.cancel(engine, run_id)
            raise
        runs.end_early(engine, run_id)
        return runs.report(engine, run_id, seconds=time.monotonic() - began, children=0)
    finally:
        engine.dispose()


def announce(engine: Engine, app: Celery, run_id: int, target: str) -> int:
    """Send a message for each batch that is free and not announced, or whose message must be lost; return how many.

    Raises BrokerAway; what was not sent is then sent the next time.
    """
    with _broker_errors(app):
        empty = waiting(app, target) == 0
    expected = transact(engine, lambda c: leases.open_ms(c, run_id)) / 1000
    wait = _AFTER_LOSS_SECONDS if empty else max(leases.LEASE_SECONDS, 2 * expected)
    numbers = transact(engine, lambda c: leases.to_publish(c, run_id, wait=wait))
    sent = 0
    try:
        with _broker_errors(app):
            for number in numbers:
                app.send_task(EXECUTE, (run_id, number), queue=queue_of(target), retry=False)
                sent += 1
    finally:
        if sent < len(numbers):
            rest = numbers[sent:]
            transact(engine, lambda c: leases.unpublish(c, run_id, rest))
    return sent


def waiting(app: Celery, target: str) -> int:
    """Return how many messages are in a target's queue; 0 where there is no queue yet."""
    with app.connection_for_read() as connection:
        channel = connection.channel()
        try:
            found: int = channel.queue_declare(queue_of(target), passive=True).message_count
        except connection.channel_errors:
            return 0  # Redis has no empty queues, and after a crash none at all
    return found


def look_after_all(engine: Engine, app: Celery, target: str) -> None:
    """Announce what is free in every running run of a target, and finalize those that are complete."""
    with read(engine) as conn:
        found = [run.id for run in queries.runs(conn, target=target, limit=1000) if run.state == "running"]
        shared = [run_id for run_id in found if leases.open_batches(conn, run_id)]
    for run_id in shared:
        if runs.look_after(engine, run_id):
            announce(engine, app, run_id, target)


def _until_ended(engine: Engine, app: Celery, run_id: int, target: str, progress: Callable[[Progress], None]) -> None:
    """Return when no batch is open any more or the run was cancelled; tells the progress and announces in between."""
    began = announced = time.monotonic()
    with read(engine) as conn:
        before, total = runs.counts(conn, run_id).total(), runs.planned(conn, run_id)
    while runs.look_after(engine, run_id):
        if time.monotonic() - announced >= _PUBLISH_SECONDS:
            announced = time.monotonic()
            with contextlib.suppress(BrokerAway):  # leased batches go on without it, the others when it is back
                announce(engine, app, run_id, target)
        state, counts = transact(engine, lambda c: (leases.run_to_do(c, run_id).state, runs.counts(c, run_id)))
        if state != "running":
            return
        progress(Progress(counts.total(), total, dict(counts), time.monotonic() - began, before))
        time.sleep(_POLL_SECONDS)
    counts = transact(engine, lambda c: runs.counts(c, run_id))
    progress(Progress(counts.total(), total, dict(counts), time.monotonic() - began, before))


def _target(engine: Engine, run_id: int) -> str:
    return transact(engine, lambda c: leases.run_to_do(c, run_id)).target


class _broker_errors:  # noqa: N801 - reads as a statement
    """Turns what broker libraries raise into one sentence."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        connection = self._app.connection_for_write()
        away = (kombu.exceptions.OperationalError, OSError, *connection.connection_errors)
        if isinstance(error, away):
            cause = " ".join(str(error).split())
            raise BrokerAway(
                f"The broker {connection.as_uri()} cannot be reached ({cause}); check the URL and that it runs, and go on "
                "with `neuron-ops sweep --resume --celery`."
            ) from error
