"""Decides how elementary functions of complex numbers are computed: from real functions of the two parts.

Imported by translators.families. The functions are registered in elementary.py and arithmetic.py; here they learn complex numbers. Real functions
are called as Python functions and not through the dispatcher, where a translator may not reach its own overload. Functions that
a device registers natively are not here: it keeps them in every dtype, the complex ones that it refuses too.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators import arithmetic, elementary
from neuron_ops.translators.elementary import asinh as asinh_real
from neuron_ops.translators.elementary import atan2, hypot
from neuron_ops.translators.elementary import cosh as cosh_real
from neuron_ops.translators.elementary import expm1 as expm1_real
from neuron_ops.translators.elementary import log1p as log1p_real
from neuron_ops.translators.elementary import sinh as sinh_real
from neuron_ops.translators.pair_systems import quotient
from neuron_ops.translators.promotion import Pair, for_complex

_LARGE = 10.0
"""Beyond this tanh is one in float32, and squares of sinh would overflow soon after."""


def turned(z: Pair) -> Pair:
    """Return i · z."""
    return -z[1], z[0]


def back(z: Pair) -> Pair:
    """Return -i · z."""
    return z[1], -z[0]


def root(z: Pair) -> Pair:
    """Return the square root with real part ≥ 0 (Kahan 1987); the smaller part comes from the larger, without cancellation."""
    x, y = z
    half = hypot(x / 8, y / 8) + x.abs() / 8
    large = torch.sqrt(half) * 2
    small = torch.where(large == 0, 0.0, y.abs() / 2 / torch.where(large == 0, 1.0, large))
    real, imaginary = torch.where(x < 0, small, large), torch.where(x < 0, large, small)
    endless = torch.isinf(y)
    real, imaginary = torch.where(endless, math.inf, real), torch.where(endless, math.inf, imaginary)
    return real, torch.where(torch.signbit(y), -imaginary, imaginary)


def log_size(z: Pair) -> torch.Tensor:
    """Return log |z|; near one by log1p, so that nothing cancels."""
    a, b = z[0].abs(), z[1].abs()
    large, small = torch.where(a > b, a, b), torch.where(a > b, b, a)
    near = log1p_real((large - 1) * (large + 1) + small * small) / 2
    return torch.where((large > 0.5) & (large < 2), near, torch.log(hypot(a, b)))


@for_complex(elementary.log1p)
def log1p(z: Pair) -> Pair:
    """Return log(1 + z)."""
    x, y = z
    near = log1p_real(x * (2 + x) + y * y) / 2
    size = torch.where((x.abs() < 0.5) & (y.abs() < 0.5), near, log_size((1 + x, y)))
    return size, atan2(y, 1 + x)


@for_complex(elementary.expm1)
def expm1(z: Pair) -> Pair:
    """Return exp(z) - 1; the cosine's distance from one is taken as -2 sin²(y / 2)."""
    x, y = z
    half = torch.sin(y / 2)
    return expm1_real(x) * torch.cos(y) - 2 * half * half, torch.exp(x) * torch.sin(y)


@for_complex(elementary.exp2)
def exp2(z: Pair) -> Pair:
    """Return 2 to the power z."""
    size, turn = torch.exp(z[0] * math.log(2)), z[1] * math.log(2)
    return size * torch.cos(turn), torch.where(turn == 0, turn, size * torch.sin(turn))


@for_complex(elementary.log2)
def log2(z: Pair) -> Pair:
    """Return the logarithm to base 2."""
    return log_size(z) * (1 / math.log(2)), atan2(z[1], z[0]) * (1 / math.log(2))


@for_complex(elementary.log10)
def log10(z: Pair) -> Pair:
    """Return the logarithm to base 10."""
    return log_size(z) * (1 / math.log(10)), atan2(z[1], z[0]) * (1 / math.log(10))


