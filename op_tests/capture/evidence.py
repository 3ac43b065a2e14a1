"""Decides how close what is known of an operator comes to one call of it: catalogues of stored results, searched."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.records import BadInput, Evidence, Status, worst_status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from neuron_ops.op_tests.capture.rows import Row

FORMAT = 1
LABEL = "check/"
"""What the labels of exported calls begin with; the signature of the call follows."""
_LARGEST_FILE = 64 << 20


class Closeness(StrEnum):
    """How near the nearest stored case is to a call, nearest first."""

    EXACT = "exact case"
    NEAREST = "nearest case"
    OVERLOAD = "overload only"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Source:
    """Where results come from: a title to show, the ISO date, how they are known, and the torch that they were made with."""

    title: str
    date: str
    evidence: Evidence
    torch: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "evidence": str(self.evidence)}


@dataclass(frozen=True, slots=True)
class Form:
    """Stored cases of one overload and dtype that share the ranks of their tensors and how they were called.

    `ranks` is None where a source does not hold it; `axis` is ``forward`` for plain calls.
    """

    ranks: tuple[int, ...] | None
    axis: str
    counts: Mapping[Status, int]


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of a call: `k` of the `n` cases that were looked at have `status`; `detail` says what they were."""

    closeness: Closeness
    status: Status | None = None
    k: int = 0
    n: int = 0
    detail: str = ""
    source: Source | None = None

    @property
    def wrong(self) -> bool:
        """Return whether the same call, or the nearest to it, gave a wrong result."""
        return self.status is Status.WRONG and self.closeness in (Closeness.EXACT, Closeness.NEAREST)

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, the source by its title and evidence."""
        return {
            "closeness": str(self.closeness), "status": None if self.status is None else str(self.status), "k": self.k,
            "n": self.n, "detail": self.detail, "source": self.source.title if self.source else None,
            "evidence": str(self.source.evidence) if self.source else None,
        }  # fmt: skip


UNKNOWN = Known(Closeness.UNKNOWN, detail="no stored case of this overload")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Stored results of one source: forms by overload and dtype, and the status of calls known by their signature."""

    source: Source
    forms: Mapping[tuple[str, str], Sequence[Form]]
    exact: Mapping[str, Status] = field(default_factory=dict)

    def dtypes(self, overload: str, status: Status) -> tuple[str, ...]:
        """Return the dtypes in which every plain case of the overload has the status."""
        found = []
        for (name, dtype), forms in self.forms.items():
            letters = {s for form in forms if form.axis == "forward" for s in form.counts}
            if name == overload and letters == {status}:
                found.append(dtype)
        return tuple(found)

    def lookup(self, row: Row) -> Known:
        """Return the nearest that is known of a row."""
        letters = [self.exact[s] for s in row.signatures if s in self.exact]
        if letters and len(letters) == len(row.signatures):
            worst = worst_status(letters)
            return Known(Closeness.EXACT, worst, letters.count(worst), len(letters), "these very shapes", self.source)
        forms = self.forms.get((row.overload, row.dtype))
        if forms:
            return self._nearest(row, forms)
        others = sorted(dtype for name, dtype in self.forms if name == row.overload)
        if others:
            detail = f"cases in {', '.join(others)}, none in {row.dtype or 'no dtype'}"
            return Known(Closeness.OVERLOAD, detail=detail, source=self.source)
        return UNKNOWN

    def _nearest(self, row: Row, forms: Sequence[Form]) -> Known:
        ranks = tuple(len(shape) for shape in row.shapes)
        least = min(_distance(form, ranks) for form in forms)
        near = [form for form in forms if _distance(form, ranks) == least]
        status = worst_status(status for form in near for status in form.counts)
        n = sum(sum(form.counts.values()) for form in near)
        called = "plain calls" if near[0].axis == "forward" else f"calls of the axis {near[0].axis}"
        rank = near[0].ranks
        at = "" if rank is None else f" with tensors of rank {', '.join(map(str, rank)) or 'none'}"
        detail = f"{called} in {row.dtype or 'no dtype'}{at}"
        k = sum(form.counts.get(status, 0) for form in near)
        return Known(Closeness.NEAREST, status, k, n, detail, self.source)


