"""Forks children that have their imports done: a crash costs some milliseconds, not an import of torch (2 s of CPU).

`Zygote` is the supervisor's side. The process itself, ``python -m neuron_ops.workers.zygote``, imports what it is told and
then only forks; it opens no device and runs no case, so that nothing a case does can harm the next child.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import signal
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from neuron_ops.op_tests.records import BadInput
from neuron_ops.workers import child
from neuron_ops.workers.lifeline import PR_SET_PDEATHSIG, Lifeline
from neuron_ops.workers.process import Child, ChildProcess, Garbled, Gone, new_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""For children: cases run on one thread anyway, and a process that has started threads at import cannot be forked."""
_TICK = 0.05
_REPLY_SECONDS = 30.0


class Zygote:
    """A process that forks children on demand; use it from one thread, which must outlive it (see lifeline.py)."""

    def __init__(self, modules: Sequence[str], bank_folder: Path) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = ChildProcess(
                "neuron_ops.workers.zygote", environment=ENVIRONMENT, descriptors=[theirs.fileno()]
            )
            self._requests = ours
            with contextlib.suppress(Gone):  # `wait` meets the same end
                self._process.send([theirs.fileno(), str(bank_folder), *modules])
        self.pid = self._process.pid

    def wait(self, seconds: float, tick: Callable[[], None]) -> None:
        """Return when all is imported; raises TimeoutError or Gone, or BadInput where the modules forbid a fork."""
        end = time.monotonic() + seconds
        while (event := self._process.receive(_TICK)) is None:
            tick()
            if time.monotonic() > end:
                raise TimeoutError
        match event:
            case ["hello", 1]:
                return
            case ["hello", int(threads)]:
                raise BadInput(
                    f"The target's modules start {threads - 1} threads when they are imported, and children cannot be "
                    "forked from such a process; run with --isolation spawn."
                )
        raise Garbled

    def fork(self) -> Child:
        """Return a new child; raises Gone when this process is dead."""
        log = new_log()
        stdin, commands = os.pipe()
        events, writer = os.pipe()
        try:
            socket.send_fds(self._requests, [b"fork"], [stdin, writer, log.fileno()])
            pid = self._reply("child")
        except (OSError, Gone) as error:
            log.close()
            os.close(commands)
            os.close(events)
            raise Gone from error
        finally:
            os.close(stdin)
            os.close(writer)
        return Child(pid, commands, events, log, lambda: self._status(pid))

    def close(self) -> tuple[int, str]:
        """End the process and return its exit status and last words; its children die with it."""
        self._requests.close()
        return self._process.end()

    def _status(self, pid: int) -> int:
        """Return how a dead child ended; one whose zygote is dead was killed."""
        try:
            self._requests.send(b"reap %d" % pid)
            return self._reply("reaped")
        except (OSError, Gone):
            return -9

    def _reply(self, word: str) -> int:
        match self._process.receive(_REPLY_SECONDS):
            case [str(first), int(number)] if first == word:
                return number
        raise Gone


def become_child(lifeline: Lifeline) -> Lifeline:
    """Import what the first command says, then fork on demand; returns only in the children, each with its lifeline.

    When the supervisor is gone, so are the children with all that they started: a sentry for each, as a child without
    a zygote has, would be a second fork for every crash (15 ms).
    """
    descriptor, folder, *modules = lifeline.receive()
    for module in modules:
        getattr(importlib.import_module(module), "prepare_fork", _nothing)(Path(folder))
    gc.collect()
    gc.freeze()  # a collection in a child would otherwise touch, and so copy, every page
    requests = socket.socket(fileno=descriptor)
    lifeline.send("hello", len(list(Path("/proc/self/task").iterdir())))
    zygote = os.getpid()
    living: set[int] = set()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)  # from here on the end of the requests is what tells us
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, 64, 3)
        if message == b"fork":
            pid = os.fork()
            if pid == 0:
                requests.close()
                lifeline.close()
                return _settle(descriptors, zygote)
            living.add(pid)
            for one in descriptors:
                os.close(one)
            lifeline.send("child", pid)
        elif message:
            pid, status = os.waitpid(int(message.split()[1]), 0)
            living.discard(pid)
            lifeline.send("reaped", os.waitstatus_to_exitcode(status))
        else:
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            raise SystemExit(0)


def _nothing(bank_folder: Path) -> None:
    """Do nothing, for modules that have nothing to prepare."""


def _settle(descriptors: Sequence[int], zygote: int) -> Lifeline:
    """Return the lifeline of a process that was just forked: a session, standard streams and an end of its own."""
    stdin, events, log = descriptors
    os.setsid()
    os.dup2(stdin, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(stdin)
    os.close(log)
    return Lifeline(events, zygote, sentry=False)


if __name__ == "__main__":
    child.serve(become_child(Lifeline.from_arguments()))
