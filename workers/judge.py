"""Runs a user's model in a child process and returns what it would meet on the device (never imports torch).

The child is this module too, started as ``python -m neuron_ops.workers.judge``: the user's code runs there and only there.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.capture.report import DOING, ON_DEVICE, Report
from neuron_ops.op_tests.capture.rows import Compared, Failure, Note, Request, Row, Wait, WaitKind, sorted_rows
from neuron_ops.op_tests.records import BadInput
from neuron_ops.workers.lifeline import Lifeline, resolve
from neuron_ops.workers.process import ChildProcess, Garbled, Gone, how_it_ended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.op_tests.capture.rows import Key

_SECOND_TRIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("does not require grad", {"grad": True}),  # forward takes gradients itself: no_grad, which is ours, broke it
    ("should be a 1D CPU int64 tensor", {"lengths_on_host": True}),  # of packed sequences: moving them all is ours too
)
"""Words of a failure that what we do ourselves causes → how the model is run again."""
SESSION = "neuron_ops.op_tests.capture.session:capture"
_TICK = 0.05  # seconds between two looks at a silent child
_START_SECONDS = 300.0  # importing torch on a slow disk
_GRACE_SECONDS = 2.0
_IMPORT_ADVICE = (
    '; a check imports the file, so put training and downloads under `if __name__ == "__main__"` and name what builds the '
    "model, such as FILE.py:build_model"
)
_FATAL = "Fatal Python error"
_FRAME = re.compile(r'File "(.+?)", line (\d+)')


def judge(request: Request, *, seconds: float, memory: int) -> Report:
    """Return what the check found; never raises for what the user's code does.

    `seconds` bounds the user's code from its import to its end, `memory` the bytes of the child's resident set. Raises
    BadInput where the file does not say what to run. A failure on the device is tried again on the CPU, which tells a
    finding about the device from a fault of the code.
    """
    if importlib.util.find_spec("torch") is None:
        raise BadInput("torch is not installed; expected it for `check`; run `pip install 'neuron-ops[run]'`")
    report = _attempt(request, seconds, memory)
    for words, changes in _SECOND_TRIES:
        if report.failure is not None and words in report.failure.message:
            request = dataclasses.replace(request, **changes)
            report = _attempt(request, seconds, memory)
    failure = report.failure
    if report.fake or failure is None or failure.phase not in ON_DEVICE or failure.kind not in ("raised", "crash"):
        return report
    on_cpu = _attempt(dataclasses.replace(request, device="cpu", target=None), seconds, memory)
    if on_cpu.failure is None:
        notes = tuple(dict.fromkeys((*report.notes, *on_cpu.notes)))  # such as: which calls take a sparse tensor
        return dataclasses.replace(report, failure=dataclasses.replace(failure, device_only=True), notes=notes)
    return report


@dataclass(slots=True)
class _Seen:
    """What the child has said so far."""

    phase: str = "start"
    model: str | None = None
    inputs: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    rows: dict[Key, Row] = field(default_factory=dict)
    failure: Failure | None = None
    notes: dict[Note, None] = field(default_factory=dict)
    waits: dict[tuple[WaitKind, str, str | None, bool], Wait] = field(default_factory=dict)
    as_is: bool = False
    fake: bool = False
    too_big: bool = False
    compared: dict[str, Any] | None = None
    done: bool = False

    def take(self, event: Sequence[Any]) -> None:
        """Take one event; raises Garbled for anything else, BadInput for the child's own sentence."""
        match event:
            case ["phase" | "model" | "inputs" as name, str(text)]:
                setattr(self, name, text)
            case ["versions" | "compared" as name, dict(data)]:
                setattr(self, name, data)
            case ["row", dict(data)]:
                row = Row.from_json(data)
                self.rows[row.key] = row
            case ["note", str(text), str() | None as where]:
                self.notes[Note(text, where)] = None
            case ["wait", str(kind), str(overload), str() | None as where, int(calls), bool(steers)]:
                wait = Wait(WaitKind(kind), overload, where, calls, steers)
                self.waits[wait.kind, overload, where, steers] = wait
            case ["failed", dict(data)]:
                self.failure = Failure(**data)
                self.done = True
            case ["done" | "as_is" | "fake" | "again" | "too_big" as name]:
                self._change(name)
            case ["bad", str(sentence)]:
                raise BadInput(sentence)
            case ["ready"]:
                pass
            case _:
                raise Garbled

    def _change(self, name: str) -> None:
        if name == "again":  # what follows replaces the rows so far
            self.rows.clear()
            return
        setattr(self, name, True)
        self.done = self.done or name == "too_big"


