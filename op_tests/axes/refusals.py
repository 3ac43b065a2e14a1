"""The axis `must_raise`: calls with a mistake that PyTorch refuses on the CPU, so that every device has to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from neuron_ops.op_tests.axes.geometry import DIMENSION_NAMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from neuron_ops.op_tests.axes.arguments import Arguments, Call, Slot

_FAR = 1 << 30
"""An index outside of every tensor, of mapped memory where a kernel forgets to look, and still one where int64 becomes int32."""


def must_raise(call: Call, detail: str) -> Arguments | None:
    """Return the call with one mistake, or None where there is no place for it.

    Details: ``dim`` a dimension that the tensor has not, ``index`` an index outside of it, ``index_dtype`` an index that is
    no integer, ``dtype`` a second operand of another dtype, ``shape`` one of a shape that does not fit.
    """
    return _MISTAKES[detail](call) if detail in _MISTAKES else None


def _dim(call: Call) -> Arguments | None:
    main = call.main
    wrong = (main.dim() if main is not None else 0) + 3
    for slot in call.slots():
        if slot.name in DIMENSION_NAMES and type(slot.value) is int:
            return call.replaced({slot.place: wrong})
        if slot.name in DIMENSION_NAMES and isinstance(slot.value, list) and slot.value:
            return call.replaced({slot.place: [wrong, *slot.value[1:]]})
    return None


def _indices(call: Call) -> list[Slot]:
    return [
        slot
        for slot in call.slots()
        if slot.name in ("index", "indices") and isinstance(slot.value, torch.Tensor) and slot.value.numel() and not slot.out
    ]  # fmt: skip


def _index(call: Call) -> Arguments | None:
    found = _indices(call)
    private = call.op._schema.name.startswith("aten::_")  # these may trust their callers
    if not found or private or found[0].value.dtype != torch.int64:
        return None
    return call.replaced({found[0].place: torch.full_like(found[0].value, _FAR)})


def _index_dtype(call: Call) -> Arguments | None:
    found = _indices(call)
    if not found or found[0].value.is_floating_point():
        return None
    return call.replaced({found[0].place: found[0].value.to(torch.float32)})


def _second_operand(call: Call) -> Slot | None:
    single = [
        slot for slot in call.slots() if isinstance(slot.value, torch.Tensor) and not (slot.out or slot.where)
    ]  # fmt: skip
    return next((slot for slot in single[1:] if slot.value.dim() and slot.value.numel() and not slot.written), None)


def _dtype(call: Call) -> Arguments | None:
    slot = _second_operand(call)
    if slot is None:
        return None
    dtype = slot.value.dtype
    other = torch.float32 if not dtype.is_floating_point or dtype == torch.float64 else torch.float64
    return call.replaced(
        {slot.place: slot.value.resolve_conj().to(torch.complex128 if dtype == torch.complex64 else other)}
    )


def _shape(call: Call) -> Arguments | None:
    slot = _second_operand(call)
    if slot is None:
        return None
    size = slot.value.shape[-1]
    places = torch.arange(max(size, 2) + 3) % size
    return call.replaced(
        {slot.place: slot.value.resolve_conj().resolve_neg().index_select(slot.value.dim() - 1, places)}
    )


_MISTAKES: dict[str, Callable[[Call], Any]] = {
    "dim": _dim,
    "index": _index,
    "index_dtype": _index_dtype,
    "dtype": _dtype,
    "shape": _shape,
}
