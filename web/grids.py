"""Whole tables: every overload or the core ones, one family, one tag, one status, one dtype; nothing needs a query key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, jsonify, render_template
from neuron_ops.coverage_db.declared import vendor_list
from neuron_ops.coverage_db.grid import Choice, count, grid, shelves
from neuron_ops.op_tests.records import Status
from neuron_ops.web.charts import bars
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.twins import document, split_suffix
from neuron_ops.web.words import STATUSES, status_from_text
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from flask.typing import ResponseReturnValue
    from neuron_ops.coverage_db.grid import Grid, GridRow

site = Blueprint("grids", __name__)

_SECTION = 100
"""Rows a table: a browser lays out only the tables in sight (measured: 0.4 s against 2.1 s for one long table)."""
_LINKED = 3000
"""Cells up to which each is a link; beyond, a page of 7,000 elements would become one of 70,000."""
_REFERENCE = "float32"
_GOOD = frozenset({Status.NATIVE, Status.TRANSLATED})
_SILENT = frozenset({Status.UNTESTED, Status.NOT_APPLICABLE})


@site.get("/ops/all", defaults={"suffix": ""})
@site.get("/ops/all<any('.json'):suffix>")
def whole(suffix: str) -> ResponseReturnValue:
    """Return every overload of the denominator, or the JSON of that."""
    lead = "Every overload of the denominator with every dtype, on one page: search it with your browser, or print it."
    return _table("All operators", lead, Choice(), {"endpoint": "grids.whole"}, as_json=bool(suffix))


@site.get("/ops/core", defaults={"suffix": ""})
@site.get("/ops/core<any('.json'):suffix>")
def core(suffix: str) -> ResponseReturnValue:
    """Return the overloads that torch tags as core ATen, or the JSON of that."""
    lead = "The overloads that torch tags as core ATen: what an exported model is made of."
    return _table("Core operators", lead, Choice(tag="core"), {"endpoint": "grids.core"}, as_json=bool(suffix))


@site.get("/family/<name>")
def family(name: str) -> ResponseReturnValue:
    """Return the overloads of one family; answers 404 with the known ones for another name."""
    wanted, as_json = split_suffix(name)
    _known(wanted, shelves(connection()).families, "family")
    lead = "All overloads of one family of operators."
    where = {"endpoint": "grids.family", "name": wanted}
    return _table(f"Family {wanted}", lead, Choice(family=wanted), where, as_json=as_json)


@site.get("/tag/<name>")
def tag(name: str) -> ResponseReturnValue:
    """Return the overloads with one of torch's tags; answers 404 with the known ones for another name."""
    wanted, as_json = split_suffix(name)
    _known(wanted, shelves(connection()).tags, "tag")
    where = {"endpoint": "grids.tag", "name": wanted}
    return _table(
        f"Tag {wanted}", "All overloads that carry one of torch’s tags.", Choice(tag=wanted), where, as_json=as_json
    )


@site.get("/status/<name>")
def status(name: str) -> ResponseReturnValue:
    """Return the overloads that have one status in some dtype; any spelling of a status leads to its one address."""
    wanted, as_json = split_suffix(name)
    letter = status_from_text(wanted)
    if letter is None or STATUSES[letter].anchor != wanted:
        raise NotFound(
            f"There is no status {wanted}: the statuses are {', '.join(word.anchor for word in STATUSES.values())}."
        )
    word = STATUSES[letter]
    where = {"endpoint": "grids.status", "name": wanted}
    return _table(
        f"Status {letter}: {word.label}", word.definition, Choice(status=Status(letter)), where, as_json=as_json
    )


@site.get("/dtype/<name>")
def dtype(name: str) -> ResponseReturnValue:
    """Return what one dtype does by family, and what passes in float32 but not here."""
    arguments()
    wanted, as_json = split_suffix(name)
    run = shown_run()
    if run is None:
        return jsonify(document(None)) if as_json else render_template("dtype.html", run=None, name=wanted)
    _known(wanted, run.dtypes, "dtype")
    found = grid(connection(), run, Choice())
    counts = count(found.rows, wanted)
    families = {key: count(rows, wanted) for key, rows in _by_family(found.rows).items()}
    lost = _lost(found.rows, wanted)
    if as_json:
        told = [{"name": row.op.name, _REFERENCE: a, wanted: b} for row, a, b in lost]
        return jsonify(document(run, dtype=wanted, counts=counts, families=families, lost=told))
    return render_template(
        "dtype.html", run=run, name=wanted, counts=counts, bars=bars(counts), families=families, family_bars=bars,
        lost=lost, reference=_REFERENCE, computed_in=vendor_list().narrow.get(wanted), declared=vendor_list().title, shown=list(counts), twin=link("grids.dtype", name=f"{wanted}.json"),
    )  # fmt: skip


@site.get("/browse")
def browse() -> str:
    """Return the list of all pages that lead by a word: dtypes, statuses, families, tags."""
    arguments()
    run = shown_run()
    return render_template("browse.html", run=run, shelves=shelves(connection()))


def _known(wanted: str, known: Iterable[str], what: str) -> None:
    """Raise NotFound for a value that the data does not have."""
    names = list(known)
    if wanted not in names:
        raise NotFound(f"There is no {what} {wanted} in this database: it has {', '.join(names) or 'none yet'}.")


def _table(heading: str, lead: str, choice: Choice, where: Mapping[str, str], *, as_json: bool) -> ResponseReturnValue:
    arguments()
    run = shown_run()
    if run is None:
        return jsonify(document(None, rows=[])) if as_json else render_template("grid.html", heading=heading, run=None)
    found = grid(connection(), run, choice)
    if as_json:
        rows = [{"name": row.op.name, "cells": {d: mark.status for d, mark in row.marks.items()}} for row in found.rows]
        return jsonify(document(run, total=len(rows), dtypes=found.dtypes, counts=found.counts, rows=rows))
    values = dict(where)
    endpoint = values.pop("endpoint")
    twin = link(endpoint, name=values["name"] + ".json") if values else link(endpoint, suffix=".json")
    return render_template(
        "grid.html", heading=heading, lead=lead, run=run, grid=found, bars=bars(found.counts), twin=twin,
        cells=sum(found.counts.values()), sections=_sections(found), linked=_cells(found) <= _LINKED,
        canonical=link(endpoint, **values),
    )  # fmt: skip


def _cells(found: Grid) -> int:
    return len(found.rows) * len(found.dtypes)


def _sections(found: Grid) -> list[tuple[GridRow, ...]]:
    return [found.rows[at : at + _SECTION] for at in range(0, len(found.rows), _SECTION)]


def _by_family(rows: Iterable[GridRow]) -> dict[str, list[GridRow]]:
    found: dict[str, list[GridRow]] = {}
    for row in rows:
        found.setdefault(row.op.family, []).append(row)
    return dict(sorted(found.items()))


def _lost(rows: Iterable[GridRow], wanted: str) -> list[tuple[GridRow, Status, Status]]:
    """Return the overloads that stay on the device in float32 and do not in `wanted`, with both letters."""
    if wanted == _REFERENCE:
        return []
    found = []
    for row in rows:
        before = row.marks.get(_REFERENCE)
        after = row.marks[wanted].status
        if before is not None and before.status in _GOOD and after not in _GOOD | _SILENT:
            found.append((row, before.status, after))
    return found
