"""Random translators: known answers of Philox, repeatable from the seed, and the distributions that they promise."""

import math

import pytest
import torch
from neuron_ops.translators import counting, philox, random, registry

N = 40_000


def _signed(word):
    return word - 2**32 if word >= 2**31 else word


# Known-answer vectors of Random123 (philox4x32, 10 rounds): counter, key, result.
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "result"), VECTORS)
def test_philox_known_answers(counter, key, result):
    c = [_signed(w) for w in counter]
    even = torch.tensor([[c[0]], [c[2]]], dtype=torch.int32)
    odd = torch.tensor([[c[1]], [c[3]]], dtype=torch.int32)
    first, second = philox.philox(even, odd, key)
    got = [first[0, 0], second[0, 0], first[1, 0], second[1, 0]]
    assert [int(w) & 0xFFFFFFFF for w in got] == list(result)


def test_the_seed_repeats_and_calls_differ():
    def draw(generator=None):
        return random.uniform_(torch.empty(5), generator=generator)

    torch.manual_seed(3)
    first, second = draw(), draw()
    torch.manual_seed(3)
    assert torch.equal(draw(), first)
    assert not torch.equal(first, second)
    own = torch.Generator().manual_seed(9)
    mine = draw(own)
    assert torch.equal(draw(own.manual_seed(9)), mine)


def _close(x, mean, std, places=4.5):
    """Assert mean and deviation within `places` standard errors."""
    x = x.double()
    assert abs(x.mean() - mean) < places * std / math.sqrt(x.numel())
    assert abs(x.std() - std) < places * std * 1.5 / math.sqrt(x.numel())


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(20)


def test_uniform():
    x = random.uniform_(torch.empty(N), 2.0, 4.0)
    assert 2.0 <= x.min() <= x.max() < 4.0
    _close(x, 3.0, 2 / math.sqrt(12))
    counts = torch.histc(x, 16, 2, 4)
    assert ((counts - N / 16) ** 2 / (N / 16)).sum() < 45  # chi-square, 15 degrees of freedom: 1 in 10,000
    assert random.uniform_(torch.empty(N, dtype=torch.bfloat16)).max() < 1
    assert random.uniform_(torch.empty(N, dtype=torch.float16)).max() < 1
    assert random.uniform_(torch.empty(0)).numel() == 0


