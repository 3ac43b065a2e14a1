"""Runs cases of a finished run again, each alone in a fresh child, to tell what is so from what happened once."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from neuron_ops.op_tests.records import BANK_VERSION, COMPARER_VERSION, HARNESS, BadInput
from neuron_ops.workers.batch import RunOptions
from neuron_ops.workers.installed import check_versions
from neuron_ops.workers.sandbox import Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from neuron_ops.coverage_db.leases import RunToDo
    from neuron_ops.op_tests.records import Case, Result


def run_again(
    run: RunToDo, cases: Sequence[Case], times: int, *, bank_folder: Path, progress: Callable[[int, int], None]
) -> dict[str, tuple[Result, ...]]:
    """Return case key → what it did, so many times; `progress` gets cases done and their number.

    Raises BadInput where the software here is not that of the run, or the target cannot be opened, RuntimeError when
    no child will start.
    """
    check_versions(run.versions)
    for name, here in zip(HARNESS, (BANK_VERSION, COMPARER_VERSION), strict=True):
        if run.versions.get(name) != str(here):
            raise BadInput(
                f"The run was measured with {name} {run.versions.get(name, 'none')} and {here} is installed here; run the "
                "cases again with `neuron-ops sweep`, or judge without re-runs: --reruns 0."
            )
    options = RunOptions.from_json(run.options)
    found: dict[str, tuple[Result, ...]] = {}
    with Sandbox(
        run.target, bank_folder=bank_folder, plants=options.plants, limits=replace(options.limits, recycle=1),
        session=options.session, isolation=options.isolation,
    ) as box:  # fmt: skip
        for done, case in enumerate(cases, 1):
            found[case.key] = tuple(result for _ in range(times) for result in box.run([case]))
            progress(done, len(cases))
    return found
