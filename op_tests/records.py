"""The words of the field and the frozen records that cross a border between layers (standard library only)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BANK_VERSION = 2
"""Version of the sample bank's format and generators. It is part of every case key: other samples are other cases."""

COMPARER_VERSION = 1
"""Version of what judges a result. Raise it where a verdict may change: runs of two versions are no proof of a regression."""
HARNESS = ("bank", "comparer")
"""Names among a build's versions that say how was measured; all others say what was."""


class BadInput(Exception):  # noqa: N818 - named for what the user did, not for what we raise
    """What the user gave cannot be used; the message is one sentence: what was wrong, what was expected, what to do."""


class InputFailed(Exception):  # noqa: N818
    """The user's own code failed while we ran it; the message is its traceback."""


class Outcome(StrEnum):
    """What one case did on a target."""

    PASS = "pass"  # noqa: S105 - not a password
    WRONG = "wrong"
    UNSUPPORTED = "unsupported"
    ERROR = "error"
    CRASH = "crash"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"
    NOT_APPLICABLE = "not_applicable"


class Route(StrEnum):
    """Where the work of a call was done."""

    NATIVE = "native"
    TRANSLATED = "translated"
    FALLBACK = "fallback"


class FallbackReason(StrEnum):
    """Why the host CPU computed a call."""

    UNIMPLEMENTED = "unimplemented"
    FAILED = "failed on device"
    HOST = "registered but runs on the host"


class Evidence(StrEnum):
    """How a result is known. Declared is the vendor's word and never a pass."""

    HARDWARE = "hardware"
    SIMULATED = "simulated"
    DECLARED = "declared"


class Status(StrEnum):
    """The letter of a cell."""

    NATIVE = "N"
    TRANSLATED = "D"
    FALLBACK = "C"
    WRONG = "W"
    UNSUPPORTED = "U"
    ERROR = "E"
    CRASH = "X"
    TIMEOUT = "T"
    UNTESTED = "–"
    NOT_APPLICABLE = "n/a"


STATUS_ORDER: tuple[Status, ...] = (
    Status.WRONG, Status.CRASH, Status.TIMEOUT, Status.UNSUPPORTED, Status.ERROR, Status.FALLBACK, Status.TRANSLATED,
    Status.NATIVE, Status.UNTESTED, Status.NOT_APPLICABLE,
)  # fmt: skip
"""Worst first (design.md §3: W X T U E C D N); a cell shows the worst status of its cases."""

_OUTCOME_STATUS = {
    Outcome.WRONG: Status.WRONG,
    Outcome.UNSUPPORTED: Status.UNSUPPORTED,
    Outcome.ERROR: Status.ERROR,
    Outcome.CRASH: Status.CRASH,
    Outcome.TIMEOUT: Status.TIMEOUT,
    Outcome.SKIPPED: Status.UNTESTED,
    Outcome.NOT_APPLICABLE: Status.NOT_APPLICABLE,
}
_ROUTE_STATUS = {
    Route.NATIVE: Status.NATIVE,
    Route.TRANSLATED: Status.TRANSLATED,
    Route.FALLBACK: Status.FALLBACK,
}
_ROUTE_ORDER = (Route.FALLBACK, Route.TRANSLATED, Route.NATIVE)


def status_of(outcome: Outcome, route: Route | None) -> Status:
    """Return the letter of one case; a pass takes its letter from the route, and a pass with no known route is untested."""
    if outcome is Outcome.PASS:
        return _ROUTE_STATUS[route] if route is not None else Status.UNTESTED
    return _OUTCOME_STATUS[outcome]


def worst_status(statuses: Iterable[Status]) -> Status:
    """Return the worst letter, or untested when there is none."""
    return min(statuses, key=STATUS_ORDER.index, default=Status.UNTESTED)


def worst_route(routes: Iterable[Route]) -> Route | None:
    """Return fallback before translated before native (one part on the host makes the call a fallback), or None."""
    return min(routes, key=_ROUTE_ORDER.index, default=None)


@dataclass(frozen=True, slots=True)
class Operator:
    """One ATen overload of the installed torch.

    `name` is `str(OpOverload)`, for example ``aten.add.Tensor``; `kind` is functional, out, inplace or mutable;
    `tier` is T1, T2 or T3 (see catalogue.py); `excluded` is the reason for being outside the denominator, or None.
    """

    name: str
    schema: str
    tags: tuple[str, ...]
    family: str
    kind: str
    tier: str
    excluded: str | None = None

    @property
    def packet(self) -> str:
        """Return the operator without its overload: ``aten.add``."""
        return self.name.rpartition(".")[0]

    @property
    def core(self) -> bool:
        """Return whether torch tags the overload as core ATen."""
        return "core" in self.tags


