"""Decides how group normalisation and its gradients are computed: moments of groups, then one factor and one term a channel.

Imported by translators.families. As ATen's CPU kernel multiplies before it adds, infinite factors end the same way.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator
from neuron_ops.translators.resampling import formatted

_PAPER = "Wu and He 2018"
_Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
_Gradients = tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]


def _saved(x: torch.Tensor, weight: torch.Tensor | None) -> torch.dtype:
    """Return the dtype of means and inverse deviations: that of the parameters, where they are wider than x."""
    return x.dtype if weight is None else weight.dtype


@translator("aten.native_group_norm.default", source=_PAPER)
def native_group_norm(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, N: int, C: int, HxW: int, group: int,  # noqa: A002, N803
    eps: float,
) -> _Three:  # fmt: skip
    """Return the normalised input, and means and inverse deviations [N, group]."""
    refuse_complex(input)
    wide, kind = computing(input.dtype), _saved(input, weight if weight is not None else bias)
    x = input.to(wide).reshape(N, group, (C // max(group, 1)) * HxW)
    if x.numel() == 0:
        mean = torch.zeros((N, group), dtype=kind, device=input.device)
        return formatted(torch.zeros(input.shape, dtype=input.dtype, device=input.device), input), mean, mean.clone()
    mean = torch.mean(x, [2])
    off = x - mean.unsqueeze(2)
    inverse = torch.rsqrt(torch.mean(off * off, [2]) + eps)
    factor = inverse.unsqueeze(2).expand(N, group, C // group)
    if weight is not None:
        factor = factor * weight.to(wide).view(1, group, -1)
    term = -factor * mean.unsqueeze(2)
    if bias is not None:
        term = term + bias.to(wide).view(1, group, -1)
    result = x.reshape(N, C, HxW) * factor.reshape(N, C, 1) + term.reshape(N, C, 1)
    return formatted(result.view(input.shape).to(input.dtype), input), mean.to(kind), inverse.to(kind)


@translator("aten.native_group_norm_backward.default", source="derivative of " + _PAPER)
def native_group_norm_backward(
    grad_out: torch.Tensor, input: torch.Tensor, mean: torch.Tensor, rstd: torch.Tensor, weight: torch.Tensor | None,  # noqa: A002
    N: int, C: int, HxW: int, group: int, output_mask: list[bool],  # noqa: N803
) -> _Gradients:  # fmt: skip
    """Return the gradients of input, weight and bias, those that the mask asks for."""
    refuse_complex(input)
    wide, kind = computing(input.dtype), _saved(input, weight)
    grad, x = (t.to(wide).reshape(N, group, -1, HxW) for t in (grad_out, input))
    middle, inverse = (t.to(wide).view(N, group, 1) for t in (mean, rstd))
    product, total = torch.sum(grad * x, [3]), torch.sum(grad, [3])
    result = by_weight = by_bias = None
    if output_mask[0]:
        gamma = torch.ones((), dtype=wide, device=x.device) if weight is None else weight.to(wide).view(1, group, -1)
        products, totals = torch.sum(product * gamma, 2, keepdim=True), torch.sum(total * gamma, 2, keepdim=True)
        share = 1.0 / max(HxW * (C // group), 1)
        slope = (totals * middle - products) * inverse * inverse * inverse * share
        term = -slope * middle - totals * inverse * share
        spread = (inverse * gamma).unsqueeze(3) * grad + slope.unsqueeze(3) * x + term.unsqueeze(3)
        result = formatted(spread.reshape(input.shape).to(input.dtype), input)
    if output_mask[1]:
        by_weight = torch.sum((product - total * middle) * inverse, [0]).view(C).to(kind)
    if output_mask[2]:
        by_bias = torch.sum(total, [0]).view(C).to(kind)
    return result, by_weight, by_bias
