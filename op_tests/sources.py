"""Decides which calls a recorder gets to see: those of torch's own test databases, called in every way they are tested.

Importing the databases costs five seconds, and their sample generators set global random states: import this module
only in the process that records.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from typing import TYPE_CHECKING, Any

import numpy
import torch
from neuron_ops.op_tests.agreement import REFUSALS
from neuron_ops.op_tests.shelves import AboveAutograd, BelowAutograd
from torch.testing._internal import common_methods_invocations
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_flatten, tree_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from neuron_ops.op_tests.shelves import Recorder

SAMPLES_OF_AN_ENTRY = 8
"""Eight samples of each OpInfo already reach all but 14 of the overloads that all samples reach (torch 2.13, 677 entries)."""

FOREACH_SAMPLES, MODULE_SAMPLES = 40, 5
LISTED = 3
"""Tensors kept of a foreach list: OpInfo's lists have twenty, and the per-tensor loop is the same from the second on."""

_FOREACH = ("unary", "binary", "pointwise", "reduce", "other")


def operator_entries(dtype: torch.dtype) -> list[Any]:
    """Return the entries of op_db that the CPU supports in a dtype."""
    return [entry for entry in op_db if dtype in entry.supported_dtypes("cpu")]


def record_operators(
    recorder: Recorder, entries: Sequence[Any], seed: int, limit: int, progress: Callable[[int, int, str], None]
) -> None:
    """Show the recorder `limit` samples of each op_db entry, called in all ways; `progress` gets done, total, name."""
    dtype = recorder.dtype
    for number, entry in enumerate(entries):
        progress(number, len(entries), entry.full_name)
        recorder.source, recorder.about = f"opinfo/{entry.full_name}", entry.aten_name
        _seed_everything(seed)
        differentiable = entry.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        for index, sample in enumerate(_samples(entry, dtype, limit, requires_grad=differentiable)):
            for phase, call in _calls(entry, sample, recorder, index < 3):
                _try(recorder, phase, call)


def record_lists_modules_optimizers(recorder: Recorder, seed: int) -> None:
    """Show the recorder what the foreach, module and optimizer databases call."""
    record_foreach(recorder, seed)
    record_modules(recorder, seed)
    record_optimizers(recorder, seed)


def record_foreach(recorder: Recorder, seed: int) -> None:
    """Show the recorder the functional and in-place calls of the five foreach databases."""
    for kind in _FOREACH:
        for entry in getattr(common_methods_invocations, f"foreach_{kind}_op_db"):
            if recorder.dtype not in entry.supported_dtypes("cpu"):
                continue
            recorder.source, recorder.about = f"foreach/{entry.name}", entry.name
            _seed_everything(seed)
            for sample in _samples(entry, recorder.dtype, FOREACH_SAMPLES, requires_grad=False):
                for phase, function in (("forward", entry.method_variant), ("inplace", entry.inplace_variant)):
                    if function is not None:
                        _try(recorder, phase, _foreach_call(recorder, function, sample))


def _foreach_call(recorder: Recorder, function: Any, sample: Any) -> Callable[[], object]:
    def short(value: Any) -> Any:
        return [_detached(item) for item in value[:LISTED]] if isinstance(value, (list, tuple)) else value

    return lambda: _under(
        BelowAutograd(recorder), lambda: function(short(sample.input), *map(short, sample.args), **sample.kwargs)
    )


def record_modules(recorder: Recorder, seed: int) -> None:
    """Show the recorder the forward and backward of every entry of module_db, in training and in evaluation."""
    if not (recorder.dtype.is_floating_point or recorder.dtype.is_complex):
        return
    for entry, training in itertools.product(module_db, (True, False)):
        recorder.source, recorder.about = f"module/{entry.name.replace('.', '_')}", ""
        _seed_everything(seed)
        with contextlib.suppress(*REFUSALS):
            inputs = entry.module_inputs_func(
                entry, device="cpu", dtype=recorder.dtype, requires_grad=training, training=training
            )
            for given in itertools.islice(inputs, MODULE_SAMPLES):
                _module_calls(recorder, entry, given, training)


def _module_calls(recorder: Recorder, entry: Any, given: Any, training: bool) -> None:
    if given.forward_input is None:
        return
    made = given.constructor_input
    module = entry.module_cls(*made.args, **made.kwargs).to(recorder.dtype).train(training)
    args, kwargs = given.forward_input.args, given.forward_input.kwargs

    def forward_and_backward() -> None:
        with BelowAutograd(recorder):
            ends = [t for t in tree_flatten(module(*args, **kwargs))[0] if isinstance(t, torch.Tensor)]
            ends = [t for t in ends if t.requires_grad]
            if ends:
                torch.autograd.backward(ends, [torch.ones_like(t) for t in ends])

    def whole() -> None:
        with torch.no_grad(), AboveAutograd(recorder):
            module(*_detached(args), **_detached(kwargs))

    _try(recorder, "training" if training else "evaluation", forward_and_backward)
    _try(recorder, "composite", whole)


