"""Decides how batch and weight normalisation are computed: means and variances over all other dimensions, in float32.

Imported by translators.families.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator
from neuron_ops.translators.resampling import formatted
from neuron_ops.translators.variants import resize_out

_PAPER = "Ioffe and Szegedy 2015"
_Three = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def _across(value: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return value.view([1, -1] + [1] * (like.dim() - 2)).to(computing(like.dtype))


def _statistics(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return mean and biased variance of each channel, in two passes."""
    wide = x.to(computing(x.dtype))
    dims = [d for d in range(x.dim()) if d != 1]
    mean = torch.mean(wide, dims)
    off = wide - _across(mean, wide)
    return mean, torch.mean(off * off, dims)


def _kept(x: torch.Tensor, *parameters: torch.Tensor | None) -> torch.dtype:
    """Return the dtype of saved statistics: float32 where halves have float32 parameters, else that of x."""
    return torch.float32 if any(p is not None and p.dtype == torch.float32 for p in parameters) else x.dtype


def _updated(running: torch.Tensor | None, value: torch.Tensor, momentum: float) -> torch.Tensor | None:
    if running is None:
        return None
    return (running.to(value.dtype) * (1 - momentum) + value * momentum).to(running.dtype)


def _scaled(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, mean: torch.Tensor, inverse: torch.Tensor
) -> torch.Tensor:
    result = (x.to(computing(x.dtype)) - _across(mean, x)) * _across(inverse, x)
    if weight is not None:
        result = result * _across(weight, x)
    if bias is not None:
        result = result + _across(bias, x)
    return formatted(result.to(x.dtype), x)


def _batch_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None, training: bool, momentum: float, eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:  # fmt: skip
    """Return the result, what backward needs (empty outside training), and the new running statistics."""
    refuse_complex(x)
    if not training:
        assert running_mean is not None
        assert running_var is not None
        wide = computing(x.dtype)
        result = _scaled(x, weight, bias, running_mean, torch.rsqrt(running_var.to(wide) + eps))
        kept = _kept(x, weight, bias, running_mean, running_var)
        empty = torch.empty((0,), dtype=kept, device=x.device)
        return result, empty, torch.empty_like(empty), running_mean, running_var
    mean, variance = _statistics(x)
    inverse = torch.rsqrt(variance + eps)
    count = x.numel() // max(x.size(1), 1)
    unbiased = variance * (count / (count - 1)) if count > 1 else variance * float("nan")
    new_mean, new_var = _updated(running_mean, mean, momentum), _updated(running_var, unbiased, momentum)
    kept = _kept(x, weight, bias, running_mean, running_var)
    return _scaled(x, weight, bias, mean, inverse), mean.to(kept), inverse.to(kept), new_mean, new_var


def _in_place(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None, training: bool, momentum: float, eps: float,
) -> _Three:  # fmt: skip
    result, mean, inverse, new_mean, new_var = _batch_norm(
        x, weight, bias, running_mean, running_var, training, momentum, eps
    )
    if training:
        for running, new in ((running_mean, new_mean), (running_var, new_var)):
            if running is not None and new is not None:
                running.copy_(new)
    return result, mean, inverse


@translator("aten.native_batch_norm.default", source=_PAPER)
def native_batch_norm(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor | None,  # noqa: A002
    running_var: torch.Tensor | None, training: bool, momentum: float, eps: float,
) -> _Three:  # fmt: skip
    """Return the normalised input, means and inverse deviations; running statistics are updated in training."""
    return _in_place(input, weight, bias, running_mean, running_var, training, momentum, eps)


@translator("aten._native_batch_norm_legit.default", source=_PAPER)
def native_batch_norm_legit(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor,  # noqa: A002
    running_var: torch.Tensor, training: bool, momentum: float, eps: float,
) -> _Three:  # fmt: skip
    """Return the normalised input, means and inverse deviations; running statistics are updated in training."""
    return _in_place(input, weight, bias, running_mean, running_var, training, momentum, eps)


