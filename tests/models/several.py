import torch

encoder = torch.nn.Linear(2, 3)
decoder = torch.nn.Linear(3, 2)
whole = torch.nn.Sequential(torch.nn.ReLU())
loss = torch.nn.MSELoss()  # no candidate
example_inputs = torch.randn(4, 2)
