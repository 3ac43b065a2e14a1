"""/api/v1: the documented, stable part of what programs read, with its OpenAPI document at /api/v1/openapi.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from apiflask import APIBlueprint
from flask import url_for
from neuron_ops.coverage_db import nights, queries
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.web import api_schemas as s
from neuron_ops.web.feeds import got_worse
from neuron_ops.web.finder import search_json
from neuron_ops.web.matrix import found_json
from neuron_ops.web.overloads import overload_json
from neuron_ops.web.pinned import connection, shown_run
from neuron_ops.web.query_text import FACETS, read_terms
from neuron_ops.web.twins import document, number_json, run_json, totals_json
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from apiflask import APIFlask
    from neuron_ops.coverage_db.queries import RunRow

site = APIBlueprint("api", __name__, url_prefix="/api/v1", tag="v1")

_PROBLEMS = {404: "There is no such thing.", 400: "A key or a value that the address does not take."}


def describe(app: APIFlask) -> None:
    """Give the OpenAPI document its words."""
    app.config["DESCRIPTION"] = (
        "Which PyTorch operators run on AWS Trainium, by evidence. Read-only, no key, no limit. Answers carry an ETag "
        "that changes when a run is published: send it as If-None-Match. A field may be added; none leaves version 1 or "
        "changes its meaning. Evidence simulated is never a measurement on hardware."
    )
    app.config["VALIDATION_ERROR_STATUS_CODE"] = 400
    app.config["AUTO_VALIDATION_ERROR_RESPONSE"] = False
    app.config["AUTO_404_RESPONSE"] = False


def _document(what: str) -> dict[str, Any]:
    """Return the keywords of every address: its summary and the errors that it may answer."""
    problem = {"application/problem+json": {"schema": s.Problem.model_json_schema()}}
    return {
        "summary": what,
        "responses": {str(code): {"description": told, "content": problem} for code, told in _PROBLEMS.items()},
    }


@site.get("/numbers")
@site.input(s.Query, location="query", arg_name="asked")
@site.output(s.Numbers)
@site.doc(**_document("The published numbers of a run"))
def published(asked: s.Query) -> dict[str, Any]:  # noqa: ARG001 - its check is what is wanted
    """Return the numbers, each n of m with its definition."""
    run = shown_run()
    found = numbers(connection(), run.id if run else None)
    return document(run, numbers=[number_json(one) for one in found])


@site.get("/runs")
@site.input(s.RunsQuery, location="query", arg_name="asked")
@site.output(s.Runs)
@site.doc(**_document("Runs, newest first"))
def runs(asked: s.RunsQuery) -> dict[str, Any]:
    """Return runs of any state."""
    found = queries.runs(connection(), target=asked.target, limit=asked.limit)
    return document(None, runs=[run_json(run) for run in found])


@site.get("/runs/<slug>")
@site.input(s.Query, location="query", arg_name="asked")
@site.output(s.RunDetail)
@site.doc(**_document("One run with its totals and numbers"))
def run(slug: str, asked: s.Query) -> dict[str, Any]:  # noqa: ARG001
    """Return a run."""
    conn, found = connection(), _run(slug)
    return document(
        found,
        totals=totals_json(queries.totals(conn, found)),
        numbers=[number_json(one) for one in numbers(conn, found.id)],
    )


@site.get("/ops")
@site.input(s.OpsQuery, location="query", arg_name="asked")
@site.output(s.Ops)
@site.doc(**_document("Overloads with their cells, a page at a time"))
def ops(asked: s.OpsQuery) -> dict[str, Any]:
    """Return one page of the matrix."""
    given = {facet: value for facet in FACETS if (value := getattr(asked, facet))}
    return found_json("api.ops", shown_run(), read_terms(asked.q, given), asked.page, asked.size)


@site.get("/ops/<name>")
@site.input(s.Query, location="query", arg_name="asked")
@site.output(s.OpDetail)
@site.doc(**_document("One overload with its cells and cases"))
def op(name: str, asked: s.Query) -> dict[str, Any]:  # noqa: ARG001
    """Return all that a run says of an overload; the name has three parts, as in aten.add.Tensor."""
    shown = shown_run()
    found = queries.overload(connection(), shown, name)
    if found is None:
        raise NotFound(f"There is no overload {name[:200]} here: names have three parts; /api/v1/search?q= finds them.")
    return overload_json(found, shown)


@site.get("/search")
@site.input(s.SearchQuery, location="query", arg_name="asked")
@site.output(s.Hits)
@site.doc(**_document("Overloads by name in any spelling"))
def search(asked: s.SearchQuery) -> dict[str, Any]:
    """Return what a text finds."""
    return search_json(asked.q.strip())


@site.get("/diff")
@site.input(s.DiffQuery, location="query", arg_name="asked")
@site.output(s.Diff)
@site.doc(**_document("What changed between two runs of one stream"))
def diff(asked: s.DiffQuery) -> dict[str, Any]:
    """Return the cases whose status differs."""
    before, after = _run(asked.before), _run(asked.after)
    found = nights.changes(connection(), before.id, after.id)
    return document(
        after,
        before=before.slug,
        after=after.slug,
        changes=[
            {"key": c.key, "overload": c.overload, "dtype": c.dtype, "before": c.before, "after": c.after, "worse": got_worse(c)}
            for c in found
        ],
    )  # fmt: skip


def _run(slug: str) -> RunRow:
    found = queries.run_by_slug(connection(), slug)
    if found is None:
        raise NotFound(f"There is no run {slug[:200]} in this database: {url_for('api.runs')} lists those it holds.")
    return found
