"""The models: what known ones call, what the run says of it, and which operators unlock most of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, render_template
from neuron_ops.coverage_db import demand, shared_reports
from neuron_ops.web.charts import bars
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.twins import document, split_suffix
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from flask import Response
    from flask.typing import ResponseReturnValue
    from neuron_ops.coverage_db.demand import Family

site = Blueprint("families", __name__)

_KEPT = 50
"""Reports of readers that are listed."""


@site.get("/models")
def listing() -> str:
    """Return the known models, the operators that most of them lack, and the newest reports of readers."""
    arguments()
    conn = connection()
    run = shown_run()
    known = demand.letters(conn, run)
    told, date = demand.source()
    return render_template(
        "models.html", run=run, rows=[_row(family, known) for family in demand.families().values()],
        needs=demand.needs(known, train=True), steps=demand.steps(known, train=True), source=told, date=date,
        kept=shared_reports.newest(conn, _KEPT), present=demand.present(conn), dtypes=demand.DTYPES, twin=link("families.twin"),
    )  # fmt: skip


@site.get("/models.json")
def twin() -> Response:
    """Return the same as JSON, without the reports of readers."""
    arguments()
    run = shown_run()
    known = demand.letters(connection(), run)
    steps = demand.steps(known, train=True)
    return jsonify(
        document(
            run,
            models=[_row(family, known) for family in demand.families().values()],
            needs=[
                {"overload": one.overload, "status": one.status, "models": list(one.families), "surveyed": one.surveyed}
                for one in demand.needs(known, train=True)
            ],
            steps=[
                {"adds": list(one.adds), "unlocks": list(one.unlocks), "operators": one.operators, "models": one.models}
                for one in steps
            ],
        )
    )


@site.get("/model/<name>")
def page(name: str) -> ResponseReturnValue:
    """Return one model's page, or its JSON for a name that ends in .json; answers 404 for an unknown model."""
    arguments()
    wanted, as_json = split_suffix(name)
    family = demand.families().get(wanted)
    if family is None:
        raise NotFound(f"There is no model {wanted}: there are {', '.join(demand.families())}.")
    run = shown_run()
    known = demand.letters(connection(), run)
    calls = _calls(family, known)
    if as_json:
        return jsonify(document(run, **_row(family, known), operators=calls))
    told, date = demand.source()
    row = _row(family, known)
    return render_template(
        "model.html", run=run, row=row, calls=calls, source=told, date=date, dtypes=demand.DTYPES,
        present=demand.present(connection()), bars={phase: bars(row[phase]) for phase in ("inference", "training")}, verdict=_verdict(row),
        twin=link("families.page", name=f"{wanted}.json"),
    )  # fmt: skip


def _row(family: Family, known: Any) -> dict[str, Any]:
    """Return a model's counts by letter and what it lacks, in inference and in a training step."""
    inference, training = family.overloads(train=False), family.overloads(train=True)
    return {
        "name": family.name, "inference": demand.counts(inference, known), "training": demand.counts(training, known),
        "lacks_inference": sorted(demand.missing(inference, known)), "lacks_training": sorted(demand.missing(training, known)),
    }  # fmt: skip


def _calls(family: Family, known: Any) -> list[dict[str, Any]]:
    """Return each operator of a model with its letter and phases, what it lacks first."""
    phases = {name: [p for p in demand.PHASES if name in family.phases[p]] for name in family.overloads(train=True)}
    lacks = demand.missing(phases, known)
    ordered = sorted(phases, key=lambda name: (name not in lacks, known[name] != "–", name))
    return [{"overload": name, "status": known[name].value, "phases": phases[name]} for name in ordered]


def _verdict(row: dict[str, Any]) -> str:
    """Return one sentence with its denominator for inference and training."""
    return "; ".join(
        f"{phase}: {sum(row[phase].get(letter, 0) for letter in 'ND')} of {sum(row[phase].values())} operators native or "
        f"translated, {len(row['lacks_' + phase])} not, {row[phase].get('–', 0)} untested"
        for phase in ("inference", "training")
    )
