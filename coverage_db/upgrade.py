"""Brings a database's tables to this program's revision, and says where they differ."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db.models import metadata

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Connection

REVISIONS = ("0001", "0002", "0003", "0004", "0005")
"""All revisions, oldest first. Written out here so that opening a current database need not import Alembic (0.2 s)."""
HEAD = REVISIONS[-1]
TABLE = "alembic_version"
_LOCK = 0x6E6F7073  # any number that is the same in every process: "nops"


def is_known(revision: str) -> bool:
    """Return whether this program has the revision."""
    return revision in REVISIONS


def to_head(conn: Connection) -> None:
    """Upgrade within the caller's transaction, one process at a time; a failure leaves nothing behind.

    On SQLite the caller's BEGIN IMMEDIATE is the lock and foreign keys must be off; they are checked at the end.
    """
    from alembic import command

    if conn.dialect.name == "postgresql":
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
    command.upgrade(_config(conn), "head")
    if conn.dialect.name == "sqlite":
        broken = conn.exec_driver_sql("PRAGMA foreign_key_check").all()
        if broken:
            raise sa.exc.IntegrityError(
                "PRAGMA foreign_key_check", None, Exception(f"rows without parents: {broken[:3]}")
            )


def differences(conn: Connection) -> list[str]:
    """Return one line for each way in which the tables differ from `models`; empty where they agree."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    options = {"compare_type": True, "compare_server_default": True}
    # Alembic logs each difference that it returns.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    found: list[Any] = compare_metadata(MigrationContext.configure(conn, opts=options), metadata)
    return [" ".join(str(part) for part in (one if isinstance(one, tuple) else one[0])) for one in found]


def _config(conn: Connection) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "neuron_ops.coverage_db:migrations")
    config.attributes["connection"] = conn
    return config
