"""Decides which calls of ATen overloads become samples: those that torch's own OpInfo tests make on the CPU.

Run as ``python -m neuron_ops.op_tests.recording FILE DTYPE SEED`` in a process of its own: importing OpInfo costs five
seconds, and its sample generators set global random states.
"""

from __future__ import annotations

import collections
import contextlib
import json
import random
import sys
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.calls import perform
from neuron_ops.op_tests.packing import Sample, Unpackable, pack
from neuron_ops.op_tests.tolerances import rows_for
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.schema_check_mode import SchemaCheckMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SAMPLES_PER_OPINFO = 8
KEEP_OWN, KEEP_OTHER, KEEP = 8, 3, 8
"""Samples kept of an overload and dtype: from the OpInfo that is about it, from others, and in all.

Eight samples of each OpInfo already reach all but 14 of the overloads that all samples reach (torch 2.13, 677 entries)."""


@dataclass(slots=True)
class Shelf:
    """The calls recorded so far of one overload, those of its own OpInfo apart."""

    own: dict[str, Sample] = field(default_factory=dict)
    other: dict[str, Sample] = field(default_factory=dict)
    shapes: set[str] = field(default_factory=set)

    def samples(self) -> dict[str, Sample]:
        """Return label → sample, own ones first, at most KEEP."""
        return dict([*self.own.items(), *self.other.items()][:KEEP])


