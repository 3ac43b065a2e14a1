"""Reads the file of expectations (known non-passes, cases in quarantine) and holds each row against a run.

    budget = 10                        # cases that may be flaky or in quarantine

    [[expect]]                         # or [[quarantine]], which has no outcome
    overload = "aten.native_group_norm.default"
    dtypes = ["bfloat16"]              # dtypes, axes, samples, builds: globs, default all
    builds = ["sim profile=*2026-04*"]
    outcome = "wrong"                  # wrong, unsupported, error, crash, timeout or fallback
    reason = "The CPU kernel sums in another order."
    link = "https://github.com/…"
    expires = 2027-01-31

A row is strict both ways: every case that it matches must fail as it says, and it must match one.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields, replace
from datetime import date, datetime
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from neuron_ops.coverage_db.verdicts import FAILING, UNMEASURED, Breach, BrokenExpectation, Expectation, named, word
from neuron_ops.op_tests.records import BadInput, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from neuron_ops.coverage_db.rows import CaseRow
    from neuron_ops.coverage_db.verdicts import Seen, Side

BUDGET = 10
OUTCOMES = {word(status): status for status in (*sorted(FAILING), Status.FALLBACK)}
_HEAD = re.compile(r"^\s*\[\[\s*(expect|quarantine)\s*\]\]", re.MULTILINE)
_LISTS = ("dtypes", "axes", "samples", "builds")
_TEXTS = ("overload", "reason", "link")
_KNOWN = {field.name for field in fields(Expectation)} - {"line"}


@dataclass(frozen=True, slots=True)
class Expectations:
    """The rows of a file, in their order; those of another target build are left out by `held_against`."""

    rows: tuple[Expectation, ...] = ()
    budget: int = BUDGET


@dataclass(frozen=True, slots=True)
class Standing:
    """How a run stands to the rows.

    `covered` maps the key of each case that fails as its row says to the row, `quarantined` that of each case in
    quarantine; `otherwise` maps the key of a case that does not do what its row says to the row.
    """

    broken: tuple[BrokenExpectation, ...]
    covered: Mapping[str, Expectation]
    quarantined: Mapping[str, Expectation]
    otherwise: Mapping[str, Expectation]


def read_expectations(path: Path) -> Expectations:
    """Return the rows of a file; raises BadInput where it is no such file or a row is incomplete."""
    try:
        text = path.read_bytes().decode()
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(
            f"The expectations {path} cannot be read ({error}); correct the file or name another."
        ) from error
    budget = table.pop("budget", BUDGET)
    heads = [(found[1], text.count("\n", 0, found.start(1)) + 1) for found in _HEAD.finditer(text)]
    lists = {kind: table.pop(kind, []) for kind in ("expect", "quarantine")}
    if table or type(budget) is not int or any(not isinstance(rows, list) for rows in lists.values()):
        raise BadInput(
            f"The expectations {path} have {', '.join(table) or 'a budget or rows of another kind'}; write only "
            "budget = NUMBER, [[expect]] and [[quarantine]]."
        )
    rows = []
    for kind, found in lists.items():
        lines = [line for head, line in heads if head == kind]
        if len(lines) != len(found):
            raise BadInput(f"The rows of {path} are not all under a line [[{kind}]] of their own; write them so.")
        rows += [_row(path, kind, line, row) for line, row in zip(lines, found, strict=True)]
    return Expectations(tuple(sorted(rows, key=lambda row: row.line)), budget)


def held_against(
    rows: Iterable[Expectation], run: Side, cases: Sequence[tuple[CaseRow, Seen]], today: date
) -> Standing:
    """Return how the cases of a run stand to the rows; raises BadInput where two rows claim one case.

    What was skipped or refused by the reference neither matches nor breaks a row.
    """
    measured = [(case, seen.status) for case, seen in cases if seen.status not in UNMEASURED]
    owner: dict[str, Expectation] = {}
    broken: list[BrokenExpectation] = []
    covered: dict[str, Expectation] = {}
    quarantined: dict[str, Expectation] = {}
    otherwise: dict[str, Expectation] = {}
    for row in rows:
        if not any(_is_build(run, build) for build in row.builds):
            continue
        matched = [(case, status) for case, status in measured if matches(row, case)]
        for case, _ in matched:
            if (other := owner.setdefault(case.key, row)) is not row:
                raise BadInput(
                    f"The rows at lines {other.line} and {row.line} of the expectations both match {named(case)}; "
                    "narrow one."
                )
        odd = [(case, status) for case, status in matched if row.outcome and status is not OUTCOMES[row.outcome]]
        otherwise |= {case.key: row for case, _ in odd}
        kept = {case.key: row for case, _ in matched if case.key not in otherwise}
        (covered if row.outcome else quarantined).update(kept)
        broken += _breaches(row, matched, odd, today)
    return Standing(tuple(broken), covered, quarantined, otherwise)


def matches(row: Expectation, case: CaseRow) -> bool:
    """Return whether a row's selectors, but for its builds, match a case."""
    return (
        fnmatchcase(case.overload, row.overload)
        and _any(case.dtype, row.dtypes)
        and _any(case.variant, row.axes)
        and _any(case.sample, row.samples)
    )