def _distance(form: Form, ranks: tuple[int, ...]) -> tuple[int, int, int]:
    """Return how far a form is from a plain call with tensors of these ranks: axis first, then the ranks."""
    if form.ranks is None:
        return form.axis != "forward", 0, 0
    apart = sum(abs(a - b) for a, b in zip(form.ranks, ranks, strict=False))
    return form.axis != "forward", apart, abs(len(form.ranks) - len(ranks))


def closest(row: Row, catalogues: Iterable[Catalogue]) -> Known:
    """Return the nearest that any of the catalogues knows, the earlier one's where they tie."""
    order = tuple(Closeness)
    return min((c.lookup(row) for c in catalogues), key=lambda known: order.index(known.closeness), default=UNKNOWN)


@dataclass(frozen=True, slots=True)
class StoredCase:
    """One case of a stored run as a catalogue takes it."""

    overload: str
    dtype: str
    sample: str
    variant: str
    status: Status
    ranks: tuple[int, ...] | None = None


def collect(source: Source, cases: Iterable[StoredCase]) -> Catalogue:
    """Return the catalogue of the cases; those that were not run or do not apply are left out."""
    tallies: dict[tuple[str, str], dict[tuple[tuple[int, ...] | None, str], dict[Status, int]]] = {}
    exact: dict[str, Status] = {}
    for case in cases:
        if case.status in (Status.UNTESTED, Status.NOT_APPLICABLE):
            continue
        axis = case.variant.partition(":")[0]
        counts = tallies.setdefault((case.overload, case.dtype), {}).setdefault((case.ranks, axis), {})
        counts[case.status] = counts.get(case.status, 0) + 1
        if case.sample.startswith(LABEL) and axis == "forward":
            exact[case.sample.removeprefix(LABEL)] = case.status
    forms = {key: [Form(ranks, axis, c) for (ranks, axis), c in found.items()] for key, found in tallies.items()}
    return Catalogue(source, forms, exact)


def write_catalogue(catalogue: Catalogue) -> bytes:
    """Return the catalogue as one compressed file; the same catalogue gives the same bytes."""
    table: dict[str, dict[str, Any]] = {}
    for (overload, dtype), forms in sorted(catalogue.forms.items()):
        table.setdefault(overload, {})[dtype] = [
            [form.ranks, form.axis, {str(s): n for s, n in form.counts.items()}]
            for form in sorted(forms, key=lambda f: (f.axis, f.ranks or ()))
        ]
    data = {
        "format": FORMAT, "source": catalogue.source.to_json(), "forms": table,
        "exact": {signature: str(status) for signature, status in sorted(catalogue.exact.items())},
    }  # fmt: skip
    return gzip.compress(json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode(), mtime=0)


def read_catalogue(data: bytes, name: str, overloads: Collection[str] | None = None) -> Catalogue:
    """Return what `write_catalogue` wrote, of `overloads` alone where given (a model calls few of them, and it is quicker).

    Raises BadInput, with the name in it, for anything else.
    """
    try:
        unpacked = zlib.decompressobj(wbits=31)
        told = json.loads(unpacked.decompress(data, _LARGEST_FILE))
        if told["format"] != FORMAT:
            raise ValueError(f"format {told['format']}")
        source = Source(**{**told["source"], "evidence": Evidence(told["source"]["evidence"])})
        asked = {o: by for o, by in told["forms"].items() if overloads is None or o in overloads}
        forms = {(o, d): [_form(*form) for form in found] for o, by in asked.items() for d, found in by.items()}
        return Catalogue(source, forms, {signature: Status(s) for signature, s in told["exact"].items()})
    except (zlib.error, KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(
            f"{name} is no catalogue ({type(error).__name__}: {error}); expected a file of format {FORMAT}; write one with "
            "`neuron-ops catalogue build`"
        ) from error


def read_catalogue_file(path: Path) -> Catalogue:
    """Return the catalogue in a file; raises BadInput where it cannot be read."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}); expected a catalogue; check the path") from error
    return read_catalogue(data, str(path))


def _form(ranks: Sequence[int] | None, axis: str, counts: Mapping[str, int]) -> Form:
    return Form(None if ranks is None else tuple(ranks), axis, {Status(s): int(n) for s, n in counts.items()})
