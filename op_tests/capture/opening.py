"""Decides what a target on the command line is, and opens it: a Python file, a script, a stored program, a configuration."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from neuron_ops.op_tests.capture.entries import FunctionEntry
from neuron_ops.op_tests.capture.finding import Candidate, NoModel, find_model
from neuron_ops.op_tests.capture.guesses import guessed_inputs, hub_inputs
from neuron_ops.op_tests.capture.hub import configured
from neuron_ops.op_tests.capture.importing import load_file, run_as_script
from neuron_ops.op_tests.capture.inputs import Inputs, accepted, described_inputs, given_inputs
from neuron_ops.op_tests.capture.programs import stored

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from neuron_ops.op_tests.capture.rows import Request


@dataclass(frozen=True, slots=True)
class Opened:
    """A target whose own code has run: the model that it names, what it says of inputs, a sentence about its kind."""

    candidate: Candidate
    inputs: Callable[[], Inputs | None]
    note: str | None = None


def opened(request: Request) -> Opened:
    """Return what the request names, its file imported or read; raises BadInput, and whatever the file's code raises."""
    file = Path(request.file)
    if file.is_dir() or file.suffix == ".json":
        return Opened(configured(file), lambda: None)
    if file.suffix != ".py":
        candidate, inputs, note = stored(file, request.device, unsafe=request.unsafe_load)
        return Opened(candidate, lambda: inputs, note)
    module = load_file(file)
    try:
        candidate = find_model(module, request.attribute, call=request.call)
    except NoModel:
        if not request.arguments:
            raise
        return Opened(
            Candidate(file.name, lambda: FunctionEntry(functools.partial(run_as_script, file))),
            lambda: Inputs((), {}),
            "the file names no model, so it ran as a script; tensors that it makes without naming a device were made on "
            "the device",
        )
    return Opened(candidate, lambda: given_inputs(module))


def inputs_of(target: Opened, request: Request, model: torch.nn.Module) -> Inputs:
    """Return what to call the model with: --input, else what the file says, else what its library says, else a guess."""
    if request.inputs:
        return accepted(model, described_inputs(request.inputs), "--input")
    given = target.inputs()
    if given is not None:
        return accepted(model, given, f"the inputs in {request.file}")
    return hub_inputs(model) or guessed_inputs(request.file, model)
