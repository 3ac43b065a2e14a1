"""The matrix: overloads down, dtypes across, one letter a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, render_template, request
from neuron_ops.coverage_db.queries import Matrix, MatrixQuery, matrix
from neuron_ops.op_tests.records import BadInput, Status
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.query_text import FACETS, Terms, read_terms
from neuron_ops.web.tables import table_asked
from neuron_ops.web.twins import cell_json, document, op_json
from neuron_ops.web.verdict import cell_name, share_text
from neuron_ops.web.words import MARKS, STATUSES
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from flask import Response
    from neuron_ops.coverage_db.queries import MatrixRow, RunRow

site = Blueprint("matrix", __name__)

_FIELDS = {
    "status": "statuses", "dtype": "dtypes", "family": "families", "tier": "tiers", "tag": "tags", "kind": "kinds",
}  # fmt: skip
_PAGE, _LARGEST_PAGE = 100, 1000
"""Overloads on a page, and in one step of a table that holds them all."""
_OPEN = frozenset({"status", "dtype", "tier", "kind"})
"""Facets short enough to be shown unfolded."""


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell as the page shows it; `share` is k/n where the cases differ, `name` what a screen reader says."""

    dtype: str
    letter: str
    css: str
    share: str
    mark: str
    name: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One value of a facet: where its link leads, how many overloads it would show, and whether it is in force."""

    text: str
    count: int
    href: str
    on: bool


@site.get("/ops")
def page() -> str:
    """Return one page of the matrix."""
    terms, number = _asked()
    run = shown_run()
    if run is None:
        return render_template("matrix.html", run=None, twin=link("matrix.twin"))
    found = _found(run, terms, number)
    shown = terms.arguments() | ({"page": str(number)} if number > 1 else {})
    return render_template(
        "matrix.html",
        run=run,
        terms=terms,
        matrix=found,
        rows=[_row(row, run, found.dtypes) for row in found.rows],
        chosen=_chosen(terms),
        facets=_facets(terms, found),
        previous=_page_link(terms, number - 1) if number > 1 else None,
        following=_page_link(terms, number + 1) if number < found.pages else None,
        twin=link("matrix.twin", **shown),
    )


@site.get("/ops.json")
def twin() -> Response:
    """Return the same page of the matrix as JSON; `next` is the address of the following page, or null."""
    terms, number = _asked()
    size = _LARGEST_PAGE if table_asked() else _PAGE
    return jsonify(found_json("matrix.twin", shown_run(), terms, number, size))


def found_json(endpoint: str, run: RunRow | None, terms: Terms, number: int, size: int) -> dict[str, Any]:
    """Return one page of the matrix as JSON; `next` is the address of the following page at `endpoint`, or null."""
    if run is None:
        empty: dict[str, Any] = {"query": terms.arguments(), "total": 0, "page": 1, "pages": 0, "dtypes": []}
        return document(None, **empty, facets={}, rows=[], next=None)
    found = _found(run, terms, number, size)
    step = {"page": str(number + 1)} | ({"size": str(size)} if endpoint.startswith("api.") else {})
    return document(
        run,
        query=terms.arguments(),
        total=found.total,
        page=found.page,
        pages=found.pages,
        dtypes=list(found.dtypes),
        facets={facet: dict(found.facets.get(field, {})) for facet, field in _FIELDS.items()},
        rows=[
            {**op_json(row.op), "cells": {dtype: cell_json(cell) for dtype, cell in row.cells.items()}}
            for row in found.rows
        ],
        next=link(endpoint, **terms.arguments(), **step) if number < found.pages else None,
    )


def _asked() -> tuple[Terms, int]:
    """Return the terms and the page number of this request; raises BadInput for what is neither."""
    given = arguments("q", *FACETS, "page")
    number = given.get("page", "1")
    # Nine digits hold every page there can be; more would not fit a database's integer.
    if not (number.isascii() and number.isdigit() and 0 < int(number[:10]) < 10**9):
        raise BadInput(f"“{number}” is no page: give a whole number from 1, or leave page out.")
    return read_terms(given.get("q", ""), {facet: given[facet] for facet in FACETS if facet in given}), int(number)


def _found(run: RunRow, terms: Terms, number: int, size: int = _PAGE) -> Matrix:
    asked: dict[str, Any] = {field: terms.wanted(facet) for facet, field in _FIELDS.items()}
    found = matrix(connection(), run, MatrixQuery(words=terms.words, page=number, size=size, **asked))
    if number > 1 and number > found.pages:
        raise NotFound(
            f"There is no page {number} here: the last one of {request.path} with these filters is {found.pages}."
        )
    return found


def _row(row: MatrixRow, run: RunRow, dtypes: tuple[str, ...]) -> dict[str, Any]:
    """Return a row for the template; the address is built once and the cells add their fragment to it."""
    return {
        "name": row.op.name,
        "core": "core" in row.op.tags,
        "href": link("overloads.page", name=row.op.name),
        "cells": [_cell(row, run, dtype) for dtype in dtypes],
    }


def _cell(row: MatrixRow, run: RunRow, dtype: str) -> CellView:
    cell = row.cells[dtype]
    tested = cell.status not in {Status.UNTESTED, Status.NOT_APPLICABLE}
    return CellView(
        dtype=dtype,
        letter=cell.status.value,
        css=STATUSES[cell.status].css,
        share=share_text(cell),
        mark=MARKS.get(run.evidence, "") if tested else "",
        name=cell_name(cell, run.evidence),
    )


def _page_link(terms: Terms, number: int) -> str:
    return link("matrix.page", **terms.arguments(), **({"page": str(number)} if number > 1 else {}))


def _value_text(facet: str, value: str) -> str:
    return f"{value} {STATUSES[value].label}" if facet == "status" and value in STATUSES else value


def _facets(terms: Terms, found: Matrix) -> list[dict[str, Any]]:
    """Return the facets with their choices, each a link that adds the value or takes it away."""
    return [
        {
            "label": facet.capitalize(),
            "open": facet in _OPEN or bool(terms.wanted(facet)),
            "choices": [
                Choice(
                    _value_text(facet, value),
                    number,
                    link("matrix.page", **terms.toggled(facet, value).arguments()),
                    value in terms.wanted(facet),
                )
                for value, number in found.facets.get(field, {}).items()
            ],
        }
        for facet, field in _FIELDS.items()
    ]


def _chosen(terms: Terms) -> list[dict[str, str]]:
    """Return what is in force, each with the link that removes it."""
    rows = [
        {
            "text": f"{facet}: {_value_text(facet, value)}",
            "href": link("matrix.page", **terms.toggled(facet, value).arguments()),
        }
        for facet in FACETS
        for value in terms.wanted(facet)
    ]
    if terms.words:
        rows.insert(
            0, {"text": f"words: {terms.words}", "href": link("matrix.page", **terms.without_words().arguments())}
        )
    return rows
