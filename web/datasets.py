"""The data itself: how to take it away, and what state it is in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, render_template
from neuron_ops.coverage_db import dataset
from neuron_ops.coverage_db.publishing import public_runs
from neuron_ops.coverage_db.queries import runs, totals
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.twins import SCHEMA_VERSION, run_json

if TYPE_CHECKING:
    from flask import Response
    from neuron_ops.coverage_db.rows import RunRow

site = Blueprint("datasets", __name__)

STALE = timedelta(days=7)
"""After this a published run is called old: sweeps are nightly where anybody looks after them."""
_LATEST = 30
"""Runs that are looked at for what went wrong."""


@site.get("/data")
def downloads() -> str:
    """Return the list of what can be downloaded, with the id of the present data."""
    arguments()
    return render_template("data.html", run=shown_run(), dataset=dataset.dataset_id(connection()))


@site.get("/status")
def status() -> str:
    """Return the state of the data: what is published, how old it is, what was not published and why."""
    told = _state()
    return render_template("status.html", **told, twin=link("datasets.status_twin"))


@site.get("/status.json")
def status_twin() -> Response:
    """Return the same as JSON."""
    told = _state()
    published = [
        {"target": run.target, "run": run.slug, "old": old, "age_days": days, "cells": cells}
        for run, days, old, cells in told["published"]
    ]
    return jsonify(
        schema_version=SCHEMA_VERSION, dataset=told["dataset"], published=published,
        withheld=[run_json(run) for run in told["withheld"]], running=[run_json(run) for run in told["running"]],
    )  # fmt: skip


def _state() -> dict[str, Any]:
    arguments()
    conn = connection()
    latest = runs(conn, limit=_LATEST)
    published = []
    for run in public_runs(conn).values():
        age = _age(run)
        published.append((run, age.days, age > STALE, sum(totals(conn, run).cells.values())))
    return {
        "dataset": dataset.dataset_id(conn), "published": published, "stale_days": STALE.days, "latest": _LATEST,
        "running": [run for run in latest if run.state == "running"],
        "withheld": [run for run in latest if run.state != "running" and not run.published],
    }  # fmt: skip


def _age(run: RunRow) -> timedelta:
    return datetime.now(UTC) - (run.finished or run.started)
