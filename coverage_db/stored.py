"""Turns what the tables hold into records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.rows import CaseResult, CaseRow, CellRow, OpRow, RunRow
from neuron_ops.op_tests.records import Evidence, FallbackReason, Figures, Outcome, Part, Route, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Row

OPS = sa.select(m.op)
RUNS = (
    sa.select(m.run, m.target.c.name.label("target"), m.software.c.evidence, m.software.c.versions)
    .join(m.target, m.target.c.id == m.run.c.target_id)
    .join(m.software, m.software.c.id == m.run.c.software_id)
)
CELLS = sa.select(m.cell, m.parts.c.parts).outerjoin(m.parts, m.parts.c.id == m.cell.c.parts_id)
CASES = sa.select(
    m.case_.c.key, m.op.c.name.label("overload"), m.case_.c.dtype, m.case_.c.sample, m.case_.c.variant, m.case_.c.seed
).join(m.op, m.op.c.id == m.case_.c.op_id)
RESULTS = (
    CASES.add_columns(
        m.result.c.outcome, m.result.c.route, m.result.c.reason, m.result.c.composite, m.result.c.received,
        m.result.c.ms_device, m.result.c.ms_reference, m.result.c.figures, m.error_signature.c.text, m.parts.c.parts,
    )
    .join(m.result, m.result.c.case_id == m.case_.c.id)
    .outerjoin(m.error_signature, m.error_signature.c.id == m.result.c.signature_id)
    .outerjoin(m.parts, m.parts.c.id == m.result.c.parts_id)
)  # fmt: skip


def run_row(row: Row[*tuple[Any, ...]]) -> RunRow:
    """Return a row of RUNS as a record."""
    return RunRow(
        id=row.id, slug=row.slug, target=row.target, evidence=Evidence(row.evidence), versions=row.versions,
        state=row.state, started=row.started, finished=row.finished, seed=row.seed, planned=row.n_planned,
        counts=row.counts, denominators=row.denominators, selection=row.selection, dtypes=tuple(row.dtypes),
        recorded=row.n_recorded if row.state != "running" else None,
        quarantine=row.quarantine, released=row.released,
    )  # fmt: skip


def op_row(row: Row[*tuple[Any, ...]]) -> OpRow:
    """Return a row of OPS as a record."""
    return OpRow(row.name, row.packet, row.schema, tuple(row.tags), row.family, row.kind, row.tier, row.excluded)


def cell_row(row: Row[*tuple[Any, ...]]) -> CellRow:
    """Return a row of CELLS as a record."""
    return CellRow(row.dtype, Status(row.status), row.k, row.n, row.reason, row.composite, parts(row.parts))


def case_row(row: Row[*tuple[Any, ...]]) -> CaseRow:
    """Return a row that starts with the columns of CASES as a record."""
    return CaseRow(row.key.hex(), row.overload, row.dtype, row.sample, row.variant, row.seed)


def case_result(row: Row[*tuple[Any, ...]]) -> CaseResult:
    """Return a row of CASES, `result`, `error_signature.text` and `parts.parts` as a record."""
    case = case_row(row)
    if row.outcome is None:
        return CaseResult(case, None)
    figures: Mapping[str, Sequence[float | str]] = row.figures or {}
    return CaseResult(
        case=case,
        outcome=Outcome(row.outcome),
        route=Route(row.route) if row.route else None,
        reason=FallbackReason(row.reason) if row.reason else None,
        message=row.text,
        received=row.received,
        composite=row.composite,
        parts=parts(row.parts),
        device_figures=_figures(figures.get("device")),
        reference_figures=_figures(figures.get("reference")),
        device_ms=row.ms_device,
        reference_ms=row.ms_reference,
    )


def parts(stored: Sequence[Sequence[Any]] | None) -> tuple[Part, ...]:
    """Return the parts of a stored list, none for NULL."""
    return tuple(Part(name, Route(route) if route else None, count) for name, route, count in stored or ())


def _figures(stored: Sequence[float | str] | None) -> Figures | None:
    return Figures(*(float(value) for value in stored)) if stored else None
