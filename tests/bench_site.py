"""Times the site as it is served, over the data of sixty nights: ``python tests/bench_site.py [RUNS [CASES]]``.

gunicorn with the settings of production answers four clients at once. Exits with 1 where a budget is not kept: of 95 % of
the answers, an operator's page in 100 ms, its JSON and the search in 60 ms, the matrix and a difference in 300 ms, an
unchanged page in 10 ms. The data is that of bench_database.
"""

from __future__ import annotations

import http.client
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import bench_database as data
from neuron_ops.coverage_db import nights, queries
from neuron_ops.coverage_db.database import open_database, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLIENTS = 4
REQUESTS = int(os.environ.get("REQUESTS", "60"))
"""Of each kind, by each client."""
WARM_UP = 4


@dataclass(frozen=True, slots=True)
class Kind:
    """Requests of one kind: the address of each, and the milliseconds that 95 % of the answers may take."""

    name: str
    budget: float
    address: Callable[[random.Random], str]
    status: int = 200


@dataclass(frozen=True, slots=True)
class Served:
    """A gunicorn: its port and the process that started its workers."""

    port: int
    pid: int

    def cpu_ms(self) -> float:
        """Return the milliseconds of CPU that its workers have used, which do not depend on what else is running."""
        workers = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        ticks = [Path(f"/proc/{worker}/stat").read_text().rpartition(")")[2].split()[11:13] for worker in workers]
        return sum(int(one) for both in ticks for one in both) * 1000 / os.sysconf("SC_CLK_TCK")


def kinds(before: str, after: str) -> tuple[Kind, ...]:
    def op(chance: random.Random) -> str:
        return f"/op/aten.op{chance.randrange(1200)}.{chance.choice(('default', 'out'))}"

    def words(chance: random.Random) -> str:
        return chance.choice(
            (f"/search.json?q=op{chance.randrange(120)}", f"/search?q=op+{chance.randrange(9)}", "/search?q=zzz")
        )

    return (
        Kind("operator", 100, op),
        Kind("operator, JSON", 60, lambda chance: f"{op(chance)}.json"),
        Kind("search", 60, words),
        Kind("matrix", 300, lambda chance: f"/ops?page={chance.randrange(1, 24)}"),
        Kind("matrix, filtered", 300, lambda chance: f"/ops?status={chance.choice('WCU')}&tag=core"),
        Kind("difference", 300, lambda _: f"/api/v1/diff?before={before}&after={after}"),
        Kind("unchanged (304)", 10, op, 304),
        Kind("home", 300, lambda _: "/"),
    )


@contextmanager
def served(database: str) -> Iterator[Served]:
    """Yield a gunicorn over this database, with the settings of production."""
    command = [
        sys.executable, "-m", "gunicorn", "-c", "python:neuron_ops.web.server", "--bind", "127.0.0.1:0", "neuron_ops.web:create_app()",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as counters:
        environment = os.environ | {"NEURON_OPS_DATABASE_URL": database, "PROMETHEUS_MULTIPROC_DIR": counters}
        with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            try:
                lines = iter(server.stderr.readline, "")
                port = next(
                    int(found.group(1))
                    for line in lines
                    if (found := re.search(r"Listening at: http://[\d.]+:(\d+)", line))
                )
                # Its log is read on, or a full pipe would stop it.
                threading.Thread(target=server.stderr.read, daemon=True).start()
                yield Served(port, server.pid)
            finally:
                server.terminate()


def ask(port: int, kind: Kind, seed: int, requests: int) -> list[float]:
    """Return the milliseconds of each answer to one client, the first few left out."""
    chance, taken = random.Random(seed), []
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        for number in range(requests + WARM_UP):
            address, headers = kind.address(chance), {}
            if kind.status == 304:
                connection.request("GET", address)
                with connection.getresponse() as answer:
                    answer.read()
                    headers = {"If-None-Match": answer.headers["ETag"]}
            begun = time.perf_counter()
            connection.request("GET", address, headers=headers)
            with connection.getresponse() as answer:
                answer.read()
                status = answer.status
            if number >= WARM_UP:
                taken.append((time.perf_counter() - begun) * 1000)
            assert status in {kind.status, 302} or (kind.status == 200 and status == 404), (address, status)
    return taken


def measure(port: int, kind: Kind, requests: int = REQUESTS) -> tuple[float, float]:
    """Return the milliseconds within which half and 95 % of the answers came, to all clients at once."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        asked = [clients.submit(ask, port, kind, seed, requests) for seed in range(CLIENTS)]
        taken = sorted(ms for one in asked for ms in one.result())
    return taken[len(taken) // 2], taken[min(len(taken) - 1, len(taken) * 95 // 100)]


def compared(database: str) -> tuple[str, str]:
    """Return two neighbouring runs of a night's small drift."""
    engine = open_database(database)
    with read(engine) as conn:
        listed = queries.runs(conn, limit=3)
        pair = nights.neighbours(conn, listed[min(1, len(listed) - 1)].id)
        slugs = {run.id: run.slug for run in listed}
        assert pair is not None
        found = slugs[pair[0]], slugs[pair[1]]
    engine.dispose()
    return found


def site(name: str, database: str, requests: int = REQUESTS) -> int:
    """Print the times of each kind of request and return how many budgets are not kept."""
    over = 0
    with served(database) as server:
        for kind in kinds(*compared(database)):
            before = server.cpu_ms()
            half, most = measure(server.port, kind, requests)
            each = (server.cpu_ms() - before) / (CLIENTS * (requests + WARM_UP))
            over += most > kind.budget
            kept = "" if most <= kind.budget else "  OVER"
            print(
                f"{name}: {kind.name}: p50 {half:.1f} ms, p95 {most:.1f} ms of {kind.budget:g} ms, {each:.1f} ms of CPU each{kept}",
                flush=True,
            )
    return over


def main() -> int:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 290_000
    with tempfile.TemporaryDirectory() as folder:
        database = sys.argv[3] if len(sys.argv) > 3 else str(Path(folder) / "bench.sqlite")
        if len(sys.argv) <= 3:
            engine = open_database(database)
            data.bench("sqlite", engine, runs, count)
            engine.dispose()
        return 1 if site("sqlite", database) else 0


if __name__ == "__main__":
    sys.exit(main())
