"""The one function that computes published numbers; page, JSON and command line print what it returns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.publishing import newest_published
from neuron_ops.coverage_db.rows import Number
from neuron_ops.op_tests.records import Evidence, Status

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy import Connection, Row

__all__ = ["CORE_DTYPES", "Number", "cells_by_evidence", "core_ids", "numbers"]

_NATIVE = (Status.NATIVE,)
_ON_DEVICE = (Status.NATIVE, Status.TRANSLATED)
_UNMEASURED = (Status.UNTESTED, Status.NOT_APPLICABLE)
_DEVICE = "neuron"
CORE_DTYPES = ("float32", "bfloat16")
_Letters = dict[tuple[int, str], Status]


def numbers(conn: Connection, run_id: int | None) -> tuple[Number, ...]:
    """Return core-native, core-on-device, key-native, hard-core-native and hardware-cells, in this order.

    Without a run n is 0. An untested cell stays in m; only a cell that the reference refuses leaves it.
    """
    evidence = _evidence(conn, run_id)
    letters = _letters(conn, run_id)
    ops = conn.execute(sa.select(m.op.c.id, m.op.c.tags, m.op.c.tier).where(m.op.c.excluded.is_(None))).all()
    core = [op.id for op in ops if "core" in op.tags]
    key = [op.id for op in ops if op.tier in {"T1", "T2"}]
    hard = [op.id for op in ops if op.tier == "T1"]

    def number(
        name: str, label: str, ids: Sequence[int], dtypes: Sequence[str], good: Collection[Status], what: str
    ) -> Number:
        cells = [letters.get((op_id, dtype), Status.UNTESTED) for op_id in ids for dtype in dtypes]
        refused = cells.count(Status.NOT_APPLICABLE)
        definition = (
            f"{what}, in {' and '.join(dtypes)}: {len(ids)} overloads × {len(dtypes)}, less {refused} cells that the "
            f"CPU reference refuses. n counts status {' or '.join(good)}; an untested cell counts in m."
        )
        return Number(name, label, sum(cell in good for cell in cells), len(cells) - refused, definition, evidence)

    in_core = "Overloads that torch tags as core ATen and that are in the denominator"
    in_key = "Overloads of the denominator that reach a backend's key (tiers T1 and T2, D_key)"
    in_hard = "Overloads of the denominator that have no composite kernel (tier T1)"
    return (
        number("core-native", "Core operators native on the device", core, CORE_DTYPES, _NATIVE, in_core),
        number("core-on-device", "Core operators native or translated", core, CORE_DTYPES, _ON_DEVICE, in_core),
        number("key-native", "Backend operators native on the device", key, ("float32",), _NATIVE, in_key),
        number("hard-core-native", "Operators with no composite kernel, native", hard, ("float32",), _NATIVE, in_hard),
        _hardware_cells(conn),
    )


def _evidence(conn: Connection, run_id: int | None) -> Evidence | None:
    query = sa.select(m.software.c.evidence).join(m.run, m.run.c.software_id == m.software.c.id)
    value = conn.execute(query.where(m.run.c.id == run_id)).scalar()
    return Evidence(value) if value else None


def _letters(conn: Connection, run_id: int | None) -> _Letters:
    cells = conn.execute(
        sa.select(m.cell.c.op_id, m.cell.c.dtype, m.cell.c.status).where(
            m.cell.c.run_id == run_id, m.cell.c.dtype.in_(CORE_DTYPES)
        )
    )
    return {(op_id, dtype): Status(status) for op_id, dtype, status in cells}


def core_ids(conn: Connection) -> list[int]:
    """Return the ids of the overloads that core-native counts."""
    ops = conn.execute(sa.select(m.op.c.id, m.op.c.tags).where(m.op.c.excluded.is_(None)))
    return [op.id for op in ops if "core" in op.tags]


def cells_by_evidence(conn: Connection) -> dict[str, int]:
    """Return how many cells the published runs measured by each kind of evidence, hardware first.

    Those measured on hardware are n of `hardware-cells`: another device's hardware is not Trainium.
    """
    found: Counter[str] = Counter({Evidence.HARDWARE.value: 0, Evidence.SIMULATED.value: 0})
    for row in _published_cells(conn):
        if Status(row.status) not in _UNMEASURED and (row.evidence != Evidence.HARDWARE or row.name == _DEVICE):
            found[row.evidence] += row.n
    return dict(found)


def _hardware_cells(conn: Connection) -> Number:
    """Return how many cells were measured on Trainium hardware, of all cells in each target's published run."""
    counted = _published_cells(conn)
    device = [row for row in counted if row.name == _DEVICE and row.evidence == Evidence.HARDWARE]
    measured = sum(row.n for row in device if Status(row.status) not in _UNMEASURED)
    total = sum(row.n for row in counted)
    definition = (
        "Cells (overload × dtype) of the published run of each target. n counts those of target neuron that were measured "
        "on Trainium hardware; untested ones and those that the CPU reference refuses count in m only."
    )
    return Number("hardware-cells", "Cells measured on hardware", measured, total, definition, Evidence.HARDWARE)


def _published_cells(conn: Connection) -> Sequence[Row[*tuple[Any, ...]]]:
    """Return the published run of each target as rows (name, evidence, status, n)."""
    return conn.execute(
        sa.select(m.target.c.name, m.software.c.evidence, m.cell.c.status, sa.func.count().label("n"))
        .join(m.run, m.run.c.id == m.cell.c.run_id)
        .join(m.target, m.target.c.id == m.run.c.target_id)
        .join(m.software, m.software.c.id == m.run.c.software_id)
        .where(m.cell.c.run_id.in_(newest_published()))
        .group_by(m.target.c.name, m.software.c.evidence, m.cell.c.status)
    ).all()
