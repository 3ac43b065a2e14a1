"""Models that ask for values in the middle of their work, one class each."""

import torch
from torch import nn


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(8, 8)


class Item(Base):
    def forward(self, x):
        y = self.l(x)
        return y / (y.abs().mean().item() + 1.0)


class Branch(Base):
    def forward(self, x):
        y = self.l(x)
        return y.relu() if y.sum() > 0 else y.sigmoid()


class Loop(Base):
    def forward(self, x):
        y = self.l(x)
        while y.norm() > 1.0:
            y = y * 0.5
        return y


class Refuses(Base):
    def forward(self, x):
        y = self.l(x)
        if y.isnan().any():
            raise ValueError("not a number")
        return y.tanh()


class Mask(Base):
    def forward(self, x):
        y = self.l(x)
        return y[y > 0].sum() + y.sum()


class Experts(Base):
    def forward(self, x):
        y = self.l(x)
        out = torch.zeros_like(y)
        for expert in range(4):
            (rows,) = torch.where(x.argmax(-1) % 4 == expert)
            out.index_add_(0, rows, self.l(x[rows]))
        return out


class Unique(Base):
    def forward(self, x):
        y = self.l(x)
        return y.sum() + torch.unique((y * 2).long()).float().sum()


class Numpy(Base):
    def forward(self, x):
        y = self.l(x)
        return y * float(y.detach().cpu().numpy().mean()) + y[0].tolist()[0]


class Text(Base):
    def forward(self, x):
        y = self.l(x)
        f"{y.mean():.3f}"
        return y


class Known(Base):
    """Every value that this one asks for is known: the positions of integers that were given, and a small constant."""

    def __init__(self):
        super().__init__()
        self.steps = torch.linspace(0, 1, 3).tolist()
        self.register_buffer("mask", torch.arange(8) < 5)

    def forward(self, x):
        y = self.l(x)[:, self.mask]
        assert y.shape[1] == 5
        assert self.steps == [0.0, 0.5, 1.0]
        self.mask[0] = False
        assert self.mask.sum().item() == 4
        return y.exp() if bool(self.mask.any()) else y.sin()


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(8, 8)

    def forward(self, x):
        return self.gru(x)[0]


@torch.library.custom_op("asked::plain", mutates_args=())
def plain(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


class Custom(Base):
    def forward(self, x):
        return self.l(plain(x))


class Inference(Base):
    def forward(self, x):
        with torch.inference_mode():
            q = self.l(x).reshape(1, 2, 2, 8)
            return nn.functional.scaled_dot_product_attention(q, q, q).float()


class Double(Base):
    """Its gradient needs an accumulation, a checkpoint and a clipped norm."""

    def forward(self, x):
        y = torch.utils.checkpoint.checkpoint(lambda t: torch.tanh(self.l(t)), x, use_reentrant=False)
        return y + y.square()


class Ctc(Base):
    """Neither it nor its gradient has a shape rule; what raises in backward, in C++, would end the process."""

    def forward(self, x):
        scores = self.l(x).log_softmax(-1).unsqueeze(1)
        words = torch.ones(1, 2, dtype=torch.int64, device=x.device)
        return nn.functional.ctc_loss(scores, words, words.sum(1) + 2, words.sum(1))


example_inputs = torch.ones(4, 8)
