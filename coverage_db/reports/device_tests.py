"""Turns a run into the configuration of PyTorch's own device tests, as `PrivateUse1TestBase.set_test_configs` takes it (torch 2.13).

Imported by cli.runs.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db import stored
from neuron_ops.coverage_db.verdicts import FAILING, UNMEASURED
from neuron_ops.op_tests.records import BadInput, Outcome, Route, Status, status_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Connection

_OPINFO = re.compile(r"(?:cast/\w+/)?opinfo/(?P<name>.+)/\w+/\d+")
"""Labels of samples that an OpInfo gave; its full name is how torch's tests call it."""

_PLAIN = ("forward", "backward")  # what torch's samples are called with; the other axes are ours

_LOADS = {
    "sim": "neuron_ops.op_tests.targets.sim",
    "sim+translators": "neuron_ops.op_tests.targets.translated",
    "neuron": "torch_neuronx",
}
"""Target → the module whose import makes the device."""


@dataclass(frozen=True, slots=True)
class _Need:
    """A test of torch's that asks of a device what these axes ask, in these dtypes (none: in any)."""

    cls: str
    tests: tuple[str, ...]
    axes: tuple[str, ...]
    dtypes: tuple[str, ...] = ()


_COMPLEX = ("complex64", "complex128")
_NEEDS = (
    _Need("TestCommon", ("test_noncontiguous_samples",), ("transposed", "sliced", "expanded")),
    _Need("TestCommon", ("test_out", "test_out_warning"), ("out_larger", "out_wrong_shape")),
    _Need("TestCommon", ("test_errors",), ("must_raise", "out_wrong_dtype")),
    _Need("TestMathBits", ("test_conj_view", "test_neg_conj_view"), ("forward",), _COMPLEX),
    _Need("TestBwdGradients", ("*",), ("backward",), ("float64", "complex128")),  # gradcheck computes in these
)
_ENOUGH = 0.5
"""Share of the cases that must pass for a test to be worth running on every operator."""


@dataclass(frozen=True, slots=True)
class DeviceTests:
    """The three settings of torch's device tests.

    `allowed` are full names of OpInfos with at least one dtype in which every case passes, `skipped` maps the names to
    dtype → why its tests are skipped, `excluded` maps test classes to the tests that are not made, ``*`` for all.
    """

    run: RunRow
    allowed: tuple[str, ...]
    skipped: Mapping[str, Mapping[str, str]]
    excluded: Mapping[str, tuple[str, ...]]


def device_tests(conn: Connection, run: RunRow) -> DeviceTests:
    """Return the settings that a run proves; raises BadInput for a target that torch's tests cannot name.

    Cases count whose samples come from an OpInfo. What the run did not measure is not allowed.
    """
    if run.target not in _LOADS:
        raise BadInput(
            f"The run {run.slug} is of target {run.target!r}, which is no PrivateUse1 device; name a run of one of "
            f"{', '.join(_LOADS)}."
        )
    seen = [one for one in _cases(conn, run.id) if one.status not in UNMEASURED]
    plain: dict[tuple[str, str], list[_Case]] = {}
    for one in seen:
        if one.opinfo and one.axis in _PLAIN:
            plain.setdefault((one.opinfo, one.dtype), []).append(one)
    if not plain:
        raise BadInput(f"The run {run.slug} measured no sample of an OpInfo; sweep operators that have some.")
    skipped: dict[str, dict[str, str]] = {}
    for (name, dtype), cases in sorted(plain.items()):
        if why := _why(cases, run):
            skipped.setdefault(name, {})[dtype] = why
    allowed = {name for name, dtype in plain if dtype not in skipped.get(name, {})}
    kept = {name: why for name, why in skipped.items() if name in allowed}
    return DeviceTests(run, tuple(sorted(allowed)), kept, _excluded(seen))


@dataclass(frozen=True, slots=True)
class _Case:
    key: str
    opinfo: str | None
    dtype: str
    axis: str
    status: Status


