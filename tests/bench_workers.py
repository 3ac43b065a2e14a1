"""Times the sandbox and the workers: ``python tests/bench_workers.py [BANK]``, BANK a cache folder with a float32 bank.

The limits are those of the issue that asked for it: the sandbox at most 10 % slower than a bare loop over the same cases,
50 ms from a crash to the next case with torch imported, two Celery workers 1.9 times one where cases wait.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from neuron_ops.coverage_db.database import upgrade_database
from neuron_ops.op_tests.records import Case
from neuron_ops.workers.sandbox import Sandbox
from neuron_ops.workers.zygote import ENVIRONMENT
from services import Postgres, Redis

HERE = Path(__file__).parent
COUNT = 1500
_BARE = """
import json, sys, time
from pathlib import Path
from neuron_ops.op_tests.bank import Bank
from neuron_ops.op_tests.records import Case
from neuron_ops.op_tests.runner import open_session
folder, count = Path(sys.argv[1]), int(sys.argv[2])
session, bank = open_session("sim", folder, {}), Bank(folder)
names = sorted(bank.overloads("float32"))
cases = [case for name in names for case in bank.cases(name, "float32")]
cases = cases[:: max(1, len(cases) // count)][:count]
session.run(cases[0])
began, cpu = time.perf_counter(), time.process_time()
for case in cases: session.run(case)
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu, [[c.overload, c.dtype, c.sample, c.variant, c.seed] for c in cases]]))
"""


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def sandbox(folder: Path) -> None:
    """Compare the sandbox with a bare loop, in turns; CPU time, which other programs on the machine change least."""
    bare, boxed = [], []
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", _BARE, str(folder), str(COUNT)], capture_output=True, text=True, check=True,
            env={**os.environ, **ENVIRONMENT},
        )  # fmt: skip
        wall, cpu, fields = json.loads(done.stdout.splitlines()[-1])
        cases = [Case(*one) for one in fields]
        bare.append((cpu, wall))
        with Sandbox("sim", bank_folder=folder) as box:
            list(box.run(cases[:1]))
            began, ours, theirs = time.perf_counter(), time.process_time(), cpu_of(box.pid or 0)
            assert len(list(box.run(cases))) == len(cases)
            used = time.process_time() - ours + cpu_of(box.pid or 0) - theirs
            boxed.append((used, time.perf_counter() - began))
    (cpu, wall), (used, spent) = min(bare), min(boxed)
    print(f"bare loop: {len(cases)} cases, {cpu:.2f} s of CPU, {wall:.2f} s; the best of 3")
    print(f"sandbox: {used:.2f} s of CPU on both sides, {spent:.2f} s: {used / cpu - 1:+.1%} of CPU")
    crash(folder, cases)


def crash(folder: Path, cases: list[Case]) -> None:
    """Time from the result of a case that crashes to the result of the next."""
    fatal = next(case for case in cases if case.overload == "aten.add.Tensor")
    calm = next(case for case in cases if case.overload == "aten.abs.default")
    with Sandbox("sim", bank_folder=folder, plants={"aten.add.Tensor": "segfault"}) as box:
        list(box.run([calm]))
        gaps = []
        for _ in range(10):
            stream = box.run([fatal, calm])
            next(stream)
            began = time.perf_counter()
            next(stream)
            gaps.append((time.perf_counter() - began) * 1000)
            list(stream)
    print(
        f"crash to the next case's result, torch imported: {min(gaps):.1f} ms at best, {sorted(gaps)[5]:.1f} ms the median of 10"
    )


def celery(ops: str, label: str) -> None:
    """Time a run with one worker and with two."""
    rates = []
    for workers in (1, 2):
        postgres, redis = Postgres(), Redis()
        processes = []
        try:
            postgres.start()
            redis.start()
            url = postgres.create()
            upgrade_database(url)
            with tempfile.TemporaryDirectory() as folder:
                environment = {
                    **os.environ, "NEURON_OPS_DATABASE_URL": url, "NEURON_OPS_BROKER_URL": redis.url,
                    "NEURON_OPS_DATA": folder, "NEURON_OPS_CACHE": folder,
                    "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]),
                }  # fmt: skip
                command = [sys.executable, str(HERE / "fake_command.py")]
                processes += [
                    subprocess.Popen(
                        [*command, "worker", "--target", "bench"], env=environment, stderr=subprocess.DEVNULL
                    )
                    for _ in range(workers)
                ]
                warm = [*command, "sweep", "--celery", "--target", "bench", "--dtypes", "float32", "--json", "--ops"]
                subprocess.run([*warm, "slow*64"], env=environment, check=True, capture_output=True)
                done = subprocess.run([*warm, ops], env=environment, check=True, capture_output=True, text=True)
                data = json.loads(done.stdout)
                rates.append(data["recorded"] / data["seconds"])
        finally:
            for process in processes:
                process.kill()
                process.wait()
            redis.stop()
            postgres.stop()
    print(
        f"Celery, {label}: {rates[0]:.0f} and {rates[1]:.0f} cases/s with one and two workers, {rates[1] / rates[0]:.2f} times"
    )


def main() -> None:
    from neuron_ops.coverage_db.settings import load_settings

    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else load_settings().cache_folder
    sandbox(folder)
    celery("slow*6000", "cases that wait 10 ms")
    celery(
        "work*2000", f"cases that compute 10 ms, {len(os.sched_getaffinity(0))} cores shared with servers and senders"
    )


if __name__ == "__main__":
    main()
