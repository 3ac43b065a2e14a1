"""Proposes the next text of the file of expectations: rows for what is new, without the reasons that a person has to give."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from difflib import unified_diff
from glob import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.expectations import OUTCOMES, matches
from neuron_ops.coverage_db.verdicts import UNMEASURED, Breach, Difference, Expectation, Flaky, word
from neuron_ops.op_tests.records import Status

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from neuron_ops.coverage_db.gating import Pending
    from neuron_ops.coverage_db.rows import CaseRow
    from neuron_ops.coverage_db.verdicts import GateResult, Seen

_VALID = timedelta(days=30)
_ALL = ("*",)
_Measured = list[tuple["CaseRow", Status]]


def patch(
    name: str, text: str | None, pending: Pending, result: GateResult, cases: Sequence[tuple[CaseRow, Seen]]
) -> str:
    """Return a unified diff of the file `name`, empty where nothing is to be changed; `text` is None for a new file.

    `cases` are those of the run, of every overload that a row or a finding names. New rows have no reason and no link: the
    gate refuses them until a person has written both. Rows that are over stay, for only a person can give a new date.
    """
    measured = [(case, seen.status) for case, seen in cases if seen.status not in UNMEASURED]
    measured.sort(key=lambda one: (one[0].overload, one[0].dtype, one[0].variant, one[0].sample))
    old = (text or "").splitlines()
    said = [pending.standing.otherwise.get(flaky.difference.case.key) for flaky in result.flaky]
    over = [b.row for b in result.broken if b.breach is not Breach.EXPIRED]
    gone = {row.line: row for row in (*over, *said) if row is not None}
    new = _without(old, gone)
    for block in _blocks(pending, result, measured, list(gone.values())):
        new += ([""] if new and new[-1] else []) + block
    before = "/dev/null" if text is None else f"a/{name}"
    return "".join(unified_diff(_ended(old), _ended(new), before, f"b/{name}"))


def _blocks(
    pending: Pending, result: GateResult, measured: _Measured, gone: Sequence[Expectation]
) -> Iterator[list[str]]:
    """Yield the lines of each new row; no case is matched by two rows, of those that stay neither."""
    standing = pending.standing
    stays = {**standing.covered, **standing.quarantined}
    taken = {key for key, row in stays.items() if row not in gone}
    again = {f.difference.case.key: f for f in result.flaky}
    for template, members in _wishes(pending, result, gone):
        keys = members.keys() - taken
        for row in _rows(template, keys, measured, taken):
            matched = {case.key for case, _ in measured if matches(row, case)}
            shown = [d for key, d in members.items() if d is not None and key in matched]
            yield _lines(row, _evidence(shown, result.after.label, again) if shown else ())
            taken = taken | matched


def _wishes(
    pending: Pending, result: GateResult, gone: Sequence[Expectation]
) -> Iterator[tuple[Expectation, dict[str, Difference | None]]]:
    """Yield a row to go by with the cases that rows like it should match: the flaky, the rest of rows that go, the new."""
    blank = Expectation("", "", "", pending.rules.today + _VALID, 0, None, builds=(result.after.target,))
    yield blank, {f.difference.case.key: f.difference for f in result.flaky}
    for row in gone:
        yield row, {key: None for key, owner in pending.standing.covered.items() if owner is row}
    # What is healed of a failure may now be served by the host, which the row did not say either.
    odd = {case.key for b in result.broken if b.breach in (Breach.HEALED, Breach.OTHERWISE) for case, _ in b.cases}
    found = [d for d in result.differences if d.regression] + [d for d in pending.doubtful if d.case.key in odd]
    groups: dict[str, dict[str, Difference | None]] = defaultdict(dict)
    for one in found:
        if one.after is not None and word(one.after.status) in OUTCOMES:
            groups[word(one.after.status)][one.case.key] = one
    for outcome, members in groups.items():
        yield replace(blank, outcome=outcome), members


def _rows(
    row: Expectation, keys: Collection[str], measured: _Measured, taken: Collection[str]
) -> Iterator[Expectation]:
    """Yield rows like `row` that together match these cases, and no other that is measured but such as they are."""
    status = OUTCOMES[row.outcome] if row.outcome else None
    members: dict[tuple[str, str], _Measured] = defaultdict(list)
    for case, letter in measured:
        members[case.overload, case.dtype].append((case, letter))
    dtypes: dict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (overload, dtype), some in members.items():
        if any(case.key in keys for case, _ in some):
            for axis, samples in _selectors(some, keys, status, taken):
                dtypes[overload, axis, samples].append(dtype)
    axes: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for (overload, axis, samples), listed in dtypes.items():
        axes[overload, tuple(sorted(listed)), samples].append(axis)
    for (overload, of_dtypes, samples), listed in axes.items():
        yield replace(
            row, overload=escape(overload), dtypes=of_dtypes, axes=tuple(sorted(listed)), samples=samples
        )  # fmt: skip


def _selectors(
    members: _Measured, keys: Collection[str], status: Status | None, taken: Collection[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield a glob of the axis and globs of samples that match the cases of these keys among those of an overload and dtype."""

    def all_like(some: _Measured) -> bool:
        return status is not None and all(s is status and case.key not in taken for case, s in some)

    if all_like(members):
        yield _ALL[0], _ALL
        return
    axes: dict[str, _Measured] = defaultdict(list)
    for case, letter in members:
        axes[case.variant].append((case, letter))
    for axis, some in axes.items():
        samples = sorted(escape(case.sample) for case, _ in some if case.key in keys)
        if samples:
            yield escape(axis), _ALL if all_like(some) else tuple(samples)


