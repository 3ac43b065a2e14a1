"""Charts as SVG: what a template needs to draw them. Each stands beside a table that says the same."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.rows import ordered_dtypes
from neuron_ops.op_tests.records import Status
from neuron_ops.web.figures import share

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neuron_ops.coverage_db.nights import Night
    from neuron_ops.coverage_db.trend import Point


@dataclass(frozen=True, slots=True)
class Bar:
    """One piece of a stacked bar; `x` and `width` are lengths for SVG, in percent."""

    letter: str
    x: str
    width: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One run of a strip; `title` says which and what, for a pointer that rests on it."""

    letter: str
    x: str
    width: str
    title: str


@dataclass(frozen=True, slots=True)
class StripRow:
    """What one dtype did in each run, oldest first; `changed` is the run of the last change, from letter `before`."""

    dtype: str
    pieces: tuple[Piece, ...]
    by_run: Mapping[str, str]
    now: str
    before: str | None
    changed: str | None


@dataclass(frozen=True, slots=True)
class Strip:
    """The history of an operator: `runs` are slugs, oldest first."""

    runs: tuple[str, ...]
    rows: tuple[StripRow, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """One run of a chart of columns: lengths for SVG in percent, `y` from above."""

    x: str
    y: str
    width: str
    height: str
    title: str


def columns(points: Iterable[Point]) -> list[Column]:
    """Return the columns of coverage over builds, oldest first; a full column is all of m."""
    found = list(points)
    return [
        Column(
            share(at * 10 + 1, len(found) * 10), share(one.m - one.n, one.m), share(8, len(found) * 10),
            share(one.n, one.m), f"{one.run.slug}: {one.n:,} of {one.m:,}",
        )
        for at, one in enumerate(found)
    ]  # fmt: skip


_LONGEST = 60
"""Runs that a strip shows."""


def strip(nights: Iterable[Night]) -> Strip | None:
    """Return the history of the newest runs as a strip, or None where there is only one run to show."""
    found = tuple(nights)
    runs = tuple(dict.fromkeys(night.slug for night in found))[-_LONGEST:]
    if len(runs) < 2:
        return None
    by_dtype: dict[str, dict[str, str]] = {}
    for night in found:
        by_dtype.setdefault(night.dtype, {})[night.slug] = night.status.value
    dtypes = ordered_dtypes(by_dtype)
    return Strip(runs, tuple(_row(dtype, runs, by_dtype[dtype]) for dtype in dtypes))


def _row(dtype: str, runs: tuple[str, ...], letters: Mapping[str, str]) -> StripRow:
    full = {slug: letters.get(slug, Status.UNTESTED.value) for slug in runs}
    pieces = tuple(
        Piece(letter, share(at, len(runs)), share(1, len(runs)), f"{slug}: {letter}")
        for at, (slug, letter) in enumerate(full.items())
    )
    before, changed = None, None
    for old, new in itertools.pairwise(runs):
        if full[old] != full[new]:
            before, changed = full[old], new
    return StripRow(dtype, pieces, full, full[runs[-1]], before, changed)


def bars(counts: Mapping[str, int]) -> list[Bar]:
    """Return the pieces of a bar that shows counts by status letter, in the order of the legend."""
    total = sum(counts.values())
    pieces, before = [], 0
    for status in Status:
        number = counts.get(status, 0)
        if number:
            pieces.append(Bar(status.value, share(before, total), share(number, total)))
        before += number
    return pieces
