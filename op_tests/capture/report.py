"""Decides what a check says: the records that come back from the child and every count made of them (no torch)."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.records import Evidence, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = 1
EVIDENCE = (
    "Evidence: simulated. The calls were dispatched on a simulated neuron device that carries the operators which the "
    "vendor's source registers; this predicts how an operator would be served, it says nothing of device numerics, "
    "speed or memory."
)
FAKE = (
    "fake tensors: the model was built and run on tensors of the simulated device that have shapes and no values, so its size does "
    "not matter; where code asked for a value, what was assumed is listed"
)
DOING = {
    "import": "the import of the file", "construction": "the construction of the model",
    "inputs": "the making of the inputs", "move": "the move to the device", "forward": "the forward pass",
    "backward": "the backward pass", "optimizer step": "the optimizer step",
}  # fmt: skip
"""The phases of a run, in order, in words."""
ON_DEVICE = ("move", "forward", "backward", "optimizer step")
"""The phases that need the device."""
SYNC = "aten._local_scalar_dense.default"
"""What `.item()`, `bool()` and `int()` of a tensor call: the host waits for the device."""


class CallRoute(StrEnum):
    """How one call was served, worst first; METADATA changed shape, strides or names only and is not counted as work."""

    ERROR = "error"
    UNSUPPORTED = "unsupported"
    FALLBACK = "fallback"
    TRANSLATED = "translated"
    COMPOSITE = "native through composite"
    NATIVE = "native"
    METADATA = "metadata only"

    @property
    def status(self) -> Status:
        """Return the letter."""
        return _LETTERS[self]


_LETTERS = {
    CallRoute.ERROR: Status.ERROR,
    CallRoute.UNSUPPORTED: Status.UNSUPPORTED,
    CallRoute.FALLBACK: Status.FALLBACK,
    CallRoute.TRANSLATED: Status.TRANSLATED,
    CallRoute.COMPOSITE: Status.NATIVE,
    CallRoute.NATIVE: Status.NATIVE,
    CallRoute.METADATA: Status.NATIVE,
}
_ORDER = tuple(CallRoute)


def worst(routes: Iterable[CallRoute]) -> CallRoute:
    """Return the worst of at least one route."""
    return min(routes, key=_ORDER.index)


@dataclass(frozen=True, slots=True)
class Request:
    """What to check: the absolute path of a Python file, the attribute in it or None, and how to run it.

    `device` is neuron, or cpu to learn whether a failure is the device's; `grad` leaves gradients on in eval mode;
    `dtype` casts the model and its floating-point inputs; `fake` asks for fake tensors (True), real values (False) or real
    values where they fit (None).
    """

    file: str
    attribute: str | None = None
    device: str = "neuron"
    train: bool = False
    grad: bool = False
    dtype: str | None = None
    fake: bool | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What was assumed, because the tensors are fake, at which line."""

    what: str
    where: str


@dataclass(frozen=True, slots=True)
class PartOfRow:
    """An operator below a composite that is not native, and how often it was called."""

    overload: str
    route: CallRoute
    calls: int


