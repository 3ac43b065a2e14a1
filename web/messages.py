"""The messages of a run by what they say, and the way from a pasted error to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, render_template
from neuron_ops.coverage_db.messages import clusters, matching
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.twins import document, split_suffix
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from flask import Response
    from flask.typing import ResponseReturnValue
    from neuron_ops.coverage_db.messages import Cluster

site = Blueprint("messages", __name__)

LONGEST_PASTE = 3000
"""Characters of a pasted trace that are read: servers refuse longer addresses, and the line that counts is the last."""


@site.get("/errors")
def listing() -> str:
    """Return the messages of the run by pattern, or those that `?q=` belongs to."""
    asked = _asked()
    run = shown_run()
    found = clusters(connection(), run.id) if run else ()
    return render_template(
        "errors.html", run=run, clusters=matching(found, asked) if asked else found, of=len(found), asked_text=asked,
        longest=LONGEST_PASTE, twin=link("messages.listing_twin", **({"q": asked} if asked else {})),
    )  # fmt: skip


@site.get("/errors.json")
def listing_twin() -> Response:
    """Return the same as JSON."""
    asked = _asked()
    run = shown_run()
    found = clusters(connection(), run.id) if run else ()
    chosen = matching(found, asked) if asked else found
    return jsonify(document(run, q=asked, clusters=[_cluster_json(one) for one in chosen]))


@site.get("/error/<name>")
def page(name: str) -> ResponseReturnValue:
    """Return one pattern's page with its cells and some of its messages, or its JSON; answers 404 for an unknown one."""
    arguments()
    wanted, as_json = split_suffix(name)
    run = shown_run()
    found = clusters(connection(), run.id) if run else ()
    one = next((cluster for cluster in found if cluster.fingerprint == wanted), None)
    if run is None or one is None:
        raise NotFound(f"No message of this run has the fingerprint {wanted}: see /errors for those it has.")
    if as_json:
        return jsonify(document(run, **_cluster_json(one)))
    return render_template("message.html", run=run, one=one, twin=link("messages.page", name=f"{wanted}.json"))


def _asked() -> str:
    return arguments("q").get("q", "").strip()[-LONGEST_PASTE:]


def _cluster_json(one: Cluster) -> dict[str, Any]:
    return {
        "fingerprint": one.fingerprint, "pattern": one.pattern, "status": one.status, "cases": one.cases,
        "overloads": list(one.overloads), "examples": list(one.examples),
        "cells": [{"overload": name, "dtype": dtype, "cases": cases} for (name, dtype), cases in one.cells.items()],
    }  # fmt: skip
