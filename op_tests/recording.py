"""Decides which calls of ATen overloads become the samples of a dtype: recorded, hand-written, derived, then cast.

Run as ``python -m neuron_ops.op_tests.recording FOLDER SEED JOBS axes|plain DTYPE...`` in a process of its own. It imports torch's
test databases once, finds a few samples of every overload in some dtype (donors.py), and forks one child a dtype.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.bank import BankWriter, bank_file
from neuron_ops.op_tests.donors import Donors, cast_donors, find_donors
from neuron_ops.op_tests.shelves import Recorder, Room
from neuron_ops.op_tests.stock import DERIVED, Stock, counting, derive, hand_written, share, take_given, vary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.op_tests.stock import Progress

_STEPS = 1000  # of progress, for the donors and for each dtype


def collect(dtype: torch.dtype, seed: int, donors: Donors, axes: bool, progress: Progress) -> Stock:
    """Return all samples of one dtype, with the variants of all axes if asked; 20 to 60 s of CPU, with axes minutes."""
    from neuron_ops.op_tests import sources

    recorder, stock = Recorder(dtype, Room()), Stock(dtype)
    entries = sources.operator_entries(dtype)
    counted = counting(share(progress, 0.0, 0.3), "records")
    sources.record_operators(recorder, entries, seed, sources.SAMPLES_OF_AN_ENTRY, counted)
    sources.record_lists_modules_optimizers(recorder, seed)
    take_given(stock, recorder.samples(), share(progress, 0.35, 0.5))
    take_given(stock, hand_written(dtype), share(progress, 0.5, 0.55))
    derive(stock, DERIVED, share(progress, 0.55, 0.6))
    cast_donors(stock, donors, share(progress, 0.6, 0.65))
    if axes:
        vary(stock, share(progress, 0.65, 1.0))
    for name, reasons in donors.reasons.items():
        if name not in stock.entries:
            stock.dropped.setdefault(name, {}).update(reasons)
    return stock


def write(stock: Stock, path: Path, seed: int, axes: bool) -> None:
    """Write the samples, and what was dropped with its reason, into one bank file."""
    with BankWriter(path, str(stock.dtype).removeprefix("torch."), seed, axes=axes) as writer:
        for name, entries in sorted(stock.entries.items()):
            for label, entry in entries.items():
                writer.add(name, label, entry.sample, entry.variants, entry.refused)
        for name, reasons in sorted(stock.dropped.items()):
            for label, reason in reasons.items():
                writer.drop(name, label, reason)


def _say(dtype: str, done: float, text: str) -> None:
    # One write a line: the children of all dtypes share the pipe.
    os.write(1, (json.dumps(["p", dtype, round(_STEPS * done), _STEPS, text]) + "\n").encode())


def _fork(folder: Path, seed: int, dtype: str, donors: Donors, axes: bool) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        stock = collect(getattr(torch, dtype), seed, donors, axes, lambda done, text: _say(dtype, done, text))
        write(stock, bank_file(folder, dtype, seed), seed, axes)
        _say(dtype, 1.0, "done")
    finally:  # os._exit: what the parent left to be done at exit is the parent's
        failed = sys.exc_info()[1] is not None
        if failed:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(int(failed))


def record_all(folder: Path, seed: int, jobs: int, axes: bool, dtypes: Sequence[str]) -> int:
    """Write the bank files of the dtypes, `jobs` at a time; return how many failed (their tracebacks are on stderr)."""
    donors = find_donors(seed, lambda done, text: _say("any dtype", done, text))
    _say("any dtype", 1.0, "done")
    waiting, failed, running = list(dtypes), 0, 0
    while waiting or running:
        if waiting and running < jobs:
            _fork(folder, seed, waiting.pop(0), donors, axes)
            running += 1
        else:
            _, status = os.wait()
            running, failed = running - 1, failed + (status != 0)
    return failed


def main() -> None:
    """Record the dtypes of the command line and print progress events."""
    folder, seed, jobs, axes, dtypes = (
        Path(sys.argv[1]),
        int(sys.argv[2]),
        int(sys.argv[3]),
        sys.argv[4] == "axes",
        sys.argv[5:],
    )
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.exit(min(record_all(folder, seed, jobs, axes, dtypes), 1))


if __name__ == "__main__":
    main()
