"""Decides how the fused LSTM and GRU cells, and their gradients, are computed: the CPU has no kernel for them at all.

Imported by translators.families. The workspaces are ours: forward writes what backward reads.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import translator

_LSTM = "Hochreiter and Schmidhuber 1997, gates in torch's order i f g o"
_GRU = "Cho et al. 2014 as torch.nn.GRU, gates in torch's order r z n"


def _sum(*parts: torch.Tensor | None) -> torch.Tensor:
    total: torch.Tensor | None = None
    for part in parts:
        if part is not None:
            wide = part.to(computing(part.dtype))
            total = wide if total is None else total + wide
    assert total is not None
    return total


@translator("aten._thnn_fused_lstm_cell.default", source=_LSTM)
def lstm_cell(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, cx: torch.Tensor, input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the hidden state, the cell state and the activated gates (N, 4 · hidden)."""
    refuse_complex(input_gates)
    size = cx.size(-1)
    i, f, g, o = _sum(input_gates, hidden_gates, input_bias, hidden_bias).split(size, -1)
    i, f, g, o = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o)
    cell = f * cx.to(f.dtype) + i * g
    hidden, dtype = o * torch.tanh(cell), cx.dtype
    return hidden.to(dtype), cell.to(dtype), torch.cat([i, f, g, o], -1).to(dtype)


@translator("aten._thnn_fused_lstm_cell_backward_impl.default", source="derivative of " + _LSTM)
def lstm_cell_backward(
    grad_hy: torch.Tensor | None, grad_cy: torch.Tensor | None, cx: torch.Tensor, cy: torch.Tensor,
    workspace: torch.Tensor, has_bias: bool,
) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:  # fmt: skip
    """Return the gradients of gates, cell state and biases."""
    if grad_hy is None and grad_cy is None:
        return None, None, None
    wide = computing(cx.dtype)
    i, f, g, o = workspace.to(wide).split(cx.size(-1), -1)
    squashed = torch.tanh(cy.to(wide))
    grad_cell = torch.zeros_like(squashed) if grad_cy is None else grad_cy.to(wide)
    grad_o = torch.zeros_like(squashed)
    if grad_hy is not None:
        grad = grad_hy.to(wide)
        grad_cell = grad_cell + grad * o * (1 - squashed * squashed)
        grad_o = grad * squashed * o * (1 - o)
    grad_i, grad_g = grad_cell * g * i * (1 - i), grad_cell * i * (1 - g * g)
    grad_f = grad_cell * cx.to(wide) * f * (1 - f)
    gates = torch.cat([grad_i, grad_f, grad_g, grad_o], -1)
    bias = torch.sum(gates, 0).to(cx.dtype) if has_bias else None
    return gates.to(cx.dtype), (grad_cell * f).to(cx.dtype), bias


@translator("aten._thnn_fused_gru_cell.default", source=_GRU)
def gru_cell(
    input_gates: torch.Tensor, hidden_gates: torch.Tensor, hx: torch.Tensor, input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    """Return the hidden state, and r, z, n, the old state and the hidden part of n side by side (N, 5 · hidden)."""
    refuse_complex(input_gates)
    size = hx.size(-1)
    from_input, from_hidden = _sum(input_gates, input_bias), _sum(hidden_gates, hidden_bias)
    reset_in, update_in, new_in = from_input.split(size, -1)
    reset_hidden, update_hidden, new_hidden = from_hidden.split(size, -1)
    reset, update = torch.sigmoid(reset_in + reset_hidden), torch.sigmoid(update_in + update_hidden)
    new, old = torch.tanh(new_in + reset * new_hidden), hx.to(reset.dtype)
    hidden = new + update * (old - new)
    return hidden.to(hx.dtype), torch.cat([reset, update, new, old, new_hidden], -1).to(hx.dtype)


@translator("aten._thnn_fused_gru_cell_backward.default", source="derivative of " + _GRU)
def gru_cell_backward(
    grad_hy: torch.Tensor, workspace: torch.Tensor, has_bias: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
    """Return the gradients of both gates, the old state and both biases."""
    wide, dtype = computing(grad_hy.dtype), grad_hy.dtype
    grad = grad_hy.to(wide)
    reset, update, new, old, new_hidden = workspace.to(wide).split(grad_hy.size(-1), -1)
    grad_new = grad * (1 - update) * (1 - new * new)
    grad_update = grad * (old - new) * update * (1 - update)
    grad_reset = grad_new * new_hidden * reset * (1 - reset)
    from_input = torch.cat([grad_reset, grad_update, grad_new], -1)
    from_hidden = torch.cat([grad_reset, grad_update, grad_new * reset], -1)
    biases = (torch.sum(from_input, 0).to(dtype), torch.sum(from_hidden, 0).to(dtype)) if has_bias else (None, None)
    return from_input.to(dtype), from_hidden.to(dtype), (grad * update).to(dtype), *biases
