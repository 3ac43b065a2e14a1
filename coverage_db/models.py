"""The tables, and the one place that makes text storable."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, MetaData, Table, UniqueConstraint

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

MESSAGE_BYTES = 8192
"""Longest stored message. The reports of torch.testing fit; a compiler's log of megabytes would be stored per case."""

OPEN = 2**31 - 1
"""The `last_seq` of a span that still goes on."""

_CUT = " … (cut)"


def sanitize(text: str, limit: int = MESSAGE_BYTES) -> str:
    r"""Return `text` as both databases can store it, at most `limit` UTF-8 bytes.

    NUL is dropped (PostgreSQL refuses it), lone surrogates become ``\udc80`` spelled out (both refuse them), and what
    is too long is cut between characters and marked.
    """
    data = text.replace("\0", "").encode("utf-8", "backslashreplace")
    if len(data) > limit:
        kept = data[: max(0, limit - len(_CUT.encode()))].decode("utf-8", "ignore")
        data = (kept + _CUT).encode()[:limit]
    return data.decode("utf-8", "ignore")


class UtcTime(sa.types.TypeDecorator[datetime]):
    """A moment: aware UTC in Python, naive UTC in the database (SQLite keeps no zone)."""

    impl = sa.DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the moment as naive UTC."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Return the moment as aware UTC."""
        return None if value is None else value.replace(tzinfo=UTC)


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)
# Text has no length anywhere: SQLite ignores one and PostgreSQL refuses the row, so a fault would show only there.
_JSON = sa.JSON(none_as_null=True)

op = Table(
    "op", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("name", sa.Text, nullable=False, unique=True),
    Column("packet", sa.Text, nullable=False, index=True),
    Column("schema", sa.Text, nullable=False),
    Column("tags", _JSON, nullable=False),
    Column("family", sa.Text, nullable=False),
    Column("kind", sa.Text, nullable=False),
    Column("tier", sa.Text, nullable=False),
    Column("excluded", sa.Text),
)  # fmt: skip
"""One row an overload, under the name that `str(OpOverload)` gives."""

target = Table(
    "target", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("name", sa.Text, nullable=False, unique=True),
)  # fmt: skip

software = Table(
    "software", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("fingerprint", sa.Text, nullable=False, unique=True),
    Column("evidence", sa.Text, nullable=False),
    Column("versions", _JSON, nullable=False),
)  # fmt: skip

environment = Table(
    "environment", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("hash", sa.LargeBinary(16), nullable=False, unique=True),
    Column("facts", _JSON, nullable=False),
)  # fmt: skip
"""What runs ran in, stored once: the fields of `records.Environment`."""

stream = Table(
    "stream", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("target_id", sa.Integer, ForeignKey("target.id"), nullable=False),
    Column("suite", sa.Text, nullable=False),
    Column("channel", sa.Text, nullable=False),
    UniqueConstraint("target_id", "suite", "channel"),
)  # fmt: skip
"""What is compared from night to night: runs of one choice of cases (`suite`) on one target, in one channel."""

run = Table(
    "run", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("slug", sa.Text, nullable=False, unique=True),
    Column("target_id", sa.Integer, ForeignKey("target.id"), nullable=False),
    Column("software_id", sa.Integer, ForeignKey("software.id"), nullable=False),
    Column("state", sa.Text, nullable=False),
    Column("started", UtcTime, nullable=False),
    Column("finished", UtcTime),
    Column("seed", sa.BigInteger, nullable=False),
    Column("n_planned", sa.Integer, nullable=False),
    Column("counts", _JSON, nullable=False),
    Column("denominators", _JSON, nullable=False),
    Column("dtypes", _JSON, nullable=False),
    Column("selection", sa.Text, nullable=False),
    Column("stream_id", sa.Integer, ForeignKey("stream.id")),
    Column("seq", sa.Integer),
    Column("learned_from", sa.Integer),
    Column("options", _JSON),
    Column("n_recorded", sa.Integer),
    Column("pruned", UtcTime),
    Column("environment_id", sa.Integer, ForeignKey("environment.id")),
    Column("quarantine", sa.Text),
    Column("released", UtcTime),
    Index(None, "target_id", "id"),
    Index(None, "stream_id", "seq", unique=True),
)  # fmt: skip
"""`state` is running, done, failed or cancelled; `counts` holds cases for each status letter, lost ones as untested.

`seq` numbers the done runs of a stream in the order in which they became done. `learned_from` is the run whose times set
estimates and deadlines. `options` is what a worker on any machine needs to run the cases. `pruned` says when the results
were dropped; cells and spans stay. `quarantine` is why a done run changes no public number, unless it was `released`.
"""

run_batch = Table(
    "run_batch", metadata,
    Column("run_id", sa.Integer, ForeignKey("run.id"), primary_key=True, autoincrement=False),
    Column("no", sa.Integer, primary_key=True, autoincrement=False),
    Column("case_ids", _JSON, nullable=False),
    Column("est_ms", sa.Float, nullable=False),
    Column("state", sa.Text, nullable=False),
    Column("owner", sa.Text),
    Column("lease_until", sa.Float),
    Column("attempts", sa.Integer, nullable=False),
    Column("published", sa.Float),
)  # fmt: skip
"""Cases that one worker runs together; `state` is queued, leased, done or given up.

`lease_until` and `published` are seconds since 1970 of the database's clock. `attempts` counts the claims since the
batch last stored a result.
"""

