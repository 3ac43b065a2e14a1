"""Badges: one published number, or one overload's verdict, as shields.io reads it and as a picture of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flask import Blueprint, Response, jsonify, render_template
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.queries import overload
from neuron_ops.op_tests.records import Evidence, Status, worst_status
from neuron_ops.web.figures import percent
from neuron_ops.web.pinned import arguments, connection, shown_run
from neuron_ops.web.words import EVIDENCE, STATUSES
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from neuron_ops.coverage_db.queries import OverloadPage, RunRow

site = Blueprint("badges", __name__)

_SECONDS = 3600
"""How long a reader may keep a badge: they are asked for by every view of somebody's page."""
_GREY, _BLUE = "6b6d78", "0a559e"
# As dark as white text needs, and apart for those who see no red or no green; the letter says it anyway.
_COLOURS = {
    "N": "0f7d49",
    "D": "2f6f9f",
    "C": "8a6d00",
    "W": "4e0a29",
    "U": "5b5d68",
    "E": "b3541a",
    "X": "b3541a",
    "T": "b3541a",
}
_SHORT = {Evidence.HARDWARE: "hw"}
_WIDTH, _PADDING = 6.6, 10
"""Pixels of a character at 11 px, and what is left free beside a text."""


@dataclass(frozen=True, slots=True)
class Badge:
    """A label, what it says, and its colour in hex."""

    label: str
    message: str
    colour: str


@site.get("/badge/<name>.<any(json, svg):form>")
def number(name: str, form: str) -> Response:
    """Return the badge of a number under its id, such as core-native."""
    arguments()
    run = shown_run()
    found = {one.id: one for one in numbers(connection(), run.id if run else None)}
    if name not in found:
        raise NotFound(f"There is no number {name}: there are badges of {', '.join(found)} and of op/OVERLOAD.")
    one = found[name]
    if run is None or not one.m:
        return _answer(Badge(name, "untested", _GREY), form)
    evidence = one.evidence or run.evidence
    told = f"{one.n:,} of {one.m:,} ({percent(one.n, one.m)})"
    return _answer(Badge(name, f"{told} · {_evidence(evidence)}", _BLUE if one.n else _GREY), form)


@site.get("/badge/op/<name>.<any(json, svg):form>")
def operator(name: str, form: str) -> Response:
    """Return the badge of an overload: its worst status over the dtypes of the run, and in how many of them."""
    arguments()
    run = shown_run()
    found = overload(connection(), run, name)
    if found is None:
        raise NotFound(f"There is no operator {name} in this database: write all three parts, as in aten.add.Tensor.")
    return _answer(_verdict(found, run), form)


def _verdict(found: OverloadPage, run: RunRow | None) -> Badge:
    apart = {Status.UNTESTED, Status.NOT_APPLICABLE}
    tested = [cell.status for cell in found.cells.values() if cell.status not in apart]
    if run is None or not tested:
        return Badge(found.op.name, "untested", _GREY)
    worst = worst_status(tested)
    told = f"{worst} {STATUSES[worst].label}, {tested.count(worst)} of {len(tested)} dtypes"
    return Badge(found.op.name, f"{told} · {_evidence(run.evidence)}", _COLOURS[worst])


def _evidence(evidence: Evidence) -> str:
    return _SHORT.get(evidence, EVIDENCE[evidence].label)


def _answer(badge: Badge, form: str) -> Response:
    if form == "json":
        response = jsonify(
            schemaVersion=1, label=badge.label, message=badge.message, color=badge.colour,
            isError=badge.colour == _GREY, cacheSeconds=_SECONDS,
        )  # fmt: skip
    else:
        left, right = (round(len(text) * _WIDTH) + _PADDING for text in (badge.label, badge.message))
        picture = render_template("badge.svg", badge=badge, left=left, right=right)
        response = Response(picture, mimetype="image/svg+xml")
    response.cache_control.max_age = _SECONDS
    return response
