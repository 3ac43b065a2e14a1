"""Kills every kind of process of a sweep again and again, and checks that each case has one right result at the end.

``python tests/killing.py [CASES [SEED]]`` is the long form of test_kills.py, on all three setups.
"""

from __future__ import annotations

import os
import random
import secrets
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.database import open_database, read, transact, upgrade_database
from services import Postgres, Redis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
COMMAND = [sys.executable, str(HERE / "fake_command.py")]
POISONS = {
    "segfault": "SIGSEGV", "abort": "SIGABRT", "spin": "no result within", "hog": "memory limit",
    "exits": "exit status 0", "flood": "output limit", "unpicklable": "Local: (",
}  # fmt: skip
OUTCOMES = {"spin": "timeout", "unpicklable": "error", "slow": "pass"} | dict.fromkeys(
    ("segfault", "abort", "hog", "exits", "flood"), "crash"
)
LOCAL = ("child", "zygote", "run", "group")
CELERY = ("child", "zygote", "pool", "worker", "group", "dispatcher", "redis", "postgres", "run")
_MARK = "NEURON_OPS_KILL_TEST"


@dataclass
class Setup:
    """A sweep of `cases` cases with `poisons` of each kind, on a database, with a broker or without."""

    folder: Path
    cases: int
    poisons: int = 1
    postgres: Postgres | None = None
    redis: Redis | None = None
    seconds: str = "2"
    mark: str = field(default_factory=lambda: secrets.token_hex(8))
    sweep: subprocess.Popen[bytes] | None = None
    worker: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.url = self.postgres.create() if self.postgres else str(self.folder / "killed.sqlite")
        upgrade_database(self.url)
        self.engine = open_database(self.url)
        paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = {
            **os.environ, _MARK: self.mark, "PYTHONPATH": os.pathsep.join(paths),
            "NEURON_OPS_DATA": str(self.folder), "NEURON_OPS_CACHE": str(self.folder),
            "NEURON_OPS_DATABASE_URL": self.url, "NEURON_OPS_BROKER_URL": self.redis.url if self.redis else "",
        }  # fmt: skip
        self.target = f"killed-{self.mark}"

    def start(self, *, resume: bool = False) -> None:
        """Start the sweep, and a worker where there is a broker and none runs."""
        shared = ["--celery"] if self.redis else ["--jobs", "2"]
        poisons = [f"{name}.v{number}" for name in POISONS for number in range(self.poisons)]
        rest = self.cases - len(poisons)
        chosen = ["--ops", ",".join([f"slow*{rest - rest // 2}", *poisons, f"slow.more*{rest // 2}"])]
        limits = ["--dtypes", "float32", "--timeout", self.seconds, "--memory", "300MiB"]
        what = ["--resume"] if resume else [*chosen, *limits, "--target", self.target]
        self.sweep = self._spawn("sweep", "--json", *shared, *what)
        if self.redis and self.worker is None:
            self.worker = self._spawn("worker", "--target", self.target)

    def kill(self, what: str) -> None:
        """Kill one thing and start again what does not come back by itself."""
        assert self.sweep is not None
        if what in ("child", "zygote", "pool"):
            until(lambda: bool(self._found(what)), 30, f"there is no {what} to kill")
            for pid in self._found(what)[:1]:
                end(pid)
        elif what == "redis" and self.redis:
            self.redis.crash()
            self.redis.start()
        elif what == "postgres" and self.postgres:
            self.postgres.crash()
            self.postgres.start()
        elif what in ("worker", "group") and self.worker:
            self._end_worker(whole=what == "group")
        else:
            if what == "run" and self.worker:
                self._end_worker(whole=True)
            (os.killpg if what == "group" else os.kill)(self.sweep.pid, signal.SIGKILL)
            self.sweep.wait()
            self.start(resume=True)
        if self.redis and self.worker is None:
            self.worker = self._spawn("worker", "--target", self.target)

    def stored(self) -> int:
        """Return how many results there are."""
        return transact(self.engine, lambda c: c.execute(sa.select(sa.func.count(m.result.c.case_id))).scalar_one())

    def finish(self, seconds: float) -> None:
        """Wait for the end of the run, then of the worker and of everything that they started."""
        until(lambda: self.sweep.poll() is not None, seconds, "the sweep goes on")  # type: ignore[union-attr]
        if self.worker:
            self.worker.terminate()
            self.worker.wait()
        until(lambda: not processes(self.mark).parents, 20, "processes are left behind")

    def close(self) -> None:
        """End what still runs."""
        self.engine.dispose()
        for pid in processes(self.mark).parents:
            end(pid)

    def faults(self) -> Iterator[str]:
        """Yield a line for everything that is not as it must be."""
        with read(self.engine) as conn:
            runs = conn.execute(sa.select(m.run.c.state, m.run.c.n_planned)).all()
            batches = Counter(conn.execute(sa.select(m.run_batch.c.state)).scalars())
            rows = conn.execute(
                sa.select(m.case_.c.key, m.op.c.name, m.result.c.outcome, m.error_signature.c.text)
                .select_from(m.result.join(m.case_).join(m.op))
                .outerjoin(m.error_signature, m.error_signature.c.id == m.result.c.signature_id)
            ).all()
        if runs != [("done", self.cases)]:
            yield f"runs are {runs}"
        if set(batches) != {"done"}:
            yield f"batches are {dict(batches)}"
        if len(rows) != self.cases or len({row.key for row in rows}) != self.cases:
            yield f"{len(rows)} results of {self.cases} cases"
        for row in rows:
            act = row.name.split(".")[1]
            if row.outcome != OUTCOMES[act] or POISONS.get(act, "") not in (row.text or ""):
                yield f"{row.name}: {row.outcome}, {row.text}"
        named = Counter(row.name.split(".")[1] for row in rows if row.outcome != "pass")
        if named != dict.fromkeys(POISONS, self.poisons):
            yield f"poisons named are {dict(named)}"

    def _found(self, what: str) -> list[int]:
        """Return the zygotes, their children or the processes of the worker's pool."""
        tree = processes(self.mark)
        if what != "pool":
            return tree.zygote if what == "zygote" else tree.child
        assert self.worker is not None
        return [pid for pid, parent in tree.parents.items() if parent == self.worker.pid]

    def _spawn(self, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [*COMMAND, *arguments], env=self.environment, stdout=log, stderr=log, cwd=self.folder,
                start_new_session=True,
            )  # fmt: skip

    def _end_worker(self, *, whole: bool) -> None:
        assert self.worker is not None
        (os.killpg if whole else os.kill)(self.worker.pid, signal.SIGKILL)
        self.worker.wait()
        self.worker = None


