"""Writes and reads a baseline file: what every case of a run did, in one small compressed text with a stable order.

The first line is a JSON object that says which run it was; the others are tab-separated: overload, dtype, variant,
sample, seed, status, ulp and NMSE, sorted. ``gzip -dc FILE | diff`` shows what a new one changes.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import queries
from neuron_ops.coverage_db.differences import Recording
from neuron_ops.coverage_db.verdicts import UNMEASURED, Seen, Side
from neuron_ops.op_tests.records import BadInput, Evidence, Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from neuron_ops.coverage_db.differences import Identity
    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection

_FORMAT = "neuron-ops baseline 1"


def write_baseline(recording: Recording, path: Path) -> None:
    """Write a file that has the same bytes for the same recording; raises BadInput where it cannot be written."""
    side = recording.side
    header = {
        "format": _FORMAT, "run": side.label, "target": side.target, "evidence": side.evidence.value,
        "versions": dict(sorted(side.versions.items())), "selection": side.selection, "cases": len(recording.seen),
    }  # fmt: skip
    text = io.StringIO()
    text.write(json.dumps(header, ensure_ascii=False) + "\n")
    csv.writer(text, "excel-tab", lineterminator="\n").writerows(_lines(recording))
    try:
        path.write_bytes(gzip.compress(text.getvalue().encode(), 6, mtime=0))
    except OSError as error:
        raise BadInput(f"The baseline {path} cannot be written ({error.strerror}); name another file.") from error


def read_baseline(path: Path) -> Recording:
    """Return what a file says; raises BadInput where it is none, damaged or cut short."""
    try:
        first, _, rest = gzip.decompress(path.read_bytes()).decode().partition("\n")
        header = json.loads(first)
        if not isinstance(header, dict) or header.get("format") != _FORMAT:
            raise ValueError(f"it does not begin as a {_FORMAT}")
        seen = dict(map(_line, csv.reader(io.StringIO(rest), "excel-tab")))
        if len(seen) != header["cases"]:
            raise ValueError(f"{len(seen)} of {header['cases']} cases are there")
        evidence = Evidence(header["evidence"])
        measured = sum(one.status not in UNMEASURED for one in seen.values())
        side = Side(str(path), header["target"], evidence, header["versions"], header["selection"], measured)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
        raise BadInput(
            f"The baseline {path} cannot be read ({error}); write one with `neuron-ops gate --write-baseline FILE`."
        ) from error
    if not measured:
        raise BadInput(f"The baseline {path} has no case that passed or failed; write one of a run that measured some.")
    return Recording(side, seen)


def latest_good(conn: Connection, run: RunRow) -> RunRow:
    """Return the newest earlier run of this run's stream that passed a gate; raises BadInput where there is none."""
    stream = sa.select(m.run.c.stream_id).where(m.run.c.id == run.id).scalar_subquery()
    query = (
        sa.select(m.run.c.id)
        .join(m.gate, m.gate.c.run_id == m.run.c.id)
        .where(m.run.c.stream_id == stream, m.run.c.id < run.id, m.gate.c.passed.is_(True))
        .order_by(m.run.c.seq.desc())
        .limit(1)
    )
    found = conn.execute(query).scalar()
    good = None if found is None else queries.run_by_id(conn, found)
    if good is None:
        raise BadInput(
            f"No earlier run of the same target and choice of cases as {run.slug} has passed a gate; name the first "
            "baseline with --baseline RUN."
        )
    return good


def _lines(recording: Recording) -> Iterator[tuple[str | int, ...]]:
    for identity, seen in sorted(recording.seen.items()):
        figures = ("" if f is None else f"{f:.4g}" for f in (seen.max_ulp, seen.nmse))
        yield (*identity, seen.status.value, *figures)


def _line(fields: list[str]) -> tuple[Identity, Seen]:
    overload, dtype, variant, sample, seed, status, ulp, nmse = fields
    figures = (float(text) if text else None for text in (ulp, nmse))
    return (overload, dtype, variant, sample, int(seed)), Seen(Status(status), *figures)