def _grown(size: torch.Tensor, x: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Return size · factor for size = sinh(x) or cosh(x), which may overflow where the product does not."""
    half = torch.exp(x.abs() / 2)
    product = half / 2 * factor * half
    return torch.where(x.abs() > 80, torch.where(size < 0, -product, product), size * factor)


@for_complex(elementary.sinh)
def sinh(z: Pair) -> Pair:
    """Return the hyperbolic sine."""
    x, y = z
    real = torch.where(x == 0, x, _grown(sinh_real(x), x, torch.cos(y)))
    return real, torch.where(y == 0, y, _grown(cosh_real(x), x, torch.sin(y)))


@for_complex(elementary.cosh)
def cosh(z: Pair) -> Pair:
    """Return the hyperbolic cosine."""
    x, y = z
    zero = (x == 0) | (y == 0)
    imaginary = torch.where(zero, x.sign() * y, _grown(sinh_real(x), x, torch.sin(y)))
    return _grown(cosh_real(x), x, torch.cos(y)), imaginary


def _tanh(z: Pair) -> Pair:
    """Return the hyperbolic tangent (Kahan 1987)."""
    x, y = z
    far = x.abs() > _LARGE
    t = torch.sin(y) / torch.cos(y)
    grown, s = 1 + t * t, sinh_real(torch.where(far, 0.0, x))
    below = 1 + grown * s * s
    real = torch.where(torch.isinf(t), 1 / torch.where(s == 0, 1.0, s), grown * torch.sqrt(1 + s * s) * s / below)
    small = 4 * torch.sin(y) * torch.cos(y) * torch.exp(-2 * x.abs())
    return torch.where(far, x.sign(), real), torch.where(far, small, t / below)


@for_complex(elementary.tan)
def tan(z: Pair) -> Pair:
    """Return the tangent."""
    return back(_tanh(turned(z)))


@for_complex(arithmetic.sinc)
def sinc(z: Pair) -> Pair:
    """Return sin(πz) / (πz), one at zero."""
    w = z[0] * math.pi, z[1] * math.pi
    value = quotient(back(sinh(turned(w))), w)
    zero = (w[0] == 0) & (w[1] == 0)
    return torch.where(zero, 1.0, value[0]), torch.where(zero, 0.0, value[1])


def _roots(z: Pair) -> tuple[Pair, Pair]:
    """Return the roots of 1 - z and 1 + z."""
    return root((1 - z[0], -z[1])), root((1 + z[0], z[1]))


@for_complex(elementary.asin)
def asin(z: Pair) -> Pair:
    """Return the arcsine (Kahan 1987)."""
    less, more = _roots(z)
    real = atan2(z[0], less[0] * more[0] - less[1] * more[1])
    return real, asinh_real(less[0] * more[1] - less[1] * more[0])


@for_complex(elementary.acos)
def acos(z: Pair) -> Pair:
    """Return the arccosine (Kahan 1987)."""
    less, more = _roots(z)
    return 2 * atan2(less[0], more[0]), asinh_real(more[0] * less[1] - more[1] * less[0])


@for_complex(elementary.asinh)
def asinh(z: Pair) -> Pair:
    """Return the inverse hyperbolic sine."""
    return back(asin(turned(z)))


@for_complex(elementary.acosh)
def acosh(z: Pair) -> Pair:
    """Return the inverse hyperbolic cosine (Kahan 1987)."""
    less, more = root((z[0] - 1, z[1])), root((z[0] + 1, z[1]))
    return asinh_real(less[0] * more[0] + less[1] * more[1]), 2 * atan2(less[1], more[0])


@for_complex(elementary.atanh)
def atanh(z: Pair) -> Pair:
    """Return the inverse hyperbolic tangent; far from zero by the reciprocal's size, which does not overflow."""
    x, y = z
    far = (x.abs() > 1e6) | (y.abs() > 1e6)
    a = x.abs()
    size = log1p_real(4 * a / ((1 - a) * (1 - a) + y * y)) / 4
    close = ((1 - a).abs() < 1e-3) & (y.abs() < 1e-3)  # where squares of both may underflow
    size = torch.where(close, (torch.log(hypot(1 + a, y)) - torch.log(hypot(1 - a, y))) / 2, size)
    distant = quotient((torch.ones_like(x), torch.zeros_like(x)), (a, y))[0]
    real = torch.where(far, distant, size)
    turn = torch.where(far, torch.where(torch.signbit(y), -math.pi, math.pi), atan2(2 * y, (1 - x) * (1 + x) - y * y))
    return torch.where(torch.signbit(x), -real, real), turn / 2


@for_complex(elementary.atan)
def atan(z: Pair) -> Pair:
    """Return the arctangent."""
    return back(atanh(turned(z)))
