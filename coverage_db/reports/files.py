"""Writes a gate's verdict into the files that were asked for. Imported by cli.gate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neuron_ops.coverage_db.reports.junit import junit
from neuron_ops.coverage_db.reports.markdown import markdown
from neuron_ops.coverage_db.reports.plain import as_json
from neuron_ops.coverage_db.reports.sarif import sarif
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from neuron_ops.coverage_db.verdicts import GateResult

FORMATS = ("junit", "sarif", "markdown", "json")


def empty(reports: Mapping[str, Path]) -> None:
    """Make the files (format → file) empty: a gate that ends early must not leave an older verdict; raises BadInput."""
    for path in reports.values():
        try:
            path.write_text("")
        except OSError as error:
            raise BadInput(
                f"The report {path} cannot be written ({error.strerror}); name a file in a folder that exists."
            ) from error


def write(reports: Mapping[str, Path], result: GateResult, expectations: Path | None) -> None:
    """Write the verdict into each file; `expectations` is the file of known failures, for SARIF's locations."""
    for kind, path in reports.items():
        match kind:
            case "junit":
                text = junit(result)
            case "sarif":
                text = sarif(result, None if expectations is None else expectations.as_posix())
            case "markdown":
                text = markdown(result)
            case _:
                text = as_json(result)
        path.write_text(text, encoding="utf-8")
