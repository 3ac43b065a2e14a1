"""Decides which models are too big for real values."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.capture.hub import LARGEST
from torch.nn.modules.module import register_module_parameter_registration_hook

if TYPE_CHECKING:
    from collections.abc import Iterator

_COPIES_IN_TRAINING = 4
"""Parameters, their gradients and two moments of AdamW."""


class TooBig(BaseException):
    """The parameters take more than real values may; no Exception, so that code which catches those does not hide it."""


def _limit(train: bool) -> int:
    return LARGEST // _COPIES_IN_TRAINING if train else LARGEST


def is_big(model: torch.nn.Module, train: bool) -> bool:
    """Return whether the parameters, with what training keeps beside them, take more than LARGEST bytes."""
    return sum(p.numel() * p.element_size() for p in model.parameters()) > _limit(train)


@contextlib.contextmanager
def limited(train: bool) -> Iterator[None]:
    """Return a context in which the first parameter beyond the limit raises TooBig, before its memory is written."""
    limit, taken = _limit(train), 0

    def count(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter | None) -> None:
        nonlocal taken
        del module, name
        if parameter is None or parameter.device.type != "cpu" or torch.nn.parameter.is_lazy(parameter):
            return
        taken += parameter.numel() * parameter.element_size()
        if taken > limit:
            raise TooBig

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