@translator("aten._native_batch_norm_legit.no_stats", source=_PAPER)
def native_batch_norm_no_stats(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, training: bool, momentum: float,  # noqa: A002
    eps: float,
) -> _Three:  # fmt: skip
    """Return the input normalised by its own statistics, means and inverse deviations."""
    return _in_place(input, weight, bias, None, None, training, momentum, eps)


@translator("aten._native_batch_norm_legit_functional.default", source=_PAPER)
def native_batch_norm_functional(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor,  # noqa: A002
    running_var: torch.Tensor, training: bool, momentum: float, eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the normalised input, means, inverse deviations and the new running statistics."""
    found = _batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    assert found[3] is not None
    assert found[4] is not None
    news = (found[3], found[4]) if training else (found[3].clone(), found[4].clone())
    return *found[:3], *news


def _no_reserve(like: torch.Tensor) -> torch.Tensor:
    return torch.empty((0,), dtype=torch.uint8, device=like.device)


@translator("aten._batch_norm_with_update.default", source=_PAPER)
def batch_norm_with_update(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor,  # noqa: A002
    running_var: torch.Tensor, momentum: float, eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the normalised input, means, inverse deviations and an empty reserve."""
    return *_in_place(input, weight, bias, running_mean, running_var, True, momentum, eps), _no_reserve(input)


@translator("aten._batch_norm_with_update_functional.default", source=_PAPER)
def batch_norm_with_update_functional(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor,  # noqa: A002
    running_var: torch.Tensor, momentum: float, eps: float,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Return the normalised input, means, inverse deviations, an empty reserve and the new running statistics."""
    found = _batch_norm(input, weight, bias, running_mean, running_var, True, momentum, eps)
    return *found[:3], _no_reserve(input), found[3], found[4]  # type: ignore[return-value]


@translator("aten._batch_norm_no_update.default", source=_PAPER)
def batch_norm_no_update(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor | None,  # noqa: A002
    running_var: torch.Tensor | None, momentum: float, eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the input normalised by the running statistics, two empty tensors and an empty reserve."""
    return *_in_place(input, weight, bias, running_mean, running_var, False, momentum, eps), _no_reserve(input)


@translator("aten.batch_norm_update_stats.default", source=_PAPER)
def batch_norm_update_stats(
    input: torch.Tensor, running_mean: torch.Tensor | None, running_var: torch.Tensor | None, momentum: float  # noqa: A002
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return means and biased variances; running statistics are updated."""
    refuse_complex(input)
    mean, variance = _statistics(input)
    count = input.numel() // max(input.size(1), 1)
    unbiased = variance * (count / (count - 1)) if count > 1 else variance * float("nan")
    for running, value in ((running_mean, mean), (running_var, unbiased)):
        new = _updated(running, value, momentum)
        if running is not None and new is not None:
            running.copy_(new)
    kept = _kept(input, running_mean, running_var)
    return mean.to(kept), variance.to(kept)


def _written(results: tuple[torch.Tensor, ...], *outs: torch.Tensor) -> tuple[torch.Tensor, ...]:
    for out, result in zip(outs, results, strict=True):
        resize_out(out, result)
        out.copy_(result)
    return outs


@translator("aten._native_batch_norm_legit.out", source=_PAPER)
def native_batch_norm_legit_out(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor,  # noqa: A002
    running_var: torch.Tensor, training: bool, momentum: float, eps: float, *, out: torch.Tensor, save_mean: torch.Tensor,
    save_invstd: torch.Tensor,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Write the normalised input, means and inverse deviations; running statistics are updated in training."""
    results = _in_place(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return _written(results, out, save_mean, save_invstd)


@translator("aten._batch_norm_with_update.out", source=_PAPER)
def batch_norm_with_update_out(
    input: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, running_mean: torch.Tensor,  # noqa: A002
    running_var: torch.Tensor, momentum: float, eps: float, *, out: torch.Tensor, save_mean: torch.Tensor,
    save_invstd: torch.Tensor, reserve: torch.Tensor,
) -> tuple[torch.Tensor, ...]:  # fmt: skip
    """Write the normalised input, means, inverse deviations and an empty reserve."""
    results = batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps)
    return _written(results, out, save_mean, save_invstd, reserve)


# --- weight norm -----------------------------------------------------------------------------------------------------


def _others(v: torch.Tensor, dim: int) -> list[int]:
    return [d for d in range(v.dim()) if d != dim]


@translator("aten._weight_norm_interface.default", source="Salimans and Kingma 2016")
def weight_norm(v: torch.Tensor, g: torch.Tensor, dim: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Return v scaled to the norms g along dim, and v's own norms, which lie in memory as g does."""
    refuse_complex(v)
    wide = v.to(computing(v.dtype))
    norms = torch.sqrt(torch.sum(wide * wide, _others(v, dim), keepdim=True))
    kind = torch.float32 if v.dtype == torch.bfloat16 else v.dtype
    saved = torch.empty_strided(g.shape, g.stride(), dtype=kind, device=g.device)
    return (wide * (g.to(wide.dtype) / norms)).to(v.dtype).contiguous(), saved.copy_(norms)


@translator("aten._weight_norm_interface_backward.default", source="derivative")
def weight_norm_backward(
    grad_w: torch.Tensor, saved_v: torch.Tensor, saved_g: torch.Tensor, saved_norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of direction and size."""
    wide = computing(saved_v.dtype)
    grad, v, g, norms = (t.to(wide) for t in (grad_w, saved_v, saved_g, saved_norms))
    by_size, ratio = torch.sum(grad * v, _others(v, dim), keepdim=True) / norms, g / norms
    grad_v = ratio * grad - (ratio * by_size / norms) * v  # in this order an infinity becomes NaN where ATen's does
    return grad_v.to(saved_v.dtype).contiguous(), by_size.to(saved_g.dtype)


@translator("aten.native_batch_norm_backward.default", source="derivative of " + _PAPER)
def native_batch_norm_backward(
    grad_out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor | None, running_mean: torch.Tensor | None,  # noqa: A002
    running_var: torch.Tensor | None, save_mean: torch.Tensor | None, save_invstd: torch.Tensor | None, train: bool,
    eps: float, output_mask: list[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:  # fmt: skip
    """Return the gradients of input, weight and bias, those that the mask asks for."""
    refuse_complex(input)
    wide = computing(input.dtype)
    if train:
        mean, inverse = save_mean, save_invstd
    else:
        assert running_var is not None
        mean, inverse = running_mean, torch.rsqrt(running_var.to(wide) + eps)
    assert mean is not None
    assert inverse is not None
    grad, off = grad_out.to(wide), input.to(wide) - _across(mean, input)
    dims = [d for d in range(input.dim()) if d != 1]
    count = input.numel() // max(input.size(1), 1)
    total = torch.sum(grad, dims)
    product = torch.sum(grad * off, dims)
    result = None
    if output_mask[0]:
        scale = inverse.to(wide) if weight is None else inverse.to(wide) * weight.to(wide)
        if train:
            slope = product * inverse.to(wide) * inverse.to(wide) / count
            grad = grad - _across(total / count, input) - off * _across(slope, input)
        result = formatted((grad * _across(scale, input)).to(input.dtype), input)
    kind = input.dtype if weight is None else weight.dtype
    return (
        result,
        (product * inverse.to(wide)).to(kind) if output_mask[1] else None,
        total.to(kind) if output_mask[2] else None,
    )


@translator("aten.batch_norm_backward.default", source="derivative of " + _PAPER)
def batch_norm_backward(
    grad_out: torch.Tensor, input: torch.Tensor, weight: torch.Tensor, running_mean: torch.Tensor | None,  # noqa: A002
    running_var: torch.Tensor | None, save_mean: torch.Tensor | None, save_var: torch.Tensor | None, update: bool,
    eps: float, output_mask: list[bool], reserve: torch.Tensor,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:  # fmt: skip
    """Return the gradients of input, weight and bias, those that the mask asks for; the reserve is empty."""
    del reserve
    return native_batch_norm_backward(
        grad_out, input, weight, running_mean, running_var, save_mean, save_var, update, eps, output_mask
    )
