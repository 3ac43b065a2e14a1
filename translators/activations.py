"""Decides how activation functions and their gradients are computed from comparisons, exp, sigmoid and tanh.

Imported by translators.installation. Gradients at the kinks and results for NaN are those of ATen's CPU kernels.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from neuron_ops.translators.promotion import unary, widened
from neuron_ops.translators.registry import translator

_DEFINITION = "definition"


@translator("aten.elu.default", source="Clevert et al. 2015")
@widened
def elu(self: torch.Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> torch.Tensor:
    """Return scale · x above zero, scale · alpha · (exp(input_scale · x) - 1) below."""
    return torch.where(self < 0, torch.expm1(self * input_scale) * (alpha * scale), self * scale)


@translator("aten.elu_backward.default", source="derivative")
@widened
def elu_backward(
    grad_output: torch.Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, self_or_result: torch.Tensor
) -> torch.Tensor:
    """Return the gradient of elu from its input or its result."""
    below = alpha * scale
    slope = (self_or_result + below) if is_result else below * torch.exp(self_or_result * input_scale)
    return torch.where(self_or_result <= 0, grad_output * input_scale * slope, grad_output * scale)


@translator("aten.hardshrink.default", source=_DEFINITION)
def hardshrink(self: torch.Tensor, lambd: Any = 0.5) -> torch.Tensor:
    """Return self with zeros where its size is at most lambd."""
    return torch.where((self >= -lambd) & (self <= lambd), 0.0, self)


@translator("aten.hardshrink_backward.default", source="derivative")
def hardshrink_backward(grad_out: torch.Tensor, self: torch.Tensor, lambd: Any) -> torch.Tensor:
    """Return the gradient where self was kept, zero elsewhere."""
    return torch.where((self < -lambd) | (self > lambd), grad_out, 0.0)


@translator("aten.softshrink.default", source=_DEFINITION)
@widened
def softshrink(self: torch.Tensor, lambd: Any = 0.5) -> torch.Tensor:
    """Return self moved towards zero by lambd."""
    return torch.where(
        self > lambd, self - lambd, torch.where(self < -lambd, self + lambd, torch.where(self != self, self, 0.0))
    )


@translator("aten.softshrink_backward.default", source="derivative")
def softshrink_backward(grad_output: torch.Tensor, self: torch.Tensor, lambd: Any) -> torch.Tensor:
    """Return the gradient where self was not made zero."""
    return torch.where((self < -lambd) | (self > lambd), grad_output, 0.0)


@translator("aten.hardtanh.default", source=_DEFINITION)
def hardtanh(self: torch.Tensor, min_val: Any = -1, max_val: Any = 1) -> torch.Tensor:
    """Return self between the bounds."""
    if not self.dtype.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)
    return torch.clamp(self, min_val, max_val)


@translator("aten.hardtanh_backward.default", source="derivative")
def hardtanh_backward(grad_output: torch.Tensor, self: torch.Tensor, min_val: Any, max_val: Any) -> torch.Tensor:
    """Return the gradient strictly between the bounds."""
    return torch.where((self > min_val) & (self < max_val), grad_output, 0.0)


@translator("aten.leaky_relu.default", source="Maas et al. 2013")
@widened
def leaky_relu(self: torch.Tensor, negative_slope: Any = 0.01) -> torch.Tensor:
    """Return x above zero, negative_slope · x below."""
    return torch.where(self > 0, self, self * negative_slope)


@translator("aten.leaky_relu_backward.default", source="derivative")
@widened
def leaky_relu_backward(
    grad_output: torch.Tensor,
    self: torch.Tensor,
    negative_slope: Any,
    self_is_result: bool,  # noqa: ARG001 - the sign is the same
) -> torch.Tensor:
    """Return the gradient of leaky_relu."""
    return torch.where(self > 0, grad_output, grad_output * negative_slope)


@translator("aten.hardswish.default", source="Howard et al. 2019")
@widened
def hardswish(self: torch.Tensor) -> torch.Tensor:
    """Return x · clamp(x + 3, 0, 6) / 6."""
    return self * torch.clamp(self + 3, 0, 6) / 6


@translator("aten.hardswish_backward.default", source="derivative")
@widened
def hardswish_backward(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    """Return the gradient of hardswish."""
    middle = grad_output * (self / 3 + 0.5)
    return torch.where(self <= -3, 0.0, torch.where(self >= 3, grad_output, middle))


@translator("aten.hardsigmoid.default", source=_DEFINITION)
@widened
def hardsigmoid(self: torch.Tensor) -> torch.Tensor:
    """Return clamp(x + 3, 0, 6) / 6."""
    return torch.clamp(self + 3, 0, 6) / 6


@translator("aten.hardsigmoid_backward.default", source="derivative")
@widened
def hardsigmoid_backward(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    """Return the gradient between -3 and 3."""
    return torch.where((self > -3) & (self < 3), grad_output / 6, 0.0).to(torch.result_type(grad_output, self))


@translator("aten.mish.default", source="Misra 2019")
@widened
def mish(self: torch.Tensor) -> torch.Tensor:
    """Return x · tanh(log(1 + exp(x)))."""
    return self * torch.tanh(torch.log1p(torch.exp(self)))


@translator("aten.mish_backward.default", source="derivative")
@widened
def mish_backward(grad_output: torch.Tensor, self: torch.Tensor) -> torch.Tensor:
    """Return the gradient of mish."""
    t = torch.tanh(torch.log1p(torch.exp(self)))
    return grad_output * (t + self * torch.sigmoid(self) * (1 - t * t))


@translator("aten.glu.default", source="Dauphin et al. 2017")
@widened
def glu(self: torch.Tensor, dim: int = -1) -> torch.Tensor:
    """Return the first half times the sigmoid of the second."""
    first, second = _halves(self, dim)
    return first * torch.sigmoid(second)


def _halves(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    if x.dim() == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    size = x.size(dim)
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    return x.narrow(dim, 0, size // 2), x.narrow(dim, size // 2, size // 2)


@translator("aten.glu_backward.default", source="derivative")
@widened
def glu_backward(grad_output: torch.Tensor, self: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the gradients of both halves, joined."""
    first, second = _halves(self, dim)
    gate = torch.sigmoid(second)
    return torch.cat((gate * grad_output, (1 - gate) * gate * first * grad_output), dim)


