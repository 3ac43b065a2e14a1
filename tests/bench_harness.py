"""Compares the runner with PyTorch's own test harness on one eighth of op_db: ``python tests/bench_harness.py [CACHE]``.

PyTorch's way is pytest over `instantiate_device_type_tests`: for each sample `op(sample)` on the CPU and on the simulated
device, and `assert_close`. Ours is the same entries' samples of the bank through `Session.run`: the same two calls, a third
one in float64, and every comparison. Both in one process on one thread, in turns. The bank keeps one sample of a geometry
and few of an entry, so that two things are compared: the seconds that the eighth takes, and cases a second.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.workers.zygote import ENVIRONMENT

DTYPES = ("float32", "bfloat16", "int64")
EIGHTH = 8

_THEIRS = f"""
import json, os, time
import neuron_ops.op_tests.targets.sim
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops, OpDTypes, PrivateUse1TestBase
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase
from torch.utils._pytree import tree_map_only

torch.set_num_threads(1)
chosen = op_db[::{EIGHTH}]
cases = 0

class TestEighth(TestCase):
    @ops(chosen, allowed_dtypes=[{", ".join("torch." + d for d in DTYPES)}])
    def test_op(self, device, dtype, op):
        global cases
        for sample in op.sample_inputs("cpu", dtype):
            expected = op(sample.input, *sample.args, **sample.kwargs)
            there = sample.transform(lambda x: x.to("neuron") if isinstance(x, torch.Tensor) else x)
            found = op(there.input, *there.args, **there.kwargs)
            cases += 1
            torch.testing.assert_close(tree_map_only(torch.Tensor, lambda t: t.cpu(), found), expected, equal_nan=True)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        with open(os.environ["CASES"], "a") as file:
            print(cases, file=file)

instantiate_device_type_tests(TestEighth, globals(), only_for=("cpu",))
"""

_OURS = f"""
import json, sys, time
from pathlib import Path
from neuron_ops.op_tests.bank import Bank
from neuron_ops.op_tests.runner import open_session
session, bank = open_session("sim", Path(sys.argv[1]), {{}}), Bank(Path(sys.argv[1]))
chosen = set(json.loads(sys.argv[2]))
cases = [
    case
    for dtype in {DTYPES!r}
    for name in sorted(bank.overloads(dtype))
    for case in bank.cases(name, dtype)
    if case.variant == "forward" and case.sample.startswith("opinfo/") and case.sample.split("/")[1] in chosen
]
session.run(cases[0])
began = time.perf_counter()
results = [session.run(case) for case in cases]
wall = time.perf_counter() - began
inside = sum((r.device_ms or 0) + (r.reference_ms or 0) for r in results) / 1000
print(json.dumps([len(cases), wall, inside]))
"""

_NAMES = f"""
import json
from torch.testing._internal.common_methods_invocations import op_db
print(json.dumps([op.name for op in op_db[::{EIGHTH}]]))
"""


def _python(*arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False,
        env={**os.environ, **ENVIRONMENT, **environment},
    )  # fmt: skip
    if done.returncode not in (0, 1):  # pytest ends with 1 where a comparison failed, as some do on the simulator
        sys.exit(done.stdout[-2000:] + done.stderr[-2000:])
    return done.stdout


def theirs(folder: Path) -> tuple[int, float, float]:
    """Return the cases that PyTorch's harness ran, its seconds from the first test to the last, and those of its start-up."""
    test, counted = folder / "test_eighth.py", folder / "cases"
    test.write_text(_THEIRS)
    counted.unlink(missing_ok=True)
    began = time.perf_counter()
    _python(
        "-m",
        "pytest",
        "-q",
        "-x",
        "--maxfail=100000",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        str(test),
        CASES=str(counted),
    )
    wall = time.perf_counter() - began
    began = time.perf_counter()
    _python(
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
        str(test),
        CASES=str(folder / "none"),
    )
    start = time.perf_counter() - began
    return int(counted.read_text()), wall - start, start


def main() -> None:
    """Print both rates of two rounds, their ratio, and the share of our wall time that the calls themselves take."""
    cache = Path(sys.argv[1]) if len(sys.argv) > 1 else load_settings().cache_folder
    names = json.loads(_python("-c", _NAMES))
    rounds = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(2):
            cases, seconds, start = theirs(Path(folder))
            began = time.perf_counter()
            count, wall, inside = json.loads(_python("-c", _OURS, str(cache), json.dumps(names)).splitlines()[-1])
            whole = time.perf_counter() - began
            rounds.append(
                (seconds / wall, (seconds + start) / whole, (count / wall) / (cases / seconds), inside / wall)
            )
            print(
                f"pytest over instantiate_device_type_tests: {cases} cases, {seconds:.1f} s and {start:.1f} s of start-up"
            )
            print(f"neuron-ops: {count} cases, {wall:.1f} s and {whole - wall:.1f} s of start-up", flush=True)
    eighth, started, rate, share = (max(column) for column in zip(*rounds, strict=True))
    print(f"one eighth of op_db in {len(DTYPES)} dtypes: {eighth:.1f} times faster, {started:.1f} times with start-up")
    print(f"cases a second: {rate:.1f} times as many; the calls themselves take {share:.0%} of our time, the rest is")
    print("building arguments, reading all memory back, the call in float64 and the comparison")


if __name__ == "__main__":
    main()
