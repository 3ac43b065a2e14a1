"""Runs one model from a user's file on a device, in a process that is given up to it, and tells what happens as events.

Events are lists, first the kind: ready · versions · fake · phase · model · inputs · row · note · again (rows start over) ·
done · bad (our sentence) · failed · too_big (for real values; nothing was run on the device).
"""

from __future__ import annotations

import dataclasses
import sys
import traceback
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import torch
from neuron_ops.op_tests.capture.fake.configured import inputs_for, is_configuration, read
from neuron_ops.op_tests.capture.loading import (
    Candidate,
    Inputs,
    converted,
    describe,
    find_inputs,
    find_model,
    import_folder,
    load_file,
)  # fmt: skip
from neuron_ops.op_tests.capture.places import ModulePath, Origins, Places, shown
from neuron_ops.op_tests.capture.recorder import Recorder, first_line
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from neuron_ops.op_tests.capture.fake.exploring import Fakes
    from neuron_ops.op_tests.capture.rows import Request, Row

LEARNING_RATE = 1e-4


def capture(request: Request, send: Callable[..., None]) -> None:
    """Run the model that the request names and send the events; the last one is done, bad or failed."""
    session = _Session(request, send)
    with session:
        session.prepare()
        send("ready")
        inputs = session.load()
        session.explore(inputs)


