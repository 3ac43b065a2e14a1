"""The supervisor's side of a child process: how it starts, what it says and how it ends (Linux, never torch)."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_TAIL = 4096
_PAGE = os.sysconf("SC_PAGE_SIZE")
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Gone(Exception):  # noqa: N818 - an event, not an error
    """The child is dead, or has closed its side; nothing more will be read from it."""


class Garbled(Exception):  # noqa: N818
    """The child wrote a line that is no event."""


class Child:
    """A child in its own session: commands on its standard input, events on a private pipe, its output in a file.

    The caller must call `end`. `reap` returns the exit status of a dead child.
    """

    def __init__(self, pid: int, commands: int, events: int, log: IO[bytes], reap: Callable[[], int]) -> None:
        self.pid = pid
        self._commands, self._events, self._log, self._reap = commands, events, log, reap
        self._lines: collections.deque[bytes] = collections.deque()
        self._rest = b""
        self._ended: tuple[int, str] | None = None
        self._life = os.pidfd_open(pid)  # readable once the child is dead
        self._poll = select.poll()
        self._poll.register(self._events, select.POLLIN)
        self._poll.register(self._life, select.POLLIN)

    def send(self, command: object) -> None:
        """Write one command; raises Gone. Blocks when the child does not read and the pipe (64 KiB) is full."""
        data = memoryview(json.dumps(command, separators=(",", ":")).encode() + b"\n")
        while data:
            try:
                data = data[os.write(self._commands, data) :]
            except BrokenPipeError as error:
                raise Gone from error

    def receive(self, seconds: float) -> list[Any] | None:
        """Return the next event, or None when none came within the seconds; raises Gone or Garbled."""
        if not self._lines and not self._read(seconds):
            return None
        try:
            event = json.loads(self._lines.popleft())
        except ValueError as error:
            raise Garbled from error
        if not isinstance(event, list):
            raise Garbled
        return event

    def _read(self, seconds: float) -> bool:
        """Return whether at least one whole line was read within the seconds; raises Gone."""
        end = time.monotonic() + seconds
        while not self._lines:
            ready = [descriptor for descriptor, _ in self._poll.poll(max(0.0, end - time.monotonic()) * 1000)]
            if self._events in ready:
                data = os.read(self._events, 1 << 16)
                if not data:
                    raise Gone
                *lines, self._rest = (self._rest + data).split(b"\n")
                self._lines.extend(lines)
            elif ready:  # dead, and all it wrote is read; a copy of it may hold the pipe open, so its end never comes
                raise Gone
            elif time.monotonic() >= end:
                return False
        return True

    def resident(self) -> int:
        """Return the bytes of the child's memory that are in RAM, 0 when it is gone."""
        try:
            return int(Path(f"/proc/{self.pid}/statm").read_bytes().split()[1]) * _PAGE
        except (OSError, IndexError):
            return 0

    def printed(self) -> int:
        """Return the bytes that the child has written to its standard streams and not cleared."""
        return os.fstat(self._log.fileno()).st_size

    def abort(self, grace: float) -> None:
        """Send SIGABRT, on which faulthandler writes the stack, and wait up to the grace (seconds) for the death."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGABRT)
        self.wait(grace)

    def wait(self, seconds: float) -> None:
        """Return when the child has ended, or after the seconds; unreaped, so that `end` can still name its group."""
        death = select.poll()
        death.register(self._life, select.POLLIN)
        death.poll(seconds * 1000)

    def end(self) -> tuple[int, str]:
        """Kill the whole group and return the exit status (negative: the signal) and the child's last words.

        May be called again: it returns the same.
        """
        if self._ended is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            status = self._reap()
            for descriptor in (self._commands, self._events, self._life):
                os.close(descriptor)
            with self._log:
                size = os.fstat(self._log.fileno()).st_size
                start = max(0, size - 16 * _TAIL)
                self._ended = status, last_words(os.pread(self._log.fileno(), size - start, start))
        return self._ended


class ChildProcess(Child):
    """A child that runs a module in a new interpreter, with the environment and further descriptors given.

    The caller must call `end`, from the thread that made the object or while that thread lives (see lifeline.py).
    """

    def __init__(
        self, module: str, *, environment: Mapping[str, str] | None = None, descriptors: Sequence[int] = ()
    ) -> None:
        log = new_log()
        events, writer = os.pipe()
        # -P: a file of the user's folder must not shadow a module of ours; -u: a crash loses no printed text.
        command = [sys.executable, "-u", "-P", "-X", "faulthandler", "-m", module, str(writer), str(os.getpid())]
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=[writer, *descriptors],
                start_new_session=True, bufsize=0, env={**os.environ, **(environment or {})},
            )  # fmt: skip
        finally:
            os.close(writer)
        assert process.stdin is not None
        commands = os.dup(process.stdin.fileno())
        process.stdin.close()
        super().__init__(process.pid, commands, events, log, process.wait)


def new_log() -> IO[bytes]:
    """Return a nameless file for what a child prints, appended to, because the child truncates it between two cases."""
    log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by Child.end
    fcntl.fcntl(log, fcntl.F_SETFL, os.O_RDWR | os.O_APPEND)
    return log


def last_words(output: bytes) -> str:
    """Return at most 4 KiB of what a child wrote last: from the top of a fatal error's stack if there is one.

    Addresses are left out, because the same crash has others in the next process.
    """
    text = output.decode("utf-8", "replace")
    fatal = text.rfind("Fatal Python error")
    if fatal >= 0:
        stack = text[fatal:].partition("\nExtension modules:")[0]
        before = text[:fatal].rstrip()[-(_TAIL // 4) :]
        text = f"{before}\n{stack}"[: _TAIL - 1]
    return _ADDRESS.sub("0x…", text.strip()[-_TAIL:])


def how_it_ended(status: int) -> str:
    """Return the words for an exit status as `subprocess` counts it: ``SIGSEGV``, ``exit status 3``."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
