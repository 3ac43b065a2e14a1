"""Plumbing: whether the site can read its database, and what crawlers and browsers may take from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import Blueprint, Response, jsonify, render_template, url_for
from neuron_ops.coverage_db.publishing import public_run
from neuron_ops.web.addresses import page_addresses
from neuron_ops.web.pinned import arguments, connection
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from flask.typing import ResponseReturnValue

site = Blueprint("health", __name__)

# Facet links multiply without end, and a pinned page repeats the moving one.
_ROBOTS = """User-agent: *
Disallow: /ops?
Disallow: /search
Disallow: /diff/
Disallow: /check
Disallow: /*?run=
Disallow: /*.csv
Disallow: /*.ndjson
Sitemap: {sitemap}
"""


@site.get("/healthz")
def check() -> ResponseReturnValue:
    """Return whether the database answers: 200 with the published run's slug, or 503."""
    arguments()
    try:
        run = public_run(connection())
    except SQLAlchemyError as error:
        return jsonify(ok=False, error=type(error).__name__), 503
    return jsonify(ok=True, latest_run=run.slug if run else None)


@site.get("/robots.txt")
def robots() -> Response:
    """Return the rules for crawlers."""
    arguments()
    return Response(_ROBOTS.format(sitemap=url_for("health.sitemap", _external=True)), mimetype="text/plain")


@site.get("/sitemap.xml")
def sitemap() -> Response:
    """Return the address of every page for crawlers."""
    arguments()
    root = url_for("home.page", _external=True).rstrip("/")
    found = [root + address for address in page_addresses(connection())]
    return Response(render_template("sitemap.xml", addresses=found), mimetype="application/xml")


@site.get("/opensearch.xml")
def opensearch() -> Response:
    """Return the description by which a browser takes this site's search into its address bar."""
    arguments()
    return Response(render_template("opensearch.xml"), mimetype="application/opensearchdescription+xml")
