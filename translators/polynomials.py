"""Decides how the orthogonal polynomials of torch.special are computed when the degree is a tensor or a number.

Imported by translators.installation. The degree is never read: Chebyshev polynomials of all four kinds come from doubling formulas
over the degree's bits and, from degree 64, from trigonometric or hyperbolic functions; Hermite polynomials end at degree 128
by ATen's own rule. Laguerre and Legendre polynomials are here for a degree that is a number only: with a tensor the length
of their recurrence depends on its values.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.translators.promotion import pair, refuse_complex, together
from neuron_ops.translators.registry import translator

if TYPE_CHECKING:
    from collections.abc import Callable

_BITS = 6
_HERMITE_LIMIT = 128
_DOUBLING = "U of doubled degree from DLMF 18.5, addition theorems of sine"
_RECURRENCE = "DLMF 18.9, three-term recurrence"


def _second_kind(x: torch.Tensor, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return U of degree n - 1 and of degree n, for 0 ≤ n < 64."""
    below, here = torch.zeros_like(x + n), torch.ones_like(x + n)
    for bit in reversed(range(_BITS)):
        odd = torch.remainder(torch.floor(n / 2**bit), 2) == 1
        middle = (here - below) * (here + below)
        left, right = 2 * below * (here - x * below), 2 * here * (x * here - below)
        below, here = torch.where(odd, middle, left), torch.where(odd, right, middle)
    return below, here


