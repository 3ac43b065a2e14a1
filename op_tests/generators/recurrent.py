"""Samples of recurrent cells, of whole recurrent networks and of packed sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.generators.rows import ALL, FLOATS, Arguments, Draw, call, row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_GATES = {"gru": 3, "lstm": 4, "rnn_relu": 1, "rnn_tanh": 1}


def _parameters(d: Draw, gates: int, inputs: int, hidden: int, layers: int, directions: int, biases: bool) -> list[Any]:
    """Return per layer and direction w_ih (gates·hidden, inputs), w_hh (gates·hidden, hidden) and two biases."""
    found = []
    for layer in range(layers):
        width = inputs if layer == 0 else hidden * directions
        for _ in range(directions):
            found += [d(gates * hidden, width, low=-0.5, high=0.5), d(gates * hidden, hidden, low=-0.5, high=0.5)]
            found += [d(gates * hidden, low=-0.5, high=0.5) for _ in range(2 * biases)]
    return found


def _state(d: Draw, kind: str, *shape: int) -> Any:
    """Return the hidden state, for an LSTM the pair of hidden and cell state."""
    return [d.unit(*shape), d.unit(*shape)] if kind == "lstm" else d.unit(*shape)


def _network(kind: str) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        # layers, two directions, biases, batch first; inputs are (time, batch, 3), the hidden state has 4 features
        for layers, both, biases, first in ((1, False, True, False), (2, True, True, True), (1, False, False, True)):
            shape = (2, 5, 3) if first else (5, 2, 3)
            weights = _parameters(d, _GATES[kind], 3, 4, layers, 1 + both, biases)
            state = _state(d, kind, layers * (1 + both), 2, 4)
            yield call(d(*shape), state, weights, biases, layers, 0.0, False, both, first)

    return make


def _packed(kind: str) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        for sizes, both, biases in (([3, 2, 2, 1], False, True), ([2, 1], True, True), ([1, 1, 1], False, False)):
            weights = _parameters(d, _GATES[kind], 3, 4, 1, 1 + both, biases)
            state = _state(d, kind, 1 + both, sizes[0], 4)
            yield call(d(sum(sizes), 3), torch.tensor(sizes), state, weights, biases, 1, 0.0, False, both)

    return make


def _cell(kind: str) -> Callable[[Draw], Iterator[Arguments]]:
    def make(d: Draw) -> Iterator[Arguments]:
        for batch, inputs, hidden, biases in ((2, 3, 4, True), (1, 5, 3, False), (0, 3, 4, True)):
            weights = _parameters(d, _GATES[kind], inputs, hidden, 1, 1, biases)
            yield call(d(batch, inputs), _state(d, kind, batch, hidden), *weights)

    return make


def _pack(d: Draw) -> Iterator[Arguments]:
    yield call(d(4, 3, 2), torch.tensor([4, 2, 1]), False)
    yield call(d(3, 4, 2), torch.tensor([4, 4, 2]), True)
    yield call(d(1, 1), torch.tensor([1]), False)


def _pack_backward(d: Draw) -> Iterator[Arguments]:
    yield call(d(7, 2), [4, 3, 2], torch.tensor([3, 2, 1, 1]), False)
    yield call(d(10, 2), [3, 4, 2], torch.tensor([3, 3, 2, 2]), True)


def _pad(d: Draw) -> Iterator[Arguments]:
    yield call(d(7, 2), torch.tensor([3, 2, 1, 1]), False, 0.0, 0)
    yield call(d(7, 2), torch.tensor([3, 2, 1, 1]), True, 1, 6)


def _pad_sequence(d: Draw) -> Iterator[Arguments]:
    yield call([d(4, 2), d(1, 2), d(3, 2)])
    yield call([d(2), d(5)], True, 1.0, "left")


ROWS = [
    *(row(f"aten.{kind}.input", FLOATS, _network(kind)) for kind in _GATES),
    *(row(f"aten.{kind}.data", FLOATS, _packed(kind)) for kind in _GATES),
    *(row(f"aten.{kind}_cell.default", FLOATS, _cell(kind)) for kind in _GATES),
    row("aten._pack_padded_sequence.default", ALL, _pack),
    row("aten._pack_padded_sequence_backward.default", ALL, _pack_backward),
    row("aten._pad_packed_sequence.default", ALL, _pad),
    row("aten.pad_sequence.default", ALL, _pad_sequence),
]
