"""Reads a pasted report of `neuron-ops check --json`, and leaves out what its author may not want to publish."""

from __future__ import annotations

import importlib.resources
import json
from functools import cache
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from neuron_ops.op_tests.records import BadInput

MOST_BYTES = 4 << 20
"""Of one report: that of a model with 300 distinct calls has 0.4 MB."""
MOST_ROWS = 2000
"""Distinct calls of one report: checking them takes seconds beyond that, and no model of the families has 300."""
_KEPT = (
    "schema", "model", "inputs", "verdict", "complete", "complete_for_this_input", "evidence", "evidence_note", "versions",
)  # fmt: skip
_OF_MODE = ("train", "eval", "as_is", "gradients", "dtype", "autocast", "fake_tensors")
_OF_COUNTS = ("operators", "calls", "metadata_only", "syncs")
_OF_OPERATOR = ("overload", "dtypes", "count", "phase", "route", "status", "reason", "finding", "shapes")
_ADVICE = "Paste what `neuron-ops check FILE --json` printed, whole and unchanged."


@cache
def _validator() -> Draft202012Validator:
    file = importlib.resources.files("neuron_ops.op_tests").joinpath("data/check_report.schema.json")
    return Draft202012Validator(json.loads(file.read_text("utf-8")))


def read_report(text: str) -> dict[str, Any]:
    """Return what a page shows of a report: no folder, no source path, no traceback and nothing that the code printed.

    Raises BadInput for text that is no report of this version, or has too many rows.
    """
    try:
        # NaN and infinity are no JSON, and a database refuses them.
        told = json.loads(text, parse_constant=lambda name: _refuse(f"it has the number {name}"))
    except (ValueError, RecursionError):
        _refuse("it is not JSON")
    if isinstance(told, dict) and isinstance(told.get("operators"), list) and len(told["operators"]) > MOST_ROWS:
        raise BadInput(
            f"This report has {len(told['operators']):,} operators and {MOST_ROWS:,} are taken; check a part of the model."
        )
    error = best_match(_validator().iter_errors(told))
    if error is not None:
        place = "/".join(map(str, error.absolute_path))
        _refuse(f"at {place[:80] or 'its top'}, {error.message[:160]}")
    return _shown(told)


def _refuse(why: str) -> Any:
    raise BadInput(f"This is no report of check in the layout of this site: {why}. {_ADVICE}")


def _shown(told: dict[str, Any]) -> dict[str, Any]:
    kept = {name: told[name] for name in _KEPT}
    failure = told["failure"]
    return {
        **kept,
        "mode": {name: told["mode"][name] for name in _OF_MODE},
        "counts": {name: told["counts"][name] for name in _OF_COUNTS},
        "file": _last(told["file"]),
        "operators": [_operator(one) for one in told["operators"]],
        "failure": failure and {name: failure[name] for name in ("kind", "phase", "operator")},
        "notes": [note["text"] for note in told["notes"]],
    }


def _operator(one: dict[str, Any]) -> dict[str, Any]:
    where, known = one["where"], one["known"]
    return {
        **{name: one[name] for name in _OF_OPERATOR},
        "where": {"file": where["file"] and _last(where["file"]), "line": where["line"], "module": where["module"]},
        "known": {
            "closeness": known["closeness"],
            "evidence": known["evidence"],
            "status": None if known["status"] is None else str(known["status"]),
            # The layout leaves the types of these open.
            **{name: known[name] if isinstance(known[name], int) else None for name in ("k", "n")},
        },
    }


def _last(path: str) -> str:
    """Return the last name of a path of either kind: folders name people."""
    return PurePosixPath(PureWindowsPath(path).as_posix()).name or path
