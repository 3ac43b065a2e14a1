"""Decides which samples an overload gets in a dtype that its relatives have none in: samples of another dtype, cast.

So a cell says that the reference refuses (`not_applicable`) where the CPU does, and is not merely untested; and the
search, which is slow, is made once and not for every dtype.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import torch
from neuron_ops.op_tests import search
from neuron_ops.op_tests.casting import cast
from neuron_ops.op_tests.shelves import Recorder, Room
from neuron_ops.op_tests.stock import Stock, counting, derive, hand_written, share, take_given
from neuron_ops.op_tests.trials import Proposal, Wanted, try_all

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from neuron_ops.op_tests.packing import Sample
    from neuron_ops.op_tests.stock import Progress

DERIVED = Wanted(samples=2, tries=60)
FOUND = Wanted(samples=3, tries=search.COMBINATIONS)
FOUND_AGAIN = Wanted(samples=3, tries=search.ALIGNED)
CAST = Wanted(samples=3, refused=2)

_ROOM = Room(own=2, other=2, total=3)
_SHARES = (0.0, 0.7, 0.85, 0.92, 1.0)


class Donor(NamedTuple):
    """A sample that the CPU computes in some dtype."""

    dtype: torch.dtype
    label: str
    sample: Sample


class Donors(NamedTuple):
    """A few samples of every overload in the first dtype that has any, and why the others have none in any."""

    samples: Mapping[str, Sequence[Donor]]
    reasons: Mapping[str, Mapping[str, str]]


def find_donors(seed: int, progress: Progress) -> Donors:
    """Return the donors of the installed torch: recorded, hand-written, derived and searched in four dtypes."""
    from neuron_ops.op_tests import sources

    found: dict[str, list[Donor]] = {}
    reasons: dict[str, dict[str, str]] = {}
    entries_seen: set[str] = set()
    for dtype, begin, end in zip(search.SEARCHED, _SHARES, _SHARES[1:], strict=False):
        entries = [entry for entry in sources.operator_entries(dtype) if entry.full_name not in entries_seen]
        entries_seen |= {entry.full_name for entry in entries}
        part = share(progress, begin, end)
        recorder = Recorder(dtype, _ROOM)
        sources.record_operators(recorder, entries, seed, 2, counting(share(part, 0.0, 0.3), "records"))
        if dtype is torch.float32:
            sources.record_lists_modules_optimizers(recorder, seed)
        stock = _stock_of(recorder, found, share(part, 0.3, 1.0))
        for name, samples in stock.samples().items():
            found[name] = [Donor(dtype, label, sample) for label, sample in list(samples.items())[: _ROOM.total]]
        for name, dropped in stock.dropped.items():
            reasons.setdefault(name, {}).update(dropped)
    return Donors(found, {name: dropped for name, dropped in reasons.items() if name not in found})


def _stock_of(recorder: Recorder, served: Mapping[str, object], progress: Progress) -> Stock:
    dtype = recorder.dtype
    stock = Stock(dtype, served)
    for given, begin in ((recorder.samples(), 0.0), (hand_written(dtype), 0.2)):
        unserved = {name: samples for name, samples in given.items() if name not in served}
        take_given(stock, unserved, share(progress, begin, begin + 0.2))
    derive(stock, DERIVED, share(progress, 0.4, 0.6))
    look = functools.partial(search.proposals, dtype=dtype)
    stock.take(
        try_all(
            stock.missing(),
            look,
            dtype,
            FOUND if dtype is torch.float32 else FOUND_AGAIN,
            counting(share(progress, 0.6, 0.9), "searches"),
        )
    )
    derive(stock, DERIVED, share(progress, 0.9, 1.0))
    return stock


def cast_donors(stock: Stock, donors: Donors, progress: Progress) -> None:
    """Try the donors' samples, cast, for what has none; where the CPU refuses all of an overload, keep two refusals."""
    names = [name for name in stock.missing() if name in donors.samples]
    outcomes = try_all(
        names, functools.partial(_casts, donors, stock.dtype), stock.dtype, CAST, counting(progress, "casts")
    )
    for name, entries in outcomes.kept.items():
        computed = {label: entry for label, entry in entries.items() if entry.refused is None}
        outcomes.kept[name] = computed or entries
    stock.take(outcomes)


def _casts(donors: Donors, dtype: torch.dtype, name: str) -> Iterator[Proposal]:
    for donor in donors.samples[name]:
        if donor.dtype == dtype:
            yield Proposal(donor.label, functools.partial(_itself, donor.sample))
        else:
            label = f"cast/{str(donor.dtype).removeprefix('torch.')}/{donor.label}"
            yield Proposal(label, functools.partial(cast, name, donor.sample, donor.dtype, dtype))


def _itself(sample: Sample) -> Sample:
    return sample
