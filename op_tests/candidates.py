"""Decides which values are likely for an argument, by its name and its schema type."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SHAPES = ((3, 4), (4,), (2, 3, 4, 4), (4, 4), (2, 3, 8), (2, 3, 4, 4, 4), (), (2, 4, 4))
"""Shapes of tensor candidates: a tensor of the same place has the same shape whatever its argument's name."""

_INTEGERS = {
    r"^dim\d?$|^axis": (0, -1, 1),
    r"^(n|size|window_length|steps|num_samples|high|end|upper|num_classes|num_weights|N|C|HxW)$": (4, 1, 3),
    r"^(group|groups|dilation|stride)$": (1, 2),
    r"padding_idx": (-1, 0),
    r"num_head": (1, 2),
}
_INTEGER_LISTS = {
    r"padding|^pad$": ([0, 0], [1, 1], [1], [0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 1, 1, 1]),
    r"output_size|^size$|kernel_size": ([2, 2], [4], [3, 4], [2], [2, 2, 2], [2, 3, 4, 4], [4, 4], [4, 4, 4]),
    r"input_size|self_size|normalized_shape|sizes": ([2, 3, 4, 4], [3, 4], [4], [2, 3, 4, 4, 4], [2, 3, 8]),
    r"stride|dilation": ([1, 1], [1], [1, 1, 1], [2, 2], [4, 1]),
    r"^dims?$|shifts|permutation": ([0], [0, 1], [-1]),
}
_STRINGS = (
    "mean",
    "none",
    "sum",
    "trunc",
    "floor",
    "reflect",
    "constant",
    "linear",
    "ij",
    "fro",
    "valid",
    "same",
    "right",
)
_FLOATS = (0.5, 1.0, 1e-5, 2.0)


INDICES = re.compile(r"ind(ex|ices)|offset|target|length|cu_seq|bag|^argmax|^perm|pivots|batch_sizes")
"""Names of tensors that hold positions: integers whatever the dtype under test."""


def candidates(argument: str, kind: str, dtype: torch.dtype) -> list[Any]:
    """Return likely values of an argument of a name and a schema type, the likeliest first, never none."""
    if kind.startswith("Optional["):
        inner = candidates(argument, kind.removeprefix("Optional[").removesuffix("]"), dtype)
        return [None, *(value for value in inner if value is not None)]
    if kind == "Tensor":
        return list(_tensors(argument, dtype))
    if kind in ("List[Tensor]", "List[Optional[Tensor]]"):
        found = _tensors(argument, dtype)
        return [[found[0], found[0] + found[0]], [found[1], found[1]], [found[2]]]
    if kind == "int":
        return _by_name(_INTEGERS, argument, (1, 0, 2, 3))
    if kind == "List[int]":
        return _by_name(_INTEGER_LISTS, argument, ([1, 1], [1], [2, 2, 2], [3, 4]))
    return _PLAIN[kind](dtype) if kind in _PLAIN else [None]


_PLAIN: dict[str, Callable[[torch.dtype], list[Any]]] = {
    "number": lambda dtype: [1, 2, 3] if not (dtype.is_floating_point or dtype.is_complex) else [1, 2.0, 0.5],
    "float": lambda _: list(_FLOATS),
    "bool": lambda _: [False, True],
    "str": lambda _: list(_STRINGS),
    "List[float]": lambda _: [[1.0, 1.0], [2.0], [2.0, 2.0, 2.0]],
    "List[bool]": lambda _: [[True, True, True], [True, False, True], [True, True]],
    "List[number]": lambda _: [[1, 2], [1.0, 2.0]],
    "ScalarType": lambda dtype: [dtype],
    "Layout": lambda _: [torch.strided],
    "Device": lambda _: [torch.device("cpu")],
    "MemoryFormat": lambda _: [torch.contiguous_format, torch.preserve_format],
}


def _by_name(table: Mapping[str, Sequence[Any]], argument: str, otherwise: Sequence[Any]) -> list[Any]:
    return list(next((values for pattern, values in table.items() if re.search(pattern, argument)), otherwise))


@functools.cache
def _tensors(argument: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    if INDICES.search(argument):
        drawn = torch.randint(0, 3, (3, 4), generator=generator)
        return (
            torch.tensor([0, 1, 2]),
            drawn,
            drawn.int(),
            torch.tensor([0, 1], dtype=torch.int32),
            torch.tensor(1),
            drawn.unsqueeze(0),
        )
    if "mask" in argument:
        return torch.rand(3, 4, generator=generator) > 0.5, torch.rand(4, 4, generator=generator) > 0.5
    floats = (torch.rand(shape, generator=generator) + 0.25 for shape in SHAPES)
    found = [
        value.to(dtype) if dtype.is_floating_point or dtype.is_complex else (value * 4).to(dtype) for value in floats
    ]
    integer = torch.randint(1, 5, (3, 4), generator=generator)
    return (*found, integer, torch.rand(3, 4, generator=generator) > 0.5)
