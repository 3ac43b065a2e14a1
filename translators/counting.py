"""Decides how Poisson and binomial numbers are drawn: by inversion for means below ten, by a batch of candidates above.

Imported by translators.installation.
"""

from __future__ import annotations

import math

import torch
from neuron_ops.translators import philox
from neuron_ops.translators.incomplete import poisson_weight
from neuron_ops.translators.registry import translator

_SWITCH = 10.0
_LARGEST = 48
"""With a mean of ten, a larger number has a chance below 10^-16."""
_ATTEMPTS = 16
"""Hörmann's method refuses at most one candidate in five: all refused in fewer than 10 of 10^12."""


def _few(rate: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """Return numbers for rates below ten: how many values of the distribution function lie below a uniform number."""
    drawn = philox.uniform(rate.shape, rate.device, generator)
    chance = torch.exp(-rate)
    below, count = chance, torch.zeros_like(rate)
    for k in range(1, _LARGEST):
        count = count + (drawn >= below).to(rate.dtype)
        chance = chance * (rate / k)
        below = below + chance
    return count


def _many(rate: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """Return numbers for rates from ten on: Hörmann's transformed rejection, the first accepted of sixteen candidates."""
    shape = torch.Size((_ATTEMPTS, *rate.shape))
    b = 0.931 + 2.53 * torch.sqrt(rate)
    a = 0.02483 * b - 0.059
    u = philox.positive(shape, rate.device, generator) - 0.5
    v = philox.positive(shape, rate.device, generator)
    edge = torch.clamp_min(0.5 - u.abs(), 1e-9)
    k = torch.floor((2 * a / edge + b) * u + rate + 0.43)
    quick = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    impossible = (k < 0) | ((edge < 0.013) & (v > edge))
    alpha = 1.1239 + 1.1328 / (b - 3.4)
    density = poisson_weight(torch.clamp_min(k, 0), rate.expand(shape))
    accepted = quick | (~impossible & (v * alpha <= density * (a / (edge * edge) + b)))
    first = torch.argmax(accepted.to(torch.float32), 0, keepdim=True)
    return torch.gather(k, 0, first).squeeze(0)


@translator("aten.poisson.default", source="inversion; Hörmann 1993 (PTRS), sixteen candidates at once; Philox4x32-10")
def poisson(self: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
    """Return Poisson numbers of the rates in self, in its dtype; rates are not checked (that would read them)."""
    rate = self.to(torch.float32)
    few = _few(torch.clamp_max(rate, _SWITCH), generator)
    return torch.where(rate < _SWITCH, few, _many(torch.clamp_min(rate, _SWITCH), generator)).to(self.dtype)


def _tail(k: torch.Tensor) -> torch.Tensor:
    """Return what Stirling's formula lacks: log k! less (k + ½) log(k + 1) - (k + 1) + ½ log 2π."""
    n = k + 1
    square = 1 / (n * n)
    far = (1 / 12 - square * (1 / 360 - square / 1260)) / n
    near = torch.clamp_max(n, 10)
    exact = torch.lgamma(near) - (near - 0.5) * torch.log(near) + near - 0.5 * math.log(2 * math.pi)
    return torch.where(n < 10, exact, far)


def _few_successes(n: torch.Tensor, p: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """Return numbers of successes for n · p below ten, p ≤ ½."""
    drawn = philox.uniform(n.shape, n.device, generator)
    odds = p / (1 - p)
    chance = torch.exp(n * torch.log1p(-p))
    below, count = chance, torch.zeros_like(n)
    for k in range(1, _LARGEST):
        count = count + (drawn >= below).to(n.dtype)
        chance = chance * torch.clamp_min(n - (k - 1), 0) * (odds / k)
        below = below + chance
    return torch.minimum(count, n)


def _many_successes(n: torch.Tensor, p: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    """Return numbers of successes for n · p from ten on, p ≤ ½: Hörmann's BTRS, the first accepted of sixteen."""
    shape = torch.Size((_ATTEMPTS, *n.shape))
    spread = torch.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u = philox.positive(shape, n.device, generator) - 0.5
    v = philox.positive(shape, n.device, generator)
    edge = torch.clamp_min(0.5 - u.abs(), 1e-9)
    k = torch.floor((2 * a / edge + b) * u + n * p + 0.5)
    quick = (edge >= 0.07) & (v <= 0.92 - 4.2 / b)
    possible = (k >= 0) & (k <= n)
    k = torch.minimum(torch.clamp_min(k, 0), n)
    m = torch.floor((n + 1) * p)
    # log of the chance of k over that of the most likely number m
    ratio = (m + 0.5) * torch.log((m + 1) / (k + 1)) + (n - m + 0.5) * torch.log((n - m + 1) / (n - k + 1))
    ratio = ratio + (k - m) * torch.log(p * (n - k + 1) / ((1 - p) * (k + 1)))
    ratio = ratio + _tail(m) + _tail(n - m) - _tail(k) - _tail(n - k)
    alpha = (2.83 + 5.1 / b) * spread
    accepted = possible & (quick | (torch.log(v * alpha / (a / (edge * edge) + b)) <= ratio))
    first = torch.argmax(accepted.to(torch.float32), 0, keepdim=True)
    return torch.gather(k, 0, first).squeeze(0)


@translator("aten.binomial.default", source="inversion; Hörmann 1993 (BTRS), sixteen candidates at once; Philox4x32-10")
def binomial(count: torch.Tensor, prob: torch.Tensor, generator: torch.Generator | None = None) -> torch.Tensor:
    """Return numbers of successes in `count` trials of chance `prob`; neither is checked (that would read them)."""
    n, p = torch.broadcast_tensors(count.to(torch.float32), prob.to(torch.float32))
    rare = torch.where(p <= 0.5, p, 1 - p)
    small = n * rare < _SWITCH
    few = _few_successes(torch.where(small, n, 1.0), torch.where(small, rare, 0.0), generator)
    many = _many_successes(torch.where(small, 40.0, n), torch.where(small, 0.5, rare), generator)
    successes = torch.where(small, few, many)
    return torch.where(p <= 0.5, successes, n - successes).to(count.dtype)