def _attempt(request: Request, seconds: float, memory: int) -> Report:
    """Run the request once in a fresh child and return the report."""
    child = ChildProcess("neuron_ops.workers.judge")
    seen = _Seen()
    try:
        child.send(dataclasses.asdict(request))
        ended = _follow(child, seen, seconds, memory)
    except (Gone, Garbled) as event:
        ended = _ended_itself(child, garbled=isinstance(event, Garbled))
    finally:
        status, words = child.end()
    if seen.phase == "start" and not seen.done:
        raise RuntimeError(f"the child of the check did not start ({how_it_ended(status)}):\n{words}")
    over = ended is not None and ended[0] == "memory"
    if request.device == "neuron" and request.fake is None and (seen.too_big or over):
        return _attempt(dataclasses.replace(request, fake=True), seconds, memory)
    failure = seen.failure
    if failure is None and not seen.done:
        kind, sentence = ended or ("crash", "")
        where, stack = _where(words, Path(request.file).parent)
        doing = DOING.get(seen.phase, seen.phase)
        at = f" at {where}" if where else ""
        how = how_it_ended(status)
        how += ", which the kernel sends when memory runs out" if how == "SIGKILL" else ""
        failure = Failure(kind, seen.phase, sentence.format(doing=doing, how=how, at=at), stack, where)
    printed = words.partition(_FATAL)[0].rstrip()
    return Report(
        request,
        seen.model,
        seen.inputs,
        seen.versions,
        sorted_rows(seen.rows.values()),
        failure,
        printed,
        tuple(seen.notes),
        tuple(seen.waits.values()),
        seen.as_is,
        seen.fake,
        None if seen.compared is None else Compared.from_json(seen.compared),
    )


def _follow(child: ChildProcess, seen: _Seen, seconds: float, memory: int) -> tuple[str, str] | None:
    """Read events until the child has said its last; returns the kind and the sentence where a limit ended it."""
    end = time.monotonic() + _START_SECONDS
    while not seen.done:
        event = child.receive(_TICK)
        if event is not None:
            seen.take(event)
            if event == ["ready"]:
                end = time.monotonic() + seconds
        if child.resident() > memory:
            return (
                "memory",
                f"stopped in {{doing}}{{at}}: it took more than the {memory / (1 << 20):.0f} MiB of --memory",
            )
        if time.monotonic() > end:
            child.abort(_GRACE_SECONDS)
            advice = _IMPORT_ADVICE if seen.phase == "import" else ""
            return "timeout", f"stopped after {seconds:g} s (--timeout) in {{doing}}{{at}}{advice}"
    return None


def _ended_itself(child: ChildProcess, *, garbled: bool) -> tuple[str, str]:
    if garbled:
        return "crash", "the code wrote to the private pipe of the check in {doing}"
    child.wait(_GRACE_SECONDS)
    return "crash", "the code ended its process ({how}) in {doing}{at}"


def _where(words: str, folder: Path) -> tuple[str | None, str]:
    """Return ``file:line`` of the user's innermost frame in a fatal error's stack, and the user's lines of that stack."""
    _, fatal, stack = words.partition(_FATAL)
    stack = stack[max(0, stack.find("Current thread")) :]
    frames = [
        (found[1], found[2], line)
        for line in stack.splitlines()
        if (found := _FRAME.search(line)) and Path(found[1]).is_relative_to(folder) and "site-packages" not in found[1]
    ]
    if not frames:
        return None, fatal and fatal + stack
    path, here = Path(frames[0][0]), Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{shown}:{frames[0][1]}", "Stack, innermost first:\n" + "\n".join(line for _, _, line in frames)


def _serve(lifeline: Lifeline) -> None:
    """Run the one request that comes in."""
    request = Request(**lifeline.receive())
    if request.target in (None, "sim", "sim+translators"):
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = (
            "0"  # an installed backend would take the key of the simulated one
        )
    resolve(SESSION)(request, lifeline.send)


if __name__ == "__main__":
    _serve(Lifeline.from_arguments())
