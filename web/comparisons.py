"""What differs between two runs, and what got worse from run to run."""

from __future__ import annotations

import re
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, render_template, url_for
from neuron_ops.coverage_db.comparing import compare, regressions
from neuron_ops.coverage_db.queries import run_by_slug
from neuron_ops.web.pinned import arguments, connection
from neuron_ops.web.twins import SCHEMA_VERSION, document, run_json, split_suffix
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flask import Response
    from flask.typing import ResponseReturnValue
    from neuron_ops.coverage_db.comparing import CellChange, CellSeen, Comparison, Regression
    from neuron_ops.coverage_db.queries import RunRow

site = Blueprint("comparisons", __name__)

_PAIR = re.compile(r"(.+?)\.\.\.(.+)")
_SHOWN = 500
"""Rows of one block on the page; its JSON has all of them."""
_NAMED = 12
"""Cells that one regression names."""


@site.get("/diff/<pair>")
def diff(pair: str) -> ResponseReturnValue:
    """Return what differs from run A to run B for `A...B`, or its JSON; answers 404 where one of them is not stored."""
    arguments()
    wanted, as_json = split_suffix(pair)
    named = _PAIR.fullmatch(wanted)
    if named is None:
        raise NotFound(f"“{wanted}” names no two runs: write A...B with the names of two runs of /runs.")
    found = compare(connection(), _run(named[1]), _run(named[2]))
    if as_json:
        return jsonify(_comparison_json(found))
    return render_template(
        "diff.html", diff=found, blocks=_blocks(found), seen=_seen(found), most=_SHOWN,
        back=url_for("comparisons.diff", pair=f"{found.after.slug}...{found.before.slug}"),
        twin=url_for("comparisons.diff", pair=f"{wanted}.json"),
    )  # fmt: skip


@site.get("/regressions")
def listing() -> str:
    """Return what got worse in the newest steps of each stream of runs, one entry for what changed in the same way."""
    arguments()
    found = regressions(connection())
    steps = [
        {"target": target, "before": before, "after": after, "groups": [_named(one) for one in of]}
        for (target, before, after), of in groupby(found, key=lambda one: (one.target, one.before, one.after))
    ]
    return render_template("regressions.html", steps=steps, twin=url_for("comparisons.listing_twin"))


@site.get("/regressions.json")
def listing_twin() -> Response:
    """Return the same as JSON, with every cell."""
    arguments()
    found = regressions(connection())
    return jsonify(schema_version=SCHEMA_VERSION, regressions=[_regression_json(one) for one in found])


def _run(slug: str) -> RunRow:
    run = run_by_slug(connection(), slug)
    if run is None:
        raise NotFound(f"There is no run {slug} in this database: see /runs for those it holds.")
    return run


def _blocks(found: Comparison) -> list[dict[str, Any]]:
    """Return the blocks of changed cells in the order of the page."""
    return [
        {"id": name, "title": title, "lead": lead, "rows": rows[:_SHOWN], "count": len(rows)}
        for name, title, lead, rows in (
            ("regressions", "Regressions", "Cells that do worse now.", found.regressions),
            ("improvements", "Improvements", "Cells that do better now.", found.improvements),
            (
                "unranked", "Changed, neither better nor worse",
                "Native and translated rank alike, and so do the four ways to fail.", found.unranked,
            ),
        )
    ]  # fmt: skip


def _seen(found: Comparison) -> list[tuple[str, str, Sequence[CellSeen]]]:
    return [("added", "Added", found.added), ("removed", "Removed", found.removed)]


def _named(one: Regression) -> dict[str, Any]:
    """Return a regression for the template, with the first of its cells."""
    cells = list(one.cells)
    return {"one": one, "cells": cells[:_NAMED], "more": max(0, len(cells) - _NAMED)}


def _comparison_json(found: Comparison) -> dict[str, Any]:
    return document(
        None, before=run_json(found.before), after=run_json(found.after), versions=dict(found.versions),
        aligned=found.aligned, same=found.same, regressions=_changes(found.regressions),
        improvements=_changes(found.improvements), unranked=_changes(found.unranked),
        added=[asdict(one) for one in found.added], removed=[asdict(one) for one in found.removed],
    )  # fmt: skip


def _changes(changes: Sequence[CellChange]) -> list[dict[str, Any]]:
    return [asdict(one) for one in changes]


def _regression_json(one: Regression) -> dict[str, Any]:
    cells = [{"overload": name, "dtype": dtype, "cases": cases} for (name, dtype), cases in one.cells.items()]
    return {**asdict(one), "cells": cells, "cases": one.cases}
