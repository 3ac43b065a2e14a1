"""Captures models of any size: the simulated device's dispatch over fake tensors, which have shapes and no memory.

`tensors` makes the fake tensors, `watching` records what is called on them and judges it as the simulated device would,
`known` keeps the values that are known all the same, `guesses` answers where code asks for one that is not, `host` does so
for what leaves PyTorch (numpy, lists, text), `exploring` runs a model under all of it, `sizes` says which models need it and
`full_size` what models of Hugging Face's libraries are then called with.
"""
