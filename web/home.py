"""The first page: search, the numbers, and how much of it was measured on hardware."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import Blueprint, jsonify, render_template
from neuron_ops.coverage_db.numbers import cells_by_evidence, numbers
from neuron_ops.coverage_db.queries import runs
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.twins import document, number_json, run_json
from neuron_ops.web.words import EVIDENCE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flask import Response
    from neuron_ops.coverage_db.numbers import Number
    from neuron_ops.coverage_db.queries import RunRow

site = Blueprint("home", __name__)

_LATEST = 5


@dataclass(frozen=True, slots=True)
class Home:
    """What the first page shows; `run` is None where none is published."""

    run: RunRow | None
    figures: tuple[Number, ...]
    cells: dict[str, int]
    latest: tuple[RunRow, ...]


@site.get("/")
def page() -> str:
    """Return the first page."""
    home = _content()
    return render_template(
        "home.html",
        run=home.run,
        figures=home.figures,
        evidence_line=evidence_sentence(home.cells),
        latest=home.latest,
        twin=link("home.twin"),
    )


@site.get("/index.json")
def twin() -> Response:
    """Return the first page as JSON."""
    home = _content()
    return jsonify(
        document(
            home.run,
            numbers=[number_json(one) for one in home.figures],
            cells_by_evidence=home.cells,
            evidence=evidence_sentence(home.cells),
            latest_runs=[run_json(run) for run in home.latest],
        )
    )


def _content() -> Home:
    arguments()
    conn = connection()
    listed = runs(conn, limit=_LATEST)
    run = shown_run()
    figures = numbers(conn, run.id) if run else ()
    return Home(run, figures, cells_by_evidence(conn), listed)


def evidence_sentence(cells: Mapping[str, int]) -> str:
    """Return `0 cells measured on hardware; 31,204 simulated.`"""
    hardware, *others = ((EVIDENCE[value].label, number) for value, number in cells.items())
    return f"{hardware[1]:,} cells {hardware[0]}; " + "; ".join(f"{number:,} {label}" for label, number in others) + "."