def test_neighbours_are_not_correlated():
    x = random.normal_(torch.empty(N))
    for gap in (1, 2, 3, N // 4, N // 2):
        assert abs((x[gap:] * x[:-gap]).mean()) < 4.5 / math.sqrt(N - gap)


def test_normal_in_all_forms():
    x = random.normal_(torch.empty(N), 1.0, 2.0)
    _close(x, 1.0, 2.0)
    z = (x - 1) / 2
    assert abs((z**3).mean()) < 4.5 * math.sqrt(15 / N)
    assert abs((z**4).mean() - 3) < 4.5 * math.sqrt(96 / N)
    _close(random.normal_tensor_float(torch.full((N,), 3.0), 0.5), 3.0, 0.5)
    _close(random.normal_float_tensor(3.0, torch.full((N,), 0.5)), 3.0, 0.5)
    _close(random.normal_tensor_tensor(torch.full((N, 1), 3.0), torch.tensor([0.5])), 3.0, 0.5)
    _close(random.normal_functional(torch.empty(N)), 0.0, 1.0)
    with pytest.raises(RuntimeError, match="std"):
        random.normal_(torch.empty(1), 0.0, -1.0)


def test_bernoulli():
    _close(random.bernoulli_float(torch.empty(N), 0.3), 0.3, math.sqrt(0.21))
    _close(random.bernoulli_tensor(torch.empty(N), torch.tensor(0.3)), 0.3, math.sqrt(0.21))
    _close(random.bernoulli(torch.full((N,), 0.3)), 0.3, math.sqrt(0.21))
    assert random.bernoulli_float(torch.empty(N), 1.0).all()
    assert not random.bernoulli_p(torch.empty(N), 0.0).any()


def test_integers():
    x = random.random_from(torch.empty(N, dtype=torch.int64), -3, 5)
    assert torch.equal(x.unique(), torch.arange(-3, 5))
    _close(x, 0.5, math.sqrt(63 / 12))
    assert random.random_(torch.empty(N, dtype=torch.uint8)).unique().numel() == 256
    assert random.random_(torch.empty(N, dtype=torch.int8)).min() >= 0
    assert random.random_to(torch.empty(N), 2).unique().tolist() == [0.0, 1.0]
    with pytest.raises(NotImplementedError, match="32"):
        random.random_(torch.empty(3, dtype=torch.int64))


def test_other_distributions():
    _close(random.exponential_(torch.empty(N), 2.0), 0.5, 0.5, places=6)
    x = random.cauchy_(torch.empty(N), 1.0, 2.0)
    assert abs((x < 3.0).double().mean() - 0.75) < 4.5 * math.sqrt(0.1875 / N)
    _close(torch.log(random.log_normal_(torch.empty(N), 0.5, 0.25)), 0.5, 0.25)
    x = random.geometric_(torch.empty(N), 0.25)
    assert x.min() == 1
    _close(x, 4.0, math.sqrt(12), places=6)
    for shape in (0.3, 1.0, 5.0):
        _close(random.standard_gamma(torch.full((N,), shape)), shape, math.sqrt(shape), places=8)
    parts = random.sample_dirichlet(torch.tensor([1.0, 2.0, 5.0]).expand(N, 3))
    assert (parts.mean(0) - torch.tensor([0.125, 0.25, 0.625])).abs().max() < 0.006


@pytest.mark.parametrize("rate", [0.4, 9.5, 10.5, 300.0])
def test_poisson(rate):
    x = counting.poisson(torch.full((N,), rate)).double()
    _close(x, rate, math.sqrt(rate), places=6)
    skew = ((x - rate) ** 3).mean() / rate**1.5
    assert abs(skew - 1 / math.sqrt(rate)) < 0.15
    assert torch.equal(x, x.round())
    assert (counting.poisson(torch.zeros(5)) == 0).all()


@pytest.mark.parametrize(("trials", "chance"), [(5.0, 0.3), (1000.0, 0.004), (30.0, 0.5), (400.0, 0.9), (1e5, 0.25)])
def test_binomial(trials, chance):
    x = counting.binomial(torch.full((N,), trials), torch.tensor(chance)).double()
    deviation = math.sqrt(trials * chance * (1 - chance))
    _close(x, trials * chance, deviation, places=6)
    assert 0 <= x.min() <= x.max() <= trials
    ends = counting.binomial(torch.tensor([7.0, 7.0, 0.0]), torch.tensor([0.0, 1.0, 0.5]))
    assert ends.tolist() == [0.0, 7.0, 0.0]


def test_permutations():
    x = random.randperm(1000)
    assert torch.equal(x.sort().values, torch.arange(1000))
    assert not torch.equal(x, torch.arange(1000))
    assert random.randperm(5, dtype=torch.int32).dtype == torch.int32
    assert random.randperm(0).shape == (0,)
    firsts = torch.stack([random.randperm(4) for _ in range(400)])[:, 0]
    assert torch.bincount(firsts, minlength=4).min() > 60


def test_multinomial():
    weights = torch.tensor([0.0, 1.0, 3.0])
    drawn = random.multinomial(weights, N, True)
    assert (drawn != 0).all()
    _close((drawn == 2).float(), 0.75, math.sqrt(0.1875))
    single = random.multinomial(weights.expand(N, 3), 1)
    _close((single == 2).float(), 0.75, math.sqrt(0.1875))
    assert (random.multinomial(weights.expand(50, 3), 2).sort().values == torch.tensor([1, 2])).all()
    with pytest.raises(RuntimeError, match="without replacement"):
        random.multinomial(weights, 4)


def test_random_slopes():
    x, noise = torch.linspace(-1, 1, N), torch.empty(N)
    out = random.rrelu_with_noise(x, noise, 0.1, 0.3, True)
    assert torch.equal(out[x > 0], x[x > 0])
    assert (noise[x > 0] == 1).all()
    _close(noise[x <= 0], 0.2, 0.2 / math.sqrt(12))
    assert torch.equal(random.rrelu_with_noise(x, noise, 0.1, 0.3), torch.nn.functional.leaky_relu(x, 0.2))


def test_only_integers_of_32_bits_inside():
    """The device computes int64 as int32: no step before the final copy may make a 64-bit tensor."""
    seen = set()

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            seen.update({(str(func), out.dtype)} if isinstance(out, torch.Tensor) else ())
            return out

    key = philox.seed_of(None)
    counter = torch.zeros(2, 8, dtype=torch.int32)
    with Watch():
        philox.philox(counter, counter, key)
    assert {dtype for _, dtype in seen} == {torch.int32}


def test_registered():
    assert "aten.uniform_.default" in registry.REGISTRY
