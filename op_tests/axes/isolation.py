"""Tries variants in a forked process: kernels of the CPU may end it on arguments that nobody meant them to see."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import resource
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn

from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.axes.choice import accepted, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TextIO

    from neuron_ops.op_tests.packing import Sample

_SECONDS = 1
"""A trial that takes more processor time ends its process (SIGPROF): one that loops for ever would not end by itself."""

_MORE_MEMORY = 1 << 30
"""Bytes of address space that trials may take beside what the process has: a count of 2**31 must fail and not swap."""

Fatal = set[tuple[str, str]]
"""Overloads and axes that ended a process: a kernel that does so on one sample does not look at the others either."""


def spread_isolated(
    work: Sequence[tuple[str, Mapping[str, Sample]]], progress: Callable[[int, int, str], None] | None = None
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return overload → label → variants for all samples of one dtype, as `choice.spread` finds them in child processes.

    A variant that ends its process is left out, and a new process goes on. Call it in a process that has not run a
    backward pass on a device (a fork has no threads).
    """
    importlib.import_module("torch.fx.experimental.symbolic_shapes")  # each child's first gradient would import it
    catalogue.by_name()
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    fatal: Fatal = set()
    suspects: Fatal = set()
    stuck = -1
    while len(found) < len(work):
        trial: tuple[str, str] | None = None
        for event in _events(work[len(found) :], fatal):
            if event[0] == "e":
                raise RuntimeError(f"trying variants failed:\n{event[1]}")
            if event[0] == "t":
                trial = (event[1], event[3].partition(":")[0])
                continue
            found[event[1]] = {label: tuple(variants) for label, variants in event[2].items()}
            trial = None
            if progress is not None:
                progress(len(found), len(work), event[1])
        if len(found) < len(work):
            # A first death may be the debt of an earlier trial that wrote outside its memory: it counts when it comes
            # again in a process that begins with this overload.
            if trial is None and len(found) == stuck:
                raise RuntimeError(f"the process that tries variants ended before a trial of {work[len(found)][0]}")
            stuck = len(found) if trial is None else -1
            if trial is not None:
                (fatal if trial in suspects else suspects).add(trial)
    return found


def _events(work: Sequence[tuple[str, Mapping[str, Sample]]], fatal: Fatal) -> Iterator[list[Any]]:
    """Yield ["t", overload, label, variant] before each trial and ["d", overload, {label: variants}] after an overload."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _child(work, fatal, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        for line in pipe:
            if line.endswith("\n"):  # a death may cut the last line
                yield json.loads(line)
    os.waitpid(child, 0)


def _child(work: Sequence[tuple[str, Mapping[str, Sample]]], fatal: Fatal, writing: int) -> NoReturn:
    """Try everything and leave the process, whatever happens: the parent's stack must not unwind here."""
    pipe = os.fdopen(writing, "w", buffering=1)
    try:
        _limit()
        _try_all(work, fatal, pipe)
    finally:
        if sys.exc_info()[0] is not None:
            pipe.write(json.dumps(["e", traceback.format_exc()]) + "\n")
        pipe.flush()
        os._exit(0)


def _limit() -> None:
    with open("/proc/self/statm", encoding="ascii") as sizes:  # noqa: PTH123 - a file of the kernel
        pages = int(sizes.read().split()[0])
    most = pages * os.sysconf("SC_PAGE_SIZE") + _MORE_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()
    null = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):  # what kernels print, dying or not, is not for the user
        os.dup2(null, descriptor)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def _try_all(work: Sequence[tuple[str, Mapping[str, Sample]]], fatal: Fatal, pipe: TextIO) -> None:
    for overload, samples in work:
        op = catalogue.resolve(overload)

        def judge(label: str, variant: str, overload: str = overload, samples: Mapping[str, Sample] = samples) -> bool:
            if (overload, variant.partition(":")[0]) in fatal:
                return False
            pipe.write(json.dumps(["t", overload, label, variant]) + "\n")
            signal.setitimer(signal.ITIMER_PROF, _SECONDS)
            kept = accepted(catalogue.resolve(overload), overload, samples[label], variant)
            signal.setitimer(signal.ITIMER_PROF, 0)
            return kept

        pipe.write(json.dumps(["d", overload, spread(op, overload, samples, judge)]) + "\n")
