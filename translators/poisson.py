"""Decides how Poisson numbers are drawn: by inversion below ten, by a batch of candidates above.

Imported by translators.install.
"""

from __future__ import annotations

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