@translator("aten.glu_jvp.default", source="derivative")
@widened
def glu_jvp(glu: torch.Tensor, x: torch.Tensor, dx: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the forward derivative of glu along dx."""
    _, second = _halves(x, dim)
    first_dx, second_dx = _halves(dx, dim)
    gate = torch.sigmoid(second)
    return first_dx * gate + second_dx * (glu - gate * glu)


@translator("aten.glu_backward_jvp.default", source="derivative")
@widened
def glu_backward_jvp(
    grad_x: torch.Tensor,
    grad_glu: torch.Tensor,  # noqa: ARG001 - the gradient of the first half holds it
    x: torch.Tensor,
    dgrad_glu: torch.Tensor,
    dx: torch.Tensor,
    dim: int,
) -> torch.Tensor:
    """Return the forward derivative of glu_backward along dgrad_glu and dx."""
    first, second = _halves(x, dim)
    first_dx, second_dx = _halves(dx, dim)
    grad_first, _ = _halves(grad_x, dim)
    gate = torch.sigmoid(second)
    closed = 1 - gate
    d_first = dgrad_glu * gate + grad_first * closed * second_dx
    d_second = d_first * first * closed + grad_first * (first_dx * closed - first * gate * closed * second_dx)
    return torch.cat((d_first, d_second), dim)


@translator("aten._prelu_kernel.default", source="He et al. 2015")
@widened
def prelu_kernel(self: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Return x above zero, weight · x elsewhere."""
    return torch.where(self > 0, self, weight * self)


@translator("aten._prelu_kernel_backward.default", source="derivative")
@widened
def prelu_kernel_backward(
    grad_output: torch.Tensor, self: torch.Tensor, weight: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of input and weight, both of the input's shape."""
    above = self > 0
    return torch.where(above, grad_output, weight * grad_output), torch.where(above, 0.0, self * grad_output)


@translator("aten.log_sigmoid_forward.default", source="definition, without overflow")
@widened
def log_sigmoid_forward(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return log(sigmoid(x)) and exp(-|x|) for the gradient."""
    self = self.contiguous()  # both results are, whatever the input's strides
    small = torch.exp(-self.abs())
    return torch.clamp_max(self, 0) - torch.log1p(small), small


@translator("aten.log_sigmoid_backward.default", source="derivative")
@widened
def log_sigmoid_backward(grad_output: torch.Tensor, self: torch.Tensor, buffer: torch.Tensor) -> torch.Tensor:
    """Return the gradient; an empty buffer is computed anew."""
    small = buffer if buffer.numel() else torch.exp(-self.abs())
    ratio = small / (1 + small)
    return grad_output * torch.where(self < 0, 1 - ratio, ratio)


@translator("aten._add_relu.Tensor", source=_DEFINITION)
def add_relu(self: torch.Tensor, other: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    """Return relu(self + alpha · other)."""
    total = torch.add(self, other, alpha=alpha)
    return torch.where(total > 0, total, 0)  # of NaN too


@translator("aten._add_relu.Scalar", source=_DEFINITION)
def add_relu_scalar(self: torch.Tensor, other: Any, alpha: Any = 1) -> torch.Tensor:
    """Return relu(self + alpha · other) for one number."""
    total = torch.add(self, other, alpha=alpha)
    return torch.where(total > 0, total, 0)


@translator("aten.special_entr.default", source=_DEFINITION)
@unary
def special_entr(self: torch.Tensor) -> torch.Tensor:
    """Return -x · log(x): zero at zero, -infinity below."""
    value = torch.where(self > 0, -self * torch.log(self), torch.where(self == 0, 0.0, -math.inf))
    return torch.where(torch.isnan(self), self, value)


@translator("aten.logit.default", source=_DEFINITION)
@unary
def logit(self: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    """Return log(x / (1 - x)); with eps, x is first held in [eps, 1 - eps]."""
    x = self if eps is None else torch.where(self < eps, eps, torch.where(self > 1 - eps, 1 - eps, self))
    return torch.log(x / (1 - x))


@translator("aten.logit_backward.default", source="derivative")
@widened
def logit_backward(grad_output: torch.Tensor, self: torch.Tensor, eps: float | None = None) -> torch.Tensor:
    """Return the gradient: zero (with eps) or NaN (without) outside the domain."""
    low, high, outside = (0.0, 1.0, math.nan) if eps is None else (eps, 1 - eps, 0.0)
    inside = (self >= low) & (self <= high)  # not of NaN
    return torch.where(inside, grad_output / (self * (1 - self)), outside)
