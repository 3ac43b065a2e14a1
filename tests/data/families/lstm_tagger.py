"""A tagger: two bidirectional layers of LSTM over embedded words."""

import torch


class Tagger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(30000, 300)
        self.lstm = torch.nn.LSTM(300, 512, 2, bidirectional=True, batch_first=True, dropout=0.1)
        self.out = torch.nn.Linear(1024, 20)

    def forward(self, words):
        return torch.log_softmax(self.out(self.lstm(self.embed(words))[0]), -1)


example_inputs = (torch.ones(32, 64, dtype=torch.int64),)
