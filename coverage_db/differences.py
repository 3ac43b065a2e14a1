"""Finds the exact difference of two runs: every case that one did otherwise than the other, in named groups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import queries, stored
from neuron_ops.coverage_db.rows import CaseRow
from neuron_ops.coverage_db.verdicts import (
    FAILING,
    UNMEASURED,
    Comparison,
    Difference,
    Group,
    Seen,
    Side,
    VersionChange,
)
from neuron_ops.op_tests.records import HARNESS, BadInput, Case, Outcome, Route, Status, status_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from neuron_ops.coverage_db.rows import RunRow
    from neuron_ops.op_tests.records import Result
    from sqlalchemy import Connection

FACTOR = 4.0
"""By how much an error in ulp has to grow to count, the NMSE by its square."""
_ULP_FLOOR = 0.5  # a correctly rounded result is as far off
_ROUNDOFF = {
    "float64": 2**-53, "complex128": 2**-53, "float32": 2**-24, "complex64": 2**-24, "float16": 2**-11,
    "bfloat16": 2**-8, "float8_e4m3fn": 2**-4, "float8_e5m2": 2**-3,
}  # fmt: skip
_ROUTES = {
    (Status.NATIVE, Status.TRANSLATED): Group.TRANSLATION_GAINED,
    (Status.TRANSLATED, Status.NATIVE): Group.TRANSLATION_LOST,
}
_CHUNK = 1000
_DEVICE = '{"device"'  # how stored figures begin that have those of the device
_ULP, _NMSE = 2, 3  # their places there

Identity: TypeAlias = tuple[str, str, str, str, int]
"""Overload, dtype, variant, sample and seed: the same case in every database and file of one bank version."""
_Stored: TypeAlias = tuple[str, str | None, str | None]
_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Recording:
    """What each case of a run did, apart from any database."""

    side: Side
    seen: Mapping[Identity, Seen]


def run_named(conn: Connection, slug: str) -> RunRow:
    """Return the run of this slug; raises BadInput where there is none."""
    run = queries.run_by_slug(conn, slug)
    if run is None:
        raise BadInput(f"There is no run {slug!r} in this database; `neuron-ops runs` lists them.")
    return run


def unusable(conn: Connection, run: RunRow) -> str | None:
    """Return in one sentence why nothing can be said of a run, or None."""
    if run.state != "done":
        left = run.planned - queries.totals(conn, run).recorded
        return (
            f"The run {run.slug} is {run.state} and {left} of its {run.planned} cases have no result; go on with "
            f"`neuron-ops sweep --resume {run.slug}`."
        )
    if not measured(run):
        return f"The run {run.slug} measured no case of the {run.planned} planned; start a new one with `neuron-ops sweep`."
    if conn.execute(sa.select(m.run.c.pruned).where(m.run.c.id == run.id)).scalar() is not None:
        return f"The single results of run {run.slug} were dropped; name a newer run or a baseline file."
    return None


def measured(run: RunRow) -> int:
    """Return how many cases of a run passed or failed."""
    return sum(run.counts.values()) - sum(run.counts.get(status.value, 0) for status in UNMEASURED)


def compare(conn: Connection, before: RunRow | Recording, after: RunRow, *, factor: float = FACTOR) -> Comparison:
    """Return the difference of a run to another, or to what was recorded of one elsewhere.

    Raises BadInput where nothing can be said of one of them.
    """
    for run in (before, after):
        if not isinstance(run, Recording) and (sentence := unusable(conn, run)) is not None:
            raise BadInput(sentence)
    if isinstance(before, Recording):
        return _compare_with(conn, before, after, factor)
    old, new = _results(conn, before.id), _results(conn, after.id)
    changed = {
        case_id: pair
        for case_id in _unequal(old, new)
        if _may_differ(pair := (_seen(old.get(case_id)), _seen(new.get(case_id))), factor)
    }
    found = [
        _difference(case, *changed[case_id], message, factor)
        for case_id, case, message in _details(conn, after.id, changed)
    ]
    return _comparison(side_of(before), side_of(after), found, factor)


def record(conn: Connection, run: RunRow) -> Recording:
    """Return what each case of a run did; raises BadInput where nothing can be said of it."""
    if (sentence := unusable(conn, run)) is not None:
        raise BadInput(sentence)
    cases = dict(_identities(conn, run.id))
    found = {cases[case_id]: _known(raw) for case_id, raw in _results(conn, run.id).items()}
    return Recording(side_of(run), found)


def cases_of(conn: Connection, run: RunRow, globs: Collection[str]) -> tuple[tuple[CaseRow, Seen], ...]:
    """Return the cases with a result of a run, and what each did, for the overloads that a glob matches."""
    if not globs:
        return ()
    names = conn.execute(sa.select(m.op.c.id, m.op.c.name))
    ids = [op_id for op_id, name in names if any(fnmatchcase(name, glob) for glob in globs)]
    r = m.result.c
    query = stored.CASES.add_columns(r.outcome, r.route, sa.cast(r.figures, sa.Text).label("figures")).join(
        m.result, r.case_id == m.case_.c.id
    )
    rows = conn.execute(query.where(r.run_id == run.id, m.case_.c.op_id.in_(ids)))
    return tuple((stored.case_row(row), _known((row.outcome, row.route, row.figures))) for row in rows)


def seen_of(result: Result) -> Seen:
    """Return a result as it is compared."""
    if (figures := result.device_figures) is None:
        return Seen(result.status)
    return Seen(result.status, _figure(figures.max_ulp), _figure(figures.nmse))


def side_of(run: RunRow) -> Side:
    """Return a run as one side of a comparison."""
    return Side(run.slug, run.target, run.evidence, run.versions, run.selection, measured(run))


def group_of(before: Seen | None, after: Seen | None, dtype: str, factor: float) -> Group | None:
    """Return what became of a case, None where nothing did; skipped and refused by the reference is not measured."""
    if before is None or before.status in UNMEASURED:
        return None if after is None or after.status in UNMEASURED else Group.CASES_ADDED
    if after is None or after.status in UNMEASURED:
        return Group.CASES_VANISHED
    if before.status is after.status:
        return _error_group(before, after, dtype, factor)
    failing = before.status in FAILING, after.status in FAILING
    if any(failing):
        return {(False, True): Group.NEWLY_FAILING, (True, False): Group.NEWLY_PASSING}.get(
            failing, Group.FAILING_OTHERWISE
        )
    on_host = Group.FALLBACK_GAINED if after.status is Status.FALLBACK else Group.FALLBACK_LOST
    return _ROUTES.get((before.status, after.status), on_host)


def _compare_with(conn: Connection, before: Recording, after: RunRow, factor: float) -> Comparison:
    cases = dict(_identities(conn, after.id))
    new = {cases[case_id]: _known(raw) for case_id, raw in _results(conn, after.id).items()}
    ids = {identity: case_id for case_id, identity in cases.items()}
    changed = {
        identity: pair
        for identity in _unequal(before.seen, new)
        if _may_differ(pair := (before.seen.get(identity), new.get(identity)), factor)
    }
    told = {
        case_id: (case, message)
        for case_id, case, message in _details(conn, after.id, {ids[i] for i in changed if i in ids})
    }
    found = []
    for identity, pair in changed.items():
        case, message = told[ids[identity]] if identity in ids else (_case(identity), None)
        found.append(_difference(case, *pair, message, factor))
    return _comparison(before.side, side_of(after), found, factor)


def _identities(conn: Connection, run_id: int) -> Iterator[tuple[int, Identity]]:
    """Yield row number and identity of every case that has a result in a run."""
    c = m.case_.c
    query = (
        sa.select(c.id, m.op.c.name, c.dtype, c.variant, c.sample, c.seed)
        .join(m.result, m.result.c.case_id == c.id)
        .join(m.op, m.op.c.id == c.op_id)
        .where(m.result.c.run_id == run_id)
    )
    for row in conn.execute(query).all():
        yield row[0], row[1:]


def _error_group(before: Seen, after: Seen, dtype: str, factor: float) -> Group | None:
    """Return whether the error grew or shrank; where ulp and NMSE disagree, ulp decides, so that the mirror holds."""
    ulp = _growth(before.max_ulp, after.max_ulp, _ULP_FLOOR, factor)
    nmse = _growth(before.nmse, after.nmse, _ROUNDOFF.get(dtype, 0.0) ** 2, factor**2)
    return {1: Group.ERROR_GROWN, -1: Group.ERROR_SHRUNK, 0: None}[ulp or nmse]


def _growth(before: float | None, after: float | None, floor: float, factor: float) -> int:
    """Return 1 where a figure grew by more than the factor, -1 where it shrank so, else 0; below the floor all is equal."""
    if before is None or after is None:
        return 0
    low, high = max(before, floor), max(after, floor)
    return int(high > factor * low) - int(low > factor * high)


def _difference(
    case: CaseRow, before: Seen | None, after: Seen | None, message: str | None, factor: float
) -> Difference | None:
    group = group_of(before, after, case.dtype, factor)
    return None if group is None else Difference(group, case, before, after, message)


def _case(identity: Identity) -> CaseRow:
    overload, dtype, variant, sample, seed = identity
    return CaseRow(Case(overload, dtype, sample, variant, seed).key, overload, dtype, sample, variant, seed)


def _may_differ(pair: tuple[Seen | None, Seen | None], factor: float) -> bool:
    """Return whether a pair is one of a difference in any dtype: looking up what case it is costs more than this."""
    return group_of(*pair, "", factor) is not None


def _unequal(old: Mapping[_Key, object], new: Mapping[_Key, object]) -> Iterator[_Key]:
    """Yield the keys whose values differ, or that one side lacks."""
    for key, value in old.items():
        if new.get(key) != value:
            yield key
    yield from new.keys() - old.keys()


def _results(conn: Connection, run_id: int) -> dict[int, _Stored]:
    """Return row number of a case → outcome, route and figures as they are stored; 300,000 are read in half a second."""
    r = m.result.c
    query = sa.select(r.case_id, r.outcome, r.route, sa.cast(r.figures, sa.Text)).where(r.run_id == run_id)
    return {case_id: (outcome, route, figures) for case_id, outcome, route, figures in conn.execute(query).all()}


def _seen(raw: _Stored | None) -> Seen | None:
    return None if raw is None else _known(raw)


def _known(raw: _Stored) -> Seen:
    outcome, route, figures = raw
    if figures is None or not figures.startswith(_DEVICE):
        return Seen(_status(outcome, route))
    # By hand, and no more than is compared: where every figure of a night differs, json.loads takes twice as long.
    device = figures[figures.index("[") + 1 : figures.index("]")].split(",")
    return Seen(_status(outcome, route), _figure(device[_ULP].strip(' "')), _figure(device[_NMSE].strip(' "')))


@lru_cache
def _status(outcome: str, route: str | None) -> Status:
    return status_of(Outcome(outcome), Route(route) if route else None)


def _figure(value: float | str) -> float:
    """Return a stored figure; one that is no number is as bad as can be."""
    found = float(value)
    return math.inf if math.isnan(found) else found


def _details(conn: Connection, run_id: int, ids: Collection[int]) -> Iterator[tuple[int, CaseRow, str | None]]:
    """Yield row number, case and the run's message for the cases of these row numbers."""
    query = (
        stored.CASES.add_columns(m.case_.c.id, m.error_signature.c.text)
        .outerjoin(m.result, (m.result.c.case_id == m.case_.c.id) & (m.result.c.run_id == run_id))
        .outerjoin(m.error_signature, m.error_signature.c.id == m.result.c.signature_id)
    )
    listed = sorted(ids)
    for start in range(0, len(listed), _CHUNK):
        for row in conn.execute(query.where(m.case_.c.id.in_(listed[start : start + _CHUNK]))):
            yield row.id, stored.case_row(row), row.text


def _comparison(before: Side, after: Side, found: Iterable[Difference | None], factor: float) -> Comparison:
    names = sorted(before.versions.keys() | after.versions.keys())
    changes = [
        VersionChange(name, old, new)
        for name in names
        if (old := before.versions.get(name)) != (new := after.versions.get(name))
    ]
    order = list(Group)
    differences = sorted(
        (d for d in found if d is not None),
        key=lambda d: (order.index(d.group), d.case.overload, d.case.dtype, d.case.variant, d.case.sample, d.case.seed),
    )
    return Comparison(
        before, after, tuple(c for c in changes if c.name not in HARNESS), tuple(c for c in changes if c.name in HARNESS),
        tuple(differences), factor,
    )  # fmt: skip
