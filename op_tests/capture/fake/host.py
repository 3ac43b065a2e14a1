"""Answers what leaves PyTorch: numpy arrays, Python lists and text of tensors that are fake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

if TYPE_CHECKING:
    from neuron_ops.op_tests.capture.fake.guesses import Guesses
    from neuron_ops.op_tests.capture.fake.known import Known

_LEAVING = {torch.Tensor.numpy: "numpy", torch.Tensor.tolist: "tolist", torch.Tensor.__array__: "__array__"}


class Leaving(TorchFunctionMode):
    """The mode in which `numpy()`, `tolist()` and formatting of a fake tensor give its known values, else ones."""

    def __init__(self, known: Known, guesses: Guesses) -> None:
        super().__init__()
        self._known, self._guesses = known, guesses

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Answer what leaves PyTorch and let all else pass."""
        kwargs = kwargs or {}
        if func in _LEAVING and isinstance(args[0], FakeTensor):
            values = self._values(args[0], _LEAVING[func])
            with _disable_current_modes(), torch._C.DisableTorchFunctionSubclass():
                return func(values, *args[1:], **kwargs)
        if func is torch.Tensor.data_ptr and isinstance(args[0], FakeTensor):  # asked for to tell tied tensors
            return args[0].untyped_storage()._cdata
        if func is torch.Tensor.__format__ and isinstance(args[0], FakeTensor) and args[0].dim() == 0:
            return format(args[0].item(), args[1])
        return func(*args, **kwargs)

    def _values(self, tensor: torch.Tensor, how: str) -> torch.Tensor:
        value = self._known.of(tensor)
        if value is not None:
            return value
        self._guesses.note(f"{how}() of unknown values: ones are assumed")
        with _disable_current_modes():
            return torch.ones(tensor.shape, dtype=tensor.dtype)
