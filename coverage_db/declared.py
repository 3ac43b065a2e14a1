"""What a vendor declares: the registrations that its source has, and the dtypes that it computes in another.

The files are those that the simulated device is built from. They are read as data, since their package needs torch.
"""

from __future__ import annotations

import csv
import functools
import tomllib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.grid import Choice, grid
from neuron_ops.op_tests.records import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.coverage_db.grid import Mark
    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection

_FOLDER = "targets/sim"
_SILENT = frozenset({Status.UNTESTED, Status.NOT_APPLICABLE})
_ON_DEVICE = frozenset({Status.NATIVE, Status.TRANSLATED})


@dataclass(frozen=True, slots=True)
class Declaration:
    """One registration of the vendor's source; `host` says that what it registers computes on the host."""

    overload: str
    host: bool
    limits: str
    source: str


@dataclass(frozen=True, slots=True)
class Declared:
    """A vendor's list: `title` names source and date, `narrow` maps a dtype to the one that it is computed in."""

    title: str
    by_overload: Mapping[str, Declaration]
    narrow: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An overload whose marks contradict the list, in the dtypes of `marks`."""

    overload: str
    declaration: Declaration | None
    marks: Mapping[str, Mark]


@dataclass(frozen=True, slots=True)
class Disagreements:
    """Both directions: declared and not native here; on the device here and not declared. `unmatched` names nothing known."""

    not_native: tuple[Disagreement, ...]
    not_declared: tuple[Disagreement, ...]
    unmatched: tuple[str, ...]
    agreeing: int


@functools.cache
def vendor_list() -> Declared:
    """Return the list that comes with the program."""
    found = find_spec("neuron_ops.op_tests")
    assert found is not None, "the packages are installed together"
    assert found.origin is not None
    folder = Path(found.origin).parent / _FOLDER
    title, _, body = (folder / "profile.csv").read_text("utf-8").partition("\n")
    rows = {
        row["overload"]: Declaration(row["overload"], row["how"] == "host", row["limits"], row["source"])
        for row in csv.DictReader(body.splitlines())
    }
    rules = tomllib.loads((folder / "rules.toml").read_text("utf-8"))
    return Declared(title.removeprefix("# "), rows, rules["narrow"])


def disagreements(conn: Connection, run: RunRow, declared: Declared) -> Disagreements:
    """Return where a run contradicts the list, by overload. Untested and refused cells contradict nothing."""
    found = grid(conn, run, Choice())
    not_native: list[Disagreement] = []
    not_declared: list[Disagreement] = []
    agreeing = 0
    for row in found.rows:
        said = declared.by_overload.get(row.op.name)
        wanted = said is not None and not said.host
        differs = {dtype: mark for dtype, mark in row.marks.items() if _contradicts(mark.status, declared=wanted)}
        agreeing += sum(mark.status not in _SILENT for mark in row.marks.values()) - len(differs)
        if differs:
            (not_native if wanted else not_declared).append(Disagreement(row.op.name, said, differs))
    known = set(conn.execute(sa.select(m.op.c.name)).scalars())
    unmatched = tuple(sorted(set(declared.by_overload) - known)) if known else ()
    return Disagreements(tuple(not_native), tuple(not_declared), unmatched, agreeing)


def _contradicts(status: Status, *, declared: bool) -> bool:
    if status in _SILENT:
        return False
    return status is not Status.NATIVE if declared else status in _ON_DEVICE
