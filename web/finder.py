"""The search: straight to a single exact hit, otherwise a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, redirect, render_template
from neuron_ops.coverage_db.queries import search
from neuron_ops.web.lookup import exact_hits, nearest
from neuron_ops.web.pinned import arguments, connection, link
from neuron_ops.web.twins import SCHEMA_VERSION, op_json

if TYPE_CHECKING:
    from flask import Response
    from flask.typing import ResponseReturnValue
    from neuron_ops.coverage_db.queries import OpRow

site = Blueprint("finder", __name__)

_LIMIT = 50


@site.get("/search")
def page() -> ResponseReturnValue:
    """Return the hits of `?q=`; a text that means one overload exactly leads straight to its page."""
    text = arguments("q").get("q", "").strip()
    if not text:
        return render_template("overloads.html", heading="Search the operators", hits=(), guide=True)
    hits, exact = _hits(text)
    only = _only(hits) if exact else None
    if only:
        return redirect(link("overloads.page", name=only.name))
    found = f"The best {_LIMIT} hits" if len(hits) == _LIMIT else f"{len(hits)} overload{'s'[: len(hits) != 1]} found"
    return render_template(
        "overloads.html",
        heading=found if hits else "Nothing found",
        lead=f"For “{text[:200]}”." if hits else f"No overload answers to “{text[:200]}”. The nearest names:",
        hits=hits or nearest(connection(), text),
        guide=not hits,
        asked=text,
        twin=link("finder.twin", q=text),
    )


@site.get("/search.json")
def twin() -> Response:
    """Return the hits of `?q=` as JSON.

    `exact` says that all of them bear the very name that was asked for, `only` names the one that the page would go to.
    """
    return jsonify(search_json(arguments("q").get("q", "").strip()))


def search_json(text: str) -> dict[str, Any]:
    """Return what a text finds, as JSON."""
    hits, exact = _hits(text) if text else ((), False)
    only = _only(hits) if exact else None
    return {
        "schema_version": SCHEMA_VERSION, "q": text, "exact": exact, "only": only.name if only else None,
        "hits": [op_json(op) for op in hits],
    }  # fmt: skip


def _hits(text: str) -> tuple[tuple[OpRow, ...], bool]:
    """Return the hits, and whether they are exactly what was asked for."""
    exact = exact_hits(connection(), text)
    return (exact, True) if exact else (search(connection(), text, limit=_LIMIT), False)


def _only(hits: tuple[OpRow, ...]) -> OpRow | None:
    """Return the one overload that exact hits mean: the only one, or the only one that is no out= variant and the like."""
    functional = [op for op in hits if op.kind == "functional"]
    return hits[0] if len(hits) == 1 else functional[0] if len(functional) == 1 else None
