"""Decides what a check says: every count made of the rows, and the verdict (no torch)."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.capture.rows import ORDER, CallRoute, Compared, Failure, Note, Request, Row, Wait, worst
from neuron_ops.op_tests.records import Evidence

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMA = 2
"""Version of the JSON report; data/check_report.schema.json describes it."""
EVIDENCE = (
    "Evidence: simulated. The calls were dispatched on a simulated neuron device that carries the operators which the "
    "vendor's source registers; this predicts how an operator would be served, it says nothing of device numerics, "
    "speed or memory."
)
DOING = {
    "import": "the import of the file", "construction": "the construction of the model",
    "inputs": "the making of the inputs", "move": "the move to the device", "forward": "the forward pass", "call": "the call",
    "backward": "the backward pass", "optimizer step": "the optimizer step",
}  # fmt: skip
"""The phases of a run, in order, in words."""
ON_DEVICE = ("move", "forward", "call", "backward", "optimizer step")
"""The phases that need the device."""
FAKE = (
    "fake tensors: the model was built and run on tensors of the simulated device that have shapes and no memory, so its size does "
    "not matter; what was assumed where code asked for a value is noted"
)
SYNC = "aten._local_scalar_dense.default"
"""What `.item()`, `bool()` and `int()` of a tensor call: the host waits for the device."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found: rows worst first; `failure` is None where the run is complete for its input.

    `as_is` says that a function or a script ran, whose models keep their own modes and gradients.
    """

    request: Request
    model: str | None
    inputs: str | None
    versions: Mapping[str, str]
    rows: tuple[Row, ...]
    failure: Failure | None = None
    printed: str = ""
    notes: tuple[Note, ...] = ()
    waits: tuple[Wait, ...] = ()
    as_is: bool = False
    fake: bool = False
    compared: Compared | None = None

    @property
    def mode(self) -> dict[str, Any]:
        """Return how the model was run."""
        request = self.request
        return {
            "train": request.train, "eval": request.eval or not request.train, "as_is": self.as_is,
            "gradients": self.as_is or request.train or request.grad, "dtype": request.dtype, "autocast": request.autocast,
            "fake_tensors": self.fake,
        }  # fmt: skip

    @property
    def working(self) -> tuple[Row, ...]:
        """Return the rows that do work, worst first."""
        return tuple(row for row in self.rows if row.route is not CallRoute.METADATA)

    @property
    def metadata(self) -> tuple[Row, ...]:
        """Return the rows whose calls only change shape or strides."""
        return tuple(row for row in self.rows if row.route is CallRoute.METADATA)

    @property
    def counts(self) -> Counter[CallRoute]:
        """Return the number of distinct working overloads for each route, an overload counted at its worst row."""
        names: dict[str, list[CallRoute]] = {}
        for row in self.working:
            names.setdefault(row.overload, []).append(row.route)
        return Counter(worst(routes) for routes in names.values())

    @property
    def calls(self) -> Counter[CallRoute]:
        """Return the number of working calls for each route."""
        counts: Counter[CallRoute] = Counter()
        for row in self.working:
            counts.update({route: n for route, n in row.calls.items() if route is not CallRoute.METADATA})
        return counts

    @property
    def syncs(self) -> int:
        """Return how many calls made the host wait for a value of the device."""
        return sum(row.total for row in self.rows if row.overload == SYNC)

    @property
    def complete(self) -> bool:
        """Return whether the rows are all that the model calls: it ran to its end and no data steered it."""
        return self.failure is None and not any(wait.steers for wait in self.waits)

    @property
    def verdict(self) -> str:
        """Return the sentence that answers the question, with its denominator."""
        counts = self.counts
        total = counts.total()
        native = counts[CallRoute.NATIVE] + counts[CallRoute.COMPOSITE]
        text = f"{native} of {plural(total, 'operator')} {'runs' if 1 in (native, total) else 'run'} natively on the simulated device"
        for route, one, many in _CLAUSES:
            if counts[route]:
                text += f", {counts[route]} {_verb(counts[route], one, many)}"
        return f"{text}: {self._conclusion(counts)}{self._proviso}."

    @property
    def _proviso(self) -> str:
        """Return what limits the verdict to this input, or nothing."""
        lines = [wait.where or "an unknown line" for wait in self.waits if wait.steers]
        if self.failure is not None or not lines:
            return ""
        more = f" and {plural(len(set(lines)) - 1, 'other line')}" if len(set(lines)) > 1 else ""
        return f", for this input: data decides at {lines[0]}{more} what runs next"

    def _conclusion(self, counts: Mapping[CallRoute, int]) -> str:
        if self.failure is not None and not self.failure.device_only:
            return "the run did not reach its end, so other operators may follow"
        if self.failure is not None or counts[CallRoute.UNSUPPORTED] or counts[CallRoute.ERROR]:
            return "the model would not run as it is"
        if counts[CallRoute.FALLBACK]:
            return "the model would run, with work on the host CPU"
        return "the model would run on the device" if counts else "nothing was called on the device"

    def to_json(self) -> dict[str, Any]:
        """Return the object that `check --json` prints."""
        request = self.request
        return {
            "schema": SCHEMA, "file": request.file, "model": self.model, "inputs": self.inputs,
            "mode": self.mode,
            "verdict": self.verdict, "complete": self.complete, "complete_for_this_input": self.failure is None,
            "evidence": str(Evidence.SIMULATED), "evidence_note": EVIDENCE, "versions": dict(self.versions),
            "counts": {
                "operators": _counts(self.counts), "calls": _counts(self.calls),
                "metadata_only": {
                    "operators": len({row.overload for row in self.metadata}),
                    "calls": sum(r.total for r in self.metadata),
                },
                "syncs": self.syncs,
            },
            "operators": [row.to_json() for row in self.rows],
            "waits": [asdict(wait) for wait in self.waits],
            "notes": [asdict(note) for note in self.notes],
            **({"compared": asdict(self.compared)} if self.compared else {}),
            "failure": asdict(self.failure) if self.failure else None, "printed": self.printed,
        }  # fmt: skip


_CLAUSES = (
    (CallRoute.TRANSLATED, "is translated", "are translated"),
    (CallRoute.FALLBACK, "falls back to the host CPU", "fall back to the host CPU"),
    (CallRoute.UNSUPPORTED, "is unsupported", "are unsupported"),
    (CallRoute.ERROR, "raises an error", "raise an error"),
)


def _counts(counts: Counter[CallRoute]) -> dict[str, int]:
    return {"total": counts.total(), **{str(route): counts[route] for route in ORDER[:-1]}}


def plural(number: int, noun: str) -> str:
    """Return ``1 call`` or ``2 calls``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many
