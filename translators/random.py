"""Decides how random numbers of each distribution are made from the words of translators.philox.

Imported by translators.installation. Functional and out= variants, rand, randn, randint and dropout are PyTorch's composites
over the in-place overloads written here. Results of float64 tensors carry the 24 bits of float32.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from neuron_ops.translators import philox
from neuron_ops.translators.promotion import refuse_complex
from neuron_ops.translators.registry import Refused, translator

_PHILOX = "Philox4x32-10 (Salmon et al. 2011)"
_DIGITS = {torch.bfloat16: 8, torch.float16: 11}
_WHOLE = {torch.float32: 24, torch.float16: 11, torch.bfloat16: 8}
_LARGEST = {torch.bool: 1, torch.uint8: 255, torch.int8: 127, torch.int16: 32767, torch.int32: 2**31 - 1}
_INT64 = 4
"""How schemas write torch.int64 as a default."""

Generator = torch.Generator | None


@translator("aten.uniform_.default", source=_PHILOX)
def uniform_(self: torch.Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with numbers in [from, to)."""
    refuse_complex(self)
    unit = philox.uniform(self.shape, self.device, generator, _DIGITS.get(self.dtype, 24))
    return self.copy_(unit * (to - from_) + from_)


@translator("aten.normal_.default", source=f"{_PHILOX}; Box & Muller 1958")
def normal_(self: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with normal numbers."""
    refuse_complex(self)
    _check_std(std)
    return self.copy_(philox.normal(self.shape, self.device, generator) * std + mean)


def _check_std(std: float) -> None:
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


@translator("aten.normal_functional.default", source=f"{_PHILOX}; Box & Muller 1958")
def normal_functional(
    self: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator = None
) -> torch.Tensor:
    """Return normal numbers of self's shape."""
    return torch.empty_like(self).normal_(mean, std, generator=generator)


@translator("aten.normal.out", source=f"{_PHILOX}; Box & Muller 1958")
def normal_out(
    self: torch.Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator = None, out: torch.Tensor
) -> torch.Tensor:
    """Fill out, of self's shape, with normal numbers."""
    return out.resize_(self.shape).normal_(mean, std, generator=generator)


@translator("aten.normal.Tensor_float", source=f"{_PHILOX}; Box & Muller 1958")
def normal_tensor_float(mean: torch.Tensor, std: float = 1.0, *, generator: Generator = None) -> torch.Tensor:
    """Return normal numbers around each mean."""
    refuse_complex(mean)
    _check_std(std)
    return _spread(mean, std, mean.shape, mean, generator)


@translator("aten.normal.float_Tensor", source=f"{_PHILOX}; Box & Muller 1958")
def normal_float_tensor(mean: float, std: torch.Tensor, *, generator: Generator = None) -> torch.Tensor:
    """Return normal numbers of each deviation around one mean."""
    refuse_complex(std)
    return _spread(mean, std, std.shape, std, generator)


@translator("aten.normal.Tensor_Tensor", source=f"{_PHILOX}; Box & Muller 1958")
def normal_tensor_tensor(mean: torch.Tensor, std: torch.Tensor, *, generator: Generator = None) -> torch.Tensor:
    """Return normal numbers of each deviation around each mean."""
    refuse_complex(mean, std)
    return _spread(mean, std, torch.broadcast_shapes(mean.shape, std.shape), mean, generator)


def _spread(mean: Any, std: Any, shape: torch.Size, like: torch.Tensor, generator: Generator) -> torch.Tensor:
    return torch.add(philox.normal(shape, like.device, generator) * std, mean).to(like.dtype)


@translator("aten.bernoulli_.float", source=_PHILOX)
def bernoulli_float(self: torch.Tensor, p: float = 0.5, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with ones of probability p, else zeros."""
    refuse_complex(self)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    return self.copy_(philox.uniform(self.shape, self.device, generator) < p)


@translator("aten.bernoulli_.Tensor", source=_PHILOX)
def bernoulli_tensor(self: torch.Tensor, p: torch.Tensor, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with ones of each probability, else zeros."""
    refuse_complex(self)
    chances = p.to(device=self.device, dtype=torch.float32)
    return self.copy_(philox.uniform(self.shape, self.device, generator) < chances)


@translator("aten.bernoulli.default", source=_PHILOX)
def bernoulli(self: torch.Tensor, *, generator: Generator = None) -> torch.Tensor:
    """Return ones with the probabilities in self, else zeros."""
    refuse_complex(self)
    return torch.empty_like(self).copy_(philox.uniform(self.shape, self.device, generator) < self)


@translator("aten.bernoulli.p", source=_PHILOX)
def bernoulli_p(self: torch.Tensor, p: float, *, generator: Generator = None) -> torch.Tensor:
    """Return ones with probability p, else zeros, of self's shape."""
    return torch.empty_like(self).bernoulli_(p, generator=generator)


def _below(shape: torch.Size, count: int, device: torch.device, generator: Generator) -> torch.Tensor:
    """Return int32 in [0, count), drawn from 31 bits."""
    size = math.prod(shape)
    if not 0 < count <= 2**31:
        raise Refused(f"{count} integers to choose from need words wider than the device's 32 bits")
    words = torch.bitwise_and(philox.bits(size, device, generator), 2**31 - 1)
    return (words if count == 2**31 else torch.remainder(words, count)).view(shape)


def _unbounded(dtype: torch.dtype) -> int:
    """Return one more than the largest number of the dtype; of floats, the largest up to which they have all integers."""
    if dtype in _WHOLE:
        return (1 << _WHOLE[dtype]) + 1
    if dtype not in _LARGEST:
        raise Refused(f"random_ without an upper bound on {dtype} needs more than 32 bits")
    return _LARGEST[dtype] + 1


@translator("aten.random_.from", source=_PHILOX)
def random_from(self: torch.Tensor, from_: int, to: int | None, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with integers in [from, to)."""
    refuse_complex(self)
    if to is None:
        to = _unbounded(self.dtype)
    if from_ >= to:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={from_} >= to={to}")
    if max(abs(from_), abs(to - 1)) >= 2**31:
        raise Refused("random_ beyond 32-bit integers stays with the host")
    return self.copy_(_below(self.shape, to - from_, self.device, generator) + from_)


@translator("aten.random_.to", source=_PHILOX)
def random_to(self: torch.Tensor, to: int, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with integers in [0, to)."""
    return random_from(self, 0, to, generator=generator)


@translator("aten.random_.default", source=_PHILOX)
def random_(self: torch.Tensor, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with integers from 0 to the largest of its dtype; floats to the largest count without gaps."""
    return random_from(self, 0, None, generator=generator)


@translator("aten.exponential_.default", source=f"{_PHILOX}; inverse of the distribution function")
def exponential_(self: torch.Tensor, lambd: float = 1.0, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with exponential numbers of that rate, never zero."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return self.copy_(_exponential(self.shape, self.device, generator) / lambd)


def _exponential(shape: torch.Size, device: torch.device, generator: Generator) -> torch.Tensor:
    return torch.clamp_min(-torch.log(philox.positive(shape, device, generator)), 2.0**-25)


@translator("aten.cauchy_.default", source=f"{_PHILOX}; inverse of the distribution function")
def cauchy_(
    self: torch.Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator = None
) -> torch.Tensor:
    """Fill self with Cauchy numbers."""
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    angle = (philox.positive(self.shape, self.device, generator) - 0.5) * math.pi
    return self.copy_(torch.sin(angle) / torch.cos(angle) * sigma + median)


@translator("aten.log_normal_.default", source=f"{_PHILOX}; Box & Muller 1958")
def log_normal_(
    self: torch.Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator = None
) -> torch.Tensor:
    """Fill self with exponentials of normal numbers."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return self.copy_(torch.exp(philox.normal(self.shape, self.device, generator) * std + mean))


@translator("aten.geometric_.default", source=f"{_PHILOX}; inverse of the distribution function")
def geometric_(self: torch.Tensor, p: float, *, generator: Generator = None) -> torch.Tensor:
    """Fill self with the number of trials up to the first success of probability p."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    trials = torch.ceil(torch.log(philox.positive(self.shape, self.device, generator)) / math.log1p(-p))
    return self.copy_(torch.clamp_min(trials, 1))


@translator("aten.randperm.default", source=f"{_PHILOX}; order of random keys")
def randperm(
    n: int,
    *,
    dtype: Any = _INT64,
    layout: torch.layout | None = None,
    device: torch.device | None = None,
    pin_memory: bool | None = None,
) -> torch.Tensor:
    """Return 0 … n - 1 in random order."""
    return randperm_generator(n, generator=None, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


@translator("aten.randperm.generator", source=f"{_PHILOX}; order of random keys")
def randperm_generator(
    n: int,
    *,
    generator: Generator,
    dtype: Any = _INT64,
    layout: torch.layout | None = None,  # noqa: ARG001 - strided is all there is
    device: torch.device | None = None,
    pin_memory: bool | None = None,  # noqa: ARG001 - host memory only
) -> torch.Tensor:
    """Return 0 … n - 1 in random order, the seed from that generator."""
    keys = _below(torch.Size((n,)), 2**31, torch.device("cpu" if device is None else device), generator)
    return torch.argsort(keys, stable=True).to(torch.int64 if dtype in (None, _INT64) else dtype)


@translator("aten.randperm.out", source=f"{_PHILOX}; order of random keys")
def randperm_out(n: int, *, out: torch.Tensor) -> torch.Tensor:
    """Fill out with 0 … n - 1 in random order."""
    return randperm_generator_out(n, generator=None, out=out)


@translator("aten.randperm.generator_out", source=f"{_PHILOX}; order of random keys")
def randperm_generator_out(n: int, *, generator: Generator, out: torch.Tensor) -> torch.Tensor:
    """Fill out with 0 … n - 1 in random order, the seed from that generator."""
    return out.resize_((n,)).copy_(randperm_generator(n, generator=generator, dtype=out.dtype, device=out.device))


@translator("aten.multinomial.default", source=f"{_PHILOX}; exponential race (Efraimidis & Spirakis 2006), inversion")
def multinomial(
    self: torch.Tensor, num_samples: int, replacement: bool = False, *, generator: Generator = None
) -> torch.Tensor:
    """Return int64 indices drawn with the weights along the last dimension; weights are not checked (that would read them)."""
    if not self.dtype.is_floating_point:
        raise RuntimeError("multinomial only supports floating-point dtypes for input")
    weights = self.to(torch.float32)
    if num_samples <= 0 or (not replacement and num_samples > self.size(-1)):
        raise RuntimeError(f"cannot sample {num_samples} of {self.size(-1)} categories without replacement")
    if not replacement:
        race = weights / _exponential(weights.shape, self.device, generator)
        return torch.topk(race, num_samples, dim=-1).indices
    sums = torch.cumsum(weights, -1)
    shape = torch.Size((*self.shape[:-1], num_samples))
    drawn = philox.uniform(shape, self.device, generator) * sums[..., -1:]
    passed = (sums.unsqueeze(-2) <= drawn.unsqueeze(-1)).sum(-1)
    return torch.clamp_max(passed, self.size(-1) - 1)


@translator("aten.rrelu_with_noise.default", source=f"{_PHILOX}; Xu et al. 2015")
def rrelu_with_noise(
    self: torch.Tensor,
    noise: torch.Tensor,
    lower: Any = 0.125,
    upper: Any = 1 / 3,
    training: bool = False,
    generator: Generator = None,
) -> torch.Tensor:
    """Return leaky_relu with random slopes, which are written into noise (one above zero); the mean slope without training."""
    if not training:
        return torch.nn.functional.leaky_relu(self, (lower + upper) / 2)
    slopes = philox.uniform(self.shape, self.device, generator) * (upper - lower) + lower
    noise.copy_(torch.where(self <= 0, slopes, 1.0))
    return torch.where(self <= 0, self * noise, self)


@translator("aten.rrelu_with_noise_.default", source=f"{_PHILOX}; Xu et al. 2015")
def rrelu_with_noise_(
    self: torch.Tensor,
    noise: torch.Tensor,
    lower: Any = 0.125,
    upper: Any = 1 / 3,
    training: bool = False,
    generator: Generator = None,
) -> torch.Tensor:
    """Do what rrelu_with_noise does in place."""
    return self.copy_(rrelu_with_noise(self, noise, lower, upper, training, generator))


@translator("aten.rrelu_with_noise.out", source=f"{_PHILOX}; Xu et al. 2015")
def rrelu_with_noise_out(
    self: torch.Tensor,
    noise: torch.Tensor,
    lower: Any = 0.125,
    upper: Any = 1 / 3,
    training: bool = False,
    generator: Generator = None,
    *,
    out: torch.Tensor,
) -> torch.Tensor:
    """Do what rrelu_with_noise does into out."""
    return out.resize_(self.shape).copy_(rrelu_with_noise(self, noise, lower, upper, training, generator))


_ATTEMPTS = 8
"""Candidates drawn at once where each is refused with at most 5 %: all refused in fewer than 4 of 10^11."""


def _first_accepted(candidates: torch.Tensor, accepted: torch.Tensor) -> torch.Tensor:
    """Return for each place the first of the candidates [attempts, ...] that was accepted."""
    first = torch.argmax(accepted.to(torch.float32), 0, keepdim=True)
    return torch.gather(candidates, 0, first).squeeze(0)


def _gamma(shape: torch.Tensor, generator: Generator) -> torch.Tensor:
    """Return float32 gamma numbers of those shape parameters; below one by a power of a uniform number."""
    small = shape < 1
    d = torch.where(small, shape + 1, shape) - 1 / 3
    many = torch.Size((_ATTEMPTS, *shape.shape))
    x = philox.normal(many, shape.device, generator)
    v = 1 + x / torch.sqrt(9 * d)
    v = v * v * v
    positive = torch.clamp_min(v, 1e-30)
    limit = 0.5 * x * x + d - d * v + d * torch.log(positive)
    accepted = (v > 0) & (torch.log(philox.positive(many, shape.device, generator)) < limit)
    boost = torch.log(philox.positive(shape.shape, shape.device, generator)) / torch.where(small, shape, 1.0)
    value = d * _first_accepted(positive, accepted)
    return torch.clamp_min(torch.where(small, value * torch.exp(boost), value), torch.finfo(torch.float32).tiny)


@translator("aten._standard_gamma.default", source=f"{_PHILOX}; Marsaglia & Tsang 2000, eight candidates at once")
def standard_gamma(self: torch.Tensor, generator: Generator = None) -> torch.Tensor:
    """Return gamma numbers with the shape parameters in self."""
    return _gamma(self.to(torch.float32), generator).to(self.dtype)


@translator("aten._sample_dirichlet.default", source=f"{_PHILOX}; Marsaglia & Tsang 2000")
def sample_dirichlet(self: torch.Tensor, generator: Generator = None) -> torch.Tensor:
    """Return points of the simplex with the concentrations along the last dimension of self."""
    parts = _gamma(self.to(torch.float32), generator)
    return (parts / torch.sum(parts, -1, keepdim=True)).to(self.dtype)
