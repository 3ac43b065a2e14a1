"""Notices autocast written for another device, which does nothing on this one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE = "neuron"


def watch_autocast(tell: Callable[[str], None]) -> None:
    """Have `tell` called where the code enters an autocast of a device other than neuron, for the life of this process."""
    made = torch.autocast.__init__

    def init(self: torch.autocast, device_type: str, *args: Any, **kwargs: Any) -> None:
        if device_type != DEVICE and kwargs.get("enabled", True):
            tell(
                f"autocast for {device_type!r} changes nothing on {DEVICE}, so the dtypes here are those without it; write "
                f"device_type=x.device.type, or check with --autocast bfloat16"
            )
        made(self, device_type, *args, **kwargs)

    torch.autocast.__init__ = init  # type: ignore[method-assign]
