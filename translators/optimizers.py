"""Decides how fused optimizer steps and loss scaling are computed tensor by tensor, without reading a value on the host.

Imported by translators.installation. The functional overloads are PyTorch's composites over the in-place ones written here. A step
with found_inf set leaves everything as it was, as ATen's kernels do; the caller counts steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.promotion import computing
from neuron_ops.translators.registry import translator

if TYPE_CHECKING:
    from collections.abc import Sequence

_ADAM = "Kingma & Ba 2015; AMSGrad: Reddi et al. 2018"
_ADAMW = "Loshchilov & Hutter 2019"


@dataclass(frozen=True, slots=True)
class _Scaling:
    """What a gradient scaler hands in: the scale to divide by, and whether a gradient was not finite."""

    scale: torch.Tensor | None
    found: torch.Tensor | None

    def gradient(self, grad: torch.Tensor, *, maximize: bool) -> torch.Tensor:
        """Return the gradient in the dtype to compute in, unscaled; the unscaled one is written back, as ATen does."""
        wide = grad.to(computing(grad.dtype))
        if self.scale is not None:
            wide = wide / self.scale.to(wide.device)
            self.write(grad, wide)
        return -wide if maximize else wide

    def write(self, target: torch.Tensor, value: torch.Tensor) -> None:
        """Write value into target unless a gradient was not finite."""
        if self.found is not None:
            value = torch.where(self.found.to(target.device) == 1, target.to(value.dtype), value)
        target.copy_(value)


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.to(computing(x.dtype))


@dataclass(frozen=True, slots=True)
class _Adam:
    lr: Any
    beta1: float
    beta2: float
    weight_decay: float
    eps: float
    amsgrad: bool
    maximize: bool
    decoupled: bool

    def step(
        self,
        param: torch.Tensor,
        grad: torch.Tensor,
        first: torch.Tensor,
        second: torch.Tensor,
        largest: torch.Tensor | None,
        step: torch.Tensor,
        scaling: _Scaling,
    ) -> None:
        """Write one tensor's update."""
        p, g = _wide(param), scaling.gradient(grad, maximize=self.maximize)
        step = step.to(device=param.device, dtype=p.dtype)
        rate = self.lr.to(device=param.device, dtype=p.dtype) if isinstance(self.lr, torch.Tensor) else self.lr
        if self.weight_decay and self.decoupled:
            p = p - p * (rate * self.weight_decay)
        elif self.weight_decay:
            g = g + p * self.weight_decay
        m, v = _wide(first), _wide(second)
        m = m + (g - m) * (1 - self.beta1)
        v = v * self.beta2 + g * g * (1 - self.beta2)
        scaling.write(first, m)
        scaling.write(second, v)
        if self.amsgrad and largest is not None:
            v = torch.maximum(_wide(largest), v)
            scaling.write(largest, v)
        size = rate / (1 - torch.pow(self.beta1, step))
        root = torch.sqrt(v) / torch.sqrt(1 - torch.pow(self.beta2, step)) + self.eps
        scaling.write(param, p - size * m / root)


def _adam(lists: Sequence[Any], found: tuple[torch.Tensor | None, torch.Tensor | None], rule: _Adam) -> None:
    params, grads, firsts, seconds, largests, steps = lists
    scaling = _Scaling(*found)
    for i, param in enumerate(params):
        largest = largests[i] if rule.amsgrad else None
        rule.step(param, grads[i], firsts[i], seconds[i], largest, steps[i], scaling)


def _register_adam(name: str, overload: str, source: str) -> None:
    decoupled = name == "_fused_adamw_"

    def adam(
        self: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor],
        exp_avgs: Sequence[torch.Tensor],
        exp_avg_sqs: Sequence[torch.Tensor],
        max_exp_avg_sqs: Sequence[torch.Tensor],
        state_steps: Sequence[torch.Tensor],
        *,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        amsgrad: bool,
        maximize: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        rule = _Adam(lr, beta1, beta2, weight_decay, eps, amsgrad, maximize, decoupled)
        lists = (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps)
        _adam(lists, (grad_scale, found_inf), rule)

    translator(f"aten.{name}.{overload}", source=source)(adam)


