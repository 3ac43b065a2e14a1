"""Calls a translator on CPU tensors beside the ATen operator, for the tests of the families."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from neuron_ops.translators import registry

SPECIAL = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.nan,
    math.inf,
    -math.inf,
    0.5,
    -0.5,
    2.0,
    -2.5,
    3.7,
    -7.25,
    1e-8,
    -1e-30,
    1e4,
    -150.0,
)


def specials(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return [17] of values at which functions go wrong."""
    return torch.tensor(SPECIAL, dtype=dtype)


def shapes(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    """Return the same kind of values empty, 0-dim, transposed, stepped, expanded and channels-last."""
    generator = torch.Generator().manual_seed(7)
    x = (torch.randn(2, 3, 4, 5, generator=generator) * 3).to(dtype)
    return [
        x[:0],
        x[0, 0, 0, 0],
        x.transpose(1, 3),
        x[..., ::2],
        x[:1].expand(3, 3, 4, 5),
        x.to(memory_format=torch.channels_last),
    ]


def _flat(value: Any) -> list[Any]:
    return [value] if isinstance(value, torch.Tensor) or not isinstance(value, (list, tuple)) else list(value)


def _compare(got: Any, want: Any, rtol: float | None, atol: float | None, *, strides: bool) -> None:
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    torch.testing.assert_close(got, want, rtol=rtol, atol=atol, equal_nan=True)
    if strides and want.numel() > 1:
        steps = [(g, w) for g, w, size in zip(got.stride(), want.stride(), want.shape, strict=True) if size > 1]
        assert [g for g, _ in steps] == [w for _, w in steps], "strides"
    if want.dtype.is_floating_point:
        zeros = (got == 0) & (want == 0)
        assert torch.equal(torch.signbit(got) & zeros, torch.signbit(want) & zeros), "sign of zero"


def same(
    overload: str,
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    strides: bool = True,
    **kwargs: Any,
) -> None:
    """Assert that translator and ATen return the same and leave the same in their arguments."""
    ours, theirs = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
    got = registry.REGISTRY[overload].function(*ours[0], **ours[1])
    want = registry.resolve(overload)(*theirs[0], **theirs[1])
    for g, w in zip(_flat(got), _flat(want), strict=True):
        _compare(g, w, rtol, atol, strides=strides)
    for mine, yours in zip(ours[0], theirs[0], strict=True):
        for g, w in zip(_flat(mine), _flat(yours), strict=True):
            _compare(g, w, rtol, atol, strides=False)