def record_optimizers(recorder: Recorder, seed: int) -> None:
    """Show the recorder two steps of every entry of optim_db, per tensor, foreach and fused, and of a gradient scaler."""
    if not (recorder.dtype.is_floating_point or recorder.dtype.is_complex):
        return
    for entry in optim_db:
        name = str(entry.optim_cls.__name__)  # type: ignore[attr-defined]  # torch annotates the class as an instance
        recorder.source, recorder.about = f"optim/{name}", f"_fused_{name.lower()}"
        for given in entry.optim_inputs_func(device="cpu"):
            for way in ("forloop", "foreach", "fused"):
                if way == "forloop" or way in entry.supported_impls:
                    flags: dict[str, Any] = {} if way == "forloop" else {way: True}
                    _seed_everything(seed)
                    _try(recorder, way, _steps(recorder, entry, {**given.kwargs, **flags}))
    recorder.source, recorder.about = "optim/GradScaler", ""
    _seed_everything(seed)
    _try(recorder, "scaled", _scaled_step(recorder))


def _steps(recorder: Recorder, entry: Any, kwargs: dict[str, Any]) -> Callable[[], object]:
    def call() -> None:
        shapes = ((3, 4),) if entry.optim_cls.__name__ == "Muon" else ((3, 4), (4,))
        parameters = [torch.randn(shape).to(recorder.dtype).requires_grad_() for shape in shapes]
        optimizer = entry.optim_cls(parameters, **kwargs)
        for _ in range(2):  # the first step makes the state, the second reads it
            for parameter in parameters:
                parameter.grad = torch.randn(parameter.shape).to(recorder.dtype)
            with BelowAutograd(recorder):
                optimizer.step((lambda: torch.tensor(1.0)) if entry.step_requires_closure else None)

    return call


def _scaled_step(recorder: Recorder) -> Callable[[], object]:
    def call() -> None:
        parameter = torch.randn(3, 4).to(recorder.dtype).requires_grad_()
        optimizer, scaler = torch.optim.SGD([parameter], lr=0.1), torch.amp.GradScaler("cpu", init_scale=2.0)
        scaler.scale((parameter * parameter).sum()).backward()
        with BelowAutograd(recorder):
            scaler.step(optimizer)
            scaler.update()

    return call


def _seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def _detached(value: Any) -> Any:
    return tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, value)


def _samples(entry: Any, dtype: torch.dtype, limit: int, *, requires_grad: bool) -> Iterator[Any]:
    with contextlib.suppress(*REFUSALS):  # a generator may refuse a dtype half-way
        yield from itertools.islice(entry.sample_inputs("cpu", dtype, requires_grad=requires_grad), limit)


def _try(recorder: Recorder, phase: str, call: Callable[[], object]) -> None:
    recorder.phase = phase
    with contextlib.suppress(*REFUSALS):
        call()


def _calls(op: Any, sample: Any, recorder: Recorder, first: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield (phase, function) for the ways in which OpInfo's tests call an operator with one sample."""
    args, kwargs = sample.args, sample.kwargs
    yield "forward", lambda: _under(BelowAutograd(recorder), lambda: op(sample.input, *args, **kwargs))
    yield (
        "composite",
        lambda: _under(AboveAutograd(recorder), lambda: op(*_detached((sample.input, *args)), **_detached(kwargs))),
    )
    if op.supports_autograd and recorder.dtype in op.supported_backward_dtypes("cpu"):
        yield "backward", lambda: _backward(op, sample, recorder)
    inplace = op.get_inplace() if first else None
    if inplace is not None:
        yield (
            "inplace",
            lambda: _under(
                BelowAutograd(recorder), lambda: inplace(*_detached((sample.input, *args)), **_detached(kwargs))
            ),
        )
    if first and op.supports_out:
        yield "out", lambda: _out(op, sample, recorder)


def _under(mode: contextlib.AbstractContextManager[Any], call: Callable[[], object]) -> object:
    with mode:
        return call()


def _backward(op: Any, sample: Any, recorder: Recorder) -> None:
    out = op(sample.input, *sample.args, **sample.kwargs)
    if sample.output_process_fn_grad is not None:
        out = sample.output_process_fn_grad(out)
    ends = [t for t in tree_flatten(out)[0] if isinstance(t, torch.Tensor) and t.requires_grad]
    leaves = [
        t
        for t in tree_flatten((sample.input, sample.args, sample.kwargs))[0]
        if isinstance(t, torch.Tensor) and t.requires_grad
    ]
    if ends and leaves:
        with BelowAutograd(recorder):
            torch.autograd.grad(ends, leaves, [torch.ones_like(t) for t in ends], allow_unused=True)


def _out(op: Any, sample: Any, recorder: Recorder) -> None:
    args, kwargs = _detached((sample.input, *sample.args)), _detached(sample.kwargs)
    out = tree_map(lambda t: torch.empty_like(t).zero_() if isinstance(t, torch.Tensor) else t, op(*args, **kwargs))
    with BelowAutograd(recorder):
        op(*args, **kwargs, out=out)
