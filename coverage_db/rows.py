"""The frozen records that the database layer hands out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.records import Case, Evidence, FallbackReason, Figures, Outcome, Part, Route, Status, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

_DTYPES = (
    "float32", "bfloat16", "float16", "float64", "float8_e4m3fn", "float8_e5m2",
    "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128",
)  # fmt: skip


def ordered_dtypes(dtypes: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct dtypes in column order: what models use first, then the rest by name."""
    return tuple(sorted(set(dtypes), key=lambda d: (_DTYPES.index(d) if d in _DTYPES else len(_DTYPES), d)))


@dataclass(frozen=True, slots=True)
class RunStart:
    """A run that has begun: `run_id` for the recorder, `slug` for people."""

    run_id: int
    slug: str


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of a run.

    `counts` has cases for each status letter, lost cases as untested, so they add up to `planned`; `cells` has cells
    for each letter. Letters with no case or cell are absent.
    """

    planned: int
    recorded: int
    lost: int
    counts: Mapping[str, int]
    cells: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A stored run. `state` is running, done, failed or cancelled; times are UTC; `denominators` is `Denominators.to_json()`.

    `recorded` counts the results of a run that has ended. `quarantine` says why a done run changes no public number; it
    does after all once it was `released`.
    """

    id: int
    slug: str
    target: str
    evidence: Evidence
    versions: Mapping[str, str]
    state: str
    started: datetime
    finished: datetime | None
    seed: int
    planned: int
    counts: Mapping[str, int]
    denominators: Mapping[str, Any]
    selection: str
    dtypes: tuple[str, ...]
    recorded: int | None = None
    quarantine: str | None = None
    released: datetime | None = None

    @property
    def published(self) -> bool:
        """Return whether public numbers may come from this run."""
        return self.state == "done" and (self.quarantine is None or self.released is not None)


@dataclass(frozen=True, slots=True)
class OpRow:
    """A stored overload; `excluded` is the reason for being outside the denominator, or None."""

    name: str
    packet: str
    schema: str
    tags: tuple[str, ...]
    family: str
    kind: str
    tier: str
    excluded: str | None


@dataclass(frozen=True, slots=True)
class CellRow:
    """A cell: `k` of its `n` cases have its status.

    `reason` is why the host computed it (a fallback) or the first line of the commonest message of that status.
    """

    dtype: str
    status: Status
    k: int
    n: int
    reason: str | None = None
    composite: bool = False
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A stored case; `key` is 32 hex digits."""

    key: str
    overload: str
    dtype: str
    sample: str
    variant: str
    seed: int

    @property
    def case(self) -> Case:
        """Return the case to run."""
        return Case(self.overload, self.dtype, self.sample, self.variant, self.seed)


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A planned case of a run with what it did; `outcome` is None where no result arrived. Times are milliseconds."""

    case: CaseRow
    outcome: Outcome | None
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
        """Return the letter of this case, untested where no result arrived."""
        return Status.UNTESTED if self.outcome is None else status_of(self.outcome, self.route)


@dataclass(frozen=True, slots=True)
class MatrixQuery:
    """What of a matrix to show.

    Values within one field are alternatives, fields narrow each other. `words` is a name in any spelling that `search`
    takes; `dtypes` picks columns, and `statuses` keeps the overloads that have one of these letters in a shown column.
    """

    words: str = ""
    statuses: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    page: int = 1
    size: int = 100


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """An overload with one cell for each column, an untested one where nothing was measured."""

    op: OpRow
    cells: Mapping[str, CellRow]


@dataclass(frozen=True, slots=True)
class Matrix:
    """One page of a run's cells.

    `dtypes` is the column order; `total` counts overloads over all `pages`; `facets` maps each field of `MatrixQuery`
    that has alternatives (statuses, dtypes, families, tiers, tags, kinds) to value → how many overloads that value
    would show with the other fields as they are.
    """

    rows: tuple[MatrixRow, ...]
    dtypes: tuple[str, ...]
    total: int
    page: int
    pages: int
    facets: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OverloadPage:
    """All that a run says of one overload; `siblings` are the other overloads of its packet."""

    op: OpRow
    run: RunRow | None
    cells: Mapping[str, CellRow]
    cases: tuple[CaseResult, ...]
    siblings: tuple[OpRow, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """A published number, *n of m*; `definition` names the denominator. Evidence is None where no run was given."""

    id: str
    label: str
    n: int
    m: int
    definition: str
    evidence: Evidence | None