@dataclass(frozen=True, slots=True)
class Row:
    """One overload with one dtype, called by the model.

    `calls` counts the calls by route; `reason` is that of the first fallback; `parts` are what is not native below a
    composite; `where` is ``file:line`` of the first call in the user's code (None where no frame of theirs was on the
    stack), `phase` what was running then.
    """

    overload: str
    dtype: str | None
    calls: Mapping[CallRoute, int]
    reason: str | None = None
    parts: tuple[PartOfRow, ...] = ()
    where: str | None = None
    phase: str = "forward"
    message: str | None = None

    @property
    def route(self) -> CallRoute:
        """Return the worst route of its calls."""
        return worst(self.calls)

    @property
    def total(self) -> int:
        """Return the number of calls."""
        return sum(self.calls.values())

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values, with its letter and route."""
        return {
            "overload": self.overload, "dtype": self.dtype, "status": str(self.route.status), "route": str(self.route),
            "calls": self.total, "calls_by_route": {str(k): v for k, v in self.calls.items()}, "reason": self.reason,
            "parts": [asdict(part) for part in self.parts], "where": self.where, "phase": self.phase,
            "message": self.message,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """Return the row that `to_json` wrote; raises KeyError or ValueError on anything else."""
        return cls(
            overload=data["overload"],
            dtype=data["dtype"],
            calls={CallRoute(name): n for name, n in data["calls_by_route"].items()},
            reason=data["reason"],
            parts=tuple(PartOfRow(p["overload"], CallRoute(p["route"]), p["calls"]) for p in data["parts"]),
            where=data["where"],
            phase=data["phase"],
            message=data["message"],
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the run did not reach its end.

    `kind` is raised, exited, timeout, memory or crash; `message` is one sentence; `traceback` holds the user's own
    frames. `device_only` says that the same run on the CPU went through, so the failure is a finding about the device.
    """

    kind: str
    phase: str
    message: str
    traceback: str = ""
    where: str | None = None
    operator: str | None = None
    device_only: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What a check found: rows worst first; `failure` is None where the run is complete for its input."""

    request: Request
    model: str | None
    inputs: str | None
    versions: Mapping[str, str]
    rows: tuple[Row, ...]
    failure: Failure | None = None
    printed: str = ""
    fake: bool = False
    notes: tuple[Note, ...] = ()

    @property
    def working(self) -> tuple[Row, ...]:
        """Return the rows that do work, worst first."""
        return tuple(row for row in self.rows if row.route is not CallRoute.METADATA)

    @property
    def metadata(self) -> tuple[Row, ...]:
        """Return the rows whose calls only change shape or strides."""
        return tuple(row for row in self.rows if row.route is CallRoute.METADATA)

    @property
    def operators(self) -> Counter[CallRoute]:
        """Return the number of distinct working overloads for each route, an overload counted at its worst dtype."""
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

    def found(self, fail_on: str) -> bool:
        """Return whether there is a finding at or above `fail_on`: unsupported, fallback or never."""
        if fail_on == "never":
            return False
        levels = {CallRoute.ERROR, CallRoute.UNSUPPORTED} | ({CallRoute.FALLBACK} if fail_on == "fallback" else set())
        return self.failure is not None or any(row.route in levels for row in self.working)

    @property
    def verdict(self) -> str:
        """Return the sentence that answers the question, with its denominator."""
        counts = self.operators
        total = counts.total()
        native = counts[CallRoute.NATIVE] + counts[CallRoute.COMPOSITE]
        text = f"{native} of {plural(total, 'operator')} {'runs' if 1 in (native, total) else 'run'} natively on the simulated device"
        for route, one, many in _CLAUSES:
            if counts[route]:
                text += f", {counts[route]} {_verb(counts[route], one, many)}"
        return f"{text}: {self._conclusion(counts)}."

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
            "mode": {"train": request.train, "gradients": request.train or request.grad, "dtype": request.dtype},
            "complete_for_this_input": self.failure is None, "verdict": self.verdict,
            "fake_tensors": self.fake, "notes": [asdict(note) for note in self.notes],
            "evidence": str(Evidence.SIMULATED), "evidence_note": EVIDENCE, "versions": dict(self.versions),
            "operators": _counts(self.operators), "calls": _counts(self.calls),
            "metadata_only": {
                "operators": len({row.overload for row in self.metadata}), "calls": sum(r.total for r in self.metadata),
            },
            "syncs": self.syncs, "rows": [row.to_json() for row in self.rows],
            "failure": asdict(self.failure) if self.failure else None, "printed": self.printed,
        }  # fmt: skip


_CLAUSES = (
    (CallRoute.TRANSLATED, "is translated", "are translated"),
    (CallRoute.FALLBACK, "falls back to the host CPU", "fall back to the host CPU"),
    (CallRoute.UNSUPPORTED, "is unsupported", "are unsupported"),
    (CallRoute.ERROR, "raises an error", "raise an error"),
)


def _counts(counts: Counter[CallRoute]) -> dict[str, int]:
    return {"total": counts.total(), **{str(route): counts[route] for route in _ORDER[:-1]}}


def plural(number: int, noun: str) -> str:
    """Return ``1 call`` or ``2 calls``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many


def sorted_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows worst route first, then most calls, then by name."""
    return tuple(sorted(rows, key=lambda r: (_ORDER.index(r.route), -r.total, r.overload, r.dtype or "")))
