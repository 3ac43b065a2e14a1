"""How a target says that a call was served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from neuron_ops.op_tests.records import FallbackReason, Part, Route


@dataclass(frozen=True, slots=True)
class Served:
    """How one call was served: its route and reason, the first name the device saw, and the parts that did the work.

    `route` is None where a part could not be served at all. `composite` says that not the overload's own kernel but
    PyTorch's composite kernel served it, through `parts`.
    """

    route: Route | None
    reason: FallbackReason | None
    received: str | None
    composite: bool
    parts: tuple[Part, ...]
