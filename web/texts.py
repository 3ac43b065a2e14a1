"""The definitions: what the letters and words mean, how each number is counted, and how results come about."""

from __future__ import annotations

from flask import Blueprint, render_template
from neuron_ops.coverage_db import publishing
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.web.pinned import arguments, connection, shown_run

site = Blueprint("texts", __name__)


@site.get("/statuses")
def statuses() -> str:
    """Return the definition of every letter, route, reason, evidence word and tier, one anchor each."""
    arguments()
    return render_template("statuses.html")


@site.get("/methodology")
def methodology() -> str:
    """Return how a result comes about, what is compared, and when a run is published."""
    arguments()
    return render_template("methodology.html", rules=publishing)


@site.get("/numbers")
def numbers_page() -> str:
    """Return the definition of every number with its present value, one anchor each."""
    arguments()
    run = shown_run()
    return render_template("numbers.html", run=run, figures=numbers(connection(), run.id if run else None))
