"""Decides how fake quantization is computed: rounding to a grid and back, with masks and gradients.

Imported by translators.installation.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.promotion import computing
from neuron_ops.translators.registry import translator

_DEFINITION = "definition"
_LEARNABLE = "Jain et al. 2020 (gradients of threshold and zero point)"


def _along(x: torch.Tensor, like: torch.Tensor, axis: int | None) -> torch.Tensor:
    """Return x of one value, or of one value a channel, in a shape that broadcasts with `like`."""
    if axis is None:
        return x.reshape(())
    shape = [1] * like.dim()
    shape[axis] = -1
    return x.reshape(shape)


def _levels(self: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> torch.Tensor:
    """Return the levels before clamping, as floats; a zero point of floats joins before rounding."""
    scaled = self.to(computing(self.dtype)) * (1 / scale)
    if zero_point.dtype.is_floating_point:
        return torch.round(zero_point + scaled)
    return torch.round(scaled) + zero_point


def _faked(
    self: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the quantized and restored values and where no clamping was needed."""
    levels = _levels(self, scale, zero_point)
    restored = (torch.clamp(levels, low, high) - zero_point) * scale
    return restored.to(self.dtype), (levels >= low) & (levels <= high)


@translator("aten.fake_quantize_per_tensor_affine_cachemask.default", source=_DEFINITION)
def per_tensor(
    self: torch.Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return fake-quantized values and the mask of those inside the range."""
    step = torch.full((), scale, dtype=torch.float32, device=self.device)
    zero = torch.full((), zero_point, dtype=torch.int32, device=self.device)
    return _faked(self, step, zero, quant_min, quant_max)


@translator("aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default", source=_DEFINITION)
def per_tensor_qparams(
    self: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    fake_quant_enabled: torch.Tensor,
    quant_min: int,
    quant_max: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return fake-quantized values and their mask; self and all true where it is switched off."""
    value, mask = _faked(self, scale.reshape(()), zero_point.reshape(()), quant_min, quant_max)
    on = fake_quant_enabled.reshape(()) != 0
    return torch.where(on, value, self), mask | ~on


@translator("aten.fake_quantize_per_channel_affine_cachemask.default", source=_DEFINITION)
def per_channel(
    self: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor, axis: int, quant_min: int, quant_max: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return fake-quantized values and their mask, one scale and zero point a channel."""
    return _faked(self, _along(scale, self, axis), _along(zero_point, self, axis), quant_min, quant_max)


def _learnt_zero(zero_point: torch.Tensor, low: int, high: int) -> torch.Tensor:
    """Return the zero point rounded into the range, as int32."""
    return torch.clamp(torch.round(zero_point), low, high).to(torch.int32)


@translator("aten._fake_quantize_learnable_per_tensor_affine.default", source=_LEARNABLE)
def learnable_per_tensor(
    self: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,  # noqa: ARG001 - only the gradient has it
) -> torch.Tensor:
    """Return fake-quantized values."""
    zero = _learnt_zero(zero_point, quant_min, quant_max).reshape(())
    return _faked(self, scale.reshape(()), zero, quant_min, quant_max)[0]


@translator("aten._fake_quantize_learnable_per_channel_affine.default", source=_LEARNABLE)
def learnable_per_channel(
    self: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,  # noqa: ARG001 - only the gradient has it
) -> torch.Tensor:
    """Return fake-quantized values, one scale and zero point a channel."""
    zero = _along(_learnt_zero(zero_point, quant_min, quant_max), self, axis)
    return _faked(self, _along(scale, self, axis), zero, quant_min, quant_max)[0]


def _gradients(
    grad: torch.Tensor, self: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, low: int, high: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients by element of input, scale and zero point: float32 for halves, as ATen's."""
    grad, self, scale = (t.to(computing(t.dtype)) for t in (grad, self, scale))
    levels = _levels(self, scale, zero.to(self.dtype))  # here, unlike forward, ATen adds before it rounds
    below, above = levels < low, levels > high
    outside = below | above
    restored = (torch.clamp(levels, low, high) - zero) * scale
    bound = torch.where(below, low - zero, high - zero)
    by_scale = grad * torch.where(outside, bound.to(grad.dtype), (restored - self) * (1 / scale))
    return grad * (~outside).to(grad.dtype), by_scale, torch.where(outside, -grad * scale, 0.0)


@translator("aten._fake_quantize_learnable_per_tensor_affine_backward.default", source=_LEARNABLE)
def learnable_per_tensor_backward(
    grad: torch.Tensor,
    self: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of input, scale [1] and zero point [1]."""
    zero = _learnt_zero(zero_point, quant_min, quant_max).reshape(())
    found = _gradients(grad, self, scale.reshape(()), zero, quant_min, quant_max)
    by_scale, by_zero = (torch.sum(g * grad_factor).reshape(1) for g in found[1:])
    return found[0], by_scale, by_zero


@translator("aten._fake_quantize_learnable_per_channel_affine_backward.default", source=_LEARNABLE)
def learnable_per_channel_backward(
    grad: torch.Tensor,
    self: torch.Tensor,
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    axis: int,
    quant_min: int,
    quant_max: int,
    grad_factor: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the gradients of input, scales and zero points."""
    zero = _along(_learnt_zero(zero_point, quant_min, quant_max), self, axis)
    found = _gradients(grad, self, _along(scale, self, axis), zero, quant_min, quant_max)
    others = [d for d in range(self.dim()) if d != axis % self.dim()]
    by_scale, by_zero = (torch.sum(g * grad_factor, others) if others else g * grad_factor for g in found[1:])
    return found[0], by_scale, by_zero
