"""Samples of fused optimizer steps and of gradient scaling for mixed precision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.generators.rows import FLOATS, Arguments, Draw, call, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SHAPES = ((3, 4), (5,), (1, 2, 2))
_RATE = 0.05


def _lists(d: Draw, count: int) -> list[list[torch.Tensor]]:
    return [[d(*shape) for shape in _SHAPES] for _ in range(count)]


def _squares(d: Draw) -> list[torch.Tensor]:
    """Return running averages of squares, which are positive."""
    return [d.positive(*shape) for shape in _SHAPES]


def _steps() -> list[torch.Tensor]:
    """Return the step counts: float32 whatever the parameters are, as torch.optim keeps them."""
    return [torch.tensor(float(step)) for step in (1, 2, 7)]


def _scaling(scaled: bool) -> dict[str, torch.Tensor]:
    """Return the tensors that a gradient scaler hands to the step, or none."""
    return {"grad_scale": torch.tensor(4.0), "found_inf": torch.tensor(0.0)} if scaled else {}


def _rate(tensor: bool) -> Any:
    return torch.tensor(_RATE, dtype=torch.float64) if tensor else _RATE


def _sgd(tensor: bool) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        for momentum, nesterov, first, scaled in (
            (0.9, True, False, False),
            (0.9, False, True, True),
            (0.0, False, False, False),
        ):
            parameters, gradients, buffers = _lists(d, 3)
            yield call(
                parameters, gradients, buffers if momentum else [], weight_decay=0.1, momentum=momentum,
                lr=_rate(tensor), dampening=0.0 if nesterov else 0.2, nesterov=nesterov, maximize=scaled,
                is_first_step=first, **_scaling(scaled),
            )  # fmt: skip

    return make


def _adam(tensor: bool) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        for amsgrad, maximize, scaled in ((False, False, False), (True, True, False), (False, False, True)):
            parameters, gradients, averages = _lists(d, 3)
            largest = _squares(d) if amsgrad else []
            yield call(
                parameters, gradients, averages, _squares(d), largest, _steps(), lr=_rate(tensor), beta1=0.9,
                beta2=0.99, weight_decay=0.1, eps=1e-6, amsgrad=amsgrad, maximize=maximize, **_scaling(scaled),
            )  # fmt: skip

    return make


def _adagrad(tensor: bool) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        for maximize, scaled in ((False, False), (True, True)):
            parameters, gradients = _lists(d, 2)
            yield call(
                parameters, gradients, _squares(d), _steps(), lr=_rate(tensor), lr_decay=0.1, weight_decay=0.1,
                eps=1e-6, maximize=maximize, **_scaling(scaled),
            )  # fmt: skip

    return make


def _update_scale(d: Draw) -> Iterator[Arguments]:
    # The scale grows when the tracker reaches the interval and shrinks when an infinity was found.
    for tracker, found in ((0, 0.0), (3, 0.0), (2, 1.0)):
        yield call(d.positive(1), torch.tensor([tracker], dtype=torch.int32), torch.tensor([found]), 2.0, 0.5, 4)


def _unscale(d: Draw) -> Iterator[Arguments]:
    for bad in (None, float("inf"), float("nan")):
        gradients = [d(*shape) for shape in _SHAPES]
        if bad is not None:
            gradients[1][2] = bad
        yield call(gradients, torch.tensor([0.0]), torch.tensor([0.25]))


ROWS = [
    row(f"aten._fused_{kind}.{overload}", FLOATS, make(overload != "default"))
    for kind, make in (("sgd", _sgd), ("adam", _adam), ("adamw", _adam), ("adagrad", _adagrad))
    for overload in ("default", "tensor_lr")
] + [
    row("aten._amp_update_scale.default", (torch.float32,), _update_scale),
    row("aten._amp_foreach_non_finite_check_and_unscale.default", FLOATS, _unscale),
]
