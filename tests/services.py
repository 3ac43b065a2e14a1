"""A pytest plugin: an own PostgreSQL server for the session, and databases at this program's revision for each test."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from neuron_ops.coverage_db.database import open_database, upgrade_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

_NUMBERS = count(1)
_START_S = 60.0


@dataclass(frozen=True, slots=True)
class Postgres:
    """A running server that has a database `template` with our tables."""

    port: int

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create(self, template: str = "template1") -> str:
        """Create a database and return its URL."""
        name = f"t{next(_NUMBERS)}"
        with _connect(self.port) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Start a server on a free loopback port; skip where it is not installed, but fail there in CI."""
    missing = [name for name in ("initdb", "postgres") if _binary(name) is None]
    if missing:
        reason = f"PostgreSQL's {' and '.join(missing)} not found; on Debian: apt-get install postgresql"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    # Not pytest's own folder, which is root's alone: the server runs as another user. Short: sockets have 107 bytes.
    folder = Path(tempfile.mkdtemp(prefix="nops-pg-", dir="/tmp"))
    try:
        with (folder / "log").open("wb") as log:
            process, port = _start(folder, log)
            try:
                _wait(process, port, folder / "log")
                server = Postgres(port)
                with _connect(port) as connection:
                    connection.execute("CREATE DATABASE template")
                upgrade_database(server.url("template"))
                yield server
            finally:
                process.terminate()
                process.wait()
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def postgres_url(postgres: Postgres) -> str:
    """Return the URL of an empty database."""
    return postgres.create()


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Yield an engine on a new database with our tables, of each kind."""
    if request.param == "sqlite":
        opened = open_database(str(tmp_path / "test.sqlite"))
    else:
        opened = open_database(request.getfixturevalue("postgres").create("template"))
    yield opened
    opened.dispose()


def _binary(name: str) -> str | None:
    # Debian keeps the server's programs off PATH, and what is on PATH may be a wrapper; the newest version last.
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: float(path.parts[4]))
    return str(found[-1]) if found else shutil.which(name)


def _start(folder: Path, log: Any) -> tuple[subprocess.Popen[bytes], int]:
    """Make a cluster in the folder and start its server; return the process and the port."""
    common: dict[str, Any] = {
        "cwd": folder,
        "env": {"PATH": "/usr/bin:/bin", "HOME": str(folder)},
        "stdout": log,
        "stderr": log,
    }
    if os.geteuid() == 0:  # the server refuses to run as root
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        common |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    data = str(folder / "data")
    initdb = [_binary("initdb"), "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"]
    subprocess.run(initdb, check=True, **common)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # With setpriv the server ends with us even when we are killed; 2 is SIGINT, its fast shutdown.
    setpriv = shutil.which("setpriv")
    unsafe = [word for name in ("fsync", "synchronous_commit", "full_page_writes") for word in ("-c", f"{name}=off")]
    command = [
        *([setpriv, "--pdeathsig", "INT"] if setpriv else []),
        _binary("postgres"), "-D", data, "-p", str(port), "-k", str(folder),
        "-c", "listen_addresses=127.0.0.1", *unsafe,
    ]  # fmt: skip
    return subprocess.Popen(command, start_new_session=True, **common), port


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import psycopg

    for _ in range(int(_START_S / 0.05)):
        try:
            _connect(port).close()
        except psycopg.OperationalError:
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(f"PostgreSQL ended at its start:\n{log.read_text()[-2000:]}")
        else:
            return
    pytest.fail(f"PostgreSQL was not ready after {_START_S:.0f} s:\n{log.read_text()[-2000:]}")


def _connect(port: int) -> Any:
    import psycopg

    return psycopg.connect(f"host=127.0.0.1 port={port} user=postgres dbname=postgres", autocommit=True)