@dataclass(frozen=True, slots=True)
class Build:
    """A target build: where cases ran, with its versions and how its results are known."""

    target: str
    evidence: Evidence
    versions: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """Return 16 hex digits that are equal exactly when target, evidence and all versions are."""
        text = json.dumps([self.target, self.evidence, sorted(self.versions.items())])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Case:
    """One call to make: an overload with a dtype, a named sample and a variant.

    `sample` names recorded arguments in the bank, for example ``opinfo/gelu/forward/0``. `variant` is ``forward`` (call
    the overload), ``backward`` (call it with inputs that require gradients and compare the gradients) or another axis of
    `op_tests.axes`, with its detail behind a colon: ``transposed``, ``large:65537,row``.
    """

    overload: str
    dtype: str
    sample: str
    variant: str = "forward"
    seed: int = 0

    @property
    def key(self) -> str:
        """Return the stable id, 32 hex digits: SHA-256 over canonical JSON of the fields and the bank version."""
        text = json.dumps(
            [self.overload, self.dtype, self.sample, self.variant, self.seed, BANK_VERSION], separators=(",", ":")
        )
        return hashlib.sha256(text.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Part:
    """One operator that a call was seen to reach on the target, with its route and how often."""

    overload: str
    route: Route | None
    count: int = 1


@dataclass(frozen=True, slots=True)
class Figures:
    """Distance of a result from the float64 reference, the largest over all outputs.

    `max_abs` and `max_rel` are plain numbers, `max_ulp` is in units in the last place of the result's dtype, `nmse` is
    the squared error over the squared reference.
    """

    max_abs: float
    max_rel: float
    max_ulp: float
    nmse: float


@dataclass(frozen=True, slots=True)
class Result:
    """What one case did.

    `received` is the name that the backend saw first (often ``.out``); `composite` says that PyTorch's composite kernel
    served the call through `parts`. Times are milliseconds; figures are None where there is no float64 reference.
    """

    case: str
    outcome: Outcome
    route: Route | None = None
    reason: FallbackReason | None = None
    message: str | None = None
    received: str | None = None
    composite: bool = False
    parts: tuple[Part, ...] = ()
    device_figures: Figures | None = None
    reference_figures: Figures | None = None
    device_ms: float | None = None
    reference_ms: float | None = None

    @property
    def status(self) -> Status:
        """Return the letter of this case."""
        return status_of(self.outcome, self.route)

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values, fields that are None or empty left out."""
        return {k: v for k, v in asdict(self).items() if v not in (None, False, ())}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Result:
        """Return the record that `to_json` wrote; raises KeyError or ValueError on anything else."""

        def figures(name: str) -> Figures | None:
            return Figures(**data[name]) if data.get(name) else None

        def route(value: str | None) -> Route | None:
            return Route(value) if value else None

        return cls(
            case=data["case"],
            outcome=Outcome(data["outcome"]),
            route=route(data.get("route")),
            reason=FallbackReason(data["reason"]) if data.get("reason") else None,
            message=data.get("message"),
            received=data.get("received"),
            composite=bool(data.get("composite", False)),
            parts=tuple(Part(p["overload"], route(p.get("route")), p["count"]) for p in data.get("parts", ())),
            device_figures=figures("device_figures"),
            reference_figures=figures("reference_figures"),
            device_ms=data.get("device_ms"),
            reference_ms=data.get("reference_ms"),
        )


@dataclass(frozen=True, slots=True)
class Denominators:
    """The four counts of design.md §3 with every exclusion's reason; all are overload counts of one torch version."""

    torch: str
    registered: int
    d_all: int
    d_key: int
    t1: int
    excluded: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `neuron-ops ops --stats --json` prints."""
        return {
            "torch": self.torch, "registered": self.registered, "D_all": self.d_all, "D_key": self.d_key, "T1": self.t1,
            "excluded": dict(self.excluded),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Environment:
    """What a run ran in, besides its build: all that is needed to make it again.

    `packages` are the installed ones with their versions, `torch_config` is `torch.__config__.show()`, `device` are
    facts of machine and device, `switches` are the environment variables that change behaviour and were set, and
    `harness` are the versions of what judges. Read in the process that planned the run.
    """

    packages: Mapping[str, str]
    torch_config: str
    device: Mapping[str, str]
    switches: Mapping[str, str]
    harness: Mapping[str, str]

    def freeze(self) -> str:
        """Return the packages as pip takes them, ``torch==2.13.0`` a line."""
        return "".join(f"{name}=={version}\n" for name, version in sorted(self.packages.items()))
