"""What known models call, what a run says of that, and which operators stand between a device and most models."""

from __future__ import annotations

import csv
import importlib.resources
import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.op_tests.records import Status, worst_status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection

PHASES = ("forward", "backward", "optimizer step")
DTYPES = ("bfloat16", "float32")
_GOOD = frozenset({Status.NATIVE, Status.TRANSLATED})
_SILENT = frozenset({Status.UNTESTED, Status.NOT_APPLICABLE})


@dataclass(frozen=True, slots=True)
class Family:
    """A known model: the overloads of each phase of one training step."""

    name: str
    phases: Mapping[str, tuple[str, ...]]

    def overloads(self, *, train: bool) -> tuple[str, ...]:
        """Return the distinct overloads by name, those of the forward pass alone where nothing is trained."""
        return tuple(sorted({one for phase in (PHASES if train else PHASES[:1]) for one in self.phases[phase]}))


@dataclass(frozen=True, slots=True)
class Need:
    """A missing operator: its status, the families that call it, and how many of the surveyed models do."""

    overload: str
    status: Status
    families: tuple[str, ...]
    surveyed: int


@dataclass(frozen=True, slots=True)
class Step:
    """The next operators to add, the families that are complete with them, and how many are by then, with how many operators."""

    adds: tuple[str, ...]
    unlocks: tuple[str, ...]
    operators: int
    models: int


@cache
def families() -> Mapping[str, Family]:
    """Return the known models by name."""
    told: dict[str, Any] = json.loads(_data("model_families.json"))
    return {name: Family(name, {phase: tuple(of[phase]) for phase in PHASES}) for name, of in told["models"].items()}


@cache
def source() -> tuple[str, str]:
    """Return how the models were recorded, and when (ISO date)."""
    told = json.loads(_data("model_families.json"))
    return told["source"], told["date"]


@cache
def surveyed() -> Mapping[str, int]:
    """Return overload → how many of the 33 models of a wider survey call it."""
    lines = [line for line in _data("model_operators.csv").splitlines() if not line.startswith("#")]
    return {row["overload"]: int(row["models"]) for row in csv.DictReader(lines)}


def letters(conn: Connection, run: RunRow | None) -> Mapping[str, Status]:
    """Return overload → its status over bfloat16 and float32: the worse one, of those that were measured."""
    wanted = sorted({one for family in families().values() for one in family.overloads(train=True)})
    rows = conn.execute(
        sa.select(m.op.c.name, m.cell.c.status)
        .join(m.cell, m.cell.c.op_id == m.op.c.id)
        .where(m.cell.c.run_id == (run.id if run else None), m.cell.c.dtype.in_(DTYPES), m.op.c.name.in_(wanted))
    )
    found: dict[str, list[Status]] = {name: [] for name in wanted}
    for name, status in rows:
        found[name].append(Status(status))
    return {name: _of(statuses) for name, statuses in found.items()}


def present(conn: Connection) -> frozenset[str]:
    """Return those overloads of the known models that the database holds, and so has a page of."""
    wanted = sorted({one for family in families().values() for one in family.overloads(train=True)})
    return frozenset(conn.execute(sa.select(m.op.c.name).where(m.op.c.name.in_(wanted))).scalars())


def _of(statuses: Iterable[Status]) -> Status:
    measured = [status for status in statuses if status not in _SILENT]
    return worst_status(measured) if measured else Status.UNTESTED


def counts(overloads: Iterable[str], known: Mapping[str, Status]) -> dict[str, int]:
    """Return how many of the overloads have each letter, in the order of the legend."""
    found = Counter(known.get(name, Status.UNTESTED).value for name in overloads)
    return {status.value: found[status.value] for status in Status if found[status.value]}


def missing(overloads: Iterable[str], known: Mapping[str, Status]) -> frozenset[str]:
    """Return the overloads that were measured and neither run natively nor by translation."""
    return frozenset(name for name in overloads if known.get(name, Status.UNTESTED) not in _GOOD | _SILENT)


def needs(known: Mapping[str, Status], *, train: bool) -> tuple[Need, ...]:
    """Return the missing operators, those that most families call first."""
    found: dict[str, list[str]] = {}
    for family in families().values():
        for name in missing(family.overloads(train=train), known):
            found.setdefault(name, []).append(family.name)
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), -surveyed().get(item[0], 0), item[0]))
    return tuple(Need(name, known[name], tuple(of), surveyed().get(name, 0)) for name, of in ordered)


def steps(known: Mapping[str, Status], *, train: bool) -> tuple[Step, ...]:
    """Return in which order to add operators, the step with fewest new ones for a complete model first.

    The first step adds nothing, where models are complete already. Greedy: the best order may be a little shorter.
    """
    left = {family.name: missing(family.overloads(train=train), known) for family in families().values()}
    found: list[Step] = []
    have: frozenset[str] = frozenset()
    done = 0
    while left:
        adds = min(left.values(), key=lambda lacks: (len(lacks - have), sorted(lacks))) - have
        have |= adds
        unlocked = tuple(sorted(name for name, lacks in left.items() if lacks <= have))
        done += len(unlocked)
        found.append(Step(tuple(sorted(adds)), unlocked, len(have), done))
        left = {name: lacks for name, lacks in left.items() if name not in unlocked}
    return tuple(found)


def _data(name: str) -> str:
    return importlib.resources.files("neuron_ops.op_tests").joinpath("data", name).read_text("utf-8")
