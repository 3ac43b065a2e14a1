"""Decides how random words are made on the device: Philox4x32-10 over counters, in 32-bit integer operators only.

Imported by translators.random. The stream is this project's own: the seed of a call is drawn from the generator that the
caller gave, or from torch's default generator, on the host, so torch.manual_seed makes results repeat; the numbers are not
those of the CPU's or CUDA's generators. Products of 32-bit words are made of 16-bit halves, because a device that computes
int64 as int32 has no wider product; int32 additions and products must wrap around, as they do in two's complement.
"""

from __future__ import annotations

import functools
import math
import operator

import torch
from neuron_ops.translators.registry import Refused

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFF


def seed_of(generator: torch.Generator | None) -> tuple[int, int]:
    """Return two 32-bit key words drawn from the generator; raises Refused for one that is not the CPU's."""
    source = torch.default_generator if generator is None else generator
    if source.device.type != "cpu":
        raise Refused("random translators draw their seed from a CPU generator; this one is a device's")
    words = torch.randint(0, 2**32, (2,), dtype=torch.int64, generator=source).tolist()
    return int(words[0]), int(words[1])


def _column(values: tuple[int, int], device: torch.device) -> torch.Tensor:
    """Return an int32 tensor [2, 1] of two 16-bit numbers, made on the device."""
    first, second = values
    return (torch.arange(2, dtype=torch.int32, device=device) * (second - first) + first).view(2, 1)


def _words(values: tuple[int, int], device: torch.device) -> torch.Tensor:
    """Return an int32 tensor [2, 1] with the bits of two 32-bit words."""
    high = _column((values[0] >> 16, values[1] >> 16), device)
    low = _column((values[0] & _LOW, values[1] & _LOW), device)
    return torch.bitwise_or(torch.bitwise_left_shift(high, 16), low)


def _high(x: torch.Tensor) -> torch.Tensor:
    return torch.bitwise_and(torch.bitwise_right_shift(x, 16), _LOW)


def _product(x: torch.Tensor, low: torch.Tensor, high: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the high and the low word of x times the constants whose 16-bit halves are given."""
    x_low, x_high = torch.bitwise_and(x, _LOW), _high(x)
    bottom, cross, other = x_low * low, x_low * high, x_high * low
    middle = _high(bottom) + torch.bitwise_and(cross, _LOW) + torch.bitwise_and(other, _LOW)
    top = x_high * high + _high(cross) + _high(other) + torch.bitwise_right_shift(middle, 16)
    return top, torch.bitwise_or(torch.bitwise_left_shift(middle, 16), torch.bitwise_and(bottom, _LOW))


def philox(even: torch.Tensor, odd: torch.Tensor, key: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the words (0, 2) and (1, 3) of each block, int32 [2, n], for counter words (0, 2) and (1, 3) of that shape."""
    device = even.device
    low = _column((_MULTIPLIERS[0] & _LOW, _MULTIPLIERS[1] & _LOW), device)
    high = _column((_MULTIPLIERS[0] >> 16, _MULTIPLIERS[1] >> 16), device)
    keys, step = _words(key, device), _words(_WEYL, device)
    for _ in range(_ROUNDS):
        top, bottom = _product(even, low, high)
        even = torch.bitwise_xor(torch.bitwise_xor(torch.flip(top, (0,)), odd), keys)
        odd = torch.flip(bottom, (0,))
        keys = keys + step
    return even, odd


def bits(count: int, device: torch.device, generator: torch.Generator | None) -> torch.Tensor:
    """Return int32 [count] of random bits."""
    key = seed_of(generator)
    blocks = max(1, -(-count // 4))
    counter = torch.arange(blocks, dtype=torch.int32, device=device)
    even = torch.stack((counter, torch.zeros_like(counter)))
    first, second = philox(even, torch.zeros_like(even), key)
    return torch.cat((first, second)).view(-1)[:count]


def uniform(
    shape: torch.Size, device: torch.device, generator: torch.Generator | None, digits: int = 24
) -> torch.Tensor:
    """Return float32 of that shape in [0, 1): multiples of 2^-digits."""
    words = bits(_numel(shape), device, generator)
    top = torch.bitwise_and(torch.bitwise_right_shift(words, 32 - digits), (1 << digits) - 1)
    return (top.to(torch.float32) * 2.0**-digits).view(shape)


def _numel(shape: torch.Size) -> int:
    return functools.reduce(operator.mul, shape, 1)


def _open(words: torch.Tensor) -> torch.Tensor:
    """Return float32 in (0, 1], down to 2^-33, from all 32 bits."""
    wide = _high(words).to(torch.float32) * 65536.0 + torch.bitwise_and(words, _LOW).to(torch.float32)
    return (wide + 0.5) * 2.0**-32


def positive(shape: torch.Size, device: torch.device, generator: torch.Generator | None) -> torch.Tensor:
    """Return float32 of that shape in (0, 1], fine near zero: for logarithms."""
    return _open(bits(_numel(shape), device, generator)).view(shape)


def normal(shape: torch.Size, device: torch.device, generator: torch.Generator | None) -> torch.Tensor:
    """Return float32 of that shape, standard normal by Box and Muller; none beyond ±6.8."""
    count = _numel(shape)
    half = (count + 1) // 2
    words = bits(2 * half, device, generator)
    radius = torch.sqrt(-2 * torch.log(_open(words[:half])))
    angle = _open(words[half:]) * (2 * math.pi)
    return torch.cat((radius * torch.cos(angle), radius * torch.sin(angle)))[:count].view(shape)
