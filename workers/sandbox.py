"""Runs cases in a warm child process: a death, a silence or a memory hog costs exactly the case that was running.

Never imports torch: the supervisor must outlive whatever a library does to a process.
"""

from __future__ import annotations

import collections
import contextlib
import itertools
import signal
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.records import BadInput, Outcome, Result
from neuron_ops.workers.process import Child, ChildProcess, Garbled, Gone, how_it_ended
from neuron_ops.workers.zygote import ENVIRONMENT, Zygote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from neuron_ops.op_tests.records import Case

RUNNER = "neuron_ops.op_tests.runner:open_session"
ISOLATIONS = ("fork", "spawn")
"""How a child comes to be: forked from a process that has its imports done, or a new interpreter."""
_TOUCH_NO_DEVICE = {
    "sim": "neuron_ops.op_tests.targets.sim",
    "sim+translators": "neuron_ops.op_tests.targets.translated",
    "cpu": "neuron_ops.op_tests.targets.cpu",
}
# Modules of targets that may be imported before a fork; those of real devices are imported in each child.
_TICK = 0.05  # seconds between two looks at a silent child: its memory, its deadline, a wish to stop
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM)
_CHUNK = 16  # cases a command: few, so that sandboxes side by side share the last ones of a sweep
_TAIL = 4096  # characters of a traceback that are kept
_STARTS = 3  # tries before a child that will not start, or a case that cannot be started, is given up


@dataclass(frozen=True, slots=True)
class Limits:
    """What a case may take: `seconds` without an event, `memory` in bytes of resident set, `output` in bytes printed.

    `start_seconds` bounds the start of a child (it imports torch), `grace_seconds` the writing of its stack after a
    timeout; a child is replaced after `recycle` cases.
    """

    seconds: float = 30.0
    memory: int = 4 << 30
    start_seconds: float = 300.0
    grace_seconds: float = 1.0
    recycle: int = 4000
    output: int = 256 << 20


class _Cancelled(Exception):  # noqa: N818 - control flow inside this module
    """`cancel` was called."""


@dataclass(frozen=True, slots=True)
class _Ending:
    """Why a child cannot go on: the outcome for the case it was running, and the message.

    `killed` says that a signal ended it which cases rarely send and people and kernels do.
    """

    outcome: Outcome
    message: str
    killed: bool = False