def without(broken: BrokenExpectation, keys: Iterable[str]) -> BrokenExpectation | None:
    """Return a breach without some of its cases, None where it has no other."""
    gone = set(keys)
    if not broken.cases or not gone:
        return broken
    left = tuple((case, status) for case, status in broken.cases if case.key not in gone)
    return replace(broken, cases=left, sentence=_sentence(broken.breach, broken.row, left)) if left else None


def _breaches(
    row: Expectation, matched: Sequence[tuple[CaseRow, Status]], odd: Sequence[tuple[CaseRow, Status]], today: date
) -> list[BrokenExpectation]:
    found: list[tuple[Breach, Sequence[tuple[CaseRow, Status]]]] = []
    if not matched:
        found.append((Breach.UNMATCHED, ()))
    elif row.expires < today:
        found.append((Breach.EXPIRED, matched))
    for breach, failing in ((Breach.HEALED, False), (Breach.OTHERWISE, True)):
        if cases := [one for one in odd if (one[1] in FAILING) is failing]:
            found.append((breach, cases))
    return [BrokenExpectation(breach, row, tuple(cases), _sentence(breach, row, cases)) for breach, cases in found]


def _sentence(breach: Breach, row: Expectation, cases: Sequence[tuple[CaseRow, Status]]) -> str:
    what = f"The row at line {row.line} ({row.overload}, {row.outcome or 'quarantine'})"
    many = f"{len(cases)} case" + ("s" if len(cases) != 1 else "")
    first = f"{named(cases[0][0])} is {word(cases[0][1])}" if cases else ""
    return {
        Breach.UNMATCHED: f"{what} matches no case that was measured; correct or delete it.",
        Breach.EXPIRED: f"{what} expired on {row.expires}, with {many}; mend the cause or give a new date with its reason.",
        Breach.HEALED: f"{what} is healed for {many}, {first}; narrow or delete it.",
        Breach.OTHERWISE: f"{what} says otherwise than {many}, {first}; look at it.",
    }[breach]


def _row(path: Path, kind: str, line: int, row: Mapping[str, Any]) -> Expectation:
    """Return a row as a record; raises BadInput that names the line."""

    def bad(what: str) -> BadInput:
        return BadInput(f"The row at line {line} of {path} {what}; correct that line.")

    if unknown := sorted(row.keys() - _KNOWN):
        raise bad(f"has the unknown key {unknown[0]}, expected {', '.join(sorted(_KNOWN))}")
    for name in _TEXTS:
        if not isinstance(row.get(name), str) or not row[name].strip():
            raise bad(f"has no {name}, expected text")
    if not isinstance(row.get("expires"), date) or isinstance(row["expires"], datetime):
        raise bad("has no date in expires, expected one such as 2027-01-31")
    for name in _LISTS:
        if name in row and not (
            isinstance(row[name], list) and row[name] and all(_is_glob(glob) for glob in row[name])
        ):
            raise bad(f"has {name} = {row[name]!r}, expected a list of globs")
    if kind == "expect" and row.get("outcome") not in OUTCOMES:
        raise bad(f"has the outcome {row.get('outcome')!r}, expected one of {', '.join(OUTCOMES)}")
    if kind == "quarantine" and "outcome" in row:
        raise bad("is in quarantine and has an outcome, expected none")
    lists = {name: tuple(row[name]) for name in _LISTS if name in row}
    return Expectation(row["overload"], row["reason"], row["link"], row["expires"], line, row.get("outcome"), **lists)


def _is_build(run: Side, build: str) -> bool:
    """Return whether ``target part=version …`` describes the build of a run, every part a glob."""
    target, *parts = build.split()
    pairs = [part.partition("=") for part in parts]
    return fnmatchcase(run.target, target) and all(
        fnmatchcase(run.versions.get(name, ""), version) for name, _, version in pairs
    )


def _is_glob(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _any(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)
