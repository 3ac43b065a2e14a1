"""The messages of a run, those that say the same together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.fingerprints import asked_patterns, fingerprint, message_pattern
from neuron_ops.op_tests.records import Outcome, Status, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import Connection

_BAD = (Outcome.WRONG, Outcome.UNSUPPORTED, Outcome.ERROR, Outcome.CRASH, Outcome.TIMEOUT)
_EXAMPLES = 5


@dataclass(frozen=True, slots=True)
class Cluster:
    """Messages of one pattern.

    `cells` maps (overload, dtype) to how many of its cases gave such a message; `examples` are some of the messages in
    full, the commonest first.
    """

    fingerprint: str
    pattern: str
    status: Status
    cells: Mapping[tuple[str, str], int]
    examples: tuple[str, ...]

    @property
    def cases(self) -> int:
        """Return how many cases gave such a message."""
        return sum(self.cells.values())

    @property
    def overloads(self) -> tuple[str, ...]:
        """Return the overloads, by name."""
        return tuple(sorted({name for name, _ in self.cells}))


def clusters(conn: Connection, run_id: int) -> tuple[Cluster, ...]:
    """Return the messages of a run's bad results by pattern and status, those of most overloads first."""
    r, s = m.result.c, m.error_signature.c
    rows = conn.execute(
        sa.select(r.outcome, s.text, m.op.c.name, m.case_.c.dtype, sa.func.count().label("cases"))
        .join(m.case_, m.case_.c.id == r.case_id)
        .join(m.op, m.op.c.id == m.case_.c.op_id)
        .join(m.error_signature, s.id == r.signature_id)
        .where(r.run_id == run_id, r.outcome.in_([outcome.value for outcome in _BAD]))
        .group_by(r.outcome, s.text, m.op.c.name, m.case_.c.dtype)
    )
    patterns: dict[str, str] = {}
    cells: dict[tuple[str, str], Counter[tuple[str, str]]] = {}
    texts: dict[tuple[str, str], Counter[str]] = {}
    for outcome, text, name, dtype, cases in rows:
        if text not in patterns:
            patterns[text] = message_pattern(text)
        key = (patterns[text], outcome)
        cells.setdefault(key, Counter())[name, dtype] += cases
        texts.setdefault(key, Counter())[text] += cases
    found = [
        Cluster(
            fingerprint(f"{outcome}: {of}"), of, status_of(Outcome(outcome), None), dict(sorted(cells[of, outcome].items())),
            tuple(text for text, _ in sorted(texts[of, outcome].items(), key=lambda item: (-item[1], item[0]))[:_EXAMPLES]),
        )
        for of, outcome in cells
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda c: (-len(c.overloads), -c.cases, c.pattern)))


def matching(found: Iterable[Cluster], pasted: str) -> tuple[Cluster, ...]:
    """Return the clusters that a pasted trace, error line or piece of a message belongs to, the likeliest first.

    A line with the very pattern comes before a piece of a message; nothing pasted finds nothing.
    """
    given = tuple(found)
    exact = [c for asked in asked_patterns(pasted) for c in given if c.pattern == asked]
    piece = " ".join(pasted.split()).casefold()
    if piece and "\n" not in pasted.strip():
        exact += [c for c in given if piece in c.pattern.casefold() or any(piece in t.casefold() for t in c.examples)]
    return tuple({c.fingerprint: c for c in exact}.values())
