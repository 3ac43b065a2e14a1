"""Keeps the values that are known although tensors are fake: integers, masks and small constants, as CPU tensors beside them.

Code asks for such values: labels within a range, masks that are all true, `linspace(...).tolist()` in a constructor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.targets.sim import host
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMIT = 1 << 20
"""Elements of the largest tensor whose values are kept."""
_CPU = torch.device("cpu")
_DRAWN_AND_KEPT = ("aten::randint", "aten::randperm")
_WITHOUT_VALUES = ("aten::empty", "aten::new_empty", "aten::resize", "aten::set_")


class Known:
    """The known values of this process's fake tensors."""

    def __init__(self) -> None:
        self._spoilt: dict[int, torch.UntypedStorage] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """Return the values as a CPU tensor, or None where they are unknown."""
        if not isinstance(tensor, FakeTensor):
            return tensor if tensor.device.type == "cpu" and tensor.numel() <= LIMIT else None
        value: torch.Tensor | None = getattr(tensor, "_known", None)
        if value is None:
            return None
        return None if value.untyped_storage()._cdata in self._spoilt else value

    def keep(self, result: Any, value: Any) -> None:
        """Keep the value beside a fake result of the same structure and shapes."""
        if isinstance(result, FakeTensor) and isinstance(value, torch.Tensor):
            if result.shape == value.shape and value.numel() <= LIMIT:
                result._known = value  # type: ignore[attr-defined]
        elif isinstance(result, (list, tuple)) and isinstance(value, (list, tuple)):
            for one, its_value in zip(result, value, strict=False):
                self.keep(one, its_value)

    def spoil(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Forget the values of all that shares memory with what this call writes."""
        for position, name in host.signature_of(op).written:
            value = args[position] if position < len(args) else kwargs.get(name)
            for tensor in tensors_in((value,)):
                known = getattr(tensor, "_known", None)
                if known is not None:
                    storage = known.untyped_storage()
                    self._spoilt[storage._cdata] = storage  # held, so that its address is not given again

    def compute(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        """Return the call's result on the known values, in a tuple of one; None where an argument is unknown."""
        for tensor in tensors_in((args, kwargs)):
            if self.of(tensor) is None:
                return None
        if not _has_values(op):
            return None
        return self._run(op, args, kwargs)

    def _run(self, op: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any] | None:
        host_args = mapped(args, self._real)
        host_kwargs = {name: mapped(value, self._real) for name, value in kwargs.items()}
        try:
            with _disable_current_modes(), torch.no_grad():
                return (op(*host_args, **host_kwargs),)
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None  # the fake call that follows says what is wrong, in the words of the device

    def _real(self, tensor: torch.Tensor) -> torch.Tensor:
        value = self.of(tensor)
        assert value is not None
        return value


def _has_values(op: torch._ops.OpOverload) -> bool:
    name = op.name()
    if name.startswith(_WITHOUT_VALUES):
        return False
    return torch.Tag.nondeterministic_seeded not in op.tags or name.startswith(_DRAWN_AND_KEPT)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among arguments: those in lists and dicts too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def mapped(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return arguments with every tensor changed and every device the CPU."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, torch.device):
        return _CPU
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(mapped(item, change) for item in value)
    return value
