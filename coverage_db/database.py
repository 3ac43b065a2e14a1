"""Opens databases: SQLite that upgrades itself, PostgreSQL that must be at head."""

from __future__ import annotations

import importlib.util
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from neuron_ops.coverage_db import upgrade
from neuron_ops.coverage_db.settings import normal_url
from neuron_ops.op_tests.records import BadInput
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine import URL, make_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sqlalchemy.pool import ConnectionPoolEntry

PATIENCE = 120.0
"""Seconds for which a transaction is tried again: a server's restart takes less."""
_T = TypeVar("_T")
_READ = {"neuron_ops_read": True}
# No prepared statements: PgBouncer in transaction mode hands each transaction another connection.
_CONNECT = {"connect_timeout": 10, "prepare_threshold": None}
# What a server says that stops, starts or is full of clients, or that chose us in a deadlock (PostgreSQL, appendix A).
_PASSING = ("08", "57P", "53300", "53200", "40")
_AWAY = (sa.exc.OperationalError, sa.exc.InterfaceError)
_SQLITE_UNUSABLE = ("SQLITE_READONLY", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_CORRUPT", "SQLITE_NOTADB")
_PRAGMAS = (
    "busy_timeout=30000",  # first: the others may have to wait for a writer
    "journal_mode=WAL",
    "synchronous=NORMAL",
    "cache_size=-65536",  # 64 MiB
    "foreign_keys=ON",
)


def open_database(url: str, *, create: bool = True) -> Engine:
    """Return an engine on a database whose tables are those of this program.

    `url` is a URL or the path of a SQLite file. SQLite is created (not with `create` false) and upgraded here;
    PostgreSQL is upgraded only by ``neuron-ops db upgrade``. Raises BadInput when the database cannot be used.
    """
    parsed = checked_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _open_sqlite(parsed, create=create)
    state = _revision(_unpooled(parsed))
    if state != upgrade.HEAD:
        raise BadInput(
            f"The database {shown(parsed)} is {'empty' if state is None else f'at revision {state}'}, expected "
            f"revision {upgrade.HEAD}; run `neuron-ops db upgrade`."
        )
    # A pooled connection may have died with a server that was restarted; asking costs one round trip.
    return sa.create_engine(parsed, pool_pre_ping=True, connect_args=_CONNECT)


def upgrade_database(url: str) -> str:
    """Bring a database to this program's revision, creating the tables if there are none; return the revision.

    Raises BadInput when the database cannot be used.
    """
    parsed = checked_url(url)
    if parsed.get_backend_name() == "sqlite":
        _open_sqlite(parsed, create=True).dispose()
    else:
        _upgrade(parsed)
    return upgrade.HEAD


def check_database(url: str) -> tuple[str | None, list[str]]:
    """Return a database's revision (None if it is empty) and how its tables differ from ours; changes nothing.

    Raises BadInput when the database cannot be used.
    """
    parsed = checked_url(url)
    if parsed.get_backend_name() == "sqlite":
        _prepare_file(parsed, create=False)
    engine = _unpooled(parsed)
    revision = _revision(engine)
    with read(engine) as conn:
        return revision, upgrade.differences(conn)


class DatabaseAway(BadInput):
    """The database cannot be reached, or is busy, just now: the same transaction may succeed later."""


@contextmanager
def write(engine: Engine) -> Iterator[Connection]:
    """Yield a connection in a transaction that may write; committed at the end, rolled back on an error.

    Raises BadInput where the database can no longer be used (a full disk), DatabaseAway where it may be again.
    """
    try:
        with engine.begin() as conn:
            yield conn
    except sa.exc.DBAPIError as error:
        sentence = _unwritable(engine.url, error)
        if sentence is None:
            raise
        raise sentence from error


def transact(engine: Engine, act: Callable[[Connection], _T], *, patience: float = PATIENCE) -> _T:
    """Return what `act` returns for a connection in a transaction, tried again while the database is away.

    `act` may be called several times, each time after a rollback. Raises DatabaseAway when `patience` (seconds) is over.
    """
    end = time.monotonic() + patience
    pause = 0.05
    while True:
        try:
            with write(engine) as conn:
                return act(conn)
        except DatabaseAway:
            if time.monotonic() > end:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


@contextmanager
def read(engine: Engine) -> Iterator[Connection]:
    """Yield a connection that sees one state of the database throughout and cannot write."""
    options: dict[str, Any] = _READ
    if engine.dialect.name == "postgresql":
        options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with engine.connect().execution_options(**options) as conn, conn.begin():
        yield conn


def checked_url(text: str) -> URL:
    """Return the parsed URL of a database that we have a driver for; raises BadInput otherwise."""
    try:
        url = make_url(normal_url(text))
    except (sa.exc.ArgumentError, ValueError) as error:
        raise BadInput(
            f"The database URL {text!r} cannot be read; give a path such as results.sqlite or a URL such as "
            "postgresql://user@host/name."
        ) from error
    if url.get_backend_name() not in {"sqlite", "postgresql"}:
        raise BadInput(
            f"The database URL {shown(url)} is for {url.get_backend_name()!r}; use sqlite:///FILE or postgresql://user@host/name."
        )
    if url.drivername not in {"sqlite", "sqlite+pysqlite", "postgresql+psycopg"}:
        raise BadInput(
            f"The driver {url.drivername!r} is not one we use; write {url.get_backend_name()}:// in its place."
        )
    if url.get_backend_name() == "postgresql" and importlib.util.find_spec("psycopg") is None:
        raise BadInput(
            "PostgreSQL needs the driver psycopg, which is not installed; run `pip install 'neuron-ops[postgres]'`."
        )
    return url


def shown_name(text: str) -> str:
    """Return a database's URL or path as text without its password."""
    return shown(checked_url(text))


def shown(url: URL) -> str:
    """Return the URL as text without its password."""
    return url.render_as_string(hide_password=True)


def _prepare_file(url: URL, *, create: bool) -> None:
    """Make the folder of a SQLite file; raises BadInput when the file cannot be there."""
    if not url.database or url.database == ":memory:" or url.query:
        raise BadInput(f"The database URL {shown(url)} names no plain file; write sqlite:///FILE or a path.")
    path = Path(url.database)
    if not create and not path.exists():
        raise BadInput(f"There is no database at {path}; run `neuron-ops sweep` first, or name another with --db.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"The folder {path.parent} cannot be made ({error.strerror}); name a database elsewhere with --db or "
            "NEURON_OPS_DATABASE_URL."
        ) from error


def _open_sqlite(url: URL, *, create: bool) -> Engine:
    _prepare_file(url, create=create)
    _upgrade(url)
    engine = sa.create_engine(url)
    _set_up_sqlite(engine, _PRAGMAS)
    return engine


def _upgrade(url: URL) -> None:
    """Bring the tables to HEAD where they are not."""
    engine = _unpooled(url)
    revision = _revision(engine)
    if revision == upgrade.HEAD:
        return
    try:
        if revision is not None and url.get_backend_name() == "sqlite":
            _keep_copy(engine, Path(f"{url.database}.before-{upgrade.HEAD}"))
        with engine.begin() as conn:
            upgrade.to_head(conn)
    except sa.exc.DBAPIError as error:
        raise _unusable(url, error) from error


def _keep_copy(engine: Engine, path: Path) -> None:
    """Copy a SQLite file before its tables change; a copy that is there already is of the same upgrade, tried before."""
    if not path.exists():
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            conn.exec_driver_sql("VACUUM INTO ?", (str(path),))


def _unpooled(url: URL) -> Engine:
    """Return an engine to look at a database or to change its tables: it keeps no connection and no setting."""
    options = _CONNECT if url.get_backend_name() == "postgresql" else {}
    engine = sa.create_engine(url, poolclass=sa.NullPool, connect_args=options)
    if url.get_backend_name() == "sqlite":
        # Foreign keys stay off: with them on, Alembic's copy-and-move deletes the children of a table. And WAL would
        # be written into the file, which may turn out to be another program's.
        _set_up_sqlite(engine, _PRAGMAS[:1])
    return engine


def _set_up_sqlite(engine: Engine, pragmas: Sequence[str]) -> None:
    @event.listens_for(engine, "connect")
    def _connect(connection: sqlite3.Connection, _record: ConnectionPoolEntry) -> None:
        connection.isolation_level = None  # the driver's own BEGIN is deferred: two writers deadlock
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(conn: Connection) -> None:
        if conn.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
            return
        reading = conn.get_execution_options().get("neuron_ops_read", False)
        conn.exec_driver_sql(f"PRAGMA query_only={'ON' if reading else 'OFF'}")
        conn.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


def _revision(engine: Engine) -> str | None:
    """Return the revision of a database, None for an empty one; raises BadInput when it cannot be ours."""
    try:
        with read(engine) as conn:
            tables = set(sa.inspect(conn).get_table_names())
            rows = (
                conn.exec_driver_sql("SELECT version_num FROM alembic_version").all() if upgrade.TABLE in tables else []
            )
    except (sa.exc.DBAPIError, sqlite3.Error) as error:
        raise _unusable(engine.url, error) from error
    name = shown(engine.url)
    if not rows and tables - {upgrade.TABLE}:
        raise BadInput(f"The database {name} holds tables of another program; name an empty or a new one with --db.")
    revision = str(rows[0][0]) if rows else None
    if revision is not None and not upgrade.is_known(revision):
        raise BadInput(
            f"The database {name} is at revision {revision}, newer than this program, which knows {upgrade.HEAD}; run "
            "`pip install --upgrade neuron-ops` or name another database with --db."
        )
    return revision


def _unwritable(url: URL, error: sa.exc.DBAPIError) -> BadInput | None:
    """Return the sentence for a write that failed for a reason outside of us, or None."""
    cause = " ".join(str(error.orig).split())
    if url.get_backend_name() == "sqlite":
        name = getattr(error.orig, "sqlite_errorname", "")
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return DatabaseAway(
                f"The database file {url.database} is locked by another program ({cause}); end that one."
            )
        full, unusable = name == "SQLITE_FULL", name.startswith(_SQLITE_UNUSABLE)
    else:
        state = getattr(error.orig, "sqlstate", None) or ""
        if error.connection_invalidated or (not state and isinstance(error, _AWAY)) or state.startswith(_PASSING):
            return DatabaseAway(f"The database {shown(url)} cannot be reached ({cause}); check that the server runs.")
        full, unusable = state == "53100", state in {"25006", "53000", "58030"}
    if full:
        return BadInput(
            f"The disk that holds the database {shown(url)} is full ({cause}); make room and go on with "
            "`neuron-ops sweep --resume`."
        )
    return _unusable(url, error) if unusable else None


def _unusable(url: URL, error: Exception) -> BadInput:
    """Return the sentence for a database that would not open."""
    cause = " ".join(str(getattr(error, "orig", None) or error).split())
    if url.get_backend_name() == "postgresql":
        return BadInput(
            f"The database {shown(url)} cannot be reached ({cause}); check the URL and that the server runs."
        )
    if "not a database" in cause or "malformed" in cause:
        return BadInput(
            f"The file {url.database} is damaged or no SQLite database ({cause}); restore a copy or name another with "
            "--db."
        )
    return BadInput(
        f"The database file {url.database} cannot be opened for writing ({cause}); check the folder's permissions or "
        "name another with --db."
    )
