"""Decides the result of one case: reference, target, comparison."""

from __future__ import annotations

import dataclasses
import importlib
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.axes import axis_named, prepare
from neuron_ops.op_tests.axes.draws import fixed
from neuron_ops.op_tests.axes.verdicts import draws_message, missing_refusal, runs_message
from neuron_ops.op_tests.bank import Bank, check_ahead
from neuron_ops.op_tests.calls import arguments, flat, perform
from neuron_ops.op_tests.comparer import compare
from neuron_ops.op_tests.observation import Observation, observe
from neuron_ops.op_tests.packing import ON_HOST
from neuron_ops.op_tests.records import Case, Outcome, Result
from neuron_ops.op_tests.targets import Target, open_target
from neuron_ops.op_tests.tolerances import rows_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from neuron_ops.op_tests.axes import Prepared
    from neuron_ops.op_tests.targets.served import Served

_MESSAGE_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Attempt:
    """The calls of a case on one device: what each left, or what one raised, and their milliseconds."""

    runs: tuple[Observation, ...]
    error: Exception | None
    milliseconds: float

    @property
    def seen(self) -> Observation | None:
        """Return what the first call left, or None where one raised."""
        return self.runs[0] if self.runs else None


@dataclass(frozen=True, slots=True)
class _Work:
    """A case with everything that its calls need."""

    case: Case
    op: torch._ops.OpOverload
    prepared: Prepared

    @property
    def seeded(self) -> bool:
        return torch.Tag.nondeterministic_seeded in self.op.tags

    @property
    def on_host(self) -> tuple[int | str, ...]:
        return (*ON_HOST.get(self.case.overload, ()), *self.prepared.on_host)


