"""Tries the entries of a fault list, each part in a process of its own: the snippets are code of others.

`open_entries` is a session for the sandbox (workers.child): its process holds torch and the target and forks for each
part. A part that dies, hangs or eats its memory costs its fork and nothing else; the sandbox guards the rest.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import json
import os
import resource
import select
import signal
import time
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.records import Case, Outcome, Result
from neuron_ops.op_tests.selftest_agreement import LADDER, Strictness, difference, reading, tensors_of
from neuron_ops.op_tests.selftest_faults import ENTRIES_FILE, Entry
from neuron_ops.op_tests.selftest_snippets import (
    NotPython,
    Raised,
    Unset,
    error_named,
    namespace,
    plain,
    run,
)
from neuron_ops.op_tests.targets import open_target
from neuron_ops.op_tests.tolerances import EXACT, EXCEPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_GOT = ("got", "result", "actual", "output", "out")
_WANT = ("want", "expected", "wanted")
_BAD = ("bad", "fault", "faulty", "wrong", "got")
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """What a part came to: yes, no or None with the reason; how literally the wanted result is meant."""

    yes: bool | None
    note: str = ""
    strictness: Strictness | None = None
    death: str | None = None


class EntrySession:
    """Runs parts of entries: `Case.sample` is the entry's number, `Case.variant` the part."""

    def __init__(self, device: str, entries: list[Entry], seconds: float, memory: int) -> None:
        self._device, self._entries, self._seconds, self._memory = device, entries, seconds, memory
        self._strictness: dict[str, Strictness] = {}
        self._dead: set[str] = set()

    def run(self, case: Case) -> Result:
        """Return a result whose message is the JSON of the answer; never raises for what a snippet does."""
        entry = self._entries[int(case.sample)]
        strictness = self._strictness.get(case.sample)
        if case.variant == "fault" and case.sample in self._dead:
            entry = dataclasses.replace(entry, repro="got = None")  # the fault may still stand alone
        answer = _isolated(lambda: _PARTS[case.variant](entry, self._device, strictness), self._seconds, self._memory)
        if answer.strictness is not None:
            self._strictness[case.sample] = answer.strictness
        if case.variant == "want" and answer.death is not None:
            self._dead.add(case.sample)
        return Result(case.key, Outcome.PASS, message=json.dumps(asdict(answer)))


def open_entries(target: str, folder: Path, plants: Mapping[str, str]) -> EntrySession:
    """Return a session over the entries in the folder; `plants` are the limits: ``seconds`` and ``memory`` in bytes."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    entries = [Entry.read(data, n) for n, data in enumerate(json.loads((folder / ENTRIES_FILE).read_text("utf-8")))]
    opened = open_target(target)
    device = opened.device
    _NARROW.update(opened.compute_dtypes)
    # Imports that torch puts off until a meta tensor meets a kernel (sympy, torch._dynamo: seconds) must not be paid, and
    # timed, in every fork.
    namespace(device)
    with contextlib.suppress(RuntimeError):
        torch.dot(torch.ones(2), torch.ones(2, device="meta"))
    return EntrySession(device, entries, float(plants["seconds"]), int(plants["memory"]))


# --- the three parts, each in a fork ---------------------------------------------------------------------------------


def _wanted(entry: Entry, device: str, strictness: Strictness | None) -> Answer:
    """Compare the wanted result with what the CPU computes; learn how literally it is meant."""
    del device, strictness
    names = namespace("cpu")
    reference = _value(entry.repro, names, _GOT)
    want, missing = _expectation(entry, names)
    if missing is not None:
        return Answer(None, missing)
    if isinstance(reference, _None):
        return Answer(None, f"the repro {reference.why}")
    read = reading(want, reference, zero_sign=any("sign" in mark for mark in entry.detect_by))
    if read is not None:
        rough = f"the wanted result is given to {read.relative:g} only" if read.relative else ""
        return Answer(True, rough, strictness=read)
    message = difference(want, reference, LADDER[-1])
    return Answer(False, f"torch's CPU gives another result than the list wants: {message}")


def _reproduced(entry: Entry, device: str, strictness: Strictness | None) -> Answer:
    """Run the repro on the target and compare with the wanted result, within rounding unless the operator is exact."""
    names = namespace(device)
    found = _value(entry.repro, names, _GOT)
    want, missing = _expectation(entry, names | {"dev": "cpu", "device": "cpu"})
    if isinstance(found, _None) and (missing is None or found.malformed):
        return Answer(None, f"the repro {found.why}")
    if missing is not None:  # nothing to compare with: asserts in the repro, or a truth value, must hold
        if isinstance(found, Raised):
            return Answer(False, f"the repro raises {found.words}")
        return Answer(found is not False, "")
    literal = strictness or LADDER[-1]
    if difference(want, found, literal) is None:
        return Answer(True)
    rounded = literal if _exact(entry) else dataclasses.replace(literal, exact=False)
    message = difference(want, found, rounded)
    narrow = _NARROW.get(torch.float64)
    if message is not None and narrow is not None and difference(want, found, rounded, narrow) is None:
        return Answer(True, "right within float32, in which the target computes float64")
    if message is not None and "int64" in {str(d).removeprefix("torch.") for d in _NARROW}:
        message += _beyond_int32(want)
    return Answer(message is None, message or "")


_NARROW: dict[torch.dtype, torch.dtype] = {}
"""Dtypes that the target computes in a narrower one; filled when it is opened."""


def _beyond_int32(want: Any) -> str:
    """Return a remark where a wanted integer is beyond int32, in which the target computes int64."""
    whole = [t for t in tensors_of(want) if t.dtype is torch.int64 and t.numel()]
    limit = torch.iinfo(torch.int32)
    far = any(int(t.max()) > limit.max or int(t.min()) < limit.min for t in whole)
    return " (the target computes int64 as int32, as its vendor documents)" if far else ""


def _exact(entry: Entry) -> bool:
    """Return whether all operators of an entry have bit-exact results by a row of exceptions.toml."""

    def is_exact(operator: str) -> bool:
        rows = (
            r
            for r in EXCEPTIONS
            if r.tolerance == EXACT and fnmatch.fnmatchcase(f"{operator}.", r.overload.rstrip("*"))
        )
        return next(rows, None) is not None

    return bool(entry.operators) and all(map(is_exact, entry.operators))


def _faulted(entry: Entry, device: str, strictness: Strictness | None) -> Answer:
    """Make the faulty result and compare it with the wanted one, or with the CPU's where none is given."""
    del device
    if entry.fault is None:
        return Answer(None, "the list gives no fault")
    names = namespace("cpu")
    reference = _value(entry.repro, names, _GOT)
    want, missing = _expectation(entry, names)
    want = reference if missing is not None else want
    bad = _value(entry.fault, names, _BAD)
    if isinstance(bad, Raised) and bad.names[0] == "NameError":
        return Answer(None, f"the fault cannot run: {bad.words}")
    if isinstance(bad, _None):
        return Answer(None, f"the fault {bad.why}")
    if isinstance(want, _None):
        return Answer(None, "there is nothing to compare the fault with")
    message = difference(want, bad, strictness or LADDER[-1])
    return Answer(message is not None, message or "the comparer takes the faulty result for the wanted one")