@dataclass
class Tree:
    """The processes of a setup: parent of each, and which are zygotes and their children."""

    parents: dict[int, int]
    zygote: list[int]
    child: list[int]


def processes(mark: str) -> Tree:
    """Return what runs with this mark in its environment."""
    parents, groups, zygotes = {}, {}, set()
    wanted = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if fields[0] != "Z":
            pid = int(folder.name)
            parents[pid], groups[pid] = int(fields[1]), int(fields[2])
            if b"neuron_ops.workers.zygote" in command:
                zygotes.add(pid)
    leaders = [pid for pid in zygotes if groups[pid] == pid]
    return Tree(
        parents,
        [pid for pid in leaders if parents[pid] not in zygotes],
        [pid for pid in leaders if parents[pid] in zygotes],
    )


def end(pid: int) -> None:
    """Send SIGKILL to a process that may be gone."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def until(condition: Callable[[], bool], seconds: float, fault: str) -> None:
    """Return when the condition is true, or raise after the seconds."""
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError(fault)
        select.select([], [], [], 0.05)


def torture(setup: Setup, kills: list[str], *, seconds: float) -> list[str]:
    """Run the setup with these kills spread over it, and return its faults."""
    setup.start()
    try:
        for number, what in enumerate(kills, 1):
            wanted = setup.cases * number // (len(kills) + 2)
            until(lambda wanted=wanted: setup.stored() >= wanted, seconds, f"stuck before {what}, number {number}")
            setup.kill(what)
        setup.finish(seconds)
        return list(setup.faults())
    except AssertionError as error:
        log = (setup.folder / "log").read_text(errors="replace")
        return [f"{error}; stored {setup.stored()} of {setup.cases}\n{log[-3000:]}"]
    finally:
        setup.close()


def main() -> int:
    """Run the long form on all setups and say what came out."""
    import tempfile

    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    chance = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    only = sys.argv[3:] or ["sqlite", "postgresql", "celery"]
    faults = 0
    for name in only:
        kinds = [*(CELERY if name == "celery" else LOCAL), *(["postgres"] if name == "postgresql" else [])]
        kills = kinds * 2
        chance.shuffle(kills)
        postgres = Postgres(safe=True) if name != "sqlite" else None
        redis = Redis() if name == "celery" else None
        with tempfile.TemporaryDirectory() as folder:
            try:
                for server in filter(None, (postgres, redis)):
                    server.start()
                began = time.monotonic()
                setup = Setup(Path(folder), cases, 3, postgres, redis)
                found = torture(setup, kills, seconds=600)
            finally:
                for server in filter(None, (postgres, redis)):
                    server.stop()
        faults += len(found)
        print(
            f"{name}: {cases} cases, {time.monotonic() - began:.0f} s, kills {dict(Counter(kills))}, {len(found)} faults"
        )
        for line in found[:10]:
            print(f"  {line}")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
