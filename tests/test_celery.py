"""Workers take batches from a broker; the run is complete whatever becomes of the messages."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from neuron_ops.cli.main import run
from neuron_ops.coverage_db import leases
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.coverage_db.queries import latest_run
from neuron_ops.coverage_db.recorder import count_results
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import BadInput
from neuron_ops.workers import dispatch
from neuron_ops.workers.celery_app import make_app, schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from services import Postgres, Redis

pytest_plugins = ["services"]
HERE = Path(__file__).parent
COMMAND = [sys.executable, str(HERE / "fake_command.py")]


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, postgres: Postgres, redis: Redis) -> str:
    """Point settings of this process and its children at a new database and the broker; return the target."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("NEURON_OPS_DATA", str(tmp_path))
    monkeypatch.setenv("NEURON_OPS_CACHE", str(tmp_path))
    monkeypatch.setenv("NEURON_OPS_DATABASE_URL", postgres.create("template"))
    monkeypatch.setenv("NEURON_OPS_BROKER_URL", redis.url)
    monkeypatch.chdir(tmp_path)
    return f"fake-{tmp_path.name}"  # a queue of its own: the broker is shared by all tests


@pytest.fixture
def worker(shared: str) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts a worker; all are ended after the test."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen([*COMMAND, "worker", "--target", shared, *arguments]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def sweep(target: str, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*COMMAND, "sweep", "--celery", "--target", target, *arguments], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        select.select([], [], [], 0.05)


def stored() -> tuple[str, int]:
    engine = open_database(load_settings().database_url)
    with read(engine) as conn:
        found = latest_run(conn)
        result = (found.state, count_results(conn, found.id)) if found else ("none", 0)
    engine.dispose()
    return result


@pytest.mark.parametrize("pool", ["prefork", "solo", "threads"])
def test_a_worker_of_each_pool_completes_a_run(shared, worker, pool):
    worker("--pool", pool)
    code, out, err = sweep(shared, "--ops", "normal*90,segfault*2,wrong,exits", "--dtypes", "float32", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert (data["planned"], data["recorded"]) == (94, 94)
    assert data["counts"] == {"N": 90, "X": 3, "W": 1}
    assert "94 of 94 cases" in err


def test_lost_messages_are_announced_again(shared, worker, redis):
    code, slug, err = sweep(shared, "--ops", "normal*40", "--dtypes", "float32", "--detach")
    assert code == 0, err
    app = make_app(redis.url, [shared])
    assert dispatch.waiting(app, shared) == 3
    with app.connection_for_write() as connection:
        connection.default_channel.queue_purge(f"t.{shared}")
    assert dispatch.waiting(app, shared) == 0
    engine = open_database(load_settings().database_url)
    with write(engine) as conn:
        run_id = latest_run(conn).id
        assert leases.to_publish(conn, run_id, wait=60) == []
        conn.exec_driver_sql("UPDATE run_batch SET published = published - 6")
    assert dispatch.announce(engine, app, run_id, shared) == 3
    assert dispatch.announce(engine, app, run_id, shared) == 0
    engine.dispose()
    worker()
    until(lambda: stored() == ("done", 40))
    assert slug.strip() == latest(shared)


def latest(target: str) -> str:
    engine = open_database(load_settings().database_url)
    with read(engine) as conn:
        slug = latest_run(conn, target).slug
    engine.dispose()
    return slug


def test_a_cancelled_run_stops_its_workers_and_can_be_resumed(shared, worker, tmp_path, capsys):
    (tmp_path / "once").touch()
    worker()
    code, slug, err = sweep(shared, "--ops", "normal*20,stays", "--dtypes", "float32", "--detach")
    assert code == 0, err
    until((tmp_path / "family").exists)
    assert run(["runs", "cancel", slug.strip()]) == 0
    assert "is cancelled" in capsys.readouterr().out
    assert stored()[0] == "cancelled"
    assert run(["runs", "cancel", slug.strip()]) == 0
    assert "was not running" in capsys.readouterr().out
    assert run(["runs", "cancel", "none"]) == 2
    code, out, err = sweep(shared, "--resume", slug.strip(), "--json")
    assert code == 0, err
    assert json.loads(out)["counts"] == {"N": 21}


def test_a_worker_of_each_core_sees_its_own(shared, worker):
    process = worker("--cores", "0,2-3")
    code, _, err = sweep(shared, "--ops", "core*60", "--dtypes", "float32", "--json")
    assert code == 0, err
    engine = open_database(load_settings().database_url)
    with read(engine) as conn:
        seen = set(conn.exec_driver_sql("SELECT text FROM error_signature").scalars())
    engine.dispose()
    assert seen <= {"core 0", "core 2", "core 3"}
    assert len(seen) > 1
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_a_worker_that_cannot_run_cases_stops_and_the_batch_stays_free(shared, worker):
    process = worker()
    code, _, err = sweep("bad", "--ops", "normal*2", "--dtypes", "float32", "--detach")
    assert code == 0, err
    engine = open_database(load_settings().database_url)
    with write(engine) as conn:  # a target that fails to open, in the queue of the worker
        run_id = latest_run(conn).id
    make_app(os.environ["NEURON_OPS_BROKER_URL"], [shared]).send_task(
        "neuron_ops.execute_batch", (run_id, 0), queue=f"t.{shared}"
    )
    assert process.wait(30) == 0
    with read(engine) as conn:
        assert conn.exec_driver_sql("SELECT state, attempts FROM run_batch").all() == [("queued", 0)]
    engine.dispose()


def test_what_is_wrong_with_a_broker_is_one_sentence(shared, monkeypatch, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        for url in (
            f"redis://:secret@127.0.0.1:{taken.getsockname()[1]}/0",
            f"amqp://127.0.0.1:{taken.getsockname()[1]}",
        ):
            for command in (["sweep", "--celery", "--target", shared], ["worker", "--target", shared]):
                assert run([*command, "--broker", url]) == 2
                sentence = capsys.readouterr().err
                assert "cannot be reached" in sentence
                assert "secret" not in sentence
                assert sentence.count("\n") == 1
    assert run(["worker", "--target", shared, "--broker", "sqs://x"]) == 2
    assert "starts with redis://" in capsys.readouterr().err
    assert run(["worker", "--target", shared, "--cores", "7-3"]) == 2
    monkeypatch.delenv("NEURON_OPS_BROKER_URL")
    with pytest.raises(BadInput, match="No broker is set"):
        dispatch.broker_url(load_settings())


def test_the_schedule_has_a_nightly_run_and_a_look_after(shared, redis):
    app = make_app(redis.url, [shared])
    schedule(app, shared, hour=2, minute=30, chosen={"ops": ["core"], "dtypes": ["float32"]})
    nightly = app.conf.beat_schedule["nightly"]
    assert (nightly["schedule"].hour, nightly["schedule"].minute) == ({2}, {30})
    assert nightly["kwargs"] == {"target": shared, "ops": ["core"], "dtypes": ["float32"]}
    assert {entry["task"] for entry in app.conf.beat_schedule.values()} <= set(app.tasks)
