"""Who runs which batch: claims with leases in the database's time, so that any worker may die and another goes on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.guilty import record_what_can_be
from neuron_ops.op_tests.records import BadInput, Case

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from neuron_ops.op_tests.records import Result
    from sqlalchemy import Connection

QUEUED, LEASED, DONE, GIVEN_UP = "queued", "leased", "done", "given up"
LEASE_SECONDS = 90.0
"""Longer than the longest silence of a worker, whose supervisor extends the lease while a case runs; short enough that
the batches of a lost machine are not waited for."""
MAX_ATTEMPTS = 5
"""Claims in a row that store no result, after which a batch is given up."""
_B = m.run_batch.c


class LeaseLost(Exception):  # noqa: N818 - an event: another worker has the batch now
    """The batch is no longer ours; nothing of this transaction is stored."""


@dataclass(frozen=True, slots=True)
class RunToDo:
    """A run as a worker needs it; `options` is what the sweep chose, `versions` those of the build that planned it."""

    id: int
    target: str
    state: str
    versions: Mapping[str, str]
    options: Mapping[str, Any]
    learned_from: int | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch that is ours for a while: its cases that have no result yet, and the row number of each case key."""

    run_id: int
    no: int
    owner: str
    cases: tuple[Case, ...]
    ids: Mapping[str, int]


def run_to_do(conn: Connection, run_id: int) -> RunToDo:
    """Return the run; raises BadInput where there is none or it was made by a version that kept no batches."""
    query = (
        sa.select(m.run, m.target.c.name, m.software.c.versions)
        .join(m.target, m.target.c.id == m.run.c.target_id)
        .join(m.software, m.software.c.id == m.run.c.software_id)
    )
    row = conn.execute(query.where(m.run.c.id == run_id)).first()
    if row is None:
        raise BadInput(f"There is no run {run_id} in this database; `neuron-ops runs` lists them.")
    if row.options is None:
        raise BadInput(f"The run {row.slug} was not made to be shared or resumed; start a new one: `neuron-ops sweep`.")
    return RunToDo(row.id, row.name, row.state, row.versions, row.options, row.learned_from)


def claim(conn: Connection, run_id: int, owner: str, *, no: int | None = None, lease: float) -> Claim | None:
    """Return a batch that is free or whose lease has run out, now leased to `owner` for `lease` seconds, or None.

    `no` asks for one batch, None for the first that can be had. A batch of a run that is not running cannot.
    """
    free = [
        _B.run_id == run_id,
        _B.attempts < MAX_ATTEMPTS,
        sa.or_(_B.state == QUEUED, sa.and_(_B.state == LEASED, _B.lease_until < now(conn))),
        sa.exists().where(m.run.c.id == run_id, m.run.c.state == "running"),
    ]
    if no is None:
        first = sa.select(_B.no).where(*free).order_by(_B.no).limit(1).with_for_update(skip_locked=True)
        free.append(_B.no == first.scalar_subquery())
    else:
        free.append(_B.no == no)
    taken = {"state": LEASED, "owner": owner, "lease_until": now(conn) + lease, "attempts": _B.attempts + 1}
    row = conn.execute(sa.update(m.run_batch).where(*free).values(taken).returning(_B.no, _B.case_ids)).first()
    if row is None:
        return None
    found = _missing(conn, run_id, row.case_ids)
    return Claim(run_id, row.no, owner, tuple(found.values()), {case.key: case_id for case_id, case in found.items()})


def flush(conn: Connection, held: Claim, results: Sequence[Result], *, lease: float, done: bool = False) -> bool:
    """Store results and extend the lease, or end it with `done`; return whether the run still wants to go on.

    Raises LeaseLost where another worker has the batch; the caller's transaction must then be rolled back.
    """
    values: dict[str, Any] = {"state": DONE, "owner": None, "lease_until": None} if done else {}
    if not done:
        values["lease_until"] = now(conn) + lease
    if results:
        values["attempts"] = 0
    # The lease first: on PostgreSQL its row lock keeps a second worker from claiming until we commit.
    if not conn.execute(sa.update(m.run_batch).where(*_ours(held)).values(values)).rowcount:
        raise LeaseLost
    if results:
        record_what_can_be(conn, held.run_id, results, held.ids)
    state: str | None = conn.execute(sa.select(m.run.c.state).where(m.run.c.id == held.run_id)).scalar()
    return state == "running"


def release(conn: Connection, held: Claim) -> None:
    """Give a batch back: the next worker may have it at once, and the attempt does not count."""
    values = {"state": QUEUED, "owner": None, "lease_until": None, "published": None,
              "attempts": sa.case((_B.attempts > 0, _B.attempts - 1), else_=0)}  # fmt: skip
    conn.execute(sa.update(m.run_batch).where(*_ours(held)).values(values))


