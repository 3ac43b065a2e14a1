"""The layout of /api/v1, which its OpenAPI document is made of. A field may be added; none leaves or changes its meaning."""

from __future__ import annotations

from typing import Any

from neuron_ops.op_tests.records import BadInput
from pydantic import BaseModel, ConfigDict, Field, model_validator

_LETTERS = "Status letter: N, D, C, W, U, E, X, T, – or n/a (see /statuses)."


class Query(BaseModel):
    """The query keys that every address takes."""

    model_config = ConfigDict(extra="forbid")
    run: str | None = Field(None, description="Slug of the run to show; the latest done run where it is left out.")

    @model_validator(mode="before")
    @classmethod
    def refuse_unknown_keys(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Return what was given; raises BadInput for a key that this address does not take."""
        for key in given:
            if key not in cls.model_fields:
                known = ", ".join(cls.model_fields)
                raise BadInput(f"“{key}” is no query key here: it takes {known}; remove the key or use one of these.")
        return given


class SearchQuery(Query):
    """What to search for."""

    q: str = Field("", description="A name in any spelling, an error line, or words.")


class RunsQuery(Query):
    """Which runs to list."""

    target: str | None = Field(None, description="Name of a target, such as sim.")
    limit: int = Field(50, ge=1, le=1000)


class OpsQuery(Query):
    """Which overloads to list; commas inside a value mean or."""

    q: str = Field("", description="Words and key:value terms, as in the site's box.")
    status: str = Field("", description="Status letters or names.")
    dtype: str = ""
    family: str = ""
    tier: str = ""
    tag: str = ""
    kind: str = ""
    page: int = Field(1, ge=1, lt=10**9)
    size: int = Field(100, ge=1, le=1000, description="Overloads a page.")


class DiffQuery(Query):
    """Which two runs of one stream to compare."""

    before: str = Field(description="Slug of the earlier run.")
    after: str = Field(description="Slug of the later run.")


class Run(BaseModel):
    """A run and where its results come from."""

    slug: str
    target: str
    evidence: str = Field(description="hardware or simulated; never to be merged.")
    evidence_definition: str
    versions: dict[str, str]
    state: str = Field(description="running, done, failed or cancelled.")
    published: bool = Field(description="Whether public numbers may come from this run.")
    quarantine: str | None = Field(
        description="Why a done run changes no public number; it may have been released since."
    )
    started: str = Field(description="ISO 8601, UTC.")
    finished: str | None
    seed: int
    planned: int
    cases: dict[str, int] = Field(description="Cases by status letter.")
    dtypes: list[str]
    selection: str
    denominators: dict[str, Any]


class Number(BaseModel):
    """A published number, n of m, with its definition."""

    id: str
    label: str
    n: int
    m: int
    definition: str
    evidence: str | None
    percent: str


class Part(BaseModel):
    """An operator that a call reached."""

    overload: str
    route: str | None
    count: int


class Cell(BaseModel):
    """A cell: k of its n cases have its status."""

    status: str = Field(description=_LETTERS)
    k: int
    n: int
    reason: str | None
    composite: bool
    parts: list[Part]


class JudgedCell(Cell):
    """A cell with its verdict in one sentence."""

    verdict: str


class Op(BaseModel):
    """An overload."""

    name: str
    packet: str
    schema_: str = Field(alias="schema")
    tags: list[str]
    family: str
    kind: str
    tier: str
    excluded: str | None = Field(description="Why it is outside the denominator, or null.")


class OpWithCells(Op):
    """An overload with its cells by dtype."""

    cells: dict[str, Cell]


class Case(BaseModel):
    """A case with what it did; times are milliseconds, figures are distances from the float64 reference."""

    key: str
    dtype: str
    sample: str
    variant: str
    seed: int
    status: str = Field(description=_LETTERS)
    outcome: str | None
    route: str | None
    reason: str | None
    message: str | None
    received: str | None
    composite: bool
    parts: list[Part]
    device_figures: dict[str, Any] | None
    reference_figures: dict[str, Any] | None
    device_ms: float | None
    reference_ms: float | None


class Change(BaseModel):
    """A case whose status differs between two runs."""

    key: str
    overload: str
    dtype: str
    before: str | None
    after: str | None
    worse: bool = Field(description="Whether it had a better status before; new and dropped cases are not worse.")


class Document(BaseModel):
    """What every answer begins with."""

    schema_version: int
    run: Run | None = None


class Numbers(Document):
    """The published numbers of a run."""

    numbers: list[Number]


class Runs(Document):
    """Runs, newest first."""

    runs: list[Run]


class RunDetail(Document):
    """A run with its totals and numbers."""

    totals: dict[str, Any]
    numbers: list[Number]


class Ops(Document):
    """One page of overloads; `next` is the address of the following one, or null."""

    query: dict[str, str]
    total: int
    page: int
    pages: int
    dtypes: list[str]
    rows: list[OpWithCells]
    next: str | None


class Translation(BaseModel):
    """What computes an overload on a device without it; needs: the operators that it reaches; launches: device calls."""

    overload: str
    source: str
    dtypes: list[str]
    needs: list[str]
    launches: int
    bytes: int
    note: str
    axes: list[str]
    host_bytes_avoided: int
    evidence: str


class OpDetail(Op, Document):
    """All that a run says of one overload."""

    tier_meaning: str
    cells: dict[str, JudgedCell]
    cases: list[Case]
    siblings: list[str]
    translations: dict[str, Translation] = Field(description="Device → the translation that is chosen for it.")


class Hits(Document):
    """What a search found, best first; `exact`: all bear the very name; `only`: the one that is meant, or null."""

    q: str
    exact: bool
    only: str | None
    hits: list[Op]


class Diff(Document):
    """What changed from one run to another of its stream; `run` is the later one."""

    before: str
    after: str
    changes: list[Change]


class Problem(BaseModel):
    """An error, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
