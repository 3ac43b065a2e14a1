"""The page of one cell: an overload with one dtype, case by case, with its history and where it was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flask import Blueprint, jsonify, render_template
from neuron_ops.coverage_db.nights import operator_history
from neuron_ops.coverage_db.queries import overload
from neuron_ops.web.charts import strip
from neuron_ops.web.pinned import arguments, connection, link, shown_run
from neuron_ops.web.twins import case_json, cell_json, document, split_suffix
from neuron_ops.web.verdict import case_text, cell_sentence, letters_summary
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from flask.typing import ResponseReturnValue
    from neuron_ops.coverage_db.queries import CaseResult

site = Blueprint("cases", __name__)


@site.get("/op/<name>/<dtype>")
def page(name: str, dtype: str) -> ResponseReturnValue:
    """Return a cell's page, or its JSON for a dtype that ends in .json; answers 404 for a cell that no run has."""
    arguments()
    wanted, as_json = split_suffix(dtype)
    run = shown_run()
    found = overload(connection(), run, name)
    if found is None or run is None or wanted not in found.cells:
        where = f"run {run.slug}" if run else "this database"
        raise NotFound(f"There is no result of {name} in {wanted} in {where}: see the operator’s page for its dtypes.")
    cell = found.cells[wanted]
    results = [result for result in found.cases if result.case.dtype == wanted]
    nights = [night for night in operator_history(connection(), run.id, name) if night.dtype == wanted]
    sentence = cell_sentence(cell, run)
    if as_json:
        return jsonify(
            document(
                run, name=name, dtype=wanted, **cell_json(cell), verdict=sentence,
                cases=[case_json(result) for result in results],
                history=[{"run": night.slug, "status": night.status, "k": night.k, "n": night.n} for night in nights],
            )
        )  # fmt: skip
    return render_template(
        "cell.html", op=found.op, dtype=wanted, run=run, cell=cell, sentence=sentence, summary=letters_summary(results),
        cases=[case_view(result) for result in results], dtypes=list(found.cells), nights=strip(nights),
        twin=link("cases.page", name=name, dtype=f"{wanted}.json"),
    )  # fmt: skip


def case_view(result: CaseResult) -> dict[str, Any]:
    """Return a case as the templates show it."""
    return {
        "key": result.case.key[:12],
        "sample": result.case.sample,
        "variant": result.case.variant,
        "letter": result.status.value,
        "text": case_text(result),
        "received": result.received,
        "message": result.message,
        "parts": result.parts,
        "device_figures": result.device_figures,
        "reference_figures": result.reference_figures,
        "device_ms": result.device_ms,
        "reference_ms": result.reference_ms,
    }
