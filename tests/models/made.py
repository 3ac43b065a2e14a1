"""A model that makes tensors on the device of its input, in all the ways that there are."""

import torch


class Made(torch.nn.Module):
    def forward(self, x):
        given = torch.tensor([1.0, 2.0], device=x.device) + torch.tensor(3.0, device=x.device)
        whole = torch.as_tensor([1, 2], device=x.device) + torch.arange(2, device=x.device)
        alike = x.new_tensor([1.0, 2.0]) + torch.zeros_like(x) + x.new_zeros(2)
        moved = torch.tensor([1.0, 2.0]).to(x.device) + x.to("cpu").to(x.device)
        return (x + given + whole + alike + moved + torch.full((2,), 7.0, device=x.device)).to(torch.bfloat16)


model = Made()
example_inputs = torch.ones(2)