class _Session:
    """One check in this process: whatever the user's code raises within the context becomes an event."""

    def __init__(self, request: Request, send: Callable[..., None]) -> None:
        self.request, self.send = request, send
        self.file = Path(request.file)
        self.places = Places(import_folder(self.file)[0])
        self.path = ModulePath()
        self.recorder: Recorder | None = None
        self.fakes: Fakes | None = None
        self.stack = ExitStack()
        self._phase = "start"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Send the last event. A context and no `except`, because SystemExit and all else must end here too."""
        self.stack.close()
        if error is None:
            if self.recorder is not None:
                self.recorder.flush()
            self.send("done")
        elif isinstance(error, BadInput):
            self.send("bad", str(error))
        elif self._phase == "start":
            return False  # ours: the supervisor reports the traceback
        else:
            self._send_failure(error)
        return True

    def prepare(self) -> None:
        """Install the simulated device and make this process look like one that runs the user's file."""
        if self.request.device == "neuron":
            from neuron_ops.op_tests.targets import sim

            sim.state.serve_unsupported = True  # all problems in one run, not the first
            self.recorder = Recorder(Origins(self.places, self.path), self._send_row)
            self.send("versions", dict(sim.Sim().build().versions))
            if self.request.fake or (self.request.fake is None and is_configuration(self.file)):
                self._make_fakes()
        sys.argv = [str(self.file)]
        sys.dont_write_bytecode = True

    def _make_fakes(self) -> None:
        from neuron_ops.op_tests.capture.fake.exploring import Fakes

        self.fakes = Fakes(self.places, lambda what, where: self.send("note", what, where))
        self.stack.enter_context(self.fakes)
        self.send("fake")

    def load(self) -> Inputs:
        """Import the file, build model and inputs, and return the inputs as the model will get them."""
        self._enter("import")
        configured = read(self.file) if is_configuration(self.file) else None
        if configured is None:
            module = load_file(self.file)
            candidate = find_model(module, self.request.attribute)
        else:
            candidate = Candidate(configured.name, configured.build)
        self._enter("construction")
        built = candidate.build()
        if not isinstance(built, torch.nn.Module):
            raise BadInput(
                f"{candidate.name} in {self.file} returns a {type(built).__name__}; expected an nn.Module; "
                "return the model"
            )
        self.model: torch.nn.Module = getattr(built, "_orig_mod", built)  # of torch.compile: eager dispatch is judged
        if "torch._dynamo" in sys.modules:
            torch.compiler.set_stance("force_eager")
        self.send("model", f"{candidate.name} ({type(self.model).__name__})")
        self._enter("inputs")
        inputs = (
            find_inputs(module, self.model)
            if configured is None
            else inputs_for(self.model, configured.config, self.request.train)
        )
        self.send("inputs", describe(inputs))
        tensors = (*self.model.parameters(), *self.model.buffers())
        if any(torch.nn.parameter.is_lazy(tensor) for tensor in tensors):
            with torch.no_grad():  # lazy modules take their sizes from a first call, which moving them would spoil
                self.model(*inputs.args, **inputs.kwargs)
        return self._moved(inputs)

    def _moved(self, inputs: Inputs) -> Inputs:
        """Move the model and return the moved inputs, cast where asked; what that calls is not part of the report."""
        self._enter("move")
        if self.recorder is not None:
            from neuron_ops.op_tests.targets import sim

            sim.journal.on_entry, sim.journal.measure = self.recorder, self.recorder.ruler
        self.model.train(self.request.train)
        dtype = getattr(torch, self.request.dtype) if self.request.dtype else None
        if self.fakes is not None:
            self.fakes.move(self.model, dtype)
        else:
            if dtype is not None:
                self.model.to(dtype)
            self.model.to(self.request.device)

        def change(tensor: torch.Tensor) -> torch.Tensor:
            to = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
            return tensor.detach().to(self.request.device, to).requires_grad_(tensor.requires_grad)

        seen: dict[int, Any] = {}
        moved = Inputs(converted(inputs.args, change, seen), converted(dict(inputs.kwargs), change, seen))
        if self.recorder is not None:
            self.recorder.start()
        return moved

    def explore(self, inputs: Inputs) -> None:
        """Run once on real values; on fake tensors as often as their guesses need."""
        if self.fakes is None or self.recorder is None:
            self.run(inputs)
        else:
            self.fakes.explore(lambda: self.run(inputs), self.recorder, self._again)

    def _again(self) -> None:
        assert self.recorder is not None
        self.recorder.start()
        self.model.zero_grad()
        self.send("again")

    def run(self, inputs: Inputs) -> None:
        """Call the model, and with `train` its backward and one step of AdamW."""
        self._enter("forward")
        graded = self.request.train or self.request.grad
        with self.path.follow(self.model), nullcontext() if graded else torch.no_grad():
            out = self.model(*inputs.args, **inputs.kwargs)
        if self.request.train:
            self._train(out)

    def _train(self, out: object) -> None:
        loss = getattr(out, "loss", None)  # of Hugging Face models, which got labels
        own = isinstance(loss, torch.Tensor) and loss.requires_grad
        outputs = [loss] if own else [t for t in _tensors(out) if t.requires_grad and t.is_floating_point()]
        if not outputs:
            raise BadInput(
                f"--train found no floating-point output of {type(self.model).__name__} that requires a gradient; "
                "expected one to start backward from; return it from forward, or check without --train"
            )
        with self.recorder.paused() if self.recorder is not None else nullcontext():
            # no loss of ours: its operators would not be the model's
            gradients = None if own else [torch.ones_like(tensor) for tensor in outputs]
        self._enter("backward")
        torch.autograd.backward(outputs, gradients)
        parameters = list(self.model.parameters())
        if not parameters:
            return
        optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE)
        self._enter("optimizer step")
        optimizer.step()

    def _enter(self, phase: str) -> None:
        self._phase = phase
        if self.recorder is not None:
            self.recorder.phase = phase
        self.send("phase", phase)

    def _send_row(self, row: Row) -> None:
        self.send("row", row.to_json())

    def _send_failure(self, error: BaseException) -> None:
        operator = None
        if self.recorder is not None:
            operator = self.recorder.blame(error)
            if self._phase in ("import", "construction", "inputs", "move"):
                self.recorder.start(only=operator or "")
            self.recorder.flush()
        kind, message = "raised", first_line(error)
        if isinstance(error, SystemExit):
            kind, message = "exited", f"the code called sys.exit({'' if error.code is None else repr(error.code)})"
        where, text = self._blame_lines(error)
        self.send(
            "failed",
            {
                "kind": kind, "phase": self._phase, "message": message, "traceback": text, "where": where,
                "operator": operator,
            },
        )  # fmt: skip

    def _blame_lines(self, error: BaseException) -> tuple[str | None, str]:
        """Return ``file:line`` of the user's innermost frame, and the traceback without our and torch's frames."""
        told = traceback.TracebackException.from_exception(error)
        mine = [f for f in told.stack if self.places.rank(f.filename) == 0] or [
            f for f in told.stack if self.places.rank(f.filename) == 1
        ]
        where = shown(mine[-1].filename, mine[-1].lineno) if mine else None
        if where is None and isinstance(error, SyntaxError) and error.filename:
            where = shown(error.filename, error.lineno)
        self._strip(told)
        return where, "".join(told.format()).rstrip()

    def _strip(self, told: traceback.TracebackException | None) -> None:
        while told is not None:
            kept = [frame for frame in told.stack if self.places.rank(frame.filename) < 2]
            told.stack = traceback.StackSummary.from_list(kept)
            self._strip(told.__context__)
            told = told.__cause__


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """Yield the tensors in an output: containers, and the fields of dataclasses."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from _tensors(getattr(value, field.name))
