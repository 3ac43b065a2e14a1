"""The short form of killing.py: whatever is killed, each case has one right result and no process is left."""

import pytest
from killing import LOCAL, Setup, torture
from services import Postgres, Redis


def test_a_sweep_on_sqlite_survives(tmp_path):
    assert torture(Setup(tmp_path, 300), list(LOCAL), seconds=60) == []


@pytest.fixture
def servers():
    """Start servers of our own, since they are killed."""
    started = []
    try:
        for kind in (Postgres, Redis):
            started.append(kind(safe=True) if kind is Postgres else kind())
            started[-1].start()
        yield started
    finally:
        for server in started:
            server.stop()


def test_a_sweep_on_postgresql_survives(tmp_path, servers):
    setup = Setup(tmp_path, 300, postgres=servers[0])
    assert torture(setup, ["child", "postgres", "group"], seconds=60) == []


def test_a_sweep_on_celery_redis_and_postgresql_survives(tmp_path, servers):
    setup = Setup(tmp_path, 300, postgres=servers[0], redis=servers[1])
    kills = ["child", "redis", "pool", "postgres", "worker", "run"]
    assert torture(setup, kills, seconds=60) == []
