"""The axis `special`: values at which kernels go wrong, woven into the tensors of a call."""

from __future__ import annotations

import torch
from neuron_ops.op_tests.axes.arguments import Arguments, Call, Slot, emptied, pointwise

_INTEGERS = (
    0, -1, 1, 2, 127, 128, 255, 256, -128, 32767, -32768, 65536, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31), 2**31 + 3,
    2**53 + 1, 2**63 - 1, -(2**63), 3, 7,
)  # fmt: skip


def special(call: Call, detail: str) -> Arguments | None:
    """Return the call with special values in its tensors of the main dtype.

    Elementwise calls get every pair of special values, as a square; in others every third element is replaced. Detail
    ``finite``: neither NaN nor infinity, so that a reduction still has a result. Complex tensors get finite ones only:
    no standard says what a complex product with an infinity is.
    """
    main = next((t for _, t in call.inputs()), None)
    if main is None or main.dtype == torch.bool:
        return None
    square = pointwise(call.op)
    if detail == "finite" and (square or not (main.is_floating_point() or main.is_complex())):
        return None
    values = _values(main.dtype, finite=detail == "finite" or main.is_complex(), extremes=square)
    return _squares(call, values) if square else _woven(call, values)


def _values(dtype: torch.dtype, *, finite: bool, extremes: bool) -> torch.Tensor:
    """Return one row of special values of the dtype, each once."""
    if dtype.is_complex:
        real = _values(dtype.to_real(), finite=True, extremes=False)
        return torch.complex(real, real.roll(3)) if dtype is not torch.complex32 else real.to(dtype)
    if not dtype.is_floating_point:
        bounds = torch.iinfo(dtype)
        kept = dict.fromkeys(n for n in (*_INTEGERS, bounds.max, bounds.min) if bounds.min <= n <= bounds.max)
        return torch.tensor(list(kept), dtype=dtype)
    info = torch.finfo(dtype)
    numbers = [] if finite else [float("nan"), float("inf"), -float("inf")]
    numbers += [-0.0, info.smallest_normal / 2, -info.smallest_normal / 2]
    numbers += [float(n) for n in (2**24 + 1, 2**31 + 256, 257, -1, 0.5) if abs(n) <= info.max]
    numbers += [0.0, info.max, -info.max, 1.0, info.eps, -12.5] if extremes else []
    return torch.tensor(numbers, dtype=torch.float64).to(dtype)


def _squares(call: Call, values: torch.Tensor) -> Arguments | None:
    count = values.numel()
    row, column = torch.meshgrid(torch.arange(count), torch.arange(count), indexing="xy")
    order: list[int] = []

    def change(slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
        if slot.out:
            return emptied(slot, tensor)
        if not tensor.dim() or not tensor.numel():
            return tensor
        if slot.where or tensor.dtype != values.dtype:
            places = torch.arange(count * count).reshape(count, count) % tensor.numel()
            return tensor.resolve_conj().resolve_neg().reshape(-1)[places]
        order.append(0)
        return values[(row, column, (row + column) % count)[min(len(order), 3) - 1]]

    changed = call.mapped(change)
    return changed if order else None


def _woven(call: Call, values: torch.Tensor) -> Arguments | None:
    order: list[int] = []

    def change(slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
        if slot.out or slot.where or tensor.dtype != values.dtype or not tensor.dim() or not tensor.numel():
            return tensor
        flat = tensor.resolve_conj().resolve_neg().reshape(-1).clone()
        places = torch.arange(len(order) % 3, flat.numel(), 3)
        order.append(0)
        flat[places] = values[torch.arange(places.numel()) % values.numel()]
        return flat.reshape(tensor.shape)

    return call.mapped(change)