def _cases(conn: Connection, run_id: int) -> Iterable[_Case]:
    query = stored.CASES.add_columns(m.result.c.outcome, m.result.c.route)
    query = query.join(m.result, sa.and_(m.result.c.case_id == m.case_.c.id, m.result.c.run_id == run_id))
    for row in conn.execute(query.order_by(m.case_.c.key)):
        found = _OPINFO.fullmatch(row.sample)
        status = status_of(Outcome(row.outcome), Route(row.route) if row.route else None)
        yield _Case(row.key.hex(), found and found["name"], row.dtype, row.variant.partition(":")[0], status)


def _why(cases: list[_Case], run: RunRow) -> str | None:
    failing = [case for case in cases if case.status in FAILING]
    if not failing:
        return None
    first = failing[0]
    return (
        f"{len(failing)} of {len(cases)} cases of run {run.slug} fail: {first.key[:8]} is {first.status.name.lower()}"
    )


def _excluded(seen: list[_Case]) -> dict[str, tuple[str, ...]]:
    """Return the tests of which less than half of what they need passes, where the run measured any of it."""
    excluded: dict[str, tuple[str, ...]] = {}
    for need in _NEEDS:
        asked = Counter(
            one.status in FAILING
            for one in seen
            if one.axis in need.axes and (not need.dtypes or one.dtype in need.dtypes)
        )
        if asked.total() and asked[False] < _ENOUGH * asked.total():
            excluded[need.cls] = (*excluded.get(need.cls, ()), *need.tests)
    return excluded


_FILE = Template('''"""What PyTorch's device tests may ask of $target, by run $slug ($evidence) of neuron-ops; made, not written.

    python THIS_FILE path/to/pytorch/test/test_ops.py [arguments of that file]

or call configure() before instantiate_device_type_tests. Made for torch $torch.
"""

import importlib
import runpy
import sys
import unittest
from pathlib import Path

DEVICE_MODULE = "$module"

# Full names of the OpInfos with a dtype in which every case passed.
op_allowlist = $allowed

# OpInfo -> dtype -> why its tests are skipped.
op_skips = $skipped

# Test class -> tests that are not made, because most of what they need fails.
test_exclusions = $excluded


def configure():
    """Load the device and give the three settings to its test base."""
    importlib.import_module(DEVICE_MODULE)
    import torch
    from torch.testing._internal.common_device_type import PrivateUse1TestBase
    from torch.testing._internal.opinfo.core import DecorateInfo

    op_overrides = {
        name: [DecorateInfo(unittest.skip(why), dtypes=(getattr(torch, dtype),)) for dtype, why in dtypes.items()]
        for name, dtypes in op_skips.items()
    }
    # Torch compares an override's device with the name that the base gets here: the first test made would miss its own.
    PrivateUse1TestBase.setUpClass()
    PrivateUse1TestBase.set_test_configs(
        op_allowlist=op_allowlist, op_overrides=op_overrides, test_exclusions=test_exclusions
    )


if __name__ == "__main__":
    configure()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")
''')


def python_file(tests: DeviceTests) -> str:
    """Return the settings as a Python file that needs torch and the device's module."""
    run = tests.run
    return _FILE.substitute(
        target=run.target, slug=run.slug, evidence=run.evidence.value, torch=run.versions.get("torch", "of any version"),
        module=_LOADS[run.target], allowed=_lines(tests.allowed), skipped=_nested(tests.skipped), excluded=_flat(tests.excluded),
    )  # fmt: skip


def _lines(names: Iterable[str]) -> str:
    return "(\n" + "".join(f"    {name!r},\n" for name in names) + ")"


def _flat(excluded: Mapping[str, tuple[str, ...]]) -> str:
    return "{\n" + "".join(f"    {cls!r}: {list(tests)!r},\n" for cls, tests in excluded.items()) + "}"


def _nested(skipped: Mapping[str, Mapping[str, str]]) -> str:
    return "{\n" + "".join(f"    {name!r}: {dict(dtypes)!r},\n" for name, dtypes in skipped.items()) + "}"
