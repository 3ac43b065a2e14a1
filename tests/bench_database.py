"""Times the database with the data of sixty nights, on SQLite and PostgreSQL: ``python tests/bench_database.py [RUNS [CASES]]``.

The limits are those of the issue that asked for it: 300,000 results in 10 s; matrix 50 ms, one operator's history 5 ms,
difference of neighbours 10 ms. Everything is synthetic: a third is no pass, 0.3 % of cases change from night to night.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import history, nights, queries, recorder, spans
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.database import open_database, read, upgrade_database, write
from neuron_ops.coverage_db.rows import MatrixQuery
from neuron_ops.op_tests.records import (
    Build,
    Case,
    Denominators,
    Evidence,
    FallbackReason,
    Operator,
    Outcome,
    Part,
    Result,
    Route,
)
from services import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Engine

OPERATORS = 2400
DTYPES = (
    "float32",
    "bfloat16",
    "float16",
    "float64",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
    "complex64",
    "int16",
    "complex128",
)
FLUSH = 500


def operators() -> list[Operator]:
    return [
        Operator(f"aten.op{n // 2}.{'default' if n % 2 else 'out'}", f"op{n}() -> ()", ("core",) if n % 8 == 0 else (), f"f{n % 30}", "functional", f"T{n % 3 + 1}")
        for n in range(OPERATORS)
    ]  # fmt: skip


def cases(count: int) -> list[Case]:
    each = max(1, count // (OPERATORS * len(DTYPES)))
    found = [Case(o.name, dtype, f"opinfo/{n}") for o in operators() for dtype in DTYPES for n in range(each)]
    found += [Case(o.name, "float32", f"extra/{n}") for n in range(1 + count // OPERATORS) for o in operators()]
    return found[:count]


def results(planned: list[Case], chance: random.Random) -> list[Result]:
    """Return a result a case: two thirds native, the rest fallbacks, wrong ones and errors with some thousand messages."""
    parts = [(Part(f"aten.part{n}.default", Route.NATIVE, n),) for n in range(50)]
    kinds = [
        lambda c: Result(c.key, Outcome.PASS, Route.NATIVE, received=c.overload, device_ms=1.25, reference_ms=0.5),
        lambda c: Result(c.key, Outcome.PASS, Route.FALLBACK, FallbackReason.UNIMPLEMENTED, parts=chance.choice(parts), device_ms=2.5),
        lambda c: Result(c.key, Outcome.WRONG, Route.NATIVE, message=f"{c.overload}: {chance.randrange(20)} elements differ", device_ms=1.0),
        lambda c: Result(c.key, Outcome.UNSUPPORTED, message=f"no kernel for {c.overload}"),
    ]  # fmt: skip
    return [chance.choices(kinds, (70, 20, 5, 5))[0](case) for case in planned]


class Spent:
    """Seconds of wall time, and of CPU in this process, of the quickest of some calls."""

    def __init__(self, act: Callable[[], object], repeat: int = 1) -> None:
        taken = []
        for _ in range(repeat):
            wall, cpu = time.perf_counter(), time.process_time()
            act()
            taken.append((time.perf_counter() - wall, time.process_time() - cpu))
        self.wall, self.cpu = min(wall for wall, _ in taken), min(cpu for _, cpu in taken)

    def __str__(self) -> str:
        return f"{self.wall * 1000:.1f} ms ({self.cpu * 1000:.1f} ms of CPU here)"


def bench(name: str, engine: Engine, runs: int, count: int) -> None:
    chance = random.Random(0)
    planned = cases(count)
    found = results(planned, chance)
    build = Build("sim", Evidence.SIMULATED, {"torch": "2.13.0"})
    denominators = Denominators("2.13.0", 3000, 2400, 1800, 600)

    def start() -> int:
        with write(engine) as conn:
            recorder.record_operators(conn, operators())
            return recorder.start_run(
                conn, build=build, denominators=denominators, cases=planned, seed=0, selection="all", options={}
            ).run_id

    def ingest(run_id: int) -> None:
        with read(engine) as conn:  # a worker has them from its claim
            ids = {key.hex(): case_id for case_id, key in conn.exec_driver_sql('SELECT id, key FROM "case"')}
        for first in range(0, count, FLUSH):
            with write(engine) as conn:
                recorder.record_results(conn, run_id, found[first : first + FLUSH], ids=ids)

    def finalize(run_id: int) -> None:
        with write(engine) as conn:
            recorder.finalize_run(conn, run_id)

    for night in range(runs):
        if 0 < night < runs - 1:
            repeat(engine, chance)
            continue
        ids: list[int] = []
        begun = Spent(lambda ids=ids: ids.append(start()))
        stored = Spent(lambda ids=ids: ingest(ids[0]))
        ended = Spent(lambda ids=ids: finalize(ids[0]))
        print(
            f"{name}: run {night + 1}: plan {begun}, {count} results {stored}, finalize {ended}",
            flush=True,
        )
    read_all(name, engine)


def repeat(engine: Engine, chance: random.Random) -> None:
    """Store the newest run once more as SQL does it quickest, with changed results, and fold it into the spans."""
    with write(engine) as conn:
        old = conn.execute(sa.select(sa.func.max(m.run.c.id))).scalar_one()
        values = dict(conn.execute(sa.select(m.run).where(m.run.c.id == old)).mappings().one())
        values |= {"id": old + 1, "slug": f"night-{old + 1}", "seq": None}
        conn.execute(sa.insert(m.run).values(values))
        for table in (m.run_case, m.result, m.cell):
            columns = [c for c in table.c if c.name != "run_id"]
            same = sa.select(sa.literal(old + 1), *columns).where(table.c.run_id == old)
            conn.execute(sa.insert(table).from_select(["run_id", *(c.name for c in columns)], same))
        drift = (m.result.c.run_id == old + 1) & (m.result.c.case_id % 333 == chance.randrange(333))
        changed = sa.case((m.result.c.outcome == "error", "crash"), else_="error")
        conn.execute(sa.update(m.result).where(drift).values(outcome=changed, route=None))
        spans.fold(conn, old + 1)
        if conn.dialect.name == "postgresql":  # ids given by hand
            conn.exec_driver_sql("SELECT setval('run_id_seq', %s)", (old + 1,))


def read_all(name: str, engine: Engine) -> None:
    with write(engine) as conn:
        conn.exec_driver_sql("ANALYZE")
    with read(engine) as conn:
        run = queries.latest_run(conn)
        assert run is not None
        neighbours = nights.neighbours(conn, run.id - 1)  # the last was stored in full, without a night's small drift
        assert neighbours is not None
        text = sa.text("SELECT op_id, dtype, status, k, n, reason, composite, parts_id FROM cell WHERE run_id = :run")
        lines = {
            "matrix as SQL (all cells of a run)": lambda: conn.execute(text, {"run": run.id}).all(),
            "matrix, first page with facets": lambda: queries.matrix(conn, run, MatrixQuery()),
            "one operator over all runs": lambda: nights.operator_history(conn, run.id, "aten.op7.default"),
            "one case over all runs": lambda: nights.case_history(conn, run.id, results_key(conn)),
            "difference of neighbours": lambda: nights.changes(conn, *neighbours),
            "times of the last run": lambda: history.known_times(conn, run.id),
        }
        for label, act in lines.items():
            print(f"{name}: {label}: {Spent(act, 7)}", flush=True)
        print(
            f"{name}: changed cases {len(nights.changes(conn, *neighbours))}, nights of an operator {len(nights.operator_history(conn, run.id, 'aten.op7.default'))}"
        )


def results_key(conn: sa.Connection) -> str:
    return conn.exec_driver_sql('SELECT key FROM "case" WHERE id = 1000').scalar_one().hex()


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 290_000
    only = sys.argv[3:] or ["sqlite", "postgresql"]
    if "sqlite" in only:
        with tempfile.TemporaryDirectory() as folder:
            engine = open_database(str(Path(folder) / "bench.sqlite"))
            bench("sqlite", engine, runs, count)
            engine.dispose()
            print(f"sqlite: {(Path(folder) / 'bench.sqlite').stat().st_size / 1e6:.0f} MB")
    if "postgresql" in only:
        server = Postgres(safe=True)
        try:
            server.start()
            url = server.create()
            upgrade_database(url)
            engine = open_database(url)
            bench("postgresql", engine, runs, count)
            with read(engine) as conn:
                size = conn.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
            print(f"postgresql: {size / 1e6:.0f} MB")
            engine.dispose()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
