"""The short form of killing.py: whatever is killed, each case has one right result and no process is left."""

import pytest

pytest_plugins = ["services"]  # and no import of it above: pytest must see it first


def survives(folder, kills, postgres=None, redis=None):
    from killing import Setup, torture

    return torture(Setup(folder, 300, postgres=postgres, redis=redis), kills, seconds=120)


def test_a_sweep_on_sqlite_survives(tmp_path):
    assert survives(tmp_path, ["child", "zygote", "run", "group"]) == []


@pytest.fixture
def servers():
    """Start servers of our own, since they are killed."""
    from services import Postgres, Redis

    started = []
    try:
        for server in (Postgres(safe=True), Redis()):
            started.append(server)
            server.start()
        yield started
    finally:
        for server in started:
            server.stop()


def test_a_sweep_on_postgresql_survives(tmp_path, servers):
    assert survives(tmp_path, ["child", "postgres", "group"], servers[0]) == []


def test_a_sweep_on_celery_redis_and_postgresql_survives(tmp_path, servers):
    kills = ["child", "redis", "pool", "postgres", "worker", "run"]
    assert survives(tmp_path, kills, *servers) == []
