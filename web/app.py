"""Builds the site: one Flask application over one database."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, jsonify, render_template, request
from neuron_ops.coverage_db.database import open_database
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import STATUS_ORDER, BadInput, Status
from neuron_ops.web import (
    cases,
    comparisons,
    figures,
    finder,
    grids,
    health,
    home,
    matrix,
    messages,
    overloads,
    pinned,
    runs,
    texts,
    translations,
    words,
)
from werkzeug.exceptions import HTTPException

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flask.typing import ResponseReturnValue

_BLUEPRINTS = (
    home.site, matrix.site, grids.site, overloads.site, cases.site, finder.site, runs.site,
    comparisons.site, messages.site, translations.site, texts.site, health.site,
)  # fmt: skip

# No script, no frame, no third party: every page is whole without them.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def create_app(database_url: str | None = None, config: Mapping[str, Any] | None = None) -> Flask:
    """Return the site over a database, by default the one of the settings.

    `config` overrides Flask's configuration. Raises BadInput when the database cannot be used.
    """
    app = Flask(__name__)
    app.config.from_mapping(SEND_FILE_MAX_AGE_DEFAULT=3600)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # an attribute of the default provider
    app.config.from_mapping(config or {})
    app.extensions["neuron_ops_engine"] = open_database(load_settings(database_url).database_url)
    for blueprint in _BLUEPRINTS:
        app.register_blueprint(blueprint)
    app.jinja_env.trim_blocks = True
    app.jinja_env.filters.update(figures.FILTERS)
    app.before_request(pinned.read_pin)
    app.context_processor(_page_context)
    app.teardown_appcontext(pinned.close_connection)
    app.after_request(_finish)
    app.register_error_handler(BadInput, _bad_input)
    app.register_error_handler(HTTPException, _failed)
    return app


def site_version() -> str:
    """Return the version of the installed program."""
    return metadata.version("neuron-ops")


def _page_context() -> dict[str, Any]:
    """Return the names that every template sees."""
    return {
        "words": words.STATUSES,
        "route_words": words.ROUTES,
        "reason_words": words.REASONS,
        "evidence_words": words.EVIDENCE,
        "tier_words": words.TIERS,
        "marks": words.MARKS,
        "order": [s.value for s in STATUS_ORDER if s not in {Status.UNTESTED, Status.NOT_APPLICABLE}],
        "percent": figures.percent,
        "share": figures.share,
        "link": pinned.link,
        "pinned": pinned.pinned_run(),
        "unpinned": pinned.unpinned_address(),
        "version": site_version(),
    }


def _finish(response: Response) -> Response:
    """Add the headers of every answer; an unchanged page answers 304."""
    response.headers.update(_HEADERS)
    if response.status_code == 200 and not response.direct_passthrough:
        if response.is_json:
            response.headers["Access-Control-Allow-Origin"] = "*"
        if request.endpoint != "health.check":
            response.cache_control.public = True
            response.cache_control.max_age = 60
        response.add_etag(weak=True)
        response.make_conditional(request)
    return response


def _bad_input(error: BadInput) -> ResponseReturnValue:
    return _answer(400, "That request cannot be answered", str(error))


def _failed(error: HTTPException) -> ResponseReturnValue:
    code = error.code or 500
    if code < 400:
        return error.get_response()
    headings = {404: "Not found", 405: "Pages are only read here", 500: "This is our fault"}
    sentence = error.description or "The request failed."
    if code == 404 and sentence.startswith("The requested URL was not found"):
        sentence = f"There is no page {request.path}: search the operators, or browse them all."
    if code == 500:
        sentence = "The site failed on this request: its log says how, please report it."
    return _answer(code, headings.get(code, error.name), sentence)


def _answer(code: int, heading: str, sentence: str) -> ResponseReturnValue:
    """Return an error as JSON for a JSON address, as a page otherwise."""
    if request.path.endswith(".json"):
        return jsonify(error=sentence, status=code), code
    return render_template("error.html", heading=heading, sentence=sentence), code
