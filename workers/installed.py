"""Compares the software of a run with what is installed here."""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING

from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping


def check_versions(versions: Mapping[str, str]) -> None:
    """Raise BadInput where a package of the run has another version here; names that are no packages say nothing.

    Results of two versions in one run would answer no question.
    """
    for name, wanted in sorted(versions.items()):
        try:
            here = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        if here.partition("+")[0] != wanted.partition("+")[0]:
            raise BadInput(
                f"The run was planned with {name} {wanted} and {here} is installed here; install the same version, or "
                "start a new run with `neuron-ops sweep`."
            )
