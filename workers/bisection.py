"""Finds the first of several builds in which a case is bad, by installing them and running the case alone. Imported by cli.bisect."""

from __future__ import annotations

import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.verdicts import UNMEASURED
from neuron_ops.op_tests.records import BadInput, worst_status
from neuron_ops.workers.sandbox import RUNNER, Limits, Sandbox

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from neuron_ops.op_tests.records import Case, Status

PLACE = "{build}"
_INSTALL_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class FirstBad:
    """The answer: `good` is the last good build, `bad` the first bad one; `between` are those that could not be tried."""

    good: str
    bad: str
    between: tuple[str, ...]


def first_bad(builds: Sequence[str], probe: Callable[[str], bool | None]) -> FirstBad:
    """Return where builds, oldest first, turn from good to bad.

    `probe` says whether a build is good, None where it cannot be tried; it is called for the last one, the first one and then
    about log2 of those between. Raises BadInput where the ends do not differ as they must.
    """
    for build, good in ((builds[-1], False), (builds[0], True)):
        if (found := probe(build)) is not good:
            was = "could not be tried" if found is None else f"is {'good' if found else 'bad'}"
            raise BadInput(
                f"The build {build!r} {was}, but the {'first' if good else 'last'} one has to be "
                f"{'good' if good else 'bad'}; give builds between which the case changed, oldest first."
            )
    low, high, untried = 0, len(builds) - 1, set[int]()
    while candidates := [n for n in range(low + 1, high) if n not in untried]:
        middle = min(candidates, key=lambda n: abs(2 * n - low - high))
        found = probe(builds[middle])
        if found is None:
            untried.add(middle)
        elif found:
            low = middle
        else:
            high = middle
    return FirstBad(builds[low], builds[high], tuple(builds[low + 1 : high]))


def install(command: str, build: str) -> str | None:
    """Run a command with the build in the place of ``{build}``, without a shell; return why it failed, or None.

    What it prints goes to standard error. Raises BadInput for a command that names no program here.
    """
    words = [word.replace(PLACE, build) for word in shlex.split(command)]
    try:
        done = subprocess.run(words, check=False, stdout=subprocess.DEVNULL, timeout=_INSTALL_SECONDS)
    except OSError as error:
        raise BadInput(
            f"The command {words[0]!r} cannot be run ({error.strerror}); name a program in --install."
        ) from error
    except subprocess.TimeoutExpired:
        return f"the install command took more than {_INSTALL_SECONDS:.0f} s"
    return f"the install command exited with {done.returncode}" if done.returncode else None


def try_case(
    case: Case, target: str, times: int, *, bank_folder: Path, limits: Limits | None = None, session: str = RUNNER
) -> Status | str:
    """Return the worst status of so many runs of a case, each in a new interpreter, or why it could not be run."""
    try:
        with Sandbox(
            target, bank_folder=bank_folder, limits=limits or Limits(recycle=1), session=session, isolation="spawn"
        ) as box:
            results = [result for _ in range(times) for result in box.run([case])]
    except (BadInput, RuntimeError) as error:
        return str(error)
    worst = worst_status(result.status for result in results)
    return worst if worst not in UNMEASURED else f"the case was {results[0].outcome}: {results[0].message}"
