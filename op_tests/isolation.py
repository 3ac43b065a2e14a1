"""Decides what survives when a call kills the process: everything except the attempt that was in flight.

Work runs in forked children. A child notes in shared memory which attempt of which task it starts; when it dies, the
next child goes on behind that attempt. Only for processes that run no device and have no threads of their own.
"""

from __future__ import annotations

import collections
import faulthandler
import mmap
import os
import resource
import signal
import struct
import sys
import traceback
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.connection import Connection

Task = TypeVar("Task")
Payload = TypeVar("Payload")

CPU_SECONDS, WALL_SECONDS = 5.0, 60.0
"""Time of one attempt. CPU time decides, so that a busy machine records the same samples; wall time ends a deadlock."""

MEMORY_BYTES = 8 << 30
"""Address space that a child may add: a wrong size argument must not take the machine's memory."""

DEATHS_OF_A_TASK = 12
_OUR_FAULT = 70
_PLACE = struct.Struct("qqd")


@dataclass(frozen=True, slots=True)
class Found(Generic[Payload]):
    """Something that the work on a task yielded."""

    task: int
    payload: Payload


@dataclass(frozen=True, slots=True)
class Death:
    """An attempt of a task that killed two children, and how."""

    task: int
    attempt: int
    how: str


class Place:
    """Where the child is; the work calls `starts` before each attempt and passes over those below `first`."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _PLACE.size)
        self.task, self.first, self.found = 0, 0, 0

    def starts(self, attempt: int, seconds: float | None = None) -> bool:
        """Note that an attempt starts and give it its time; return False where it is over already, or was fatal."""
        if attempt < self.first:
            return False
        seconds = CPU_SECONDS if seconds is None else seconds
        self._memory[:] = _PLACE.pack(self.task, attempt, seconds)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, WALL_SECONDS)
        return True

    def read(self) -> tuple[int, int, float]:
        """Return the task and the attempt that started last, and the seconds of CPU that it had."""
        task, attempt, seconds = _PLACE.unpack(self._memory[:])
        return task, attempt, seconds

    def enters(self, task: int, first: int, found: int) -> None:
        """Begin a task at an attempt, `found` payloads that count being in already."""
        self.task, self.first, self.found = task, first, found
        self._memory[:] = _PLACE.pack(task, first, CPU_SECONDS)


def isolated(
    tasks: Sequence[Task],
    work: Callable[[Task, Place], Iterator[Payload]],
    counts: Callable[[Payload], bool],
    *,
    memory: int = MEMORY_BYTES,
) -> Iterator[Found[Payload] | Death]:
    """Yield what `work` yields for each task in order, and each attempt that is fatal.

    `Place.found` tells the work how many payloads that `counts` are in. `work` runs in a forked child, which may add `memory`
    bytes of address space, and must make the same attempts in the same order every time. An attempt counts as fatal when
    it kills a child that begins with it: the first death may be the debt of an earlier one.
    Raises RuntimeError with the child's traceback where the work itself is at fault.
    """
    place, task, first = Place(), 0, 0
    found: collections.Counter[int] = collections.Counter()
    deaths: collections.Counter[int] = collections.Counter()
    while task < len(tasks):
        receiver, sender = Pipe(duplex=False)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            receiver.close()
            _child(tasks, work, place, (task, first, found[task]), sender, memory)
        sender.close()
        try:
            for event in _events(receiver):
                found[event.task] += counts(event.payload)
                yield event
        except BaseException:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status == 0:
            return
        begun, (task, attempt, seconds) = (task, first), place.read()
        if begun != (task, attempt):  # it was not the first of its child: give it one of its own
            first = attempt
            continue
        deaths[task] += 1
        yield Death(task, attempt, _words(status, seconds))
        task, first = (task, attempt + 1) if deaths[task] < DEATHS_OF_A_TASK else (task + 1, 0)


def _events(receiver: Connection) -> Iterator[Found[Any]]:
    with receiver:
        while True:
            try:
                event = receiver.recv()
            except (EOFError, OSError):  # the child is over; half a message is none
                return
            if isinstance(event, str):
                raise RuntimeError(f"the isolated work failed:\n{event}")
            yield event


def _child(
    tasks: Sequence[Task],
    work: Callable[[Task, Place], Iterator[Payload]],
    place: Place,
    start: tuple[int, int, int],
    sender: Connection,
    memory: int,
) -> NoReturn:
    _harmless(memory)
    try:
        task, first, found = start
        for number in range(task, len(tasks)):
            place.enters(number, first, found)
            first, found = 0, 0
            for payload in work(tasks[number], place):
                sender.send(Found(number, payload))
    finally:  # os._exit: the child must not run what its parent left to be done at exit
        if sys.exc_info()[1] is not None:
            sender.send(traceback.format_exc())
            os._exit(_OUR_FAULT)
        os._exit(0)


def _harmless(memory: int) -> None:
    """Make the child die quietly and alone: default signals, no core file, no words of C++, bounded memory."""
    for number in (signal.SIGPROF, signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = Path("/proc/self/statm")
    if pages.exists():
        limit = int(pages.read_text("ascii").split()[0]) * resource.getpagesize() + memory
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        if soft == resource.RLIM_INFINITY:  # a child of a child keeps the limit that it was given
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 2)
    os.close(silence)


def _words(status: int, seconds: float) -> str:
    if status in (-signal.SIGPROF, -signal.SIGALRM):
        return f"no answer in {seconds:g} s"
    return (
        f"the CPU kernel died of {signal.Signals(-status).name}" if status < 0 else f"it ended the process ({status})"
    )