def _register_sgd(overload: str) -> None:
    def sgd(
        self: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor],
        momentum_buffer_list: Sequence[torch.Tensor],
        *,
        weight_decay: float,
        momentum: float,
        lr: Any,
        dampening: float,
        nesterov: bool,
        maximize: bool,
        is_first_step: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        scaling = _Scaling(grad_scale, found_inf)
        for i, (param, grad) in enumerate(zip(self, grads, strict=True)):
            p, g = _wide(param), scaling.gradient(grad, maximize=maximize)
            rate = lr.to(device=param.device, dtype=p.dtype) if isinstance(lr, torch.Tensor) else lr
            g = g + p * weight_decay if weight_decay else g
            if momentum:
                buffer = momentum_buffer_list[i]
                moved = g if is_first_step else _wide(buffer) * momentum + g * (1 - dampening)
                scaling.write(buffer, moved)
                g = g + moved * momentum if nesterov else moved
            scaling.write(param, p - g * rate)

    translator(f"aten._fused_sgd_.{overload}", source="Sutskever et al. 2013, as torch.optim.SGD")(sgd)


def _register_adagrad(overload: str) -> None:
    def adagrad(
        self: Sequence[torch.Tensor],
        grads: Sequence[torch.Tensor],
        state_sums: Sequence[torch.Tensor],
        state_steps: Sequence[torch.Tensor],
        *,
        lr: Any,
        lr_decay: float,
        weight_decay: float,
        eps: float,
        maximize: bool,
        grad_scale: torch.Tensor | None = None,
        found_inf: torch.Tensor | None = None,
    ) -> None:
        scaling = _Scaling(grad_scale, found_inf)
        for i, (param, grad) in enumerate(zip(self, grads, strict=True)):
            p, g = _wide(param), scaling.gradient(grad, maximize=maximize)
            rate = lr.to(device=param.device, dtype=p.dtype) if isinstance(lr, torch.Tensor) else lr
            step = state_steps[i].to(device=param.device, dtype=p.dtype)
            g = g + p * weight_decay if weight_decay else g
            total = _wide(state_sums[i]) + g * g
            scaling.write(state_sums[i], total)
            scaling.write(param, p - rate / (1 + (step - 1) * lr_decay) * g / (torch.sqrt(total) + eps))

    translator(f"aten._fused_adagrad_.{overload}", source="Duchi et al. 2011, as torch.optim.Adagrad")(adagrad)


for _overload in ("default", "tensor_lr"):
    _register_adam("_fused_adam_", _overload, _ADAM)
    _register_adam("_fused_adamw_", _overload, _ADAMW)
    _register_sgd(_overload)
    _register_adagrad(_overload)


@translator("aten._amp_foreach_non_finite_check_and_unscale_.default", source="definition")
def check_and_unscale(self: Sequence[torch.Tensor], found_inf: torch.Tensor, inv_scale: torch.Tensor) -> None:
    """Multiply the gradients by inv_scale; write 1 into found_inf where one was not finite."""
    for grad in self:
        broken = torch.logical_not(torch.all(torch.isfinite(grad)))
        found_inf.copy_(torch.where(broken, 1.0, found_inf))
        grad.copy_(_wide(grad) * inv_scale)


@translator("aten._amp_update_scale_.default", source="definition")
def update_scale(
    self: torch.Tensor,
    growth_tracker: torch.Tensor,
    found_inf: torch.Tensor,
    scale_growth_factor: float,
    scale_backoff_factor: float,
    growth_interval: int,
) -> torch.Tensor:
    """Shrink the scale after a gradient that was not finite, grow it after that many good steps."""
    bad = found_inf != 0
    good = growth_tracker + 1
    due = good == growth_interval
    grown = self * scale_growth_factor
    grown = torch.where(due & torch.isfinite(grown), grown, self)
    scale = torch.where(bad, self * scale_backoff_factor, grown)
    growth_tracker.copy_(torch.where(bad | due, 0, good))
    return self.copy_(scale)
