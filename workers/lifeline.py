"""The child's side of a supervised process: it dies with its supervisor and talks to it in JSON lines (Linux)."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

PR_SET_PDEATHSIG = 1


class Lifeline:
    """What a child holds to its supervisor: commands come in, events go out, and neither lives without the other.

    Started as `python -m MODULE EVENTS_FD SUPERVISOR_PID` in a session of its own with commands on standard input.
    """

    def __init__(self, events: int, supervisor: int, *, sentry: bool = True) -> None:
        """Bind this process to its supervisor; without `sentry` the supervisor must kill what a case started."""
        _die_with(supervisor)
        if sentry:
            _leave_sentry(ctypes.CDLL(None))
        os.set_inheritable(events, False)  # what a case starts must not keep the pipe open after our death
        self._events = os.fdopen(events, "wb")
        self._commands = os.fdopen(os.dup(0), "rb")
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)  # a case that reads standard input finds its end, not our commands
        os.close(null)
        self._log = os.dup(1)
        self._pid = os.getpid()

    @classmethod
    def from_arguments(cls) -> Lifeline:
        """Return the lifeline that this process's command line names."""
        return cls(int(sys.argv[1]), int(sys.argv[2]))

    def receive(self) -> Any:
        """Return the next command (JSON values), or None when the supervisor has hung up."""
        line = self._commands.readline()
        return json.loads(line) if line else None

    def send(self, *event: Any) -> None:
        """Write one event; returns when the supervisor's pipe has all of it."""
        if os.getpid() != self._pid:
            os._exit(1)  # a case forked and the copy came back here: only the original may speak
        self._events.write(json.dumps(event, separators=(",", ":")).encode() + b"\n")
        self._events.flush()

    def take_standard_output(self) -> None:
        """Make what this process prints from now on go to the events, for code that prints event lines itself."""
        os.dup2(self._events.fileno(), 1)

    def close(self) -> None:
        """Let go of the supervisor's ends, in a copy of the process that gets a lifeline of its own."""
        self._pid = 0
        self._events.close()
        self._commands.close()
        os.close(self._log)

    def clear_log(self) -> None:
        """Empty the file behind standard output and error, so that its tail speaks of the next case alone."""
        if os.fstat(self._log).st_size:
            os.ftruncate(self._log, 0)


def resolve(name: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names; raises ImportError or AttributeError."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _die_with(supervisor: int) -> None:
    """Make sure that this process and its group end when the supervisor does, however it ends.

    The parent-death signal fires when the *thread* that started us exits (prctl(2)): supervisors start children from
    threads that live as long as the child. The end of the command pipe would not do: a case that spins in C reads none.
    """
    assert os.getpgrp() == os.getpid(), "a supervised child leads its own process group"
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != supervisor:
        os._exit(1)  # the supervisor died before the line above
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):  # /proc may be read-only
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _leave_sentry(libc: ctypes.CDLL) -> None:
    """Fork a process that kills the whole group once this one is dead: what a case started (a compiler) dies too."""
    leader = os.getpid()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    if os.fork() == 0:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        if os.getppid() == leader:
            signal.sigwait({signal.SIGTERM})
        os.killpg(0, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
