"""Decides what the bank covers: of each denominator the overloads that have cases, and why the others have none."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from neuron_ops.op_tests.bank import Bank
    from neuron_ops.op_tests.records import Operator

_TIERS = {"D_all": ("T1", "T2", "T3"), "D_key": ("T1", "T2"), "T1": ("T1",)}


@dataclass(frozen=True, slots=True)
class Share:
    """How many overloads of a denominator have at least one case."""

    covered: int
    of: int

    @property
    def percent(self) -> float:
        """Return the share in percent, rounded to one digit; 0 of 0 is 0."""
        return round(100 * self.covered / self.of, 1) if self.of else 0.0


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the bank covers of the installed torch in the dtypes that are built.

    A case counts where the reference computes it. `per_dtype`, `per_axis` and `per_source` give for each name the share
    of each denominator; `refused` counts per dtype the overloads of which the reference refuses every sample (`n/a`);
    `without` gives the reason for each overload that has no case in any dtype.
    """

    dtypes: tuple[str, ...]
    shares: Mapping[str, Share]
    per_dtype: Mapping[str, Mapping[str, Share]]
    per_axis: Mapping[str, Mapping[str, Share]]
    per_source: Mapping[str, Mapping[str, Share]]
    refused: Mapping[str, int]
    without: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``neuron-ops ops --coverage --json`` prints."""
        return {
            "torch": torch.__version__.partition("+")[0],
            "dtypes": list(self.dtypes),
            **_json(self.shares),
            "per_dtype": {
                dtype: {**_json(shares), "refused": self.refused[dtype]} for dtype, shares in self.per_dtype.items()
            },
            "per_axis": {axis: _json(shares) for axis, shares in self.per_axis.items()},
            "per_source": {source: _json(shares) for source, shares in self.per_source.items()},
            "without_cases": [{"overload": name, "reason": reason} for name, reason in self.without.items()],
        }


def _json(shares: Mapping[str, Share]) -> dict[str, dict[str, float]]:
    return {
        name: {"covered": share.covered, "of": share.of, "percent": share.percent} for name, share in shares.items()
    }


def measure(bank: Bank, dtypes: Sequence[str]) -> Coverage:
    """Return the coverage of a bank whose files of these dtypes exist; raises BadInput for one that is damaged."""
    counted = [operator for operator in catalogue.operators() if operator.excluded is None]
    seen: dict[str, set[str]] = {dtype: set() for dtype in dtypes}
    refused: dict[str, set[str]] = {dtype: set() for dtype in dtypes}
    axes: dict[str, set[str]] = collections.defaultdict(set)
    sources: dict[str, set[str]] = collections.defaultdict(set)
    for dtype in dtypes:
        for row in bank.rows(dtype):
            if row.refused is not None:
                refused[dtype].add(row.overload)
                continue
            seen[dtype].add(row.overload)
            sources[row.label.partition("/")[0]].add(row.overload)
            for variant in row.variants:
                axes[variant.partition(":")[0]].add(row.overload)
    everything = set().union(*seen.values())
    return Coverage(
        tuple(dtypes),
        _shares(counted, everything),
        {dtype: _shares(counted, names) for dtype, names in seen.items()},
        {axis: _shares(counted, names) for axis, names in sorted(axes.items())},
        {source: _shares(counted, names) for source, names in sorted(sources.items())},
        {dtype: len(names - seen[dtype]) for dtype, names in refused.items()},
        _without(bank, dtypes, [operator for operator in counted if operator.name not in everything]),
    )


def _shares(counted: Iterable[Operator], names: set[str]) -> dict[str, Share]:
    found = {}
    for denominator, tiers in _TIERS.items():
        members = [operator.name for operator in counted if operator.tier in tiers]
        found[denominator] = Share(sum(name in names for name in members), len(members))
    return found


def _without(bank: Bank, dtypes: Sequence[str], operators: Sequence[Operator]) -> dict[str, str]:
    """Return for each overload the reason that most of its dropped proposals share, in the first dtype that has one."""
    reasons: dict[str, str] = {}
    for dtype in dtypes:
        refusals = {row.overload: row.refused for row in bank.rows(dtype) if row.refused is not None}
        for operator in operators:
            dropped = [reason for _, reason in bank.dropped(operator.name, dtype)]
            common = collections.Counter(dropped).most_common(1)
            reason = common[0][0] if common else refusals.get(operator.name)
            if reason is not None:
                reasons.setdefault(operator.name, reason)
    return {operator.name: reasons.get(operator.name, "nothing was tried") for operator in operators}
