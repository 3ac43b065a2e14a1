"""The one thing that people may leave here: a report of `neuron-ops check`, which gets a page for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, current_app, jsonify, redirect, render_template, request, url_for
from flask_limiter import Limiter
from flask_limiter.util import get_remote_address
from neuron_ops.coverage_db import shared_reports
from neuron_ops.coverage_db.database import write
from neuron_ops.op_tests.records import BadInput
from neuron_ops.web.pinned import arguments, close_connection, connection
from neuron_ops.web.report_text import MOST_BYTES, MOST_ROWS, read_report
from neuron_ops.web.twins import SCHEMA_VERSION, split_suffix
from werkzeug.exceptions import NotFound, RequestEntityTooLarge

if TYPE_CHECKING:
    from flask import Flask
    from flask.typing import ResponseReturnValue

site = Blueprint("checks", __name__)
# Counted in the memory of each process: with two of gunicorn a reader has twice as many.
_limiter = Limiter(get_remote_address, storage_uri="memory://", default_limits=[])
_OF_FORM = 3 * MOST_BYTES
"""Bytes of the request: a form writes a quote or a brace as three."""
_SHOWN = 500


def switch_on(app: Flask) -> None:
    """Add the form and its reports to a site, at most `CHECK_RATE` reports from one address."""
    _limiter.init_app(app)
    app.register_blueprint(site)


def offered() -> bool:
    """Return whether this site takes reports."""
    return site.name in current_app.blueprints


@site.get("/check")
def form() -> str:
    """Return the form for a report."""
    arguments()
    return render_template("check_form.html", most=MOST_ROWS, megabytes=MOST_BYTES >> 20)


@site.post("/check")
@_limiter.limit(lambda: current_app.config["CHECK_RATE"])
def take() -> ResponseReturnValue:
    """Keep a report, as the form sends it or as the body of a request in JSON, and lead to its page.

    Answers 413 for one too large, 429 for too many from one address, and 400 with what is wrong with it.
    """
    arguments()
    request.max_content_length = request.max_form_memory_size = _OF_FORM
    text = request.get_data(as_text=True) if request.is_json else request.form.get("report", "")
    if not text.strip():
        raise BadInput("There is no report in this request: paste what `neuron-ops check FILE --json` printed.")
    if len(text.encode("utf-8", "replace")) > MOST_BYTES:
        raise RequestEntityTooLarge(f"A report may have {MOST_BYTES >> 20} MiB; check a part of the model.")
    content = read_report(text)
    close_connection()  # so that no reader of ours stands beside the writer
    with write(current_app.extensions["neuron_ops_engine"]) as conn:
        digest = shared_reports.keep(conn, content)
    where = url_for("checks.page", name=digest, _external=request.is_json)
    return (jsonify(url=where, hash=digest), 201) if request.is_json else redirect(where, 303)


@site.get("/check/<name>")
def page(name: str) -> ResponseReturnValue:
    """Return a kept report's page, or its JSON for a hash that ends in .json; answers 404 where none is kept."""
    arguments()
    digest, as_json = split_suffix(name)
    found = shared_reports.by_hash(connection(), digest)
    if found is None:
        raise NotFound(f"No report is kept as {digest[:64]}: paste it at /check.")
    if as_json:
        return jsonify(schema_version=SCHEMA_VERSION, hash=found.hash, stored=found.stored.isoformat(), **found.content)
    rows: list[dict[str, Any]] = found.content["operators"]
    return render_template(
        "check_report.html", report=found.content, kept=found, rows=rows[:_SHOWN], more=max(0, len(rows) - _SHOWN),
        twin=url_for("checks.page", name=f"{found.hash}.json"),
    )  # fmt: skip
