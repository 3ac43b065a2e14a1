"""Builds the site: one Flask application over one database."""

from __future__ import annotations

from importlib import metadata
from typing import TYPE_CHECKING, Any

from apiflask import APIFlask, HTTPError
from flask import Response, current_app, jsonify, render_template, request
from neuron_ops.coverage_db.database import open_database
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import STATUS_ORDER, BadInput, Status
from neuron_ops.web import (
    api,
    badges,
    cases,
    checks,
    comparisons,
    datasets,
    families,
    feeds,
    figures,
    finder,
    freshness,
    grids,
    health,
    home,
    matrix,
    messages,
    metrics,
    overloads,
    pinned,
    runs,
    tables,
    texts,
    translations,
    words,
)
from werkzeug.exceptions import HTTPException, SecurityError
from werkzeug.middleware.proxy_fix import ProxyFix

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flask.typing import ResponseReturnValue

_BLUEPRINTS = (
    home.site, matrix.site, grids.site, overloads.site, cases.site, finder.site, runs.site, comparisons.site,
    messages.site, translations.site, texts.site, families.site, datasets.site, health.site, metrics.site, badges.site, feeds.site, api.site,
)  # fmt: skip

# No frame, no third party, and no script but our file for keys: every page is whole without it.
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_OPEN = frozenset({"image/svg+xml", "application/atom+xml"})
"""What other sites may read or show, beside JSON."""
_UNCACHED = frozenset({"health.check", "metrics.page"})


def create_app(database_url: str | None = None, config: Mapping[str, Any] | None = None) -> APIFlask:
    """Return the site over a database, by default the one of the settings.

    `config` overrides Flask's configuration; so do variables such as NEURON_OPS_SITE_CHECK_FORM=false, which takes no
    reports of `check`, NEURON_OPS_SITE_PROXIES=1, the number of proxies in
    front whose X-Forwarded headers are believed, and NEURON_OPS_SITE_TRUSTED_HOSTS='["ops.example.org"]'. Raises BadInput when the database cannot be used.
    """
    # No page of docs: what renders them would come from elsewhere. Errors are ours, the same for page and API.
    app = APIFlask(
        __name__, title="neuron-ops", version="1", spec_path="/api/v1/openapi.json", docs_path=None, json_errors=False
    )
    api.describe(app)
    app.config.from_mapping(SEND_FILE_MAX_AGE_DEFAULT=3600, STATIC_SITE=False, PROXIES=0)
    app.config.from_mapping(CHECK_FORM=True, CHECK_RATE="10 per minute")
    app.config.from_prefixed_env("NEURON_OPS_SITE")
    app.json.sort_keys = False  # type: ignore[attr-defined]  # an attribute of the default provider
    app.config.from_mapping(config or {})
    app.extensions["neuron_ops_engine"] = open_database(load_settings(database_url).database_url)
    for blueprint in _BLUEPRINTS:
        app.register_blueprint(blueprint)
    if app.config["CHECK_FORM"] and not app.config["STATIC_SITE"]:
        checks.switch_on(app)
    app.jinja_env.trim_blocks = True
    app.jinja_env.filters.update(figures.FILTERS)
    if hops := app.config["PROXIES"]:  # believed only if there is one: anybody can send these headers
        app.wsgi_app = ProxyFix(app.wsgi_app, hops, hops, hops, 0, hops)  # type: ignore[method-assign]
    app.wsgi_app = tables.TableAddresses(app.wsgi_app)  # type: ignore[method-assign]
    metrics.measure(app)
    app.before_request(freshness.answer_unchanged)
    app.before_request(pinned.read_pin)
    app.context_processor(_page_context)
    app.teardown_appcontext(pinned.close_connection)
    app.after_request(_finish)
    app.register_error_handler(BadInput, _bad_input)
    app.error_processor(_refused)
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
        "takes_reports": checks.offered(),
        "static_site": current_app.config["STATIC_SITE"],
    }


def _finish(response: Response) -> Response:
    """Add the headers of every answer; an unchanged page answers 304."""
    response.headers.update(_HEADERS)
    if response.status_code in {200, 304} and not response.direct_passthrough:
        if response.is_json or response.mimetype in _OPEN:
            response.headers["Access-Control-Allow-Origin"] = "*"
        if request.endpoint not in _UNCACHED:
            response.cache_control.public = True
            response.cache_control.max_age = response.cache_control.max_age or 60
        response = tables.as_table(response)
        freshness.tag(response)
    return response


def _bad_input(error: BadInput) -> ResponseReturnValue:
    return _answer(400, "That request cannot be answered", str(error))


def _refused(error: HTTPError) -> tuple[Response | str, int]:
    """Answer what the layout of a query refuses, key by key."""
    told = "; ".join(f"{key}: {', '.join(said)}" for of in error.detail.values() for key, said in of.items())
    return _answer(error.status_code, "That request cannot be answered", f"{told}. See /api/v1/openapi.json.")


def _failed(error: HTTPException) -> ResponseReturnValue:
    code = error.code or 500
    if code < 400:
        return error.get_response()
    if isinstance(error, SecurityError):  # the host is not ours, so that no address can be made for a page
        return Response("This site does not answer to that host name.\n", 400, mimetype="text/plain")
    headings = {404: "Not found", 405: "Pages are only read here", 500: "This is our fault"}
    sentence = error.description or "The request failed."
    if code == 404 and sentence.startswith("The requested URL was not found"):
        sentence = f"There is no page {request.path}: search the operators, or browse them all."
    if code == 500:
        sentence = "The site failed on this request: its log says how, please report it."
    return _answer(code, headings.get(code, error.name), sentence)


def _answer(code: int, heading: str, sentence: str) -> tuple[Response | str, int]:
    """Return an error as JSON for a JSON address, as a page otherwise."""
    if request.path.startswith("/api/"):
        problem = jsonify(type="about:blank", title=heading, status=code, detail=sentence)
        problem.mimetype = "application/problem+json"
        return problem, code
    if request.path.endswith(".json"):
        return jsonify(error=sentence, status=code), code
    return render_template("error.html", heading=heading, sentence=sentence), code
