"""Decides which proposed calls of an overload become its samples; every call is tried in a child that may die."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from neuron_ops.op_tests.agreement import REFUSALS, is_of_dtype, judge
from neuron_ops.op_tests.isolation import Found, Place, isolated
from neuron_ops.op_tests.packing import Sample, Unpackable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import torch

Shelves = dict[str, dict[str, "Entry"]]
"""Overload → label → entry."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A sample with the variants in which the CPU agrees with itself; `refused` is the CPU's refusal, if it refused."""

    sample: Sample
    variants: tuple[str, ...]
    refused: str | None = None


class Proposal(NamedTuple):
    """A call that may be a sample: its label and a function that makes its arguments (and may raise or crash)."""

    label: str
    make: Callable[[], Sample]


@dataclass(frozen=True, slots=True)
class Wanted:
    """When a trial has enough: `samples` that the CPU computes, or `tries` proposals; refused ones kept where it has none."""

    samples: int
    tries: int = 400
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What trials brought: entries, and for each label (or, with the label '', each overload) why nothing came of it."""

    kept: Shelves
    dropped: Mapping[str, Mapping[str, str]]


class _Tried(NamedTuple):
    label: str
    entry: Entry | None
    reason: str


def try_all(
    names: Sequence[str],
    proposals: Callable[[str], Iterable[Proposal]],
    dtype: torch.dtype,
    wanted: Wanted,
    progress: Callable[[int, int, str], None],
) -> Outcomes:
    """Return what the proposals for each overload bring in one dtype; `progress` gets done, total and the overload in work.

    `proposals` is called in the child and must yield the same ones every time.
    """
    kept: Shelves = {}
    dropped: dict[str, dict[str, str]] = {}

    def work(name: str, place: Place) -> Iterator[_Tried]:
        return _try_one(name, proposals(name), dtype, wanted, place)

    for event in isolated(names, work, lambda tried: tried.entry is not None and tried.entry.refused is None):
        name = names[event.task]
        progress(event.task, len(names), name)
        if not isinstance(event, Found):
            label = next(itertools.islice(proposals(name), event.attempt, None)).label
            dropped.setdefault(name, {})[label] = event.how
        elif event.payload.entry is not None:
            kept.setdefault(name, {})[event.payload.label] = event.payload.entry
        else:
            dropped.setdefault(name, {})[event.payload.label] = event.payload.reason
    return Outcomes(kept, dropped)


def _try_one(
    name: str, proposals: Iterable[Proposal], dtype: torch.dtype, wanted: Wanted, place: Place
) -> Iterator[_Tried]:
    """Yield each sample, each disagreement, at the end the last refusal where there is no sample."""
    good, refused, last = place.found, 0, ""
    geometries: set[str] = set()
    for attempt, proposal in enumerate(itertools.islice(proposals, wanted.tries)):
        if good >= wanted.samples:
            return
        if not place.starts(attempt):
            continue
        try:
            sample = _made(name, proposal, dtype, geometries)
        except Unpackable as error:
            last = last or str(error)
            continue
        except REFUSALS as error:
            last = f"{type(error).__name__}: {error}"
            continue
        verdict = judge(name, sample)
        if verdict.variants:
            good += 1
            yield _Tried(proposal.label, Entry(sample, verdict.variants), "")
        elif not verdict.refused:
            yield _Tried(proposal.label, None, verdict.reason)
        else:
            last = verdict.reason
            if refused < wanted.refused:
                refused += 1
                yield _Tried(proposal.label, Entry(sample, ("forward",), last), "")
    if not good and last:
        yield _Tried("", None, last)


def _made(name: str, proposal: Proposal, dtype: torch.dtype, geometries: set[str]) -> Sample:
    """Return the proposed call; raises Unpackable for one of another dtype or of a geometry that was tried."""
    sample = proposal.make()
    if not is_of_dtype(name, sample, dtype):
        raise Unpackable(f"the call has no argument of {dtype}")
    geometry = json.dumps(sample.tree, sort_keys=True)
    if geometry in geometries:
        raise Unpackable("the call was tried before")
    geometries.add(geometry)
    return sample