case_ = Table(
    "case", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("key", sa.LargeBinary(16), nullable=False, unique=True),
    Column("op_id", sa.Integer, ForeignKey("op.id"), nullable=False),
    Column("dtype", sa.Text, nullable=False),
    Column("sample", sa.Text, nullable=False),
    Column("variant", sa.Text, nullable=False),
    Column("seed", sa.BigInteger, nullable=False),
    Index(None, "op_id", "dtype"),
)  # fmt: skip

run_case = Table(
    "run_case", metadata,
    Column("run_id", sa.Integer, ForeignKey("run.id"), primary_key=True, autoincrement=False),
    Column("case_id", sa.Integer, ForeignKey("case.id"), primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)  # fmt: skip
"""What a run planned: a case here with no row in `result` is lost."""

error_signature = Table(
    "error_signature", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("hash", sa.LargeBinary(16), nullable=False, unique=True),
    Column("kind", sa.Text, nullable=False),
    Column("text", sa.Text, nullable=False),
)  # fmt: skip
"""A message, stored once; `kind` is the outcome that it came with."""

parts = Table(
    "parts", metadata,
    Column("id", sa.Integer, primary_key=True),
    Column("hash", sa.LargeBinary(16), nullable=False, unique=True),
    Column("parts", _JSON, nullable=False),
)  # fmt: skip
"""Operators that a call reached, stored once: a list of [overload, route or null, count]."""

result = Table(
    "result", metadata,
    Column("run_id", sa.Integer, ForeignKey("run.id"), primary_key=True, autoincrement=False),
    Column("case_id", sa.Integer, ForeignKey("case.id"), primary_key=True, autoincrement=False),
    Column("outcome", sa.Text, nullable=False),
    Column("route", sa.Text),
    Column("reason", sa.Text),
    Column("composite", sa.Boolean, nullable=False),
    Column("received", sa.Text),
    Column("ms_device", sa.Float),
    Column("ms_reference", sa.Float),
    Column("figures", _JSON),
    Column("signature_id", sa.Integer, ForeignKey("error_signature.id")),
    Column("parts_id", sa.Integer, ForeignKey("parts.id")),
    sqlite_with_rowid=False,
)  # fmt: skip
"""What a case did in a run. No second index: one nearly doubles the file and halves the rate of inserts (measured)."""

cell = Table(
    "cell", metadata,
    Column("run_id", sa.Integer, ForeignKey("run.id"), primary_key=True, autoincrement=False),
    Column("op_id", sa.Integer, ForeignKey("op.id"), primary_key=True, autoincrement=False),
    Column("dtype", sa.Text, primary_key=True),
    Column("status", sa.Text, nullable=False),
    Column("n", sa.Integer, nullable=False),
    Column("k", sa.Integer, nullable=False),
    Column("counts", _JSON, nullable=False),
    Column("reason", sa.Text),
    Column("composite", sa.Boolean, nullable=False),
    Column("parts_id", sa.Integer, ForeignKey("parts.id")),
    Column("ms", sa.Float),
    Column("ms_max", sa.Float),
    sqlite_with_rowid=False,
)  # fmt: skip
"""An overload × dtype of a run, derived when the run is finalized.

`n` counts the planned cases that the reference accepts (all of them where it accepts none), `k` those of `n` that have
the cell's status, `counts` every planned case by letter. `ms` is what its cases took on device and reference together,
`ms_max` the most that one took.
"""

span = Table(
    "span", metadata,
    Column("stream_id", sa.Integer, ForeignKey("stream.id"), primary_key=True, autoincrement=False),
    Column("case_id", sa.Integer, ForeignKey("case.id"), primary_key=True, autoincrement=False),
    Column("first_seq", sa.Integer, primary_key=True, autoincrement=False),
    Column("last_seq", sa.Integer, nullable=False),
    Column("outcome", sa.Text, nullable=False),
    Column("route", sa.Text),
    Column("signature_id", sa.Integer, ForeignKey("error_signature.id")),
    Index(None, "stream_id", "first_seq"),
    sqlite_with_rowid=False,
)  # fmt: skip
"""A case's outcome and route over the runs `first_seq` to `last_seq` of a stream; an open span ends at OPEN.

Only done runs count, and a case that a run skipped leaves its span as it is. The message is that of the first run.
"""

gate = Table(
    "gate", metadata,
    Column("run_id", sa.Integer, ForeignKey("run.id"), primary_key=True, autoincrement=False),
    Column("baseline", sa.Text, nullable=False),
    Column("passed", sa.Boolean, nullable=False),
    Column("judged", UtcTime, nullable=False),
    Column("counts", _JSON, nullable=False),
)  # fmt: skip
"""The last verdict on a run: against which run or file, whether it passed, and how many findings of each kind."""

rerun = Table(
    "rerun", metadata,
    Column("run_id", sa.Integer, ForeignKey("run.id"), primary_key=True, autoincrement=False),
    Column("case_id", sa.Integer, ForeignKey("case.id"), primary_key=True, autoincrement=False),
    Column("letters", _JSON, nullable=False),
    Column("steady", sa.Boolean, nullable=False),
    sqlite_with_rowid=False,
)  # fmt: skip
"""A case of a run that a gate ran again alone: how often it had which letter, and whether always that of the run."""

report = Table(
    "report", metadata,
    Column("hash", sa.Text, primary_key=True),
    Column("stored", UtcTime, nullable=False),
    Column("content", _JSON, nullable=False),
)  # fmt: skip
"""A report of `neuron-ops check` that somebody gave to the site, under the SHA-256 of its content."""
