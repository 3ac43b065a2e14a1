"""The Celery application: thin tasks that carry numbers; what they mean is in the database.

A message is only a wake-up call. Losing one, the broker or a worker loses nothing: batches that nobody holds are announced
again (dispatch.py), and a batch that was announced twice is claimed once.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from celery import Celery
from celery.schedules import crontab
from celery.signals import worker_init, worker_process_init
from kombu.entity import Queue
from neuron_ops.coverage_db.database import DatabaseAway, open_database
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import BadInput
from neuron_ops.workers.batch import Worker

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXECUTE, LOOK_AFTER, NIGHTLY = "neuron_ops.execute_batch", "neuron_ops.look_after", "neuron_ops.nightly"
_LOOK_AFTER_SECONDS = 60.0
_LOG = logging.getLogger(__name__)
_SETTINGS: Mapping[str, Any] = {
    # Two numbers need no pickle, and pickle from a broker is code from whoever can write to it.
    "task_serializer": "json", "result_serializer": "json", "accept_content": ["json"],
    # Results are in the database; a result backend would be a second truth.
    "task_ignore_result": True, "result_backend": None,
    # A message is acknowledged when its batch has ended, so a broker gives it to another worker when one is lost ...
    "task_acks_late": True,
    # ... but not because of a case that kills its worker: that would be requeued for ever. Leases bring the batch back.
    "task_reject_on_worker_lost": False,
    # Nothing is reserved beyond the running batch: whoever is free takes the next one.
    "worker_prefetch_multiplier": 1, "worker_concurrency": 1,
    # Only a backstop: deadlines are the sandbox's. Below the visibility timeout, or the message comes twice.
    "task_time_limit": 6600,
    "broker_connection_retry_on_startup": True, "broker_connection_max_retries": None,
    # True would kill running batches when the broker blinks (measured: 92 of 200 done).
    "worker_cancel_long_running_tasks_on_connection_loss": False,
    # Progress is read from the database; events are traffic that grows with the workers.
    "worker_send_task_events": False, "task_send_sent_event": False,
    "worker_hijack_root_logger": False,
    # A misspelt target must fail, not make a queue that nobody reads.
    "task_create_missing_queues": False,
    "timezone": "UTC",
}  # fmt: skip
_REDIS_OPTIONS = {
    "visibility_timeout": 7200,  # above the time limit: a shorter one runs every long batch twice, again and again
    "socket_timeout": 30, "socket_connect_timeout": 5, "health_check_interval": 25,
}  # fmt: skip


def queue_of(target: str) -> str:
    """Return the name of a target's queue."""
    return f"t.{target}"


def make_app(broker_url: str, targets: Sequence[str]) -> Celery:
    """Return an application for workers and senders of these targets; it does not connect."""
    app = Celery("neuron_ops", broker=broker_url, set_as_current=False)
    app.conf.update(_SETTINGS)
    app.conf.task_queues = [Queue(queue_of(target)) for target in targets]
    app.conf.task_default_queue = queue_of(targets[0])
    if broker_url.startswith(("redis", "rediss")):
        app.conf.broker_transport_options = _REDIS_OPTIONS
    app.task(name=EXECUTE)(_execute_batch)
    app.task(name=LOOK_AFTER)(_look_after)
    app.task(name=NIGHTLY)(_nightly)
    return app


def schedule(app: Celery, target: str, *, hour: int, minute: int, chosen: Mapping[str, Any]) -> None:
    """Give the application a beat schedule: a run every night, and a look after the runs that nobody watches."""
    app.conf.beat_schedule = {
        "nightly": {
            "task": NIGHTLY, "schedule": crontab(hour=hour, minute=minute), "kwargs": {"target": target, **chosen},
            "options": {"queue": queue_of(target)},
        },
        "look after": {
            "task": LOOK_AFTER, "schedule": _LOOK_AFTER_SECONDS, "args": [target],
            # A look that waited for the next one is no longer needed.
            "options": {"queue": queue_of(target), "expires": _LOOK_AFTER_SECONDS},
        },
    }  # fmt: skip


_THREAD = threading.local()
_MAIN: list[int] = []  # the process that consumes, to be told when its machine cannot run cases


def _execute_batch(run_id: int, batch_no: int) -> None:
    """Run one batch in this worker's sandbox."""
    worker = getattr(_THREAD, "worker", None)
    if worker is None:
        settings = load_settings()
        # Not at import: a pool's connections do not survive the fork of a worker process.
        worker = _THREAD.worker = Worker(open_database(settings.database_url), settings.cache_folder)
    try:
        worker.execute_batch(run_id, batch_no)
    except DatabaseAway:
        raise  # the next batch may find it back; this one's lease ends and it is announced again
    except (BadInput, RuntimeError) as error:
        _LOG.error("this worker stops, it cannot run cases: %s", error)
        worker.close()
        if _MAIN:
            os.kill(_MAIN[0], signal.SIGTERM)


def _look_after(target: str) -> None:
    """Announce what is free in the running runs of a target, and finalize those that are complete."""
    from neuron_ops.workers import dispatch

    settings = load_settings()
    engine = open_database(settings.database_url)
    try:
        dispatch.look_after_all(engine, make_app(dispatch.broker_url(settings), [target]), target)
    finally:
        engine.dispose()


def _nightly(target: str, ops: list[str], dtypes: list[str], limit: int | None = None) -> None:
    """Plan a run and announce its batches."""
    from neuron_ops.workers import dispatch
    from neuron_ops.workers.planner import PlanRequest, request_plan

    settings = load_settings()
    request = PlanRequest(target, tuple(ops), tuple(dtypes), limit, 0, settings.cache_folder)
    plan = request_plan(request, progress=lambda *_: None)
    dispatch.start(settings, plan, channel="nightly")


def _remember_main(**_: object) -> None:
    _MAIN[:] = [os.getpid()]


def _die_with_main(**_: object) -> None:
    """Make a pool's process end with its worker even when that is killed: an orphan would go on with its batch."""
    with contextlib.suppress(OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


worker_init.connect(_remember_main, weak=False)
worker_process_init.connect(_die_with_main, weak=False)