def _evidence(found: Sequence[Difference], run: str, again: Mapping[str, Flaky]) -> Iterator[str]:
    """Yield comment lines that say what was seen."""
    first = found[0]
    yield f"# run {run}, {len(found)} of its changes, such as {first.sentence}"
    if first.case.key in again:
        letters = again[first.case.key].again
        yield f"# run again: {' '.join(f'{letter}:{count}' for letter, count in sorted(letters.items()))}"
    if first.message:
        yield f"# {first.message.partition(chr(10))[0]}"
    yield f"# repeat it with: neuron-ops repro {first.case.key[:8]}"


def _lines(row: Expectation, comments: Iterable[str]) -> list[str]:
    lists = {"dtypes": row.dtypes, "axes": row.axes, "samples": row.samples, "builds": row.builds}
    return [
        *comments,
        "[[expect]]" if row.outcome else "[[quarantine]]",
        f"overload = {_toml(row.overload)}",
        *(f"{name} = [{', '.join(map(_toml, globs))}]" for name, globs in lists.items() if globs != _ALL),
        *([f"outcome = {_toml(row.outcome)}"] if row.outcome else []),
        f"reason = {_toml(row.reason)}",
        f"link = {_toml(row.link)}",
        f"expires = {row.expires}",
    ]


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _without(lines: list[str], gone: Collection[int]) -> list[str]:
    """Return the lines without the rows that begin at these line numbers, and without the comments right above them."""
    heads = [n for n, line in enumerate(lines) if line.lstrip().startswith("[[")]
    left: list[str] = []
    begun = 0
    for head, following in pairwise([*heads, len(lines)]):
        if head + 1 not in gone:
            continue
        start, end = head, following
        while start > begun and lines[start - 1].startswith("#"):
            start -= 1
        while end > head + 1 and (not lines[end - 1].strip() or lines[end - 1].startswith("#")):
            end -= 1
        left += lines[begun:start]
        begun = end + (end < len(lines) and not lines[end].strip())
    return left + lines[begun:]


def _ended(lines: list[str]) -> list[str]:
    return [f"{line}\n" for line in lines]
