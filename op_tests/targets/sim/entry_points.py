"""Values for overloads that have no CPU kernel: what the public operator above them computes, on CPU tensors.

These are the entry points that PyTorch calls for PrivateUse1 devices only, and operators of the vendor's set that other
backends implement. Formulas: torch 2.13 ``aten/src/ATen/native`` (RNN.cpp, native/cuda/RNN.cu, Linear.cpp).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Tensor = torch.Tensor


def lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return (hy, cy, workspace) with the four activated gates in the workspace."""
    gates = input_gates + hidden_gates
    if input_bias is not None and hidden_bias is not None:
        gates = gates + input_bias + hidden_bias
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return gradients of (gates, cx, bias)."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    i, f, g, o = workspace.chunk(4, 1)
    hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    tanh = cy.tanh()
    state = hy * o * (1 - tanh * tanh)
    state = state if grad_cy is None else state + grad_cy
    gates = torch.cat(
        [state * g * i * (1 - i), state * cx * f * (1 - f), state * i * (1 - g * g), hy * tanh * o * (1 - o)], 1
    )
    return gates, state * f, gates.sum(0) if has_bias else None


def gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (hy, workspace) with reset, update, new, hx and the hidden part of new in the workspace."""
    if input_bias is not None and hidden_bias is not None:
        input_gates, hidden_gates = input_gates + input_bias, hidden_gates + hidden_bias
    ir, iz, inew = input_gates.chunk(3, 1)
    hr, hz, hnew = hidden_gates.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    new = (inew + r * hnew).tanh()
    return new + z * (hx - new), torch.cat([r, z, new, hx, hnew], 1)


def gru_cell_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> tuple[Tensor | None, ...]:
    """Return gradients of (input gates, hidden gates, hx, input bias, hidden bias)."""
    r, z, new, hx, hnew = workspace.chunk(5, 1)
    d_new = grad_hy * (1 - z) * (1 - new * new)
    d_z = grad_hy * (hx - new) * z * (1 - z)
    d_r = d_new * hnew * r * (1 - r)
    d_input, d_hidden = torch.cat([d_r, d_z, d_new], 1), torch.cat([d_r, d_z, d_new * r], 1)
    biases = (d_input.sum(0), d_hidden.sum(0)) if has_bias else (None, None)
    return d_input, d_hidden, grad_hy * z, *biases


def linear_backward(x: Tensor, grad: Tensor, weight: Tensor, mask: list[bool]) -> tuple[Tensor | None, ...]:
    """Return gradients of (input, weight, bias) where the mask asks for them."""
    flat_x, flat_grad = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    return (
        (flat_grad @ weight).reshape(x.shape) if mask[0] else None,
        flat_grad.t() @ flat_x if mask[1] else None,
        flat_grad.sum(0) if mask[2] else None,
    )


def convolution_backward(
    grad: Tensor, x: Tensor, weight: Tensor, stride: list[int], padding: list[int], dilation: list[int],
    transposed: bool, output_padding: list[int], groups: int, mask: list[bool],
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return gradients of (input, weight, bias)."""
    bias = [weight.shape[1] * groups if transposed else weight.shape[0]]
    grads: tuple[Tensor | None, ...] = torch.ops.aten.convolution_backward.default(
        grad, x, weight, bias, stride, padding, dilation, transposed, output_padding, groups, mask
    )
    return grads


def attention(
    query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, return_debug_mask: bool = False, *, scale: float | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """Return (output, logsumexp, None, None, Lq, Lk, seed, offset, debug mask) of fused attention, by its definition."""
    del return_debug_mask
    scores = _scores(query, key, attn_bias, is_causal, scale)
    weights = torch.dropout(torch.nan_to_num(scores.softmax(-1), 0.0), dropout_p, dropout_p > 0)
    output = (weights @ _per_query_head(value, query).float()).to(query.dtype)
    seed = torch.zeros((), dtype=torch.int64)
    empty = torch.empty(0, dtype=query.dtype)
    return (
        output,
        scores.logsumexp(-1),
        empty,
        empty.clone(),
        query.shape[-2],
        key.shape[-2],
        seed,
        seed.clone(),
        empty.clone(),
    )


def attention_backward(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, attn_bias: Tensor | None, grad_mask: list[bool],
    out: Tensor, logsumexp: Tensor, cum_q: Tensor, cum_k: Tensor, max_q: int, max_k: int, dropout_p: float,
    is_causal: bool, seed: Tensor, offset: Tensor, *, scale: float | None = None,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """Return gradients of (query, key, value, attn_bias) without dropout, where the mask asks for them."""
    del out, logsumexp, cum_q, cum_k, max_q, max_k, dropout_p, seed, offset
    # By hand, because autograd is switched off below the device's key.
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    weights = torch.nan_to_num(_scores(query, key, attn_bias, is_causal, scale).softmax(-1), 0.0)
    grad32, key32, value32 = grad.float(), _per_query_head(key, query).float(), _per_query_head(value, query).float()
    d_weights = grad32 @ value32.transpose(-1, -2)
    d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdim=True))
    grads = (
        d_scores @ key32 * factor,
        _per_key_head(d_scores.transpose(-1, -2) @ query.float() * factor, key),
        _per_key_head(weights.transpose(-1, -2) @ grad32, value),
        None if attn_bias is None else d_scores.sum_to_size(attn_bias.shape),
    )
    inputs = (query, key, value, attn_bias)
    return tuple(
        g.to(t.dtype) if need and g is not None and t is not None else None
        for g, t, need in zip(grads, inputs, grad_mask, strict=True)
    )


def _per_key_head(gradient: Tensor, key: Tensor) -> Tensor:
    """Return the gradient summed over the query heads that share one key head."""
    if gradient.shape == key.shape:
        return gradient
    heads: Tensor = gradient.unflatten(1, (key.shape[1], -1))
    return heads.sum(2)


def _per_query_head(tensor: Tensor, query: Tensor) -> Tensor:
    groups = query.shape[1] // tensor.shape[1] if tensor.shape[1] else 1
    return tensor if groups == 1 else tensor.repeat_interleave(groups, 1)


def _scores(query: Tensor, key: Tensor, bias: Tensor | None, is_causal: bool, scale: float | None) -> Tensor:
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query.float() @ _per_query_head(key, query).float().transpose(-1, -2) * factor
    if is_causal:  # top-left aligned, as ATen's own
        allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        scores = scores.masked_fill(~allowed, float("-inf"))
    return scores if bias is None else scores + bias.float()


VALUES: Mapping[str, Callable[..., Any]] = {
    "aten._thnn_fused_lstm_cell.default": lstm_cell,
    "aten._thnn_fused_lstm_cell_backward_impl.default": lstm_cell_backward,
    "aten._thnn_fused_gru_cell.default": gru_cell,
    "aten._thnn_fused_gru_cell_backward.default": gru_cell_backward,
    "aten.linear_backward.default": linear_backward,
    "aten.convolution_overrideable.default": torch.ops.aten.convolution.default,
    "aten.convolution_backward_overrideable.default": convolution_backward,
    "aten._scaled_dot_product_fused_attention_overrideable.default": attention,
    "aten._scaled_dot_product_fused_attention_overrideable_backward.default": attention_backward,
}
"""Overload → function on CPU tensors. `_copy_from` and `_copy_from_and_resize` are memory, see kernels.py."""
