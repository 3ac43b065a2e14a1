"""Decides in which dtype a translator computes and in which it answers, by ATen's promotion rules.

Imported by the family files of elementwise functions, reductions and scans.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from neuron_ops.translators.registry import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., torch.Tensor]")
G = TypeVar("G", bound="Callable[..., Any]")
H = TypeVar("H", bound="Callable[[Pair], Pair]")


Pair = tuple[torch.Tensor, torch.Tensor]
"""Real and imaginary parts of complex numbers."""

_FORMULAS: dict[Any, Callable[[Pair], Pair]] = {}


def for_complex(function: Callable[..., torch.Tensor]) -> Callable[[H], H]:
    """Register the decorated formula of pairs as what `function`, made by `unary`, computes for complex numbers."""

    def register(formula: H) -> H:
        _FORMULAS[function] = formula
        return formula

    return register


def parts(self: torch.Tensor) -> Pair:
    """Return real and imaginary parts in the dtype to compute in: of complex32 in float32."""
    pairs = torch.view_as_real(self.resolve_conj())
    inner = computing(pairs.dtype)
    return pairs[..., 0].to(inner), pairs[..., 1].to(inner)


def joined(pair: Pair, like: torch.Tensor) -> torch.Tensor:
    """Return complex numbers of these parts, of the dtype and layout of `like`."""
    result = torch.empty_like(like)
    to = torch.view_as_real(result)
    to[..., 0].copy_(pair[0])
    to[..., 1].copy_(pair[1])
    return result


def refuse_complex(*values: Any) -> None:
    """Raise Refused where a value is complex: these formulas hold for real numbers."""
    if any(isinstance(v, complex) or (isinstance(v, torch.Tensor) and v.dtype.is_complex) for v in values):
        raise Refused("this translator computes real numbers only; a complex input stays with the host")


def computing(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which ATen computes values of `dtype`: float32 for the two halves, else itself."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


def floating(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype of a floating-point function's result for inputs of `dtype`."""
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def together(self: Any, other: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return both as tensors on one device.

    ATen allows a 0-dim host tensor beside device tensors; where it comes from a number, a Python kernel receives the number.
    """
    tensors = [v for v in (self, other) if isinstance(v, torch.Tensor)]
    device = next((t.device for t in tensors if t.device.type != "cpu"), torch.device("cpu"))
    dtype = torch.result_type(self, other)
    a, b = (
        v.to(device) if isinstance(v, torch.Tensor) else torch.full((), v, dtype=dtype, device=device)
        for v in (self, other)
    )
    return a, b


def pair(self: Any, other: Any, *, to_float: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.dtype]:
    """Return both inputs in the dtype to compute in, and the dtype of the result."""
    refuse_complex(self, other)
    result = torch.result_type(self, other)
    if to_float:
        result = floating(result)
    self, other = together(self, other)
    inner = computing(result)
    return self.to(inner), other.to(inner), result


def unary(function: F) -> F:
    """Return `function` of one tensor with ATen's dtypes around it: integers become floats, halves compute in float32."""

    @functools.wraps(function)
    def call(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if self.dtype.is_complex and (formula := _FORMULAS.get(call)) is not None:
            return joined(formula(parts(self)), self)
        refuse_complex(self)
        result = floating(self.dtype)
        return function(self.to(computing(result)), *args, **kwargs).to(result)

    return call  # type: ignore[return-value]


def binary(function: F) -> F:
    """Return `function` of two tensors with ATen's dtypes around it, floating-point throughout."""

    @functools.wraps(function)
    def call(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        a, b, result = pair(self, other, to_float=True)
        return function(a, b).to(result)

    return call  # type: ignore[return-value]


def widened(function: G) -> G:
    """Return `function` with half-precision tensor arguments in float32 and its results back in the promoted dtype."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        refuse_complex(*args, *kwargs.values())
        tensors = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Tensor)]
        result = functools.reduce(torch.promote_types, (t.dtype for t in tensors if t.is_floating_point()), torch.uint8)
        inner = computing(result)
        if inner == result:
            return function(*args, **kwargs)

        def wide(value: Any) -> Any:
            return value.to(inner) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

        found = function(*map(wide, args), **{k: wide(v) for k, v in kwargs.items()})
        return found.to(result) if isinstance(found, torch.Tensor) else tuple(f.to(result) for f in found)

    return call  # type: ignore[return-value]


def polynomial(x: torch.Tensor, coefficients: tuple[float, ...]) -> torch.Tensor:
    """Return the polynomial of these coefficients, highest power first, at x by Horner's rule."""
    total = x * coefficients[0] + coefficients[1]
    for c in coefficients[2:]:
        total = total * x + c
    return total
