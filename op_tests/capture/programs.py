"""Opens models that are stored without their Python source: exported programs, TorchScript, pickles."""

from __future__ import annotations

import functools
import zipfile
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.capture.finding import Candidate
from neuron_ops.op_tests.capture.inputs import Inputs
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def stored(file: Path, device: str, *, unsafe: bool) -> tuple[Candidate, Inputs | None, str | None]:
    """Return the model in the file, the inputs stored with it, and a sentence about its kind; raises BadInput.

    An exported program comes moved to `device`: its graph names devices. A pickle, which runs code when it is read, is
    refused unless `unsafe`.
    """
    parts = _parts(file)
    if any(part.endswith("archive_format") for part in parts) or "serialized_exported_program.json" in parts:
        return _exported(file, device)
    if any("/code/" in part for part in parts):
        load = functools.partial(torch.jit.load, str(file), map_location="cpu")
        return Candidate(file.name, load), None, "TorchScript: a graph without Python source, so calls have no lines"
    return Candidate(file.name, _pickled(file, unsafe=unsafe)), None, None


def _parts(file: Path) -> list[str]:
    if not zipfile.is_zipfile(file):
        return []
    with zipfile.ZipFile(file) as archive:
        return archive.namelist()


def _exported(file: Path, device: str) -> tuple[Candidate, Inputs | None, str]:
    from torch.export.passes import move_to_device_pass

    program = torch.export.load(str(file))
    calls = {node.target for node in program.graph.nodes if node.op == "call_function"}
    note = (
        f"an exported program ({program.dialect} dialect, {len(calls)} operators in its graph): what it was decomposed into "
        "when it was exported is what runs, nothing was decomposed here"
    )
    inputs = Inputs(*program.example_inputs) if program.example_inputs else None
    return Candidate(file.name, lambda: move_to_device_pass(program, device).module()), inputs, note


def _pickled(file: Path, *, unsafe: bool) -> Callable[[], object]:
    """Return the call that unpickles the model; raises BadInput where that is not allowed or nothing but weights are there."""
    try:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(str(file))
    except (RuntimeError, ValueError, EOFError, KeyError, OSError):
        names = None
    if names == []:
        raise BadInput(
            f"{file} holds weights and no model; expected a model; write a Python file that builds it (the weights are not "
            "needed: operators do not depend on them)"
        )
    if names is None and not unsafe:
        raise BadInput(
            f"{file} is neither an exported program, TorchScript nor a checkpoint of torch.save; expected one of them; "
            "write a Python file that builds the model"
        )
    if not unsafe:
        raise BadInput(
            f"{file} is a pickle that names {', '.join((names or [])[:3])}, and reading it runs code; expected a program of "
            "torch.export.save or a Python file; if you trust it, add --unsafe-load"
        )
    return functools.partial(torch.load, str(file), map_location="cpu", weights_only=False)
