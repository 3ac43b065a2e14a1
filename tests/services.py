"""A pytest plugin: own PostgreSQL and Redis servers on free loopback ports, and databases at this program's revision.

They run as root or not, and end with this process even when it is killed. Where one is not installed its tests are
skipped with the reason, but fail in CI, where they would otherwise vanish in silence.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from neuron_ops.coverage_db.database import open_database, upgrade_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sqlalchemy import Engine

_NUMBERS = count(1)
_START_S = 60.0
_UNSAFE = [word for name in ("fsync", "synchronous_commit", "full_page_writes") for word in ("-c", f"{name}=off")]


class _Server:
    """A server process with a folder of its own; `crash` and `start` may alternate."""

    ends_at = "TERM"  # the signal that ends it in good order and without waiting for its clients

    def __init__(self, name: str, needed: Sequence[str], package: str) -> None:
        missing = [program for program in needed if _binary(program) is None]
        if missing:
            reason = f"{name}'s {' and '.join(missing)} not found; on Debian: apt-get install {package}"
            if os.environ.get("CI") == "true":
                pytest.fail(reason)
            pytest.skip(reason)
        # Not pytest's own folder, which is root's alone: a server may run as another user. Short: sockets have 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="nops-", dir="/tmp"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._name = name
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        return {}

    def answers(self) -> bool:
        raise NotImplementedError

    def start(self) -> None:
        # With setpriv the server ends with us even when we are killed.
        setpriv = shutil.which("setpriv")
        guard = [setpriv, "--pdeathsig", self.ends_at] if setpriv else []
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*guard, *self.command()], cwd=self.folder, stdout=log, stderr=log, start_new_session=True, **self.options()
            )  # fmt: skip
        for _ in range(int(_START_S / 0.05)):
            if self.answers():
                return
            try:
                self._process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
            break
        pytest.fail(f"{self._name} did not start:\n{(self.folder / 'log').read_text()[-2000:]}")

    def crash(self, number: int = signal.SIGKILL) -> None:
        """End the server without a chance to put anything in order."""
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.Signals[f"SIG{self.ends_at}"])
            self._process.wait()
        shutil.rmtree(self.folder)


class Postgres(_Server):
    """A PostgreSQL server; `safe` keeps what is committed through a crash, at a third of the speed."""

    ends_at = "INT"

    def __init__(self, *, safe: bool = False) -> None:
        super().__init__("PostgreSQL", ("initdb", "postgres"), "postgresql")
        self._safe = safe
        if os.geteuid() == 0:  # the server refuses to run as root
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        initdb = [_binary("initdb"), "-D", str(self.folder / "data"), "-U", "postgres", "-A", "trust"]
        with (self.folder / "log").open("ab") as log:
            subprocess.run(
                [*initdb, "-E", "UTF8", "--locale=C", "-N"], check=True, cwd=self.folder, stdout=log, **self.options()
            )

    def command(self) -> list[str]:
        unsafe = [] if self._safe else _UNSAFE
        return [
            str(_binary("postgres")), "-D", str(self.folder / "data"), "-p", str(self.port), "-k", str(self.folder),
            "-c", "listen_addresses=127.0.0.1", *unsafe,
        ]  # fmt: skip

    def options(self) -> dict[str, Any]:
        found: dict[str, Any] = {"env": {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            found |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        return found

    def answers(self) -> bool:
        import psycopg

        try:
            self.connect().close()
        except psycopg.OperationalError:
            return False
        return True

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres", autocommit=True)

    def crash(self, number: int = signal.SIGQUIT) -> None:
        """Shut down at once, as in a crash; SIGKILL would leave its processes behind."""
        super().crash(number)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create(self, template: str = "template1") -> str:
        """Create a database and return its URL."""
        name = f"t{next(_NUMBERS)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return self.url(name)


class Redis(_Server):
    """A Redis server that forgets everything when it ends."""

    def __init__(self) -> None:
        super().__init__("Redis", ("redis-server",), "redis-server")

    def command(self) -> list[str]:
        return [
            str(_binary("redis-server")), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder),
            "--save", "", "--appendonly", "no", "--daemonize", "no",
        ]  # fmt: skip

    def answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(16).startswith(b"+PONG")
        except OSError:
            return False

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Start a server that has a database `template` with our tables."""
    server = Postgres()
    try:
        server.start()
        with server.connect() as connection:
            connection.execute("CREATE DATABASE template")
        upgrade_database(server.url("template"))
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def redis() -> Iterator[Redis]:
    """Start a server."""
    server = Redis()
    try:
        server.start()
        yield server
    finally:
        server.stop()


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
