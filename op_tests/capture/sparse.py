"""Names the calls that take sparse tensors, which the device cannot hold: seen where the model runs on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class SparseCalls(TorchDispatchMode):
    """A mode that has `tell` called with each overload that takes a sparse tensor, and the layout."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tell = tell

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the call and return its result."""
        for layout in sorted({str(leaf.layout) for leaf in tree_leaves((args, kwargs)) if is_sparse(leaf)}):
            self._tell(
                f"{func} takes a sparse tensor (layout {layout.removeprefix('torch.')}), and the device has none"
            )
        return func(*args, **(kwargs or {}))


def is_sparse(value: object) -> bool:
    """Return whether the value is a tensor without strides."""
    return isinstance(value, torch.Tensor) and value.layout not in (torch.strided, torch.jagged)


def any_sparse(values: Iterable[object]) -> bool:
    """Return whether one of the values, or one inside them, is a sparse tensor."""
    return any(is_sparse(leaf) for leaf in tree_leaves(list(values)))
