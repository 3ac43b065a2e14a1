"""Whole networks train on the simulated device with translators installed: losses are the CPU's, and the host is not needed."""

import collections

import pytest
import torch
from neuron_ops import translators
from neuron_ops.op_tests.records import Route
from neuron_ops.op_tests.targets import sim
from torch import nn

COMPLEX = {
    "aten.view_as_complex.default", "aten.view_as_real.default", "aten.mul.out", "aten.zero_.default", "aten._fft_c2c.default",
    "aten._fft_c2r.default",
}  # fmt: skip
"""The device computes no complex numbers: views of pairs as complex ones, what autograd does with such gradients, and the two
transforms that the vendor registers himself and refuses complex numbers in (a registered overload is left alone)."""


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.pool = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 16, 4)

    def forward(self, x):
        return self.head(self.pool(torch.relu(self.norm(self.conv(x)))).flatten(1))


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer, self.head = layer(6, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.layer(x)[0].sum(1))


class Block(nn.Module):
    """A block of a GPT with dropout."""

    def __init__(self, dropout):
        super().__init__()
        self.table, self.norm, self.rest = nn.Embedding(20, 16), nn.LayerNorm(16), nn.Dropout(dropout)
        self.project, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16))
        self.head = nn.Linear(16, 4)

    def forward(self, tokens):
        x = self.table(tokens)
        batch, length, width = x.shape
        q, k, v = self.project(self.norm(x)).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.rest(self.out(attended.transpose(1, 2).reshape(batch, length, width)))
        return self.head((x + self.mlp(x)).mean(1))


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(20, 4)

    def forward(self, x):
        frames = torch.tensor([[1.0, 0, 0], [0, 1, 0]], device=x.device).expand(len(x), 2, 3)
        grid = nn.functional.affine_grid(frames, (len(x), 4, 4, 4), align_corners=False)
        sampled = nn.functional.grid_sample(self.conv(x), grid, align_corners=False)
        _, best = sampled.mean(1).flatten(1).topk(5)
        return self.head(torch.gather(sampled.flatten(2), 2, best.unsqueeze(1).expand(-1, 4, -1)).flatten(1))


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.head = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x):
        spectrum = torch.view_as_real(torch.fft.rfft(self.first(x), dim=-1)) * 0.5
        return self.head(torch.fft.irfft(torch.view_as_complex(spectrum), n=16, dim=-1) + x)


def train(make, data, device):
    """Return the losses of 20 AdamW steps, and the overloads that the host served or nothing could."""
    torch.manual_seed(0)
    net = make().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-2)
    torch.manual_seed(1)
    losses, host = [], collections.Counter()
    for _ in range(20):
        x, y = data(), torch.randint(0, 4, (4,))
        sim.journal.clear()
        loss = nn.functional.cross_entropy(net(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        leaves = [leaf for entry in sim.journal.entries() for leaf in entry.leaves()]
        host.update(leaf.overload for leaf in leaves if leaf.unsupported or leaf.route is Route.FALLBACK)
        losses.append(loss.detach().cpu())
    return torch.stack(losses), set(host)


def images():
    return torch.randn(4, 3, 8, 8)


@pytest.fixture
def _installed():
    with translators.install():
        yield


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    ("make", "data", "named"),
    [
        (Conv, images, set()),
        (lambda: Recurrent(nn.LSTM), lambda: torch.randn(4, 5, 6), set()),
        (lambda: Recurrent(nn.GRU), lambda: torch.randn(4, 5, 6), set()),
        (lambda: Block(0.0), lambda: torch.randint(0, 20, (4, 6)), set()),
        (Detector, images, {"aten.grid_sampler_2d_backward.default"}),
        (Spectral, lambda: torch.randn(4, 16), COMPLEX),
    ],
    ids=["conv", "lstm", "gru", "block", "detector", "spectral"],
)
def test_twenty_steps_are_the_cpus(make, data, named):
    want, _ = train(make, data, "cpu")
    found, host = train(make, data, "neuron")
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)
    assert host <= named


@pytest.mark.usefixtures("_installed")
def test_dropout_draws_on_the_device_and_repeats_with_the_seed():
    first, host = train(lambda: Block(0.3), lambda: torch.randint(0, 20, (4, 6)), "neuron")
    second, _ = train(lambda: Block(0.3), lambda: torch.randint(0, 20, (4, 6)), "neuron")
    assert torch.equal(first, second)
    assert not host


def test_without_translators_the_same_layers_fail_or_fall_back():
    _, host = train(Conv, images, "neuron")
    assert host
    with pytest.raises(NotImplementedError):
        train(lambda: Recurrent(nn.LSTM), lambda: torch.randn(4, 5, 6), "neuron")
