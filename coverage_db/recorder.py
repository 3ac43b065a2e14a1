"""Writes operators, runs and results; everything here may be repeated without changing what is stored."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, astuple
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

import sqlalchemy as sa
from neuron_ops.coverage_db import bulk, history, spans
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.batches import cut
from neuron_ops.coverage_db.cells import derive_cells
from neuron_ops.coverage_db.publishing import withhold
from neuron_ops.coverage_db.rows import RunStart, Totals, ordered_dtypes
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from neuron_ops.op_tests.records import Build, Case, Denominators, Environment, Figures, Operator, Part, Result
    from sqlalchemy import Connection, Table

_CHUNK = 1000
"""Rows a statement. SQLite allows 32,766 parameters, and a thousand keys is where its rate levels off (measured)."""
_T = TypeVar("_T")
_SEEDS = range(-(2**63), 2**63)


def record_operators(conn: Connection, operators: Iterable[Operator]) -> None:
    """Store overloads, or bring stored ones up to date by name."""
    rows = [
        {
            "name": o.name, "packet": o.packet, "schema": m.sanitize(o.schema), "tags": list(o.tags),
            "family": o.family, "kind": o.kind, "tier": o.tier, "excluded": o.excluded,
        }
        for o in sorted(operators, key=lambda o: o.name)
    ]  # fmt: skip
    bulk.insert(conn, m.op, rows, keys=("name",), update=True)


def start_run(
    conn: Connection, *, build: Build, denominators: Denominators, cases: Sequence[Case], seed: int, selection: str,
    options: Mapping[str, Any] | None = None, channel: str = "default", workers: int = 1,
    environment: Environment | None = None,
) -> RunStart:  # fmt: skip
    """Store a running run with its plan and its batches, and return its id and slug.

    A case named twice is planned once. `options` is what a worker needs to run the cases; without them the run has no
    batches, and the caller records all of its results. `workers` says how many will share the batches at the least.
    Raises BadInput for a case whose overload is not stored, and for a seed that is no 64-bit number.
    """
    if seed not in _SEEDS:
        raise BadInput(f"The seed {seed} does not fit in 64 bits; give a smaller one.")
    now = datetime.now(UTC)
    planned = {case.key: case for case in cases}
    slug = f"{now:%Y-%m-%d}-{secrets.token_hex(3)}"
    target_id = _target_id(conn, build.target)
    learned_from = history.last_done(conn, target_id)
    run_id: int = conn.execute(
        sa.insert(m.run)
        .values(
            slug=slug, target_id=target_id, software_id=_software_id(conn, build), state="running",
            started=now, seed=seed, n_planned=len(planned), counts={}, denominators=denominators.to_json(),
            dtypes=list(ordered_dtypes(case.dtype for case in cases)), selection=m.sanitize(selection),
            stream_id=_stream_id(conn, target_id, f"{m.sanitize(selection)}, seed {seed}", channel),
            learned_from=learned_from, options=None if options is None else dict(options),
            environment_id=None if environment is None else _environment_id(conn, environment),
        )
        .returning(m.run.c.id)
    ).scalar_one()  # fmt: skip
    ids = _record_plan(conn, run_id, planned)
    if options is not None:
        known = history.known_times(conn, learned_from)
        rows = [
            {"run_id": run_id, "no": no, "case_ids": [ids[case.key] for case in batch.cases], "est_ms": batch.est_ms,
             "state": "queued", "attempts": 0}
            for no, batch in enumerate(cut(list(planned.values()), known, workers))
        ]  # fmt: skip
        bulk.insert(conn, m.run_batch, rows, keys=("run_id", "no"))
    return RunStart(run_id, slug)


def record_results(
    conn: Connection, run_id: int, results: Sequence[Result], *, ids: Mapping[str, int] | None = None
) -> None:
    """Store results over those stored before. Raises BadInput for a case that the run did not plan.

    `ids` maps keys of cases that are known to be planned to their row numbers, which saves looking them up.
    """
    for chunk in _chunks(sorted({r.case: r for r in results}.items())):
        found = [r for _, r in chunk]
        case_ids = _planned_ids(conn, run_id, [r.case for r in found]) if ids is None else ids
        signatures = {r.case: _signature(r.outcome.value, r.message) for r in found if r.message}
        reached = {r.case: _parts(r.parts) for r in found if r.parts}
        signature_ids = _ids_by_hash(conn, m.error_signature, signatures.values())
        parts_ids = _ids_by_hash(conn, m.parts, reached.values())
        rows = [
            {
                "run_id": run_id, "case_id": case_ids[r.case], "outcome": r.outcome.value,
                "route": r.route.value if r.route else None, "reason": r.reason.value if r.reason else None,
                "composite": r.composite, "received": _name(r.received) if r.received else None,
                "ms_device": _finite(r.device_ms), "ms_reference": _finite(r.reference_ms), "figures": _figures(r),
                "signature_id": signature_ids[signatures[r.case]["hash"]] if r.message else None,
                "parts_id": parts_ids[reached[r.case]["hash"]] if r.parts else None,
            }
            for r in found
        ]  # fmt: skip
        bulk.insert(conn, m.result, rows, keys=("run_id", "case_id"), update=True)


def finalize_run(conn: Connection, run_id: int) -> Totals:
    """Derive the cells and counts of a run, close it and return them.

    The run is done, or failed when a planned case has no result; one that was cancelled stays so. A done run becomes the
    next of its stream, and is quarantined where it may not change a public number. Raises BadInput where there is no such run, or where its results were dropped.
    """
    # The lock makes a second finalizer wait, on PostgreSQL; on SQLite the writer's BEGIN IMMEDIATE did.
    run = conn.execute(sa.select(m.run).where(m.run.c.id == run_id).with_for_update()).first()
    if run is None:
        raise BadInput(f"There is no run {run_id} in this database; `neuron-ops runs` lists them.")
    if run.pruned is not None:
        raise BadInput(f"The results of run {run.slug} were dropped on {run.pruned:%Y-%m-%d}; start a new run.")
    cells = derive_cells(conn, run_id)
    conn.execute(sa.delete(m.cell).where(m.cell.c.run_id == run_id))
    for chunk in _chunks(cells):
        bulk.insert(conn, m.cell, chunk, keys=("run_id", "op_id", "dtype"))
    counts: Counter[str] = sum((Counter(cell["counts"]) for cell in cells), Counter())
    recorded = count_results(conn, run_id)
    state = "done" if recorded == run.n_planned else "cancelled" if run.state == "cancelled" else "failed"
    conn.execute(
        sa.update(m.run)
        .where(m.run.c.id == run_id)
        .values(
            state=state, finished=run.finished or datetime.now(UTC), counts=dict(sorted(counts.items())),
            n_recorded=recorded,
        )
    )  # fmt: skip
    if state == "done":
        spans.fold(conn, run_id)
        withhold(conn, run_id)
    statuses = Counter(cell["status"] for cell in cells)
    return Totals(
        run.n_planned, recorded, run.n_planned - recorded, dict(sorted(counts.items())), dict(sorted(statuses.items()))
    )


def finalize_if_complete(conn: Connection, run_id: int) -> bool:
    """Finalize a running run whose last batch has ended; return whether that was done here."""
    running = sa.select(m.run.c.state).where(m.run.c.id == run_id, m.run.c.state == "running").with_for_update()
    if conn.execute(running).first() is None:
        return False
    unfinished = sa.select(m.run_batch.c.no).where(
        m.run_batch.c.run_id == run_id, m.run_batch.c.state.in_(("queued", "leased"))
    )
    if conn.execute(unfinished.limit(1)).first() is not None:
        return False
    finalize_run(conn, run_id)
    return True


def count_results(conn: Connection, run_id: int) -> int:
    """Return how many cases of a run have a result."""
    return conn.execute(sa.select(sa.func.count()).where(m.result.c.run_id == run_id)).scalar_one()


def _record_plan(conn: Connection, run_id: int, planned: dict[str, Case]) -> dict[str, int]:
    """Store the cases and that the run planned them; return case key → id."""
    ids: dict[str, int] = {}
    op_ids = {name: op_id for op_id, name in conn.execute(sa.select(m.op.c.id, m.op.c.name))}
    for chunk in _chunks(sorted(planned.items())):
        rows = []
        for key, case in chunk:
            if case.overload not in op_ids:
                raise BadInput(
                    f"The overload {case.overload} of the sample {case.sample} is not among the operators "
                    "of this torch; build the sample bank again with `neuron-ops bank build`."
                )
            rows.append({
                "key": bytes.fromhex(key), "op_id": op_ids[case.overload], "dtype": case.dtype, "sample": case.sample,
                "variant": case.variant, "seed": case.seed,
            })  # fmt: skip
        bulk.insert(conn, m.case_, rows, keys=("key",))
        keys = [row["key"] for row in rows]
        found = conn.execute(sa.select(m.case_.c.key, m.case_.c.id).where(m.case_.c.key.in_(keys))).all()
        ids.update({row.key.hex(): row.id for row in found})
        pairs = [{"run_id": run_id, "case_id": row.id} for row in found]
        bulk.insert(conn, m.run_case, pairs, keys=("run_id", "case_id"))
    return ids


def _planned_ids(conn: Connection, run_id: int, keys: Sequence[str]) -> dict[str, int]:
    """Return case key → id for the cases, all of which the run must have planned."""
    # Not a join: SQLite would then begin with all that the run planned (measured: 24 ms for 500 keys in place of 2).
    planned = sa.exists().where(m.run_case.c.run_id == run_id, m.run_case.c.case_id == m.case_.c.id)
    wanted = m.case_.c.key.in_([bytes.fromhex(key) for key in keys])
    rows = conn.execute(sa.select(m.case_.c.key, m.case_.c.id).where(wanted, planned))
    ids = {key.hex(): case_id for key, case_id in rows}
    unplanned = [key for key in keys if key not in ids]
    if unplanned:
        raise BadInput(
            f"{len(unplanned)} results are of cases that run {run_id} did not plan, the first is {unplanned[0]}; "
            "record them in the run that planned them."
        )
    return ids


def _target_id(conn: Connection, name: str) -> int:
    bulk.insert(conn, m.target, [{"name": name}], keys=("name",))
    found: int = conn.execute(sa.select(m.target.c.id).where(m.target.c.name == name)).scalar_one()
    return found


def _stream_id(conn: Connection, target_id: int, suite: str, channel: str) -> int:
    row = {"target_id": target_id, "suite": suite, "channel": m.sanitize(channel)}
    bulk.insert(conn, m.stream, [row], keys=tuple(row))
    found: int = conn.execute(sa.select(m.stream.c.id).filter_by(**row)).scalar_one()
    return found


def _software_id(conn: Connection, build: Build) -> int:
    row = {
        "fingerprint": build.fingerprint, "evidence": build.evidence.value,
        "versions": {m.sanitize(k): m.sanitize(v) for k, v in sorted(build.versions.items())},
    }  # fmt: skip
    bulk.insert(conn, m.software, [row], keys=("fingerprint",))
    query = sa.select(m.software.c.id).where(m.software.c.fingerprint == build.fingerprint)
    found: int = conn.execute(query).scalar_one()
    return found


def _environment_id(conn: Connection, environment: Environment) -> int:
    facts = _storable(asdict(environment))
    digest = _hash(facts)
    return _ids_by_hash(conn, m.environment, [{"hash": digest, "facts": facts}])[digest]


def _storable(value: Any) -> Any:
    """Return texts and mappings of texts, sorted and as both databases can store them."""
    if isinstance(value, Mapping):
        return {m.sanitize(key): _storable(value[key]) for key in sorted(value)}
    return m.sanitize(value)


def _ids_by_hash(conn: Connection, table: Table, rows: Iterable[dict[str, Any]]) -> dict[bytes, int]:
    """Store what is new and return hash → id."""
    distinct = {row["hash"]: row for row in rows}
    if not distinct:
        return {}
    # In one order everywhere: two writers that insert the same rows in two orders deadlock on PostgreSQL.
    bulk.insert(conn, table, [distinct[key] for key in sorted(distinct)], keys=("hash",))
    found = conn.execute(sa.select(table.c.hash, table.c.id).where(table.c.hash.in_(list(distinct))))
    return {row.hash: row.id for row in found}


# The same few thousand texts come back in hundreds of thousands of results.
@lru_cache(maxsize=10_000)
def _name(text: str) -> str:
    return m.sanitize(text)


@lru_cache(maxsize=10_000)
def _signature(kind: str, message: str) -> dict[str, Any]:
    text = m.sanitize(message)
    return {"hash": _hash([kind, text]), "kind": kind, "text": text}


@lru_cache(maxsize=10_000)
def _parts(reached: tuple[Part, ...]) -> dict[str, Any]:
    listed = [[m.sanitize(p.overload), p.route.value if p.route else None, p.count] for p in reached]
    return {"hash": _hash(listed), "parts": listed}


def _hash(value: Any) -> bytes:
    return hashlib.sha256(json.dumps(value).encode()).digest()[:16]


def _figures(result: Result) -> dict[str, list[float | str]] | None:
    """Return the figures as JSON, infinity and NaN as text: neither database takes them as numbers."""
    if result.device_figures is None and result.reference_figures is None:
        return None

    def listed(figures: Figures) -> list[float | str]:
        return [value if math.isfinite(value) else str(value) for value in astuple(figures)]

    both = {"device": result.device_figures, "reference": result.reference_figures}
    return {name: listed(figures) for name, figures in both.items() if figures} or None


def _finite(value: float | None) -> float | None:
    """Return the number, or None for infinity and NaN, which no sum survives."""
    return value if value is None or math.isfinite(value) else None


def _chunks(items: Sequence[_T]) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), _CHUNK):
        yield items[start : start + _CHUNK]