class Session:
    """A target opened in this process, with the bank that its cases come from."""

    def __init__(self, target: Target, bank_folder: Path) -> None:
        self._target = target
        self._folder = bank_folder
        self._banks: dict[int, Bank] = {}

    def run(self, case: Case) -> Result:
        """Return the result of one case. Only the death of the process can keep it from returning."""
        op = catalogue.resolve(case.overload)
        work = _Work(case, op, prepare(case.variant, op, self._bank(case.seed).sample(case)))
        reference = self._attempt(work, "cpu")
        if axis_named(case.variant).must_raise:
            return self._refusal(work, reference)
        if reference.error is not None:
            return _not_applicable(case, reference, _words(reference.error))
        device, served = self._on_target(work)
        if device.error is not None:
            return self._failed(case, device, served)
        return self._judged(work, reference, device, served)

    def _bank(self, seed: int) -> Bank:
        if seed not in self._banks:
            self._banks[seed] = Bank(self._folder, seed)
        return self._banks[seed]

    def _on_target(self, work: _Work) -> tuple[Attempt, Served]:
        # observe() moves memory through the device's own copies, so what was seen is read before it.
        served: list[Served] = []
        attempt = self._attempt(work, self._target.device, served)
        return attempt, served[0]

    def _attempt(
        self, work: _Work, device: str, served: list[Served] | None = None, *, wide: bool = False
    ) -> Attempt:  # fmt: skip
        """Return what the calls did on a device; with `served`, the target's account of them is appended."""
        variant, prepared = work.case.variant, work.prepared
        plan = arguments(
            variant,
            lambda sample: sample.unpack(device, wide=wide, on_host=work.on_host),
            prepared.sample,
            prepared.between,
        )
        left: list[tuple[Any, Any, Any]] = []
        error: Exception | None = None
        if served is not None:
            self._target.clear()
        start = time.perf_counter()
        try:
            for step, (args, kwargs) in plan:
                self._seed(device, work.case.seed + step.reseed)
                outputs = perform(work.op, args, kwargs, variant)
                if not step.between:
                    left.append((outputs, args, kwargs))
        except Exception as raised:  # noqa: BLE001 - kernels of backends raise whatever they like; it is the result
            error = raised
        milliseconds = (time.perf_counter() - start) * 1000
        if served is not None:
            served.append(self._target.served(work.case.overload))
        if error is not None:
            return Attempt((), error, milliseconds)
        runs = tuple(observe(flat(outputs, variant), args, kwargs) for outputs, args, kwargs in left)
        return Attempt(runs, None, milliseconds)

    def _seed(self, device: str, seed: int) -> None:
        # torch.manual_seed keeps a formatted stack trace for every other kind of device: 2 ms and memory for ever
        # (torch 2.13), so the CPU's generator is seeded alone where no other one is used.
        if device == "cpu" or self._target.seeded_by_cpu:
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def _refusal(self, work: _Work, reference: Attempt) -> Result:
        """Return the result of a case in which PyTorch refuses the call: the device has to refuse it too."""
        if reference.error is None:
            return _not_applicable(work.case, reference, "the reference accepts this call, so that nothing must raise")
        device, served = self._on_target(work)
        if isinstance(device.error, NotImplementedError) and not isinstance(reference.error, NotImplementedError):
            return self._failed(work.case, device, served)
        message = missing_refusal(reference.error, device.error)
        outcome = Outcome.PASS if message is None else Outcome.WRONG
        result = _result(work.case, outcome, device, served, message)
        return dataclasses.replace(result, reference_ms=reference.milliseconds)

    def _failed(self, case: Case, device: Attempt, served: Served) -> Result:
        assert device.error is not None
        refused = isinstance(device.error, NotImplementedError) or served.route is None
        return _result(
            case, Outcome.UNSUPPORTED if refused else Outcome.ERROR, device, served, _words(device.error)
        )  # fmt: skip

    def _judged(self, work: _Work, reference: Attempt, device: Attempt, served: Served) -> Result:
        assert reference.seen is not None
        assert device.seen is not None
        case, detail = work.case, work.case.variant.partition(":")[2]
        other_generator = work.seeded and not self._target.same_generator
        verdict = compare(
            case.overload,
            case.dtype,
            reference=reference.seen,
            device=device.seen,
            exact=self._exact(work),
            random=other_generator and not fixed(detail),
            compute_dtype=self._compute_dtype(getattr(torch, case.dtype)),
        )
        message = verdict.message
        further = runs_message(case, reference.runs, device.runs) if verdict.ok else None
        if further is None and verdict.ok and other_generator and detail.startswith("statistics"):
            further = draws_message(reference.seen, device.seen)
        passed = verdict.ok and further is None
        result = _result(case, Outcome.PASS if passed else Outcome.WRONG, device, served, further or message)
        return dataclasses.replace(
            result,
            device_figures=verdict.device_figures,
            reference_figures=verdict.reference_figures,
            reference_ms=reference.milliseconds,
        )

    def _compute_dtype(self, dtype: torch.dtype) -> torch.dtype | None:
        """Return the arithmetic that the target documents for a case's floats; integers may become float64 on the way."""
        narrow = self._target.compute_dtypes
        return narrow.get(dtype if dtype.is_floating_point or dtype.is_complex else torch.float64)

    def _exact(self, work: _Work) -> Observation | None:
        """Return what the CPU computes in float64 (complex128), or None where that says nothing or is refused."""
        dtype: torch.dtype = getattr(torch, work.case.dtype)
        if (
            work.seeded
            or not (dtype.is_floating_point or dtype.is_complex)
            or dtype in (torch.float64, torch.complex128)
        ):
            return None
        return self._attempt(work, "cpu", wide=True).seen


def _result(case: Case, outcome: Outcome, device: Attempt, served: Served, message: str | None) -> Result:
    return Result(
        case.key,
        outcome,
        route=served.route,
        reason=served.reason,
        message=message,
        received=served.received,
        composite=served.composite,
        parts=served.parts,
        device_ms=device.milliseconds,
    )


def _not_applicable(case: Case, reference: Attempt, message: str) -> Result:
    return Result(case.key, Outcome.NOT_APPLICABLE, message=message, reference_ms=reference.milliseconds)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MESSAGE_CHARACTERS]


def open_session(target: str, bank_folder: Path, plants: Mapping[str, str]) -> Session:
    """Return a session on the target with the faults planted; raises BadInput where the target or a fault is unknown."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # deprecations of single operators, thousands of times
    opened = open_target(target)
    opened.plant(plants)
    return Session(opened, bank_folder)


def prepare_fork(bank_folder: Path) -> None:
    """Do once, before children are forked, what each would do at its first case; touches no device."""
    rows_for("aten.add.Tensor", "float32")  # compiles the globs of all exceptions (30 ms)
    importlib.import_module("torch.fx.experimental.symbolic_shapes")  # the first gradient imports it (200 ms)
    check_ahead(bank_folder)
