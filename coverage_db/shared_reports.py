"""Keeps the reports of `check` that people gave to the site, under the hash of their content."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import bulk
from neuron_ops.coverage_db import models as m
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

MOST = 10_000
"""Reports that a database keeps: anybody may add one, and none is ever dropped."""


@dataclass(frozen=True, slots=True)
class SharedReport:
    """A kept report: its hash (64 hex digits), the moment (UTC) and its content."""

    hash: str
    stored: datetime
    content: Mapping[str, Any]


def keep(conn: Connection, content: Mapping[str, Any]) -> str:
    """Store a report, once however often it is given, and return its hash; raises BadInput when no more are taken."""
    text = json.dumps(_storable(content), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    if by_hash(conn, digest) is None:
        if conn.execute(sa.select(sa.func.count()).select_from(m.report)).scalar_one() >= MOST:
            raise BadInput(f"This site keeps {MOST:,} reports and takes no more; run `neuron-ops serve` for your own.")
        row = {"hash": digest, "stored": datetime.now(UTC), "content": json.loads(text)}
        bulk.insert(conn, m.report, [row], keys=("hash",))
    return digest


def by_hash(conn: Connection, digest: str) -> SharedReport | None:
    """Return the report of this hash, or None."""
    row = conn.execute(sa.select(m.report).where(m.report.c.hash == m.sanitize(digest))).first()
    return SharedReport(row.hash, row.stored, row.content) if row else None


def newest(conn: Connection, limit: int) -> tuple[SharedReport, ...]:
    """Return at most `limit` reports, newest first."""
    rows = conn.execute(sa.select(m.report).order_by(m.report.c.stored.desc(), m.report.c.hash).limit(limit))
    return tuple(SharedReport(row.hash, row.stored, row.content) for row in rows)


def _storable(value: Any) -> Any:
    """Return JSON whose texts both databases can store."""
    if isinstance(value, dict):
        return {m.sanitize(key): _storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return m.sanitize(value) if isinstance(value, str) else value