def _closed(kind: str, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """Return the polynomial of high degree: angles inside ±1, areas outside, where the sign follows the parity."""
    inside = x.abs() <= 1
    angle = torch.acos(torch.where(inside, x, 0.0))
    area = torch.acosh(torch.where(inside, 1.0, x.abs()))
    parity = torch.where((x < 0) & (torch.remainder(n, 2) == 1), -1.0, 1.0)
    if kind == "t":
        return torch.where(inside, torch.cos(n * angle), parity * torch.cosh(n * area))
    if kind == "u":
        m = n + 1
        return torch.where(
            inside, torch.sin(m * angle) / torch.sin(angle), parity * torch.sinh(m * area) / torch.sinh(area)
        )
    m = n + 0.5
    cosine = torch.cos(m * angle) / torch.cos(angle / 2)
    sine = torch.sin(m * angle) / torch.sin(angle / 2)
    even, odd = torch.cosh(m * area) / torch.cosh(area / 2), torch.sinh(m * area) / torch.sinh(area / 2)
    if kind == "v":
        return torch.where(inside, cosine, torch.where(x > 0, even, parity * odd))
    return torch.where(inside, sine, torch.where(x > 0, odd, parity * even))


def _at_one(kind: str, n: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sizes at x = 1 and x = -1."""
    one = torch.ones_like(n)
    return {"t": (one, one), "u": (n + 1, n + 1), "v": (one, 2 * n + 1), "w": (2 * n + 1, one)}[kind]


def _degree(n: torch.Tensor) -> torch.Tensor:
    """Return the degree as ATen's cast to int64 leaves it: NaN and what is too large become negative."""
    return torch.where(n.abs() < 2.0**63, torch.trunc(n), -1.0)


def _chebyshev(kind: str, shifted: bool, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    x, n, dtype = pair(x, n, to_float=True)
    n = _degree(n)
    ends = (x == 1, x == 0) if shifted else (x == 1, x == -1)
    x = x + x - 1 if shifted else x
    below, here = _second_kind(x, torch.clamp(n, 0, 2**_BITS - 1))
    low = {"t": here - x * below, "u": here, "v": here - below, "w": here + below}[kind]
    value = torch.where(n < 2**_BITS, low, _closed(kind, x, n))
    if kind == "t":
        value = torch.where((x == 0) & (n == 3), -x, value)  # the zero's sign that the recurrence leaves
    right, left = _at_one(kind, n)
    value = torch.where(ends[0], right, value)
    value = torch.where(ends[1], torch.where(torch.remainder(n, 2) == 0, left, -left), value)
    # At an infinity ATen's recurrence gives inf·inf − 1, and from there on inf − inf.
    infinite = x.abs() == math.inf
    value = torch.where(infinite & (n >= 2), torch.where(n == 2, math.inf, math.nan), value)
    first = {"t": x, "u": x + x, "v": x + x - 1, "w": x + x + 1}[kind]
    value = torch.where(n == 0, 1.0, torch.where(n == 1, first, value))
    return torch.where(n < 0, 0.0, value).to(dtype)


def _steps(name: str, x: torch.Tensor, p: torch.Tensor, q: torch.Tensor, k: int) -> torch.Tensor:
    """Return the polynomial of degree k + 1 from those of degrees k - 1 (p) and k (q)."""
    if name == "hermite_polynomial_h":
        return 2 * x * q - 2 * k * p
    if name == "hermite_polynomial_he":
        return x * q - k * p
    if name == "laguerre_polynomial_l":
        return ((2 * k + (1 - x)) * q - k * p) / (k + 1)
    return ((2 * k + 1) * x * q - k * p) / (k + 1)


def _degree_one(name: str, x: torch.Tensor) -> torch.Tensor:
    if name == "laguerre_polynomial_l":
        return 1 - x
    return x + x if name == "hermite_polynomial_h" else x


def _numbered(name: str, x: torch.Tensor, n: Any) -> torch.Tensor:
    """Return the polynomial of a degree that is a number."""
    refuse_complex(x, n)
    dtype = torch.result_type(x, n)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    x, n = x.to(dtype), int(n)
    if n < 0:
        return torch.zeros_like(x)
    if name.startswith("hermite") and n > _limit(dtype):
        return torch.full_like(x, math.nan)
    p, q = torch.ones_like(x), _degree_one(name, x)
    if n == 0:
        return p
    for k in range(1, n):
        p, q = q, _steps(name, x, p, q, k)
    return q


def _limit(dtype: torch.dtype) -> int:
    return 4 * _HERMITE_LIMIT if dtype == torch.float64 else _HERMITE_LIMIT


def _hermite(name: str, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    """Return the Hermite polynomial of each degree: all degrees up to the limit are made and each kept where it is asked for."""
    x, n, dtype = pair(x, n, to_float=True)
    n = _degree(n)
    x, n = torch.broadcast_tensors(x, n)
    p, q = torch.ones_like(x), _degree_one(name, x)
    value = torch.where(n == 0, p, torch.where(n == 1, q, 0.0))
    for k in range(1, _limit(dtype)):
        p, q = q, _steps(name, x, p, q, k)
        value = torch.where(n == k + 1, q, value)
    return torch.where(n > _limit(dtype), math.nan, value).to(dtype)


def _full(value: Any, like: torch.Tensor) -> torch.Tensor:
    return torch.full((), value, dtype=torch.result_type(like, value), device=like.device)


def _register(name: str, of_tensor: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None, source: str) -> None:
    """Register the overloads of one polynomial: both tensors, a number for x, a number for n."""
    overload = f"aten.special_{name}"

    def by_number(x: torch.Tensor, n: Any) -> torch.Tensor:
        return of_tensor(x, _full(n, x)) if of_tensor and not name.startswith("hermite") else _numbered(name, x, n)

    translator(f"{overload}.n_scalar", source=source)(by_number)
    if of_tensor is None:
        return

    def by_tensors(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return of_tensor(*together(x, n))

    def of_number(x: Any, n: torch.Tensor) -> torch.Tensor:
        return of_tensor(_full(x, n), n)

    translator(f"{overload}.default", source=source)(by_tensors)
    translator(f"{overload}.x_scalar", source=source)(of_number)


for _kind in "tuvw":
    _register(f"chebyshev_polynomial_{_kind}", functools.partial(_chebyshev, _kind, False), _DOUBLING)
    _register(f"shifted_chebyshev_polynomial_{_kind}", functools.partial(_chebyshev, _kind, True), _DOUBLING)
for _name in ("hermite_polynomial_h", "hermite_polynomial_he"):
    _register(_name, functools.partial(_hermite, _name), _RECURRENCE)
for _name in ("laguerre_polynomial_l", "legendre_polynomial_p"):
    _register(_name, None, _RECURRENCE)
