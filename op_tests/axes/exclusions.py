"""Reads the table of variants that an overload does not get, and says why."""

from __future__ import annotations

import functools
import importlib.resources
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase

from neuron_ops.op_tests.axes.arguments import pointwise
from neuron_ops.op_tests.catalogue import resolve


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One row: variants that match are not made for overloads that match, for `reason`."""

    overloads: tuple[str, ...]
    variants: tuple[str, ...]
    reason: str
    unless: tuple[str, ...] = ()
    elementwise: bool = True

    def covers(self, overload: str, variant: str) -> bool:
        """Return whether the row is about this variant of this overload."""
        return (
            any(fnmatchcase(variant, glob) for glob in self.variants)
            and any(fnmatchcase(overload, glob) for glob in self.overloads)
            and not any(fnmatchcase(overload, glob) for glob in self.unless)
            and (self.elementwise or not pointwise(resolve(overload)))
        )


@functools.cache
def rows() -> tuple[Exclusion, ...]:
    """Return the rows of data/axes.toml; raises TypeError for an unknown key and ValueError for a row without a reason."""
    text = importlib.resources.files("neuron_ops.op_tests").joinpath("data/axes.toml").read_text("utf-8")
    found = []
    for entry in tomllib.loads(text)["row"]:
        lists = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        row = Exclusion(**{**entry, **lists})
        if len(row.reason.split()) < 4:
            raise ValueError(f"the row of data/axes.toml for {row.overloads} has no reason; say in a sentence why")
        found.append(row)
    return tuple(found)


def reason_against(overload: str, variant: str) -> str | None:
    """Return why the overload does not get the variant, or None."""
    return next((row.reason for row in rows() if row.covers(overload, variant)), None)