def release_dead(conn: Connection, run_id: int, is_dead: Callable[[str], bool]) -> int:
    """Return how many batches were taken from owners that are known to be dead, without waiting for their leases."""
    rows = conn.execute(sa.select(_B.no, _B.owner).where(_B.run_id == run_id, _B.state == LEASED)).all()
    dead = [row for row in rows if is_dead(row.owner)]
    for row in dead:
        held = Claim(run_id, row.no, row.owner, (), {})
        values = {"state": QUEUED, "owner": None, "lease_until": None, "published": None}
        conn.execute(sa.update(m.run_batch).where(*_ours(held)).values(values))
    return len(dead)


def settle(conn: Connection, run_id: int) -> int:
    """Give up the batches that have used up their attempts, and return how many are still open."""
    over = sa.or_(_B.state == QUEUED, _B.lease_until < now(conn))
    spent = (_B.run_id == run_id, _B.state.in_((QUEUED, LEASED)), _B.attempts >= MAX_ATTEMPTS, over)
    conn.execute(sa.update(m.run_batch).where(*spent).values(state=GIVEN_UP, owner=None, lease_until=None))
    return open_batches(conn, run_id)


def open_batches(conn: Connection, run_id: int) -> int:
    """Return how many batches of a run are neither done nor given up."""
    query = sa.select(sa.func.count()).where(_B.run_id == run_id, _B.state.in_((QUEUED, LEASED)))
    return conn.execute(query).scalar_one()


def held(conn: Connection, run_id: int) -> int:
    """Return how many batches of a run are leased."""
    query = sa.select(sa.func.count()).where(_B.run_id == run_id, _B.state == LEASED)
    return conn.execute(query).scalar_one()


def open_ms(conn: Connection, run_id: int) -> float:
    """Return how many milliseconds the open batches of a run are estimated to take one worker."""
    query = sa.select(sa.func.coalesce(sa.func.sum(_B.est_ms), 0.0))
    found: float = conn.execute(query.where(_B.run_id == run_id, _B.state.in_((QUEUED, LEASED)))).scalar_one()
    return found


def to_publish(conn: Connection, run_id: int, *, wait: float) -> list[int]:
    """Return the batches to announce to workers, marked as announced now.

    These are the free ones, and those with a lease that ran out, that were not announced within the last `wait` seconds:
    a message may still be in a queue.
    """
    free = sa.or_(_B.state == QUEUED, sa.and_(_B.state == LEASED, _B.lease_until < now(conn)))
    silent = sa.or_(_B.published.is_(None), _B.published < now(conn) - wait)
    due = sa.and_(_B.run_id == run_id, free, silent, _B.attempts < MAX_ATTEMPTS)
    rows = conn.execute(sa.update(m.run_batch).where(due).values(published=now(conn)).returning(_B.no))
    return sorted(rows.scalars())


def unpublish(conn: Connection, run_id: int, numbers: Sequence[int]) -> None:
    """Forget that batches were announced, because they could not be."""
    which = (_B.run_id == run_id, _B.no.in_(list(numbers)))
    conn.execute(sa.update(m.run_batch).where(*which).values(published=None))


def reopen(conn: Connection, run_id: int) -> int:
    """Make a run that ended early run again and return how many batches are open, those given up among them."""
    conn.execute(
        sa.update(m.run_batch)
        .where(_B.run_id == run_id, sa.or_(_B.state == GIVEN_UP, _B.attempts > 0), _B.state != LEASED)
        .where(_B.state != DONE)
        .values(state=QUEUED, attempts=0, published=None)
    )
    left = open_batches(conn, run_id)
    if left:
        ended = (m.run.c.id == run_id, m.run.c.state.in_(("failed", "cancelled")))
        conn.execute(sa.update(m.run).where(*ended).values(state="running", finished=None))
    return left


def cancel(conn: Connection, run_id: int) -> bool:
    """Make the workers of a run stop at their next flush; return whether it was running."""
    running = (m.run.c.id == run_id, m.run.c.state == "running")
    return bool(conn.execute(sa.update(m.run).where(*running).values(state="cancelled")).rowcount)


def now(conn: Connection) -> sa.ColumnElement[float]:
    """Return the database's clock in seconds since 1970: workers' clocks differ, and a lease must not."""
    if conn.dialect.name == "postgresql":
        return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Float)
    return (sa.func.julianday("now", type_=sa.Float) - 2440587.5) * 86400.0


def _ours(held: Claim) -> tuple[sa.ColumnElement[bool], ...]:
    return _B.run_id == held.run_id, _B.no == held.no, _B.owner == held.owner, _B.state == LEASED


def _missing(conn: Connection, run_id: int, case_ids: Sequence[int]) -> dict[int, Case]:
    """Return row number → case for those that have no result yet, in the order of the plan."""
    stored = sa.exists().where(m.result.c.run_id == run_id, m.result.c.case_id == m.case_.c.id)
    rows = conn.execute(
        sa.select(m.case_, m.op.c.name.label("overload"))
        .join(m.op, m.op.c.id == m.case_.c.op_id)
        .where(m.case_.c.id.in_(list(case_ids)), ~stored)
    )
    found = {row.id: Case(row.overload, row.dtype, row.sample, row.variant, row.seed) for row in rows}
    return {case_id: found[case_id] for case_id in case_ids if case_id in found}
