"""The verified translations that come with the program, and what an operator does on targets other than a run's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.publishing import newest_published
from neuron_ops.coverage_db.rows import ordered_dtypes
from neuron_ops.op_tests.records import Evidence, Status

# Standard library only, as the site must work without torch.
from neuron_ops.translators.choices import TABLES, Choice, planned, shipped_choices

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Connection

__all__ = ["DEVICES", "Choice", "Elsewhere", "elsewhere", "translations"]

DEVICES = tuple(TABLES)
"""Kinds of devices for which translations were planned, the vendor's first."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What the newest published run of another target says of an operator, dtypes in column order."""

    target: str
    slug: str
    evidence: Evidence
    letters: Mapping[str, Status]


def translations(device: str) -> Mapping[str, Choice]:
    """Return overload → the translation chosen for a device of DEVICES; empty where none was planned."""
    return shipped_choices(device) if planned(device) else {}


def elsewhere(conn: Connection, overload: str, target: str) -> tuple[Elsewhere, ...]:
    """Return what the newest published run of each target but `target` says of an overload, targets by name."""
    rows = conn.execute(
        sa.select(m.target.c.name.label("target"), m.run.c.slug, m.software.c.evidence, m.cell.c.dtype, m.cell.c.status)
        .join(m.target, m.target.c.id == m.run.c.target_id)
        .join(m.software, m.software.c.id == m.run.c.software_id)
        .join(m.cell, m.cell.c.run_id == m.run.c.id)
        .join(m.op, m.op.c.id == m.cell.c.op_id)
        .where(m.run.c.id.in_(newest_published()), m.target.c.name != target, m.op.c.name == overload)
    )
    found: dict[tuple[str, str, str], dict[str, Status]] = {}
    for row in rows:
        found.setdefault((row.target, row.slug, row.evidence), {})[row.dtype] = Status(row.status)
    return tuple(
        Elsewhere(name, slug, Evidence(evidence), {dtype: letters[dtype] for dtype in ordered_dtypes(letters)})
        for (name, slug, evidence), letters in sorted(found.items())
    )
