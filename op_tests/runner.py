"""Decides the result of one case: reference, target, comparison."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.bank import Bank
from neuron_ops.op_tests.calls import perform
from neuron_ops.op_tests.comparer import compare
from neuron_ops.op_tests.observation import Observation, observe
from neuron_ops.op_tests.packing import ON_HOST
from neuron_ops.op_tests.records import Case, Outcome, Result
from neuron_ops.op_tests.targets import Target, open_target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from neuron_ops.op_tests.packing import Sample
    from neuron_ops.op_tests.targets.served import Served

_MESSAGE_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call: what it left, or what it raised, and its milliseconds."""

    seen: Observation | None
    error: Exception | None
    milliseconds: float


class Session:
    """A target opened in this process, with the bank that its cases come from."""

    def __init__(self, target: Target, bank_folder: Path) -> None:
        self._target = target
        self._folder = bank_folder
        self._banks: dict[int, Bank] = {}

    def run(self, case: Case) -> Result:
        """Return the result of one case. Only the death of the process can keep it from returning."""
        op = catalogue.resolve(case.overload)
        sample = self._bank(case.seed).sample(case)
        reference = self._attempt(op, sample, case, "cpu")
        if reference.error is not None:
            return Result(
                case.key, Outcome.NOT_APPLICABLE, message=_words(reference.error), reference_ms=reference.milliseconds
            )
        device, served = self._on_target(op, sample, case)
        if device.error is not None:
            return self._failed(case, device, served)
        return self._judged(op, sample, case, reference, device, served)

    def _bank(self, seed: int) -> Bank:
        if seed not in self._banks:
            self._banks[seed] = Bank(self._folder, seed)
        return self._banks[seed]

    def _on_target(self, op: torch._ops.OpOverload, sample: Sample, case: Case) -> tuple[Attempt, Served]:
        # observe() moves memory through the device's own copies, so what was seen is read before it.
        served: list[Served] = []
        attempt = self._attempt(op, sample, case, self._target.device, served)
        return attempt, served[0]

    def _attempt(
        self,
        op: torch._ops.OpOverload,
        sample: Sample,
        case: Case,
        device: str,
        served: list[Served] | None = None,
        *,
        wide: bool = False,
    ) -> Attempt:
        """Return what the call did on a device; with `served`, the target's account of it is appended."""
        args, kwargs = sample.unpack(device, wide=wide, on_host=ON_HOST.get(case.overload, ()))
        torch.manual_seed(case.seed)
        if served is not None:
            self._target.clear()
        start = time.perf_counter()
        try:
            outputs: Any = perform(op, args, kwargs, case.variant)
            error = None
        except Exception as raised:  # noqa: BLE001 - kernels of backends raise whatever they like; it is the result
            outputs, error = None, raised
        milliseconds = (time.perf_counter() - start) * 1000
        if served is not None:
            served.append(self._target.served(case.overload))
        if error is not None:
            return Attempt(None, error, milliseconds)
        if case.variant == "backward":
            outputs = (*_flat(outputs[0]), *outputs[1])
        return Attempt(observe(outputs, args, kwargs), None, milliseconds)

    def _failed(self, case: Case, device: Attempt, served: Served) -> Result:
        assert device.error is not None
        refused = isinstance(device.error, NotImplementedError) or served.route is None
        return Result(
            case.key,
            Outcome.UNSUPPORTED if refused else Outcome.ERROR,
            route=served.route,
            reason=served.reason,
            message=_words(device.error),
            received=served.received,
            composite=served.composite,
            parts=served.parts,
            device_ms=device.milliseconds,
        )

    def _judged(
        self, op: torch._ops.OpOverload, sample: Sample, case: Case, reference: Attempt, device: Attempt, served: Served
    ) -> Result:
        assert reference.seen is not None
        assert device.seen is not None
        seeded = torch.Tag.nondeterministic_seeded in op.tags
        verdict = compare(
            case.overload,
            case.dtype,
            reference=reference.seen,
            device=device.seen,
            exact=self._exact(op, sample, case, seeded=seeded),
            random=seeded and not self._target.same_generator,
            compute_dtype=self._target.compute_dtypes.get(getattr(torch, case.dtype)),
        )
        return Result(
            case.key,
            Outcome.PASS if verdict.ok else Outcome.WRONG,
            route=served.route,
            reason=served.reason,
            message=verdict.message,
            received=served.received,
            composite=served.composite,
            parts=served.parts,
            device_figures=verdict.device_figures,
            reference_figures=verdict.reference_figures,
            device_ms=device.milliseconds,
            reference_ms=reference.milliseconds,
        )

    def _exact(self, op: torch._ops.OpOverload, sample: Sample, case: Case, *, seeded: bool) -> Observation | None:
        """Return what the CPU computes in float64 (complex128), or None where that says nothing or is refused."""
        dtype: torch.dtype = getattr(torch, case.dtype)
        if seeded or not (dtype.is_floating_point or dtype.is_complex) or dtype in (torch.float64, torch.complex128):
            return None
        return self._attempt(op, sample, case, "cpu", wide=True).seen


def _flat(outputs: Any) -> tuple[Any, ...]:
    return tuple(outputs) if isinstance(outputs, (list, tuple)) else (outputs,)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MESSAGE_CHARACTERS]


def open_session(target: str, bank_folder: Path, plants: Mapping[str, str]) -> Session:
    """Return a session on the target with the faults planted; raises BadInput where the target or a fault is unknown."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # deprecations of single operators, thousands of times
    opened = open_target(target)
    opened.plant(plants)
    return Session(opened, bank_folder)
