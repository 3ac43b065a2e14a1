"""Decides which sample of an overload carries which variant; every trial is made in a child that may die."""

from __future__ import annotations

import collections
import importlib
import itertools
import math
from typing import TYPE_CHECKING, NamedTuple

from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.axes.choice import DEADLY_SECONDS, WANTED, accepted, wanted
from neuron_ops.op_tests.isolation import Found, Place, isolated

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    import torch
    from neuron_ops.op_tests.packing import Sample

    Work = Sequence[tuple[str, Mapping[str, Sample]]]
    """Overloads and their samples by label."""

AXES_OF_A_SAMPLE = 6
"""Variants beside forward and backward that one sample gets while an overload has samples enough."""

SAMPLES_TRIED = 3
"""Samples of an overload on which a variant is tried before it is given up."""

MORE_MEMORY = 1 << 30
"""Bytes of address space that trials may take beside what the process has: a count of 2**31 must fail and not swap."""


def spread(
    op: torch._ops.OpOverload, overload: str, dtype: torch.dtype, labels: Sequence[str]
) -> Generator[tuple[str, str], bool, dict[str, tuple[str, ...]]]:
    """Yield the trials (label, variant) in order, take each one's answer, and return label → accepted variants.

    Every variant that an overload should have is tried on the samples that have the fewest, until one accepts it.
    """
    found: dict[str, list[str]] = {label: [] for label in labels}
    room = max(AXES_OF_A_SAMPLE, math.ceil(len(WANTED) / max(len(found), 1)))
    for alternatives in wanted(op, overload, dtype):
        free = sorted((label for label in found if len(found[label]) < room), key=lambda label: len(found[label]))
        for label, variant in ((label, variant) for label in free[:SAMPLES_TRIED] for variant in alternatives):
            if (yield label, variant):
                found[label].append(variant)
                break
    return {label: tuple(variants) for label, variants in found.items()}


def spread_isolated(
    work: Work, dtype: torch.dtype, progress: Callable[[int, int, str], None] | None = None
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return overload → label → variants for all samples of one dtype, as the CPU accepts them in child processes.

    A variant that ends its process is left out. Call it in a process that has not run a backward pass on a device (a
    fork has no threads).
    """
    importlib.import_module("torch.fx.experimental.symbolic_shapes")  # each child's first gradient would import it
    catalogue.by_name()
    found: dict[str, dict[str, tuple[str, ...]]] = {name: dict.fromkeys(samples, ()) for name, samples in work}
    # Of the overload in work, the numbers of the trials that were accepted and of those that ended a child: a new child
    # inherits them and goes on from there.
    accepts: dict[int, set[int]] = collections.defaultdict(set)
    fatal: dict[int, set[int]] = collections.defaultdict(set)

    def tries(task: int, place: Place) -> Iterator[int | dict[str, tuple[str, ...]]]:
        overload, samples = work[task]
        trials = spread(catalogue.resolve(overload), overload, dtype, list(samples))
        return _tries(overload, samples, trials, place, _Known(accepts[task], fatal[task]))

    for event in isolated(range(len(work)), tries, lambda _: False, memory=MORE_MEMORY):
        if not isinstance(event, Found):
            fatal[event.task].add(event.attempt)
        elif isinstance(event.payload, int):
            accepts[event.task].add(event.payload)
        else:
            found[work[event.task][0]] = event.payload
            if progress is not None:
                progress(event.task + 1, len(work), work[event.task][0])
    return found


class _Known(NamedTuple):
    """Numbers of trials that earlier children made."""

    accepted: set[int]
    fatal: set[int]


def _tries(
    overload: str,
    samples: Mapping[str, Sample],
    trials: Generator[tuple[str, str], bool, dict[str, tuple[str, ...]]],
    place: Place,
    known: _Known,
) -> Iterator[int | dict[str, tuple[str, ...]]]:
    """Yield the number of each trial that is accepted and was not known to be, then what the samples get."""
    op = catalogue.resolve(overload)
    given_up: set[str] = set()  # axes on which a kernel ended a child: it gets no second sample or detail to do so
    answer: bool | None = None
    for number in itertools.count():
        try:
            label, variant = trials.send(answer) if answer is not None else next(trials)
        except StopIteration as end:
            yield end.value
            return
        axis, answer = variant.partition(":")[0], number in known.accepted
        if number in known.fatal:
            given_up.add(axis)
        elif axis not in given_up and place.starts(number, DEADLY_SECONDS):
            answer = accepted(op, overload, samples[label], variant)
            if answer:
                yield number
