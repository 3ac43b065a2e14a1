"""Reads what runs ran in, and which earlier run is the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import queries, stored
from neuron_ops.op_tests.records import BadInput, Environment, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection

_FAILING = (Status.WRONG, Status.CRASH, Status.TIMEOUT, Status.UNSUPPORTED, Status.ERROR)


@dataclass(frozen=True, slots=True)
class Setting:
    """A run with what it ran in; the environment is None for a run stored before environments were."""

    run: RunRow
    environment: Environment | None

    @property
    def versions(self) -> dict[str, str]:
        """Return all versions and switches that are known, by name; the build's before the environment's."""
        if self.environment is None:
            return dict(self.run.versions)
        found = self.environment
        return {**found.packages, **found.device, **found.switches, **found.harness, **self.run.versions}


@dataclass(frozen=True, slots=True)
class Account:
    """A run with what it ran in, and the last good run before it, or None where it is the first of its stream."""

    setting: Setting
    last_good: Setting | None

    @property
    def changed(self) -> dict[str, tuple[str | None, str | None]]:
        """Return what differs from the last good run: name → there and here; None where it is absent."""
        return {} if self.last_good is None else version_changes(self.last_good.versions, self.setting.versions)


def version_changes(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Return the names whose version differs, sorted, with both versions; None where one side lacks it."""
    names = sorted(before.keys() | after.keys())
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def failing(run: RunRow) -> int:
    """Return how many cases of a run are wrong, unsupported, raised, crashed or timed out."""
    return sum(run.counts.get(status.value, 0) for status in _FAILING)


def account(conn: Connection, name: str) -> Account:
    """Return the account of the run of that name; raises BadInput as `named` does."""
    run = named(conn, name)
    good = last_good(conn, run)
    return Account(setting(conn, run), None if good is None else setting(conn, good))


def named(conn: Connection, name: str) -> RunRow:
    """Return the run of that name, or the newest for ``latest``; raises BadInput for an unknown one."""
    run = queries.latest_run(conn) if name == "latest" else queries.run_by_slug(conn, name)
    if run is None:
        raise BadInput(f"There is no run {name!r} in this database; `neuron-ops runs` lists them.")
    return run


def setting(conn: Connection, run: RunRow) -> Setting:
    """Return a run with its environment."""
    facts = conn.execute(
        sa.select(m.environment.c.facts)
        .join(m.run, m.run.c.environment_id == m.environment.c.id)
        .where(m.run.c.id == run.id)
    ).scalar()
    return Setting(run, None if facts is None else Environment(**facts))


def last_good(conn: Connection, run: RunRow) -> RunRow | None:
    """Return the newest of the done runs before this one in its stream that passed a gate, or None.

    Where no gate has judged any of them, it is the newest of those with the fewest failing cases.
    """
    stream = sa.select(m.run.c.stream_id).where(m.run.c.id == run.id).scalar_subquery()
    earlier = (m.run.c.stream_id == stream, m.run.c.seq.is_not(None), m.run.c.id < run.id)
    query = stored.RUNS.add_columns(m.gate.c.passed).outerjoin(m.gate, m.gate.c.run_id == m.run.c.id)
    rows = conn.execute(query.where(*earlier).order_by(m.run.c.seq.desc())).all()
    if any(row.passed is not None for row in rows):
        return next((stored.run_row(row) for row in rows if row.passed), None)
    return min(map(stored.run_row, rows), key=failing, default=None)
