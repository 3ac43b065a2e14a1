"""Times the comparison of two runs: ``python tests/bench_gate.py [CASES] [sqlite] [postgresql]``; the limit is 2 s.

Run 2 does as run 1 but for one case in 333; in run 3 every figure differs a little as well, as on a device that sums in
another order each night.
"""

from __future__ import annotations

import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import bench_database as b
from neuron_ops.coverage_db import baselines, differences, queries, recorder
from neuron_ops.coverage_db.database import open_database, read, upgrade_database, write
from neuron_ops.op_tests.records import Build, Denominators, Evidence, Figures, Outcome
from services import Postgres

if TYPE_CHECKING:
    from neuron_ops.coverage_db.rows import RunRow
    from neuron_ops.op_tests.records import Case, Result
    from sqlalchemy import Engine


def results(planned: list[Case], noise: float) -> list[Result]:
    chance = random.Random(1)
    found = []
    for result in b.results(planned, random.Random(0)):
        ulp = round(chance.random() * 3, 3)
        figures = Figures(1e-6, 1e-6, ulp + noise * chance.random(), 1e-14)
        found.append(replace(result, device_figures=figures) if result.outcome is Outcome.PASS else result)
    return found


def store(engine: Engine, planned: list[Case], found: list[Result]) -> RunRow:
    build = Build("sim", Evidence.SIMULATED, {"torch": "2.13.0", "bank": "2", "comparer": "1"})
    with write(engine) as conn:
        recorder.record_operators(conn, b.operators())
        run_id = recorder.start_run(
            conn, build=build, denominators=Denominators("2.13.0", 3000, 2400, 1800, 600), cases=planned, seed=0,
            selection="all",
        ).run_id  # fmt: skip
    with write(engine) as conn:
        recorder.record_results(conn, run_id, found)
        recorder.finalize_run(conn, run_id)
    with read(engine) as conn:
        run = queries.run_by_id(conn, run_id)
    assert run is not None
    return run


def bench(name: str, engine: Engine, count: int, folder: Path) -> None:
    planned = b.cases(count)
    first = results(planned, 0.0)
    second = [
        replace(r, outcome=Outcome.ERROR, route=None, message="new") if n % 333 == 0 else r for n, r in enumerate(first)
    ]
    one, two = store(engine, planned, first), store(engine, planned, second)
    three = store(engine, planned, results(planned, 0.01))
    file = folder / "base.gz"
    with read(engine) as conn:
        write_time = b.Spent(lambda: baselines.write_baseline(differences.record(conn, one), file))
        lines = {
            "two runs, 1 case in 333 differs": lambda: differences.compare(conn, one, two),
            "two runs, every figure differs": lambda: differences.compare(conn, one, three),
            "a file and a run": lambda: differences.compare(conn, baselines.read_baseline(file), two),
        }
        for label, act in lines.items():
            print(f"{name}: {label}: {b.Spent(act, 3)}, {len(act().differences)} differences", flush=True)
    print(f"{name}: writing the file: {write_time}, {file.stat().st_size / 1e6:.2f} MB for {count} cases", flush=True)


def main() -> None:
    count = next((int(text) for text in sys.argv[1:] if text.isdigit()), 300_000)
    only = [text for text in sys.argv[1:] if not text.isdigit()] or ["sqlite", "postgresql"]
    with tempfile.TemporaryDirectory() as folder:
        if "sqlite" in only:
            engine = open_database(str(Path(folder) / "bench.sqlite"))
            bench("sqlite", engine, count, Path(folder))
            engine.dispose()
        if "postgresql" in only:
            server = Postgres(safe=True)
            try:
                server.start()
                url = server.create()
                upgrade_database(url)
                engine = open_database(url)
                bench("postgresql", engine, count, Path(folder))
                engine.dispose()
            finally:
                server.stop()


if __name__ == "__main__":
    main()
