"""Answers where code asks for a value that a fake tensor does not have, and notes each place."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.capture.fake.tensors import device_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from neuron_ops.op_tests.capture.places import Places

_PATIENCE = 64  # times that one place gets the same answer in a row: a loop until convergence must end

_INT = torch.int64


def _room(source: torch.Tensor, shape: list[int], dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype or source.dtype, device=device_of(source))


def _nonzero(source: torch.Tensor) -> torch.Tensor:
    return _room(source, [source.numel(), source.dim()], _INT)


def _masked(source: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return _room(source, [math.prod(torch.broadcast_shapes(source.shape, mask.shape))])


def _unique(source: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    del args, kwargs
    size = [source.numel()]
    return _room(source, size), _room(source, list(source.shape), _INT), _room(source, size, _INT)


def _unique_dim(source: torch.Tensor, dim: int = 0, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, ...]:
    del args, kwargs
    size = [source.shape[dim]]
    return _room(source, list(source.shape)), _room(source, size, _INT), _room(source, size, _INT)


def _bincount(source: torch.Tensor, weights: torch.Tensor | None = None, minlength: int = 0) -> torch.Tensor:
    return _room(source, [max(minlength, 1)], _INT if weights is None else torch.float64)


def _repeats(repeats: torch.Tensor, *, output_size: int | None = None) -> torch.Tensor:
    return _room(repeats, [repeats.numel() if output_size is None else output_size], _INT)


SHAPES: dict[str, Callable[..., Any]] = {
    "aten.nonzero.default": _nonzero,
    "aten.masked_select.default": _masked,
    "aten._unique2.default": _unique,
    "aten._unique.default": _unique,
    "aten.unique_consecutive.default": _unique,
    "aten.unique_dim.default": _unique_dim,
    "aten.bincount.default": _bincount,
    "aten.repeat_interleave.Tensor": _repeats,
}
"""Overloads whose result's shape depends on values → the largest result (for bincount and repeats: the smallest)."""
ASKING = frozenset({"aten._local_scalar_dense.default", "aten.equal.default", *SHAPES})
"""Overloads that need values to answer at all."""


class Guesses:
    """The answers given in one pass over the model; `first` is the side that an unknown condition takes.

    `flipped` holds the places where the other side is taken, because the first one raised.
    """

    def __init__(self, places: Places, tell: Callable[[str, str], None]) -> None:
        self.first = True
        self.flipped: set[str] = set()
        self.conditions: dict[str, int] = {}
        self.last: str | None = None
        self._places, self._tell = places, tell

    def restart(self, *, first: bool = True) -> None:
        """Begin a new pass."""
        self.first, self.last = first, None
        self.conditions = {}

    def answer(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the guessed result of an overload of ASKING."""
        name = str(op)
        if name in SHAPES:
            self.note(f"{op.name().removeprefix('aten::')} of unknown values: the largest result is assumed")
            return SHAPES[name](*args, **kwargs)
        if name == "aten.equal.default" or args[0].dtype is torch.bool:
            return self._side()
        number = 1.0 if args[0].dtype.is_floating_point else 1
        self.note(f"an unknown value is read: {number} is assumed")
        return number

    def _side(self) -> bool:
        place = self._places.here() or "an unknown line"
        self.last = place
        self.conditions[place] = asked = self.conditions.get(place, 0) + 1
        side = self.first and place not in self.flipped
        if asked % (_PATIENCE + 1) == 0:
            side = not side
        self._tell("an unknown condition decides: both sides are tried", place)
        return side

    def note(self, what: str) -> None:
        """Note what was assumed at the line that runs now."""
        self._tell(what, self._places.here() or "an unknown line")
