"""The runs: every one that the database holds, and one of them in full."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, jsonify, render_template, url_for
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.queries import previous_run, run_by_slug, runs, totals
from neuron_ops.coverage_db.trend import core_native
from neuron_ops.web.charts import bars, columns
from neuron_ops.web.pinned import arguments, connection, shown_run
from neuron_ops.web.twins import SCHEMA_VERSION, document, number_json, run_json, totals_json
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from flask import Response
    from flask.typing import ResponseReturnValue

site = Blueprint("runs", __name__)

_LIMIT = 100
_SUFFIX = ".json"


@site.get("/runs")
def listing() -> str:
    """Return the list of runs, newest first."""
    arguments()
    conn = connection()
    shown = shown_run()
    points = core_native(conn, shown.target) if shown else ()
    return render_template(
        "runs.html", listed=runs(conn, limit=_LIMIT), limit=_LIMIT, shown=shown, points=points, columns=columns(points),
        twin=url_for("runs.listing_twin"),
    )  # fmt: skip


@site.get("/runs.json")
def listing_twin() -> Response:
    """Return the list of runs as JSON."""
    arguments()
    return jsonify(schema_version=SCHEMA_VERSION, runs=[run_json(run) for run in runs(connection(), limit=_LIMIT)])


@site.get("/run/<slug>")
def page(slug: str) -> ResponseReturnValue:
    """Return one run's page, or its JSON for a slug that ends in .json; answers 404 for no stored run."""
    arguments()
    conn = connection()
    run = run_by_slug(conn, slug.removesuffix(_SUFFIX))
    if run is None:
        raise NotFound(f"There is no run {slug.removesuffix(_SUFFIX)} in this database: see /runs for those it holds.")
    counted, figures = totals(conn, run), numbers(conn, run.id)
    if slug.endswith(_SUFFIX):
        return jsonify(document(run, totals=totals_json(counted), numbers=[number_json(one) for one in figures]))
    return render_template(
        "run.html",
        shown=run,
        totals=counted,
        cells_in_all=sum(counted.cells.values()),
        cell_bars=bars(counted.cells),
        case_bars=bars(counted.counts),
        figures=figures,
        previous=previous_run(conn, run.id),
        twin=url_for("runs.page", slug=run.slug + _SUFFIX),
    )
