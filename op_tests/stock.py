"""Decides how the samples of one dtype are collected: what is given, then what relatives lend."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from neuron_ops.op_tests import catalogue, derivation
from neuron_ops.op_tests.axes import spread_isolated
from neuron_ops.op_tests.generators import hand_samples
from neuron_ops.op_tests.packing import Sample, pack
from neuron_ops.op_tests.trials import Outcomes, Proposal, Shelves, Wanted, try_all

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    import torch
    from neuron_ops.op_tests.records import Operator

    Progress = Callable[[float, str], None]
    """Takes the share that is done, from 0 to 1, and what is in work."""

GIVEN = Wanted(samples=64)
DERIVED = Wanted(samples=4, tries=150)


class Stock:
    """The samples of one dtype while they are collected, and why proposals were dropped."""

    def __init__(self, dtype: torch.dtype, served: Collection[str] = ()) -> None:
        self.dtype = dtype
        self.entries: Shelves = {}
        self.dropped: dict[str, dict[str, str]] = {}
        self._served = frozenset(served)

    def take(self, outcomes: Outcomes) -> None:
        """Add what trials brought."""
        for name, entries in outcomes.kept.items():
            self.entries.setdefault(name, {}).update(entries)
        for name, reasons in outcomes.dropped.items():
            self.dropped.setdefault(name, {}).update(reasons)

    def samples(self) -> dict[str, dict[str, Sample]]:
        """Return overload → label → sample of those that the CPU computes."""
        return {
            name: {label: entry.sample for label, entry in entries.items() if entry.refused is None}
            for name, entries in self.entries.items()
        }

    def missing(self) -> list[str]:
        """Return the counted overloads that have no samples here and are not served elsewhere, sorted."""
        return [name for name in counted() if name not in self.entries and name not in self._served]


@functools.cache
def counted() -> Mapping[str, Operator]:
    """Return the overloads of D_all by name, sorted."""
    return {operator.name: operator for operator in catalogue.operators() if operator.excluded is None}


def hand_written(dtype: torch.dtype) -> dict[str, dict[str, Sample]]:
    """Return the samples of the generators, labelled ``hand/<tail>``, of the overloads of D_all."""
    found: dict[str, dict[str, Sample]] = {}
    for name, tail, (args, kwargs) in hand_samples(dtype):
        if name in counted():
            found.setdefault(name, {})[f"hand/{tail}"] = pack(args, kwargs)
    return found


def take_given(stock: Stock, samples: Mapping[str, Mapping[str, Sample]], progress: Progress) -> None:
    """Try every sample that was recorded or written by hand."""
    stock.take(
        try_all(sorted(samples), functools.partial(_given, samples), stock.dtype, GIVEN, counting(progress, "repeats"))
    )


def _given(samples: Mapping[str, Mapping[str, Sample]], name: str) -> Iterator[Proposal]:
    for label, sample in samples[name].items():
        yield Proposal(label, functools.partial(_itself, sample))


def _itself(sample: Sample) -> Sample:
    return sample


def derive(stock: Stock, wanted: Wanted, progress: Progress) -> None:
    """Try what relatives lend to the overloads without samples: twice, since what was derived can serve others."""
    for begin in (0.0, 0.5):
        lend = functools.partial(derivation.proposals, shelves=stock.samples(), dtype=stock.dtype)
        part = share(progress, begin, begin + 0.5)
        stock.take(try_all(stock.missing(), lend, stock.dtype, wanted, counting(part, "derives")))


def vary(stock: Stock, progress: Progress) -> None:
    """Add to the samples' variants the axes that the CPU accepts for them."""
    work = [(name, samples) for name, samples in sorted(stock.samples().items()) if samples]
    for name, variants in spread_isolated(work, stock.dtype, counting(progress, "varies")).items():
        entries = stock.entries[name]
        for label, more in variants.items():
            entries[label] = dataclasses.replace(entries[label], variants=(*entries[label].variants, *more))


def share(progress: Progress, begin: float, end: float) -> Progress:
    """Return a progress function for the part of the work from `begin` to `end`."""
    return lambda done, text: progress(begin + (end - begin) * done, text)


def counting(progress: Progress, verb: str) -> Callable[[int, int, str], None]:
    """Return a progress function that takes done, total and the name that `verb` is done to."""
    return lambda done, total, text: progress(done / max(total, 1), f"{verb} {text}")
