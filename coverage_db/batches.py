"""Cuts the cases of a run into batches, each for one worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.op_tests.records import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuron_ops.coverage_db.history import Known
    from neuron_ops.op_tests.records import Case

LARGEST = 500
"""Cases a batch: what a lost worker costs at the most."""
SMALLEST = 16
"""Cases a batch: below this, claiming costs more than it shares out; also the size for what ended processes before."""
_TARGET_MS = 20_000.0  # a batch is some twenty seconds of work
_UNKNOWN_MS = 10.0  # a case without history
_OVERHEAD_MS = 2.0  # reference in float64, comparison, transport
_SHARES = 8  # batches a worker at the least, so that the last ones end together
_FATAL = frozenset({Status.CRASH, Status.TIMEOUT})


@dataclass(frozen=True, slots=True)
class Batch:
    """Cases to run together and how long they will take, in milliseconds."""

    cases: tuple[Case, ...]
    est_ms: float


def cut(cases: Sequence[Case], known: Mapping[tuple[str, str], Known], workers: int) -> list[Batch]:
    """Return batches of all the cases, longest first and else in the order of the plan, cases of one overload together.

    Overloads that ended processes in the run that the times come from get small batches of their own.
    """
    size = max(SMALLEST, min(LARGEST, len(cases) // (_SHARES * max(1, workers))))
    calm: list[tuple[Case, float]] = []
    batches: list[Batch] = []
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in cases:
        groups.setdefault((case.overload, case.dtype), []).append(case)
    for key, group in groups.items():
        past = known.get(key)
        each = past.ms / past.cases + _OVERHEAD_MS if past is not None else _UNKNOWN_MS
        timed = [(case, each) for case in group]
        if past is not None and past.status in _FATAL:
            batches.extend(_fill(timed, SMALLEST))
        else:
            calm.extend(timed)
    batches.extend(_fill(calm, size))
    return sorted(batches, key=lambda batch: -batch.est_ms)


def _fill(timed: Sequence[tuple[Case, float]], size: int) -> list[Batch]:
    """Return batches of at most `size` cases and, where more than one case is in it, of the target time."""
    batches: list[Batch] = []
    cases: list[Case] = []
    total = 0.0
    for case, ms in timed:
        if cases and (len(cases) >= size or total + ms > _TARGET_MS):
            batches.append(Batch(tuple(cases), total))
            cases, total = [], 0.0
        cases.append(case)
        total += ms
    return [*batches, Batch(tuple(cases), total)] if cases else batches
