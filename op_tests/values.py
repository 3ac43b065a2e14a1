"""Judges the values of one tensor: NaN and infinity placement, sign of zero, distance, each with its own message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.figures import Distances, both_finite, distances, parts, widen
from neuron_ops.op_tests.tolerances import CPU_FACTOR, EXACT, Tolerance, computed_as, scaled

if TYPE_CHECKING:
    from collections.abc import Iterable

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True, slots=True, eq=False)
class ValueRule:
    """What one tensor is held to; the default is bit-exact but for which NaN it is.

    `length` is that of `tolerances.reduction_length`; `exact` the same values computed in float64, or None.
    """

    tolerance: Tolerance = EXACT
    length: float = 1.0
    exact: torch.Tensor | None = None
    zero_sign: bool = True
    compute_dtype: torch.dtype | None = None


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Return whether dtype, shape and every bit are equal (NaN equals itself, -0.0 is not 0.0)."""
    return left.dtype is right.dtype and left.shape == right.shape and bool(torch.equal(_bits(left), _bits(right)))


def values_message(name: str, want: torch.Tensor, got: torch.Tensor, rule: ValueRule) -> str | None:
    """Return what is wrong with `got`, with the share of wrong elements and the worst of them, or None.

    Both are CPU tensors of one dtype and shape. A value is right within the scaled tolerance of the reference or, where
    there is a float64 result, when it is no worse than the CPU (see `_no_worse`); every element must be right.
    """
    if not want.numel():
        return None
    if not (want.dtype.is_floating_point or want.dtype.is_complex):
        wrong = _bits(want) != _bits(got)
        if not bool(wrong.any()):
            return None
        return f"{name}: {_worst(want, got, wrong, (widen(want) - widen(got)).abs())}"
    left, right = widen(want), widen(got)
    return _placement(name, want, got, rule) or _distance_message(name, (want, got), (left, right), rule)


def cast_note(name: str, want: torch.Tensor, got: torch.Tensor, sources: Iterable[torch.Tensor | None]) -> str | None:
    """Return a note when all differences stand where a float source is outside the range of the integer dtype.

    The source is the first float tensor of the output's shape, or of one element. None: the differences are faults.
    """
    if want.dtype.is_floating_point or want.dtype.is_complex or want.dtype is torch.bool:
        return None
    fitting = (
        s for s in sources if s is not None and s.dtype.is_floating_point and (s.shape == want.shape or s.numel() == 1)
    )
    source = next(fitting, None)
    if source is None:
        return None
    whole, info = widen(source).trunc(), torch.iinfo(want.dtype)
    outside = ~whole.isfinite() | (whole < float(info.min)) | (whole >= float(info.max + 1))
    wrong = _bits(want) != _bits(got)
    if bool((wrong & ~outside).any()):
        return None
    kind = str(want.dtype).removeprefix("torch.")
    where = f"platform-defined where the source is outside the range of {kind}"
    return f"{name}: {where}: {_worst(want, got, wrong, wrong.to(torch.float64))}"


def _bits(values: torch.Tensor) -> torch.Tensor:
    """Return the values as integers of their size, complex ones with a last dimension of 2."""
    values = parts(values.contiguous())
    return values.view(_INTEGERS[values.dtype.itemsize])


def _placement(name: str, want: torch.Tensor, got: torch.Tensor, rule: ValueRule) -> str | None:
    left, right = parts(widen(want)), parts(widen(got))
    excused = _cpu_overflowed(want, got, rule)
    for what, wrong in (
        ("NaN placement", left.isnan() != right.isnan()),
        ("infinity placement", (left.isinf() | right.isinf()) & (left != right) & ~left.isnan()),
        ("sign of zero", (left == 0) & (right == 0) & (left.signbit() != right.signbit())),
    ):
        if what == "sign of zero" and not rule.zero_sign:
            continue
        element = wrong.any(-1) if want.is_complex() else wrong
        element = element if excused is None else element & ~excused
        if bool(element.any()):
            return f"{name}: {what}: {_worst(want, got, element, element.to(torch.float64))}"
    return None


