"""Plumbing: whether the site can read its database, and what crawlers may take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response, jsonify
from neuron_ops.coverage_db.queries import latest_run
from neuron_ops.web.pinned import arguments, connection
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from flask.typing import ResponseReturnValue

site = Blueprint("health", __name__)

# Facet links multiply without end, and a pinned page repeats the moving one.
_ROBOTS = "User-agent: *\nDisallow: /ops?\nDisallow: /search\nDisallow: /*?run=\n"


@site.get("/healthz")
def check() -> ResponseReturnValue:
    """Return whether the database answers: 200 with the latest run's slug, or 503."""
    arguments()
    try:
        run = latest_run(connection())
    except SQLAlchemyError as error:
        return jsonify(ok=False, error=type(error).__name__), 503
    return jsonify(ok=True, latest_run=run.slug if run else None)


@site.get("/robots.txt")
def robots() -> Response:
    """Return the rules for crawlers."""
    return Response(_ROBOTS, mimetype="text/plain")