_PARTS: dict[str, Callable[[Entry, str, Strictness | None], Answer]] = {
    "want": _wanted, "repro": _reproduced, "fault": _faulted,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _None:
    """No value, and why: a snippet is no Python, or sets nothing."""

    why: str
    malformed: bool = False


def _value(source: Any, names: dict[str, Any], results: tuple[str, ...]) -> Any:
    """Return what a snippet sets in the form that is compared; a value of JSON stands for itself."""
    if isinstance(source, list) and source and all(isinstance(line, str) for line in source):
        source = "\n".join(source)
    if not isinstance(source, str):
        return plain(source)
    torch.manual_seed(0)
    try:
        return plain(run(source, names, results))
    except NotPython:
        named = error_named(source)
        return named if named is not None and results is not _GOT else _None("is no Python", malformed=True)
    except Unset:
        return _None(f"sets no `{results[0]}`")


def _expectation(entry: Entry, names: dict[str, Any]) -> tuple[Any, str | None]:
    """Return the wanted result, or None and why there is none; the repro may set it itself."""
    if entry.want is None:
        found = next((names[name] for name in _WANT if name in names), None)
        return (None, "the list gives no wanted result") if found is None else (plain(found), None)
    want = _value(entry.want, names, _WANT)
    if isinstance(want, Raised) and want.names[0] in ("NameError", "AttributeError"):
        return None, f"the wanted result cannot be made: {want.words}"
    return (None, f"the wanted result {want.why}") if isinstance(want, _None) else (want, None)


# --- isolation -------------------------------------------------------------------------------------------------------


def _isolated(work: Callable[[], Answer], seconds: float, memory: int) -> Answer:
    """Return what the work answers in a fork, or how the fork died: of itself, of its time, of its memory."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _work_and_exit(work, writer, memory)
    os.close(writer)
    try:
        data = _read(reader, time.monotonic() + seconds)
    finally:
        os.close(reader)
    if data is None:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if data is None:
        return Answer(None, death=f"did not end within {seconds:g} s")
    with contextlib.suppress(ValueError):
        fields = json.loads(data)
        strictness = fields.pop("strictness")
        return Answer(**fields, strictness=None if strictness is None else Strictness(**strictness))
    return Answer(None, death=_how(status))


def _work_and_exit(work: Callable[[], Answer], writer: int, memory: int) -> None:
    """Send the answer and end this process without a look back."""
    code = 1
    try:
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
        os.write(writer, json.dumps(asdict(work())).encode())
        code = 0
    finally:
        os._exit(code)


def _read(reader: int, end: float) -> bytes | None:
    """Return all that is written until the other side closes, or None when the time is over first."""
    data = b""
    while (left := end - time.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            chunk = os.read(reader, _CHUNK)
            if not chunk:
                return data
            data += chunk
    return None


def _how(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"died of {signal.Signals(os.WTERMSIG(status)).name}"
    return f"ended its process with exit status {os.WEXITSTATUS(status)}"
