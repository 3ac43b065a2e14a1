"""Returns findings as SARIF 2.1.0, as GitHub's code scanning takes it: a rule for each kind, a result on the user's line."""

from __future__ import annotations

import hashlib
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from neuron_ops.op_tests.capture.assessment import Kind

if TYPE_CHECKING:
    from neuron_ops.op_tests.capture.assessment import Assessment, Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_RULES = {
    Kind.UNSUPPORTED: ("error", "Not runnable", "Nothing can serve this operator on the device: the model stops here."),
    Kind.WRONG: (
        "error",
        "Wrong result",
        "Stored runs of the same call, or of the nearest to it, gave wrong results, or gradients stop.",
    ),
    Kind.FALLBACK: ("warning", "CPU fallback", "The host CPU computes this operator: its tensors cross the host link."),
    Kind.UNKNOWN: ("note", "Not verified", "No stored run holds a case of this operator in this dtype."),
    Kind.NOTE: ("note", "Can be cheaper", "It runs, and a change of the source makes it cheaper."),
}
"""Kind → level, name and description."""


def to_sarif(assessment: Assessment, root: Path) -> dict[str, Any]:
    """Return the SARIF log; paths below `root` (the repository) are relative to it, as code scanning wants them."""
    kinds = list(_RULES)
    checked = Path(assessment.report.request.file)
    results = [_result(finding, kinds, checked, root) for finding in assessment.findings]
    failure = assessment.report.failure
    if failure is not None and failure.device_only and failure.operator is None:
        results.append(_failed(assessment, kinds, root))
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "neuron-ops", "rules": [_rule(kind) for kind in kinds], **_version()}},
                "invocations": [{"executionSuccessful": failure is None or failure.device_only}],
                "originalUriBaseIds": {"%SRCROOT%": {"uri": root.absolute().as_uri().rstrip("/") + "/"}},
                "results": results,
                "properties": {"verdict": assessment.verdict, "complete": assessment.report.complete},
            }
        ],
    }


def _version() -> dict[str, str]:
    try:
        return {"version": version("neuron-ops")}
    except PackageNotFoundError:  # run from a checkout
        return {}


def _rule(kind: Kind) -> dict[str, Any]:
    level, name, description = _RULES[kind]
    return {
        "id": f"neuron-ops/{kind}", "name": name.title().replace(" ", ""), "shortDescription": {"text": name},
        "fullDescription": {"text": description}, "defaultConfiguration": {"level": level},
        "help": {"text": f"{description} `neuron-ops check` lists what to do about it."},
        "properties": {"tags": ["neuron", "trainium"], "precision": "high"},
    }  # fmt: skip


def _result(finding: Finding, kinds: list[Kind], checked: Path, root: Path) -> dict[str, Any]:
    row = finding.row
    module = f" in module {finding.module}" if finding.module else ""
    lines = [f"{finding.text}{module}, {row.phase}, {finding.count} calls."]
    lines.extend(f"{advice.text} ({advice.evidence})." for advice in finding.judged[0].advice)
    file = Path(row.file).absolute() if row.file else None
    line = row.line or 1
    if file is None or not file.is_relative_to(root):  # a package's line is on no page of the repository
        if file is not None:
            lines.append(f"Called at {row.where}.")
        file, line = checked, 1
    return _located(
        finding.kind,
        kinds,
        "\n".join(lines),
        file,
        line,
        root,
        (row.overload, *row.dtypes, row.phase, str(finding.module)),
    )


def _failed(assessment: Assessment, kinds: list[Kind], root: Path) -> dict[str, Any]:
    failure = assessment.report.failure
    assert failure is not None
    file, _, line = (failure.where or "").rpartition(":")
    place = Path(file or assessment.report.request.file).absolute()
    return _located(Kind.UNSUPPORTED, kinds, failure.message, place, int(line or 1) or 1, root, (failure.message,))


def _located(
    kind: Kind, kinds: list[Kind], text: str, file: Path, line: int, root: Path, identity: tuple[str, ...]
) -> dict[str, Any]:
    uri = _uri(file, root)
    place: dict[str, Any] = {"uri": uri}
    if not uri.startswith("file:"):
        place["uriBaseId"] = "%SRCROOT%"
    told = hashlib.sha256("\n".join((str(kind), uri, *identity)).encode()).hexdigest()[:16]
    return {
        "ruleId": f"neuron-ops/{kind}", "ruleIndex": kinds.index(kind), "level": _RULES[kind][0],
        "message": {"text": text},
        "locations": [{"physicalLocation": {"artifactLocation": place, "region": {"startLine": line}}}],
        "partialFingerprints": {"neuronOps/v1": told},
    }  # fmt: skip


def _uri(file: Path, root: Path) -> str:
    if file.is_relative_to(root):
        return quote(file.relative_to(root).as_posix())
    return file.as_uri()


def repository(file: Path) -> Path:
    """Return the folder of the repository that holds the file, else the working directory."""
    workspace = os.environ.get("GITHUB_WORKSPACE")
    if workspace and file.is_relative_to(Path(workspace).absolute()):
        return Path(workspace).absolute()
    return next((folder for folder in file.parents if (folder / ".git").exists()), Path.cwd())
