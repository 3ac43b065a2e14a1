"""Decides whether two results of snippets are the same: the comparer's rules on whatever forms people write."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import torch
from neuron_ops.op_tests.comparer import compare
from neuron_ops.op_tests.observation import SeenTensor, observe
from neuron_ops.op_tests.selftest_snippets import Raised, is_error_name
from neuron_ops.op_tests.tolerances import EXACT, TOLERANCES, Tolerance

_NOTHING = "selftest.snippet.default"
"""An overload that no row speaks of and no torch has."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """How literally an expected result is meant.

    `exact`: bit for bit, because the CPU gives just that; otherwise it was typed by hand, and floats have the tolerance
    `relative`, or where that is 0 their dtype's (one step in half precision). `zero_sign` and `strides` say whether
    these count.
    """

    exact: bool = True
    relative: float = 0.0
    zero_sign: bool = True
    strides: bool = True


_PRECISIONS = ((True, 0.0), (False, 0.0), (False, 1e-4), (False, 1e-3))
_FLAGS = tuple(itertools.product((True, False), repeat=2))
LADDER = tuple(Strictness(*precision, *flags) for precision in _PRECISIONS for flags in _FLAGS)
"""From the most literal reading to the least: a number that was typed with three digits is meant to three digits."""


def reading(want: Any, computed: Any, *, zero_sign: bool) -> Strictness | None:
    """Return the most literal reading of an expected result in which the CPU's is right, or None where none is.

    With `zero_sign`, signs of zeros count whatever the CPU says of them.
    """
    readings = (s for s in LADDER if s.zero_sign or not zero_sign)
    return next((s for s in readings if difference(want, computed, s) is None), None)


def difference(want: Any, found: Any, strictness: Strictness, compute_dtype: torch.dtype | None = None) -> str | None:
    """Return in one line how `found` (as `selftest_snippets.plain` gives it) differs from `want`, or None.

    `compute_dtype` is the narrower one in which a target computes float64; its tolerance then holds.
    """
    if isinstance(found, Raised):
        if is_error_name(want) and found.fits(want):
            return None
        return None if isinstance(want, Raised) and want.names[0] in found.names else f"raises {found.words}"
    if isinstance(want, Raised):
        return f"{_shown(found)}, expected {want.words}"
    if is_error_name(want) and found != want:
        return f"{_shown(found)}, expected an exception: {want}"
    want, found = _tidied(want, strictness), _tidied(_in_the_form_of(want, found), strictness)
    verdict = compare(
        _NOTHING, "float32", reference=observe(want, (), {}), device=observe(found, (), {}), exact=None,
        tolerance=EXACT if strictness.exact else _tolerance(want, strictness), compute_dtype=compute_dtype,
    )  # fmt: skip
    return None if verdict.ok else verdict.message


def _tolerance(want: Any, strictness: Strictness) -> Tolerance | None:
    """Return the given tolerance or one step of the coarsest half-precision dtype in a result, None for each its own."""
    if strictness.relative:
        return Tolerance(strictness.relative, strictness.relative / 10)
    halves = [t.dtype for t in tensors_of(want) if t.dtype.is_floating_point and t.dtype.itemsize <= 2]
    steps = [
        Tolerance(torch.finfo(d).eps, min(TOLERANCES[d].absolute, torch.finfo(d).tiny))
        for d in halves
        if d in TOLERANCES
    ]
    return max(steps, key=lambda t: t.relative, default=None)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors in a result, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors_of(item)] if isinstance(value, list | tuple) else []


def _in_the_form_of(want: Any, found: Any) -> Any:
    """Return `found` as a tensor, number or list where that is what is expected and says the same."""
    if isinstance(want, list | tuple) and isinstance(found, torch.Tensor) and not tensors_of(want):
        return found.tolist()
    if isinstance(want, list | tuple) and isinstance(found, list | tuple) and len(want) == len(found):
        return [_in_the_form_of(w, f) for w, f in zip(want, found, strict=True)]
    if isinstance(want, torch.Tensor) and not isinstance(found, torch.Tensor):
        return _as_tensor(want, found)
    number = bool | int | float | complex
    if isinstance(want, number) and isinstance(found, torch.Tensor) and found.numel() == 1:
        found = found.item()
    if isinstance(want, number) and isinstance(found, number) and want == found and want:
        return type(want)(found)  # type: ignore[arg-type]
    return found


def _as_tensor(want: torch.Tensor, found: Any) -> Any:
    flat = found if isinstance(found, list | tuple) else [found]
    if any(isinstance(item, list | tuple) for item in flat) or not all(
        isinstance(i, bool | int | float | complex) for i in flat
    ):
        return found
    return torch.tensor(found, dtype=want.dtype)


def _tidied(value: Any, strictness: Strictness) -> Any:
    """Return a result without what does not count: aliases among its tensors, and the details that were not meant."""
    if isinstance(value, list | tuple):
        return tuple(_tidied(item, strictness) for item in value)
    if isinstance(value, float) and not strictness.exact:
        value = torch.tensor(value, dtype=torch.float32 if abs(value) < 3e38 or value - value != 0 else torch.float64)
    if not isinstance(value, torch.Tensor):
        return value
    value = _fresh(value)
    if value.layout is not torch.strided or value.is_quantized or value.device.type == "meta":
        return value
    value = value if strictness.strides else value.contiguous()
    if not strictness.zero_sign and value.is_floating_point():
        value = torch.where(value == 0, torch.zeros_like(value), value)
    return value


def _fresh(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on the CPU, with the same strides in memory of its own."""
    seen = observe(tensor, (), {}).outputs[0]
    values = seen.values if isinstance(seen, SeenTensor) else None
    return tensor if values is None or tensor.layout is not torch.strided or tensor.is_quantized else values


def _shown(value: Any) -> str:
    text = f"tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
