"""Runs one model from a user's file on a device, in a process that is given up to it, and tells what happens as events.

Events are lists, first the kind: ready · versions · phase · model · inputs · fake · row · note · wait · again (rows start
over) · done · bad (our sentence) · failed · too_big (for real values).
"""

from __future__ import annotations

import dataclasses
import sys
import traceback
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

import torch
from neuron_ops.op_tests.capture.autocasts import watch_autocast
from neuron_ops.op_tests.capture.causes import explanation
from neuron_ops.op_tests.capture.entries import FunctionEntry, kind_of, on_device
from neuron_ops.op_tests.capture.fake.sizes import TooBig, is_big, limited
from neuron_ops.op_tests.capture.importing import import_folder
from neuron_ops.op_tests.capture.inputs import Inputs, converted, describe
from neuron_ops.op_tests.capture.offline import refuse_network
from neuron_ops.op_tests.capture.opening import inputs_of, opened
from neuron_ops.op_tests.capture.places import ModulePath, Origins, Places, shown
from neuron_ops.op_tests.capture.recorder import Recorder, first_line
from neuron_ops.op_tests.capture.sparse import SparseCalls, any_sparse
from neuron_ops.op_tests.capture.waits import Waits
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from neuron_ops.op_tests.capture.fake.exploring import Fakes
    from neuron_ops.op_tests.capture.finding import Candidate
    from neuron_ops.op_tests.capture.lockstep import Lockstep
    from neuron_ops.op_tests.capture.measure import Ruler
    from neuron_ops.op_tests.capture.opening import Opened
    from neuron_ops.op_tests.capture.rows import Request, Row, Wait
    from neuron_ops.op_tests.targets.sim.journal import Entry

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
        self.lockstep: Lockstep | None = None
        self.on_cpu: object = None
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
                if self.recorder.exporter is not None and self.request.export is not None:
                    self.send("note", self.recorder.exporter.write(Path(self.request.export)), None)
            self.send("done")
        elif isinstance(error, TooBig):
            self.send("too_big")
        elif isinstance(error, BadInput):
            self.send("bad", str(error))
        elif self._phase == "start":
            return False  # ours: the supervisor reports the traceback
        else:
            self._send_failure(error)
        return True

    def prepare(self) -> None:
        """Install the simulated device and make this process look like one that runs the user's file."""
        if self.request.target is not None:
            self._open_target(self.request.target)
        elif self.request.device == "neuron":
            from neuron_ops.op_tests.targets import sim

            sim.state.serve_unsupported = True  # all problems in one run, not the first
            from neuron_ops.op_tests.capture.conversions import record_moves

            self.moves = record_moves()
            self.recorder = Recorder(Origins(self.places, self.path), self._send_row)
            if self.request.export is not None:
                from neuron_ops.op_tests.capture.exporting import Exporter

                self.recorder.exporter, self.recorder.ruler.keeping = Exporter(self.request.known), True
            self.send("versions", dict(sim.Sim().build().versions))
        sys.argv = [str(self.file), *self.request.arguments]
        sys.dont_write_bytecode = True
        refuse_network()
        watch_autocast(self._told)

    def _open_target(self, name: str) -> None:
        from neuron_ops.op_tests.capture.lockstep import Lockstep
        from neuron_ops.op_tests.targets.any_device import open_device

        self.target = open_device(name)
        self.request = dataclasses.replace(self.request, device=self.target.device, fake=False)
        self.lockstep = Lockstep(self.target, Origins(self.places, self.path))
        self.send("versions", dict(self.target.build().versions))

    def _told(self, text: str) -> None:
        self.send("note", text, self.places.here())

    def load(self) -> Inputs:
        """Import the file, build model and inputs, and return the inputs as the model will get them."""
        self._enter("import")
        is_file = self.file.suffix != ".json" and not self.file.is_dir()  # those two are opened in a moment
        if self.request.device == "neuron" and (self.request.fake or (self.request.fake is None and not is_file)):
            self._make_fakes()
        elif self.request.fake is None:
            self.stack.enter_context(limited(self.request.train))
        target = opened(self.request)
        candidate = target.candidate
        self._enter("construction")
        built = self._built(candidate)
        if not isinstance(built, torch.nn.Module):
            raise BadInput(
                f"{candidate.name} in {self.file} returns a {type(built).__name__}; expected an nn.Module; return the "
                f"model, or have {candidate.name} called with --call {candidate.name}"
            )
        self.model = self._unwrapped(built)
        if "torch._dynamo" in sys.modules:
            torch.compiler.set_stance("force_eager")
        self.send("model", f"{candidate.name} ({kind_of(self.model)})")
        if isinstance(self.model, FunctionEntry):
            self.send("as_is")
        if self.request.lengths_on_host:
            self.send("note", "lengths of packed sequences stayed on the CPU, where torch wants them", None)
        if target.note is not None:
            self.send("note", target.note, None)
        self._enter("inputs")
        inputs = self._inputs(target)
        self.send("inputs", describe(inputs))
        tensors = (*self.model.parameters(), *self.model.buffers())
        if any(torch.nn.parameter.is_lazy(tensor) for tensor in tensors):
            with torch.no_grad():  # lazy modules take their sizes from a first call, which moving them would spoil
                self.model(*inputs.args, **inputs.kwargs)
        return self._moved(inputs)

    def _make_fakes(self) -> None:
        from neuron_ops.op_tests.capture.fake.exploring import Fakes

        self.fakes = Fakes(self.places, lambda text, where: self.send("note", text, where))
        self.stack.enter_context(self.fakes)

    def _built(self, candidate: Candidate) -> object:
        """Return what the candidate builds: on fake tensors first where those may not be needed."""
        built = candidate.build()
        undecided = self.fakes is not None and self.request.fake is None
        if undecided and isinstance(built, torch.nn.Module) and not is_big(built, self.request.train):
            self.stack.close()
            self.fakes = None
            built = candidate.build()
        if self.fakes is not None:
            self.send("fake")
        return built

    def _inputs(self, target: Opened) -> Inputs:
        from neuron_ops.op_tests.capture.fake.full_size import inputs_for

        full = (
            inputs_for(self.model, self.request.train) if self.fakes is not None and not self.request.inputs else None
        )
        return full or inputs_of(target, self.request, self.model)

    def _unwrapped(self, built: torch.nn.Module) -> torch.nn.Module:
        """Return the model without wrappers that hide what runs: torch.compile's, and those for several devices."""
        built = cast("torch.nn.Module", getattr(built, "_orig_mod", built))
        if isinstance(built, torch.nn.DataParallel):
            self.send("note", "DataParallel spreads work over CUDA devices; the module inside was run", None)
            return cast("torch.nn.Module", built.module)
        return built

    def _moved(self, inputs: Inputs) -> Inputs:
        """Move the model and return the moved inputs, cast where asked; what that calls is not part of the report."""
        self._enter("move")
        if self.recorder is not None:
            from neuron_ops.op_tests.targets import sim

            sim.journal.on_entry, sim.journal.measure = self.recorder, self.recorder.ruler
        if isinstance(self.model, FunctionEntry):
            self.model.device = self.request.device
        with suppress(NotImplementedError):  # exported programs keep the mode that they were exported in
            self.model.train(self.request.train and not self.request.eval)
        dtype = getattr(torch, self.request.dtype) if self.request.dtype else None
        if self.fakes is not None:
            dtype = dtype or self.fakes.default_dtype(self.model)
            self.fakes.move(self.model, dtype)
        else:
            if dtype is not None:
                self.model.to(dtype)
            if self.lockstep is not None and not isinstance(self.model, FunctionEntry):
                self.on_cpu = self._run_on_cpu(inputs, dtype)
            self.model = on_device(self.model, self.request.device)

        moved = self._moved_inputs(inputs, self.request.device, dtype)
        if self.recorder is not None:
            self.recorder.start()
            sim.journal.measure = self._watched(self.recorder.ruler)
        return moved

    def _moved_inputs(self, inputs: Inputs, device: str, dtype: torch.dtype | None) -> Inputs:
        def change(tensor: torch.Tensor) -> torch.Tensor:
            if self.request.lengths_on_host and tensor.dtype == torch.int64 and tensor.dim() == 1:
                return tensor
            to = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
            return tensor.detach().to(device, to).requires_grad_(tensor.requires_grad)

        seen: dict[int, Any] = {}
        return Inputs(converted(inputs.args, change, seen), converted(dict(inputs.kwargs), change, seen))

    def _run_on_cpu(self, inputs: Inputs, dtype: torch.dtype | None) -> object:
        """Return what one forward pass on the CPU gives; buffers, inputs and random numbers are as before afterwards."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        own = self._moved_inputs(converted(inputs, torch.clone), "cpu", dtype)
        with torch.random.fork_rng(devices=[]), torch.set_grad_enabled(self.request.grad or self.request.train):
            out = self.model(*own.args, **own.kwargs)
        for buffer, before in buffers:
            buffer.data.copy_(before)
        return out

    def _watched(self, ruler: Ruler) -> Callable[..., object]:
        """Return a measure that also sees where the host waits for the device."""
        from neuron_ops.op_tests.capture.gradients import is_cut

        waits = Waits(self.places, self._send_wait)

        def measure(entry: Entry, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> object:
            waits.take(entry.overload, args)
            entry.cuts_autograd = is_cut(entry.overload, args, kwargs, out)
            return ruler(entry, args, kwargs, out)

        return measure

    def explore(self, inputs: Inputs) -> None:
        """Run once on real values; on fake tensors as often as their guesses need."""
        if self.lockstep is not None:
            self._compare(inputs, self.lockstep)
        elif self.fakes is None or self.recorder is None:
            self.run(inputs)
        else:
            self.fakes.explore(lambda: self.run(inputs), self.recorder, self._again)

    def _compare(self, inputs: Inputs, lockstep: Lockstep) -> None:
        from neuron_ops.op_tests.capture.lockstep import output_messages

        with lockstep:
            out = self.run(inputs)
        messages = None
        if self.on_cpu is not None and (self.target.same_generator or not lockstep.random):
            messages = output_messages(list(_tensors(self.on_cpu)), list(_tensors(out)), self.target.compute_dtypes)
        for row in lockstep.rows():
            self._send_row(row)
        self.send("compared", dataclasses.asdict(lockstep.result(messages)))

    def _again(self) -> None:
        assert self.recorder is not None
        self.recorder.start()
        self.model.zero_grad()
        self.send("again")

    def run(self, inputs: Inputs) -> object:
        """Call the model, and with `train` its backward and one step of AdamW; returns the model's output."""
        self._enter("call" if isinstance(self.model, FunctionEntry) else "forward")
        graded = self.request.train or self.request.grad or isinstance(self.model, FunctionEntry)
        autocast = getattr(torch, self.request.autocast) if self.request.autocast else None
        held = (*self.model.parameters(), *self.model.buffers(), inputs.args, dict(inputs.kwargs))
        sparse = self.request.device == "cpu" and any_sparse(held)
        with (
            SparseCalls(self._told) if sparse else nullcontext(),
            self.path.follow(self.model),
            nullcontext() if graded else torch.no_grad(),
            torch.autocast(self.request.device, autocast) if autocast is not None else nullcontext(),
        ):
            out = self.model(*inputs.args, **inputs.kwargs)
        if self.request.train and not isinstance(self.model, FunctionEntry):
            self._train(out)
        return out

    def _train(self, out: object) -> None:
        loss = getattr(out, "loss", None)  # of Hugging Face models that got labels
        own = isinstance(loss, torch.Tensor) and loss.requires_grad
        outputs: list[torch.Tensor] = (
            [cast("torch.Tensor", loss)]
            if own
            else [t for t in _tensors(out) if t.requires_grad and t.is_floating_point()]
        )
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
        if self.lockstep is not None:
            self.lockstep.phase = phase
        if self.recorder is not None:
            self.recorder.phase = phase
        self.send("phase", phase)

    def _send_wait(self, wait: Wait) -> None:
        self.send("wait", wait.kind, wait.overload, wait.where, wait.calls, wait.steers)

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
            kind = "exited"
        where, text = self._blame_lines(error)
        cause = explanation(error, import_folder(self.file)[0])
        if cause is not None:
            message, text = cause, ""  # a stack says nothing more than the line
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
