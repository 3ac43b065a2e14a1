"""Sessions that stand in for the runner in the sandbox's child: the overload's name says what the case does."""

import contextlib
import ctypes
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import namedtuple
from pathlib import Path

from neuron_ops.op_tests.records import (
    BadInput,
    Build,
    Case,
    Denominators,
    Environment,
    Evidence,
    Operator,
    Outcome,
    Result,
    Route,
)  # fmt: skip
from neuron_ops.workers.lifeline import Lifeline


class FakeSession:
    def __init__(self, notes):
        self.notes = notes  # a folder in which cases leave the process ids of what they started
        self.leak = []

    def run(self, case: Case) -> Result:
        act = case.overload.split(".")[1]
        getattr(self, act, lambda: None)()
        outcome = Outcome.WRONG if act == "wrong" else Outcome.PASS
        return Result(
            "0" * 32 if act == "lies" else case.key, outcome, Route.NATIVE if outcome is Outcome.PASS else None,
            message=self.said(act), device_ms=1.0,
        )  # fmt: skip

    def said(self, act):
        if act == "core":
            time.sleep(0.02)
            return f"core {os.environ.get('NEURON_RT_VISIBLE_CORES')}"
        return str(os.getpid()) if act == "pid" else None

    def segfault(self):
        ctypes.string_at(0)

    def abort(self):
        print("the last words of a library", file=sys.stderr)
        os.abort()

    def spin(self):
        # A loop in C that keeps the GIL: no Python signal handler can run, as in a kernel that never ends.
        sum(itertools.repeat(0))

    def deaf(self):
        signal.signal(signal.SIGABRT, signal.SIG_IGN)
        self.spin()

    def scribbles(self):
        for path in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):
                if int(path.name) > 2 and str(path.readlink()).startswith("pipe:"):
                    os.write(int(path.name), b"not an event\n")

    def hog(self):
        for _ in range(64):
            self.leak.append(b"x" * (32 << 20))
        time.sleep(30)

    def grow(self):
        self.leak.append(b"x" * (40 << 20))

    def raises(self):
        raise LookupError("planted")

    def leaves(self):
        os._exit(3)

    def exits(self):
        sys.exit(0)

    def kills(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def reads(self):
        assert sys.stdin.read() == ""

    def forks(self):
        os.fork()

    def noisy(self):
        print("noise " * 1000)

    def family(self):
        """Start a process that would outlive us and holds no pipe, then stay."""
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        (self.notes / "family").write_text(f"{os.getpid()} {child.pid}")
        signal.pause()

    def stays(self):
        """Stay for ever the first time, pass the second."""
        if (self.notes / "once").exists():
            (self.notes / "once").unlink()
            self.family()

    def moody(self):
        """Die the first time, pass from then on."""
        if (self.notes / "mood").exists():
            (self.notes / "mood").unlink()
            os.abort()

    def slow(self):
        time.sleep(0.01)

    def work(self):
        end = time.process_time() + 0.01
        while time.process_time() < end:
            pass

    def flood(self):
        while True:
            os.write(1, b"flood " * 100_000)

    def unpicklable(self):
        class Local(Exception):
            lock = threading.Lock()

        raise Local("planted", threading.Lock(), lambda: None)

    def later(self):
        """Die a moment after the result."""
        threading.Timer(0.05, os.abort).start()


def open_session(target, bank_folder, plants):
    if target == "bad":
        raise BadInput("There is no target 'bad'; use sim.")
    if target == "broken":
        raise RuntimeError("the session would not open")
    if target == "segfault":
        ctypes.string_at(0)
    return FakeSession(Path(bank_folder))


def open_flaky(target, bank_folder, plants):
    """Fail twice, then work."""
    marks = Path(bank_folder) / "starts"
    count = len(marks.read_text()) if marks.exists() else 0
    marks.write_text("x" * (count + 1))
    if count < 2:
        os.abort()
    return FakeSession(Path(bank_folder))


def open_mute(target, bank_folder, plants):
    """Die after the hello and before any case is announced."""
    Lifeline.clear_log = lambda self: os._exit(9)
    return FakeSession(Path(bank_folder))


ENVIRONMENT = Environment({"fake-torch": "0.0"}, "built for tests", {"cores": "2"}, {"FAKE_LOUD": "1"}, {"bank": "0"})
Plan = namedtuple("Plan", "build operators denominators cases environment")


def make_plan(target, ops, dtypes, limit, seed, bank_folder):
    """Plan what the names of the ops say: ``normal*40`` is forty cases that pass."""
    if ops == ["nothing"]:
        raise BadInput("No operator matches 'nothing'; use core, all or a glob.")
    if ops == ["death"]:
        os.abort()
    print("a library prints this")
    for done in (1, 2):
        print(json.dumps(["p", done, 2, "samples of torch 0.0"]))
    wanted = {name.partition("*")[0]: int(name.partition("*")[2] or 1) for name in ops}
    overloads = {name: f"test.{name}" if "." in name else f"test.{name}.default" for name in wanted}
    operators = [
        Operator(overload, f"test::{name}() -> ()", ("core",), "fake", "functional", "T1")
        for name, overload in overloads.items()
    ]
    cases = [
        Case(overloads[name], dtype, f"fake/{number}", seed=seed)
        for name, count in wanted.items() for dtype in dtypes for number in range(count)
    ]  # fmt: skip
    build = Build(target, Evidence.SIMULATED, {"fake-torch": "0.0"})
    return Plan(build, operators, Denominators("0.0", 9, 8, 7, 6, {"internal": 1}), cases[:limit], ENVIRONMENT)