class Recorder:
    """Keeps the arguments of every call of a counted overload that has the dtype under test."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.shelves: dict[str, Shelf] = collections.defaultdict(Shelf)
        self.opinfo, self.aten_name, self.phase = "", "", ""
        self._counted = {o.name for o in catalogue.operators() if o.excluded is None}
        self._numbers: collections.Counter[str] = collections.Counter()

    def seen(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep one call if its shelf has room and no call of the same geometry is on it."""
        name = str(op)
        if name not in self._counted or not self._has_dtype(args, kwargs):
            return
        shelf = self.shelves[name]
        own = name.split(".")[1].rstrip("_") in (self.aten_name, self.aten_name.rstrip("_"))
        place, room = (shelf.own, KEEP_OWN) if own else (shelf.other, KEEP_OTHER)
        if len(place) >= room:
            return
        try:
            sample = pack(args, kwargs)
        except Unpackable:
            return
        geometry = json.dumps(sample.tree, sort_keys=True)
        if geometry in shelf.shapes:
            return
        shelf.shapes.add(geometry)
        label = f"opinfo/{self.opinfo}/{self.phase}"
        number = self._numbers[f"{name} {label}"]
        self._numbers[f"{name} {label}"] += 1
        place[f"{label}/{number}"] = sample

    def _has_dtype(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a tensor has the dtype under test; a call without tensors counts by its dtype argument."""
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if tensors:
            return any(tensor.dtype == self.dtype for tensor in tensors)
        asked = next((leaf for leaf in leaves if isinstance(leaf, torch.dtype)), torch.get_default_dtype())
        return asked == self.dtype


class _BelowAutograd(TorchDispatchMode):
    """Sees what reaches a backend's key."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recorder = recorder

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._recorder.seen(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


class _AboveAutograd(SchemaCheckMode):
    """Sees composite implicit operators before they open into their parts.

    torch 2.13 admits only this class and its children as a mode at the PreDispatch key.
    """

    def __init__(self, recorder: Recorder) -> None:
        TorchDispatchMode.__init__(self, torch._C.DispatchKey.PreDispatch)
        self._recorder = recorder
        self._python: contextlib.ExitStack

    def __enter__(self) -> Any:
        self._python = contextlib.ExitStack()
        self._python.enter_context(enable_python_dispatcher())
        return TorchDispatchMode.__enter__(self)

    def __exit__(self, *error: Any) -> None:
        self._python.close()
        TorchDispatchMode.__exit__(self, *error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._recorder.seen(func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def seed_everything(seed: int) -> None:
    """Seed torch's, Python's and NumPy's global generators, which OpInfo draws from."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def _detached(value: Any) -> Any:
    return tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, value)


def _calls(op: Any, sample: Any, recorder: Recorder, first: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield (phase, function) for the ways in which OpInfo's tests call an operator with one sample."""
    args, kwargs = sample.args, sample.kwargs
    yield "forward", lambda: _under(_BelowAutograd(recorder), lambda: op(sample.input, *args, **kwargs))
    yield (
        "composite",
        lambda: _under(_AboveAutograd(recorder), lambda: op(*_detached((sample.input, *args)), **_detached(kwargs))),
    )
    if op.supports_autograd and recorder.dtype in op.supported_backward_dtypes("cpu"):
        yield "backward", lambda: _backward(op, sample, recorder)
    inplace = op.get_inplace() if first else None
    if inplace is not None:
        yield (
            "inplace",
            lambda: _under(
                _BelowAutograd(recorder), lambda: inplace(*_detached((sample.input, *args)), **_detached(kwargs))
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
        with _BelowAutograd(recorder):
            torch.autograd.grad(ends, leaves, [torch.ones_like(t) for t in ends], allow_unused=True)


def _out(op: Any, sample: Any, recorder: Recorder) -> None:
    args, kwargs = _detached((sample.input, *sample.args)), _detached(sample.kwargs)
    out = tree_map(lambda t: torch.empty_like(t).zero_() if isinstance(t, torch.Tensor) else t, op(*args, **kwargs))
    with _BelowAutograd(recorder):
        op(*args, **kwargs, out=out)


_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError, AttributeError)
"""What an operator raises for a call that it does not support in this way; such a call is no sample."""


def record(dtype: torch.dtype, seed: int, progress: Callable[[int, int, str], None]) -> Recorder:
    """Return the recorder after all of op_db in one dtype; `progress` gets done, total and the entry's name."""
    from torch.testing._internal.common_methods_invocations import op_db

    recorder = Recorder(dtype)
    entries = [op for op in op_db if dtype in op.supported_dtypes("cpu")]
    for number, op in enumerate(entries):
        progress(number, len(entries), op.full_name)
        recorder.opinfo, recorder.aten_name = op.full_name, op.aten_name
        seed_everything(seed)
        differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        for index, sample in enumerate(_samples(op, dtype, differentiable)):
            for phase, call in _calls(op, sample, recorder, index < 3):
                recorder.phase = phase
                with contextlib.suppress(*_REFUSALS):
                    call()
    return recorder


def _samples(op: Any, dtype: torch.dtype, differentiable: bool) -> Iterator[Any]:
    with contextlib.suppress(*_REFUSALS):  # a generator may refuse a dtype half-way
        for index, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=differentiable)):
            if index >= SAMPLES_PER_OPINFO:
                return
            yield sample


def _digest(value: Any) -> list[Any]:
    """Return what must be equal in repeated runs: every tensor's bytes, every other value as text."""
    leaves = tree_flatten(value)[0]
    return [
        (
            str(t.dtype),
            tuple(t.shape),
            t.detach().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8).numpy().tobytes(),
        )
        if isinstance(t, torch.Tensor)
        else repr(t)
        for t in leaves
    ]


def _dirty_memory() -> None:
    """Leave freed blocks full of ones, so that a kernel that reads memory it did not write gives itself away."""
    blocks = [
        torch.full((n,), 0xA5, dtype=torch.uint8) for n in (16, 64, 256, 1024, 4096, 16384, 65536) for _ in range(4)
    ]
    del blocks


def agreeing_variants(name: str, sample: Sample) -> tuple[str, ...]:
    """Return the variants in which three runs over dirtied memory give the same bytes; none where the CPU refuses.

    Overloads whose values are undefined by contract (`empty`) are kept: the comparer knows them.
    """
    op = catalogue.resolve(name)
    undefined = any(row.what == "values" for dtype in ("*",) for row in rows_for(name, dtype))
    kept = []
    for variant in ("forward", "backward"):
        if variant == "backward" and (
            catalogue.by_name()[name].kind != "functional" or undefined or "backward" in name
        ):
            continue
        digests = []
        with contextlib.suppress(*_REFUSALS):
            for _ in range(3):
                args, kwargs = sample.unpack()
                _dirty_memory()
                torch.manual_seed(0)
                digests.append(_digest((perform(op, args, kwargs, variant), args, kwargs)))
        if len(digests) == 3 and (undefined or digests[0] == digests[1] == digests[2]):
            kept.append(variant)
    return tuple(kept)


def main() -> None:
    """Record one dtype into one bank file and print progress events."""
    from neuron_ops.op_tests.bank import BankWriter

    path, dtype_name, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)

    def progress(done: int, total: int, text: str) -> None:
        sys.stdout.write(json.dumps(["p", done, total, text]) + "\n")
        sys.stdout.flush()

    # The first half of the progress is recording, the second the three runs that each sample must survive.
    recorder = record(
        getattr(torch, dtype_name), seed, lambda done, total, name: progress(done, 2 * total, f"records {name}")
    )
    with BankWriter(path, dtype_name, seed) as writer:
        total = len(recorder.shelves)
        for number, (name, shelf) in enumerate(sorted(recorder.shelves.items())):
            progress(total + number, 2 * total, f"repeats {name}")
            for label, sample in shelf.samples().items():
                writer.add(name, label, sample, agreeing_variants(name, sample))


if __name__ == "__main__":
    main()