def _cpu_overflowed(want: torch.Tensor, got: torch.Tensor, rule: ValueRule) -> torch.Tensor | None:
    """Return where the CPU has NaN or infinity, though the dtype holds the float64 result, and the device has that one.

    `soft_margin_loss` in float16 is such a case: the CPU's exp overflows on the way to 7.6.
    """
    left = parts(widen(want))
    if rule.exact is None or rule.tolerance == EXACT or bool(left.isfinite().all()):
        return None
    truth, result = widen(rule.exact), widen(got)
    real = want.dtype.to_real() if want.dtype.is_complex else want.dtype
    held = (parts(truth).abs() <= torch.finfo(real).max) & parts(result).isfinite()
    lost = ~left.isfinite()
    if want.is_complex():
        held, lost = held.all(-1), lost.any(-1)
    size = truth.abs().where(held, 0.0)
    tolerance = scaled(rule.tolerance, rule.length, float(size.max()), narrowed=False)
    near = (result - truth).abs() <= tolerance.absolute + tolerance.relative * size
    return lost & held & near


def _distance_message(
    name: str, shown: tuple[torch.Tensor, torch.Tensor], wide: tuple[torch.Tensor, torch.Tensor], rule: ValueRule
) -> str | None:
    want, got = shown
    left, right = both_finite(*wide)
    size, error = left.abs(), (left - right).abs()
    narrowed = computed_as(want.dtype, rule.compute_dtype) is not want.dtype
    tolerance = scaled(rule.tolerance, rule.length, float(size.max()), narrowed=narrowed)
    bound = tolerance.absolute + tolerance.relative * size
    wrong = error > bound
    if not bool(wrong.any()):
        return None
    blame = ""
    if rule.exact is not None and tolerance != EXACT and _usable(rule.exact, want):
        truth = widen(rule.exact)
        cpu, device = distances(wide[0], truth, want.dtype), distances(wide[1], truth, want.dtype)
        wrong = wrong & ~_no_worse(cpu, device, zeros=not bool(right.any()))
        if not bool(wrong.any()):
            return None
        verdict = "dtype limit" if bool((cpu.error > bound).any()) else "worse than CPU"
        errors = f"error {float(device.error.max()):.3g} against float64, the CPU's {float(cpu.error.max()):.3g}"
        blame = f"; {verdict} ({errors})"
    zeros = "; every value is zero" if not bool(right.any()) else ""
    return f"{name}: {_worst(want, got, wrong, error)}{blame}{zeros}"


def _usable(exact: torch.Tensor, want: torch.Tensor) -> bool:
    """Return whether the float64 result means the same: it does not where an op uses the dtype's largest number itself.

    `nan_to_num` of an infinity is such a case: 3.4e38 in float32 and 1.8e308 in float64.
    """
    real = want.dtype.to_real() if want.dtype.is_complex else want.dtype
    fits = parts(widen(exact)).abs() <= torch.finfo(real).max
    return bool((fits | ~parts(widen(want)).isfinite()).all())


def _no_worse(cpu: Distances, device: Distances, *, zeros: bool) -> torch.Tensor:
    """Return where the device's error is none by the CPU's own: on the whole, in the element, or within CPU_FACTOR.

    On the whole: no larger in root mean square and none larger than twice the CPU's largest. The mean square, because
    one wrong element on top of the CPU's own errors makes it larger. Else an element passes that is as near to the truth
    as the CPU's, or within CPU_FACTOR of the CPU's largest error, absolute as well as relative: one alone lets a large
    element's error hide a wrong small one, or one cancelled sum a wrong large one. All zeros pass on the whole only:
    their relative error is 1, so the CPU's answer must be worth nothing.
    """
    near = device.error <= CPU_FACTOR * cpu.error.max()
    if bool(near.all()) and _mean_square(device.error) <= _mean_square(cpu.error):
        return torch.ones_like(near)
    if zeros:
        return torch.zeros_like(near)
    return (device.error <= cpu.error) | near & (
        device.error / device.scale <= CPU_FACTOR * (cpu.error / cpu.scale).max()
    )


def _mean_square(error: torch.Tensor) -> float:
    top = float(error.max())
    return top * float((error / top).square().mean().sqrt()) if top else 0.0


def _worst(want: torch.Tensor, got: torch.Tensor, wrong: torch.Tensor, error: torch.Tensor) -> str:
    """Return the share of wrong elements and the one with the largest error, with both values."""
    count, total = int(wrong.sum()), wrong.numel()
    flat = int(torch.where(wrong, error.nan_to_num(), -1.0).flatten().argmax())
    index = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), wrong.shape)) if wrong.dim() else ()
    place = f"worst at {list(index)}" if index else "the value"
    share = f"{count} of {total} elements wrong ({100 * count / total:.3g} %)"
    return f"{share}, {place}: {_shown(got[index])}, expected {_shown(want[index])}"


def _shown(value: torch.Tensor) -> str:
    number = value.item()
    if isinstance(number, bool | int):
        return str(number)
    digits = 17 if value.dtype in {torch.float64, torch.complex128} else 9
    return f"{number:.{digits}g}"
