"""Atom feeds: what changed from run to run, what got worse, and what one overload did. Every entry says what and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import Blueprint, Response, current_app, render_template, url_for
from neuron_ops.coverage_db import nights
from neuron_ops.coverage_db.queries import overload, runs
from neuron_ops.op_tests.records import STATUS_ORDER
from neuron_ops.web.pinned import arguments, connection, shown_run
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from neuron_ops.coverage_db.nights import Change
    from neuron_ops.coverage_db.queries import RunRow

site = Blueprint("feeds", __name__)

_RUNS = 20
"""Runs that a feed looks back."""
_LINES = 100
"""Changed cells that an entry names; it says how many there are in all."""
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry; `key` makes its permanent id, `lines` are its text."""

    key: str
    title: str
    href: str
    updated: datetime
    lines: tuple[str, ...]


@site.get("/changes.atom")
def changes() -> Response:
    """Return what each of the latest runs changed against the run before it in its stream."""
    arguments()
    return _feed("changes", "What changed", list(_entries("changed", lambda _change: True)))


@site.get("/regressions.atom")
def regressions() -> Response:
    """Return what got worse in each of the latest runs; a run with nothing worse has no entry."""
    arguments()
    return _feed("regressions", "What got worse", list(_entries("worse", got_worse)))


@site.get("/op/<name>.atom")
def operator(name: str) -> Response:
    """Return the changes of one overload's cells over the runs of the latest run's stream."""
    arguments()
    run = shown_run()
    if overload(connection(), run, name) is None:
        raise NotFound(f"There is no operator {name} in this database: write all three parts, as in aten.add.Tensor.")
    entries = list(_nights(name, run)) if run else []
    return _feed(f"op/{name}", f"{name}: what changed", entries[-_RUNS:][::-1])


def got_worse(change: Change) -> bool:
    """Return whether a case that had a status has a worse one now; one that is new or was dropped is no regression."""
    if change.before is None or change.after is None:
        return False
    return STATUS_ORDER.index(change.after) < STATUS_ORDER.index(change.before)


def _entries(word: str, wanted: Callable[[Change], bool]) -> Iterator[Entry]:
    conn = connection()
    by_id = {run.id: run for run in runs(conn, limit=_RUNS * 2)}
    done = [run for run in by_id.values() if run.published and run.finished][:_RUNS]
    for run in done:
        pair = nights.neighbours(conn, run.id)
        if pair is None:
            continue
        found = [change for change in nights.changes(conn, *pair) if wanted(change)]
        before = by_id.get(pair[0])
        if found and before and run.finished:
            yield _entry(word, before, run, run.finished, found)


def _entry(word: str, before: RunRow, run: RunRow, finished: datetime, found: list[Change]) -> Entry:
    overloads = list(dict.fromkeys(change.overload for change in found))
    more = f" and {len(overloads) - _NAMED} more" if len(overloads) > _NAMED else ""
    title = (
        f"{before.slug} → {run.slug}: {len(found)} case{'s'[: len(found) != 1]} {word} "
        f"({', '.join(overloads[:_NAMED])}{more}), {run.evidence} on {run.target}"
    )
    lines = [f"{c.overload} {c.dtype}: {c.before or 'new'} → {c.after or 'gone'}, case {c.key[:12]}" for c in found]
    cut = [f"… {len(lines) - _LINES} more"] if len(lines) > _LINES else []
    return Entry(f"{word}/{run.slug}", title, _compared(before, run), finished, (*lines[:_LINES], *cut))


def _compared(before: RunRow, run: RunRow) -> str:
    """Return the address that compares two runs, or the run's where this site has no such page."""
    if any(rule.rule.startswith("/diff/") for rule in current_app.url_map.iter_rules()):
        return url_for("home.page", _external=True) + f"diff/{before.slug}...{run.slug}"
    return url_for("runs.page", slug=run.slug, _external=True)


def _nights(name: str, run: RunRow) -> Iterator[Entry]:
    """Yield one entry a run in which a cell of the overload has another letter than before, oldest first."""
    when = {one.slug: one.finished or one.started for one in runs(connection(), limit=1000)}
    by_run: dict[str, dict[str, str]] = {}
    for night in nights.operator_history(connection(), run.id, name):
        told = f"{night.status} ({night.k} of {night.n} cases)"
        by_run.setdefault(night.slug, {})[night.dtype] = told
    before: dict[str, str] = {}
    for slug, cells in by_run.items():
        lines = tuple(
            f"{dtype}: {before.get(dtype, 'new')} → {told}"
            for dtype, told in cells.items()
            if before.get(dtype) != told
        )
        if lines and slug in when:
            href = url_for("overloads.page", name=name, _external=True)
            yield Entry(f"op/{name}/{slug}", f"{name} in {slug}: {lines[0]}", href, when[slug], lines)
        before = cells


def _feed(path: str, title: str, entries: Iterable[Entry]) -> Response:
    listed = list(entries)
    updated = max((entry.updated for entry in listed), default=None)
    text = render_template(
        "feed.xml", title=f"neuron-ops: {title}", path=path, entries=listed,
        updated=updated or (run.started if (run := shown_run()) else None),
    )  # fmt: skip
    return Response(text, mimetype="application/atom+xml")