class Sandbox:
    """One warm child and its supervisor; use it from one thread, `cancel` from any.

    `session` names the function that opens the session in the child; tests put a fake there.
    """

    def __init__(
        self,
        target: str,
        *,
        bank_folder: Path,
        plants: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        session: str = RUNNER,
        isolation: str = "fork",
    ) -> None:
        if isolation not in ISOLATIONS:
            raise BadInput(f"The isolation {isolation!r} is unknown; use {' or '.join(ISOLATIONS)}.")
        self.limits = limits or Limits()
        self.starts = 0
        """Children started so far; more than one plus recycling means that cases killed some."""
        self._config = {
            "target": target, "bank_folder": str(bank_folder), "plants": dict(plants or {}), "session": session,
        }  # fmt: skip
        self._modules = [session.partition(":")[0]]
        if session == RUNNER and target in _TOUCH_NO_DEVICE:
            self._modules.append(_TOUCH_NO_DEVICE[target])
        self._isolation, self._folder = isolation, bank_folder
        self._zygote: Zygote | None = None
        self._child: Child | None = None
        self._baseline = 0  # resident bytes of the fresh child
        self._served = 0  # cases that the present child has finished
        self._started = False  # whether the case at hand was announced by the child
        self._unstarted = 0  # children in a row that ended before they announced the case at hand
        self._retried = ""  # the case that was given a second try after a signal from outside
        self._tick: Callable[[], None] = _nothing
        self._seconds: Callable[[Case], float] | None = None
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Return the process id of the present child, or None."""
        return self._child.pid if self._child else None

    def cancel(self) -> None:
        """Make `run` end within a twentieth of a second, without results for the cases that have none yet."""
        self._stop.set()

    def close(self) -> None:
        """End the child and everything it started; safe to call twice."""
        self._end()
        zygote, self._zygote = self._zygote, None
        if zygote:
            zygote.close()

    def warm(self) -> None:
        """Start the child now if there is none; raises BadInput or RuntimeError, and neither when cancelled."""
        with contextlib.suppress(_Cancelled):
            self._ready()

    def run(
        self, cases: Iterable[Case], *, seconds: Callable[[Case], float] | None = None,
        refuse: Callable[[Case], Result | None] | None = None, tick: Callable[[], None] | None = None,
    ) -> Iterator[Result]:  # fmt: skip
        """Yield exactly one result a case, whatever the cases do, in their order but for those refused.

        `seconds` gives a case's deadline where that is less than the limit. `refuse` is asked before a case is sent, with
        all results before it seen by the consumer, and returns the result of one that shall not run. `tick` is called some
        twenty times a second while a case runs; what it raises ends the run. Raises BadInput when the child says that the
        target cannot be opened, RuntimeError when it will not start. A consumer may stop early: the child, which is then
        in the middle of a chunk, is ended.
        """
        feed = iter(cases)
        clean = False
        self._tick, self._seconds = tick or _nothing, seconds
        try:
            while chunk := collections.deque(itertools.islice(feed, _CHUNK)):
                while chunk:
                    for case in tuple(chunk) if refuse else ():
                        if refuse and (refused := refuse(case)) is not None:
                            chunk.remove(case)
                            yield refused
                    if chunk:
                        yield from self._serve(chunk)
                self._recycle()
            clean = True
        except _Cancelled:
            return
        finally:
            if not clean:
                self._end()

    def _serve(self, chunk: collections.deque[Case]) -> Iterator[Result]:
        """Yield results from the front of the chunk, and leave the rest there when the child has to be replaced."""
        child = self._ready()
        with contextlib.suppress(Gone):  # `_watch` meets the same end and judges it
            child.send([[c.overload, c.dtype, c.sample, c.variant, c.seed] for c in chunk])
        while chunk:
            found = self._watch(child, chunk[0])
            if isinstance(found, Result):
                self._unstarted = 0
                chunk.popleft()
                yield found
                if self._child is None:
                    return
                self._served += 1
                continue
            if found.killed and self._started and self._retried != chunk[0].key:
                self._retried = chunk[0].key
                return
            self._unstarted = 0 if self._started else self._unstarted + 1
            if self._started or self._unstarted >= _STARTS:
                self._unstarted = 0
                yield Result(chunk.popleft().key, found.outcome, message=found.message)
            return

    def _watch(self, child: Child, case: Case) -> Result | _Ending:
        """Return the result that the child sends for the case, or why it will send none; the child is then ended."""
        self._started = False
        key, limits = case.key, self.limits
        allowed = min(limits.seconds, self._seconds(case)) if self._seconds else limits.seconds
        silent_since = looked = time.monotonic()
        while True:
            if self._stop.is_set():
                raise _Cancelled
            try:
                event = child.receive(_TICK)
                found = self._understand(event, key) if event is not None else None
            except Gone:
                return self._post_mortem(child)
            except Garbled:
                _, words = self._end()
                return _Ending(Outcome.CRASH, _lines("the child wrote to its private pipe what is no event", words))
            if found is not None:
                return found
            now = time.monotonic()
            if now - looked >= _TICK:
                looked = now
                self._tick()
                if (exceeded := self._exceeded(child)) is not None:
                    _, words = self._end()
                    return _Ending(Outcome.CRASH, _lines(exceeded, words))
            if event is not None:
                silent_since = now
            elif now - silent_since > allowed:
                return self._time_out(child, allowed)

    def _exceeded(self, child: Child) -> str | None:
        """Return the words for a limit of space that the child has passed, or None."""
        limits = self.limits
        if (resident := child.resident()) > limits.memory:
            return f"memory limit: {_mib(resident)} resident, {_mib(limits.memory)} allowed"
        if (printed := child.printed()) > limits.output:
            return f"output limit: {_mib(printed)} printed, {_mib(limits.output)} allowed"
        return None

    def _understand(self, event: list[Any], key: str) -> Result | None:
        """Return the result in an event, None for the announcement of the case; raises Garbled for anything else."""
        match event:
            case ["s", str(name)] if name == key:
                self._started = True
                return None
            case ["r", str(name), dict(data)] if name == key and self._started:
                try:
                    result = Result.from_json(data)
                except (KeyError, ValueError, TypeError) as error:
                    raise Garbled from error
                if result.case != key:
                    raise Garbled
                return result
            case ["e", str(name), str(text)] if name == key and self._started:
                self._end()
                return Result(key, Outcome.ERROR, message=f"escaped from the runner: {text.strip()[-_TAIL:]}")
        raise Garbled

    def _post_mortem(self, child: Child) -> _Ending:
        """Return the ending of a child that has closed its pipe: it is dead, or dies now."""
        child.wait(self.limits.grace_seconds)
        status, words = self._end()
        how = how_it_ended(status)
        if how == "SIGKILL":
            how = "SIGKILL, not sent by the sandbox, twice (the kernel does this when memory runs out)"
        elif status >= 0:
            how = f"{how} before the result"
        return _Ending(Outcome.CRASH, _lines(how, words), killed=-status in _FROM_OUTSIDE)

    def _time_out(self, child: Child, seconds: float) -> _Ending:
        """Let the child write its stack, end it and return the ending."""
        child.abort(self.limits.grace_seconds)
        _, words = self._end()
        return _Ending(Outcome.TIMEOUT, _lines(f"no result within {seconds:g} s", words))

    def _ready(self) -> Child:
        """Return the child, started if there is none; raises BadInput, RuntimeError or _Cancelled."""
        tries = 0
        while self._child is None:
            tries += 1
            failure = self._start()
            if failure is not None and tries >= _STARTS:
                raise RuntimeError(f"the sandbox's child failed to start {_STARTS} times: {failure}")
        return self._child

    def _start(self) -> str | None:
        """Start a child and return None when it said hello, else what happened; raises BadInput or _Cancelled."""
        end = time.monotonic() + self.limits.start_seconds
        try:
            child = self._child = self._launch(end)
        except Gone:
            return self._lost_zygote()
        self.starts += 1
        self._served = 0
        try:
            child.send(self._config)
            while (event := child.receive(_TICK)) is None:
                self._look_up()
                if time.monotonic() > end:
                    return self._time_out(child, self.limits.start_seconds).message
        except Gone:
            return self._post_mortem(child).message
        except Garbled:
            event = []
        match event:
            case ["hello"]:
                self._baseline = child.resident()
                return None
            case ["bad", str(sentence)]:
                raise BadInput(sentence)
        return _lines("it did not say hello", self._end()[1])

    def _launch(self, end: float) -> Child:
        """Return a new child that was told nothing yet; raises Gone when the process to fork it from is dead."""
        if self._isolation == "spawn":
            return ChildProcess("neuron_ops.workers.child", environment=ENVIRONMENT)
        if self._zygote is None:
            self._zygote = Zygote(self._modules, self._folder)
            try:
                self._zygote.wait(end - time.monotonic(), self._look_up)
            except (TimeoutError, Garbled) as error:
                raise Gone from error
        return self._zygote.fork()

    def _lost_zygote(self) -> str:
        """Forget the process that children are forked from and return what it said last."""
        zygote, self._zygote = self._zygote, None
        status, words = zygote.close() if zygote else (0, "")
        return _lines(f"the process that children are forked from ended ({how_it_ended(status)})", words)

    def _look_up(self) -> None:
        """Do what is due while nothing comes from a child; raises _Cancelled."""
        if self._stop.is_set():
            raise _Cancelled
        self._tick()

    def _recycle(self) -> None:
        """End an old child, or one grown half of the way to the limit: the next case must not pay for it."""
        if self._child is None:
            return
        room = max(0, self.limits.memory - self._baseline)
        if self._served >= self.limits.recycle or self._child.resident() > self._baseline + room // 2:
            self._end()

    def _end(self) -> tuple[int, str]:
        """End the child, if there is one, and return its exit status and last words."""
        child, self._child = self._child, None
        return child.end() if child else (0, "")


def _nothing() -> None:
    """Do nothing."""


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"


def _lines(first: str, rest: str) -> str:
    return f"{first}\n{rest}" if rest else first
