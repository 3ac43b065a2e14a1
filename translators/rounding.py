"""Decides how values are rounded to integers on a device that has ceil and trunc only.

Imported by translators.installation.
"""

from __future__ import annotations

import torch
from neuron_ops.translators.promotion import computing, refuse_complex
from neuron_ops.translators.registry import Refused, translator


@translator("aten.floor.default", source="definition: -ceil(-x)")
def floor(self: torch.Tensor) -> torch.Tensor:
    """Return the largest integers not above x; the sign of zero stays."""
    refuse_complex(self)
    return -torch.ceil(-self) if self.dtype.is_floating_point else self.clone()


def _nearest(x: torch.Tensor) -> torch.Tensor:
    low = torch.floor(x)
    part = x - low
    odd = low - 2 * torch.floor(low / 2) != 0
    rounded = torch.where((part > 0.5) | ((part == 0.5) & odd), low + 1, low)
    return torch.where(rounded == 0, x * 0, rounded)  # -0.4 gives -0.0


@translator("aten.round.default", source="definition: half to even")
def round_(self: torch.Tensor) -> torch.Tensor:
    """Return the nearest integers, halves to the even one."""
    refuse_complex(self)
    return _nearest(self) if self.dtype.is_floating_point else self.clone()


@translator("aten.round.decimals", source="definition: half to even of the scaled value")
def round_decimals(self: torch.Tensor, *, decimals: int) -> torch.Tensor:
    """Return x rounded to that many decimals; negative ones round before the point."""
    refuse_complex(self)
    if not self.dtype.is_floating_point:
        raise Refused("round(decimals) is defined for floating-point tensors only")
    if decimals == 0:
        return _nearest(self)
    scale = 10.0 ** abs(decimals)
    x = self.to(computing(self.dtype))
    rounded = _nearest(x / scale) * scale if decimals < 0 else _nearest(x * scale) / scale
    return rounded.to(self.dtype)


@translator("aten.frac.default", source="definition")
def frac(self: torch.Tensor) -> torch.Tensor:
    """Return x - trunc(x)."""
    refuse_complex(self)
    return self - torch.trunc(self)
