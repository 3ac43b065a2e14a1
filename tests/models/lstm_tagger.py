"""Embedding, LSTM and a linear head."""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 8)
        self.lstm = nn.LSTM(8, 12, batch_first=True)
        self.head = nn.Linear(12, 5)

    def forward(self, ids):
        states, _ = self.lstm(self.embedding(ids))
        return self.head(states)


def build_model():
    return Tagger()


def get_inputs():
    return {"ids": torch.randint(0, 50, (2, 4))}
