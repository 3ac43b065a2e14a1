"""The page of one overload, and the way to it from every usual spelling of its name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, redirect, render_template
from neuron_ops.coverage_db.declared import vendor_list
from neuron_ops.coverage_db.nights import operator_history
from neuron_ops.coverage_db.queries import overload
from neuron_ops.coverage_db.translations import DEVICES, elsewhere, translations
from neuron_ops.op_tests.records import Status
from neuron_ops.web.cases import case_view
from neuron_ops.web.charts import strip
from neuron_ops.web.lookup import exact_hits, nearest
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.translations import choice_json
from neuron_ops.web.twins import case_json, cell_json, document, op_json, split_suffix
from neuron_ops.web.verdict import cell_sentence, letters_summary
from neuron_ops.web.words import TIERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from flask.typing import ResponseReturnValue
    from neuron_ops.coverage_db.queries import CaseResult, OpRow, OverloadPage, RunRow
    from neuron_ops.coverage_db.translations import Choice

site = Blueprint("overloads", __name__)

_UNFOLDED = 12
"""Cases that a page shows unfolded; a dtype with something to report is always unfolded."""
_GOOD = frozenset({Status.NATIVE, Status.TRANSLATED, Status.UNTESTED, Status.NOT_APPLICABLE})


@site.get("/op/<name>")
def page(name: str) -> ResponseReturnValue:
    """Return an overload's page, or its JSON for a name that ends in .json.

    Another spelling of a name answers 301 when it means one overload, lists the overloads when it means several, and
    answers 404 with the nearest names when it means none.
    """
    arguments()
    wanted, as_json = split_suffix(name)
    run = shown_run()
    found = overload(connection(), run, wanted)
    if found is None or found.op.name != wanted:  # the query takes aten:: too; one name, one address
        return _other_spelling(wanted, run, as_json=as_json)
    return jsonify(overload_json(found, run)) if as_json else _overload_page(found, run)


def _other_spelling(name: str, run: RunRow | None, *, as_json: bool) -> ResponseReturnValue:
    hits = exact_hits(connection(), name)
    if len(hits) == 1:
        return redirect(link("overloads.page", name=hits[0].name + (".json" if as_json else "")), 301)
    if not hits:
        return _unknown(name, nearest(connection(), name), as_json=as_json)
    if as_json:
        return jsonify(document(run, name=name, overloads=[op_json(op) for op in hits]))
    return render_template(
        "overloads.html",
        heading=f"{name} has {len(hits)} overloads",
        lead="Support differs between overloads: choose the one that your call dispatches to.",
        hits=hits,
        twin=link("overloads.page", name=f"{name}.json"),
    )


def _unknown(name: str, near: Iterable[OpRow], *, as_json: bool) -> ResponseReturnValue:
    sentence = f"There is no operator {name} in this database: check the spelling, or search for a part of the name."
    if as_json:
        return jsonify(error=sentence, status=404, nearest=[op.name for op in near]), 404
    return render_template("error.html", heading="No such operator", sentence=sentence, hits=near), 404


def overload_json(found: OverloadPage, run: RunRow | None) -> dict[str, Any]:
    """Return all that a run says of an overload, as JSON."""
    return document(
        run,
        **op_json(found.op),
        tier_meaning=TIERS[found.op.tier].definition,
        cells={dtype: {**cell_json(cell), "verdict": cell_sentence(cell, run)} for dtype, cell in found.cells.items()}
        if run
        else {},
        cases=[case_json(result) for result in found.cases],
        siblings=[op.name for op in found.siblings],
        translations={device: choice_json(choice) for device, choice in _choices(found.op.name).items()},
    )


def _overload_page(found: OverloadPage, run: RunRow | None) -> str:
    verdicts = (
        [
            {
                "letter": cell.status.value,
                "dtype": dtype,
                "text": cell_sentence(cell, run),
                "parts": cell.parts if cell.composite or cell.status is Status.TRANSLATED else (),
            }
            for dtype, cell in found.cells.items()
        ]
        if run
        else []
    )
    return render_template(
        "overload.html",
        op=found.op,
        run=run,
        tier=TIERS[found.op.tier],
        verdicts=verdicts,
        groups=_groups(found.cases),
        nights=strip(operator_history(connection(), run.id, found.op.name)) if run else None,
        declaration=vendor_list().by_overload.get(found.op.name),
        declared=vendor_list().title,
        choices=_choices(found.op.name),
        elsewhere=elsewhere(connection(), found.op.name, run.target) if run else (),
        siblings=found.siblings,
        twin=link("overloads.page", name=f"{found.op.name}.json"),
    )


def _choices(name: str) -> dict[str, Choice]:
    """Return device → the translation of an overload, for the devices that have one."""
    return {device: translations(device)[name] for device in DEVICES if name in translations(device)}


def _groups(results: tuple[CaseResult, ...]) -> list[dict[str, Any]]:
    """Return the cases by dtype, in the order in which the dtypes first appear."""
    by_dtype: dict[str, list[CaseResult]] = {}
    for result in results:
        by_dtype.setdefault(result.case.dtype, []).append(result)
    return [
        {
            "dtype": dtype,
            "summary": letters_summary(of),
            "open": len(results) <= _UNFOLDED or any(result.status not in _GOOD for result in of),
            "cases": [_case(result) for result in of],
        }
        for dtype, of in by_dtype.items()
    ]


def _case(result: CaseResult) -> dict[str, Any]:
    """Return a case for the template; parts are shown where another operator did the work."""
    shown = case_view(result)
    return shown if result.composite or result.status is Status.TRANSLATED else {**shown, "parts": ()}
