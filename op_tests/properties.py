"""Judges results that are not one certain tensor by what must hold of them: indices of ties, and factors of matrices."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import torch
from neuron_ops.op_tests.comparison import Comparison, number_of
from neuron_ops.op_tests.factors import FACTORS, nearest_order
from neuron_ops.op_tests.observation import SeenTensor
from neuron_ops.op_tests.tolerances import computed_as
from neuron_ops.op_tests.values import same_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Tensor = torch.Tensor
_Values: TypeAlias = dict[int, Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Freedom:
    """What is left to judge by values once the properties hold.

    `message` says which property does not hold. `free` are outputs that are settled, `instead` are values to compare in
    an output's place (the device's, in the order of the reference). `note` says what differs that may.
    """

    message: str | None = None
    note: str | None = None
    free: frozenset[int] = frozenset()
    instead: Mapping[int, Tensor] = field(default_factory=dict)


NONE = Freedom()


def freedom(call: Comparison) -> Freedom:
    """Return which outputs are settled by properties; `NONE` where the overload has no freedom or all bits are equal.

    The gradients of a backward case follow the choice that the forward made, so they are free where it was another one.
    """
    row = next((row for row in call.rows if row.what == "properties"), None)
    if row is None or call.schema is None or call.random:
        return NONE
    results = len(call.schema.returns)
    want, got = _outputs(call.reference.outputs, results), _outputs(call.device.outputs, results)
    if want.keys() != got.keys() or all(same_bits(want[i], got[i]) for i in want):
        return NONE
    found = JUDGES[row.by](call, want, got)
    if found.note is None:
        return found
    gradients = {number_of(o.name) for o in call.reference.outputs if number_of(o.name) >= results}
    return Freedom(None, found.note, found.free | gradients, found.instead)


def loose_exact(call: Comparison) -> frozenset[int]:
    """Return the outputs for which the float64 call says nothing: it made another choice of signs, phases or order."""
    row = next((row for row in call.rows if row.what == "properties" and row.by in FACTORS), None)
    if row is None or call.exact is None or call.schema is None:
        return frozenset()
    results = len(call.schema.returns)
    want, exact = _outputs(call.reference.outputs, results), _outputs(call.exact.outputs, results)
    if want.keys() == exact.keys() and all(_aligned(want[i], exact[i]) for i in want):
        return frozenset()
    numbers = {number_of(o.name) for o in call.reference.outputs}
    return FACTORS[row.by].free | {n for n in numbers if n >= results}


def _outputs(seen: tuple[object, ...], results: int) -> _Values:
    tensors = [s for s in seen if isinstance(s, SeenTensor) and s.values is not None]
    return {number_of(s.name): s.values for s in tensors if s.values is not None and number_of(s.name) < results}


def _aligned(want: Tensor, exact: Tensor) -> bool:
    if want.shape != exact.shape or want.is_complex() != exact.is_complex() or not want.numel():
        return want.shape == exact.shape
    left, right = want.to(exact.dtype), exact
    return bool((left - right).abs().max() <= 0.1 * right.abs().max())


# --- indices ---------------------------------------------------------------------------------------------------------


def _source(call: Comparison) -> tuple[Tensor, int] | None:
    """Return the tensor that is picked from, with at least one dimension, and the dimension from 0; None if unknown."""
    source, dim = call.argument("self"), call.argument("dim")
    if not isinstance(source, torch.Tensor) or not isinstance(dim, int) or source.dtype.is_complex:
        return None
    source = source.reshape(1) if not source.dim() else source
    return source, dim % source.dim()


def _along(source: Tensor, dim: int, values: Tensor) -> Tensor:
    """Return values with the reduced dimension put back."""
    if values.dim() == source.dim():
        return values
    return values.unsqueeze(dim)


def _gathered(source: Tensor, dim: int, index: Tensor, number: int) -> tuple[Tensor | None, str]:
    """Return what the indices point at, or None and what is wrong with them."""
    size = source.shape[dim]
    outside = (index < 0) | (index >= size)
    if bool(outside.any()):
        worst = int(index[outside].flatten()[0])
        return (
            None,
            f"output {number}: {int(outside.sum())} of {index.numel()} indices wrong: {worst} is outside of 0 to {size - 1}",
        )
    return source.gather(dim, index), ""


def _differ(left: Tensor, right: Tensor) -> Tensor:
    """Return where two tensors of one shape hold different numbers; NaN is one number and so are both zeros."""
    return (left != right) & ~((left != left) & (right != right))


def _points_elsewhere(index: Tensor, found: Tensor, wanted: Tensor, number: int) -> str | None:
    wrong = _differ(found, wanted)
    if not bool(wrong.any()):
        return None
    place = tuple(int(i) for i in wrong.nonzero()[0])
    what = f"{int(index[place])} points at {found[place].item():.9g}, expected an index of {wanted[place].item():.9g}"
    return f"output {number}: {int(wrong.sum())} of {index.numel()} indices wrong, first at {list(place)}: {what}"


def _repeated(index: Tensor, dim: int, number: int) -> str | None:
    ordered = index.sort(dim).values
    twice = ordered.diff(dim=dim) == 0
    if not bool(twice.any()):
        return None
    return f"output {number}: {int(twice.sum())} of {index.numel()} indices wrong: the same index twice in a row"


def _tie_note(want: Tensor, got: Tensor, number: int) -> str:
    return f"output {number}: another of equal values at {int((want != got).sum())} of {want.numel()} places"


def _picked(call: Comparison, want: _Values, got: _Values) -> Freedom:
    """Judge (values, indices) of a reduction that picks one element: any index of an equal element is right."""
    found = _source(call)
    if found is None or set(want) != {0, 1} or same_bits(want[1], got[1]):
        return NONE
    source, dim = found
    index, wanted = _along(source, dim, got[1]), _along(source, dim, want[0])
    if index.dim() != source.dim():
        return NONE
    elements, wrong = _gathered(source, dim, index, 1)
    message = wrong if elements is None else _points_elsewhere(index, elements, wanted, 1)
    return Freedom(message) if message else Freedom(None, _tie_note(want[1], got[1], 1), frozenset({1}))


def _sorted(call: Comparison, want: _Values, got: _Values) -> Freedom:
    """Judge (values, indices) of a sort that is not stable: a permutation that gives the sorted values."""
    found, last = _source(call), max(want)
    if found is None or call.argument("stable") is True or same_bits(want[last], got[last]):
        return NONE
    source, dim = found
    index, wanted = got[last].reshape(source.shape), want[last].reshape(source.shape)
    elements, wrong = _gathered(source, dim, index, last)
    message = wrong if elements is None else _repeated(index, dim, last)
    if message is None and elements is not None:
        message = _points_elsewhere(index, elements, source.gather(dim, wanted), last)
    return Freedom(message) if message else Freedom(None, _tie_note(want[last], got[last], last), frozenset({last}))


def _top(call: Comparison, want: _Values, got: _Values) -> Freedom:
    """Judge (values, indices) of topk: different indices of the right values, in any order where none is asked for."""
    found = _source(call)
    if found is None or set(want) != {0, 1}:
        return NONE
    source, dim = found
    shape = want[0].shape or torch.Size([1])
    index, values, wanted = (t.reshape(shape) for t in (got[1], got[0], want[0]))
    elements, wrong = _gathered(source, dim, index, 1)
    message = wrong if elements is None else _repeated(index, dim, 1)
    if message or elements is None:
        return Freedom(message)
    if call.argument("sorted") is not False:
        message = _points_elsewhere(index, elements, wanted, 1)
        return Freedom(message) if message else Freedom(None, _tie_note(want[1], got[1], 1), frozenset({1}))
    message = _points_elsewhere(index, elements, values, 1)
    in_order = values.sort(dim).values
    if message is None and bool(_differ(in_order, wanted.sort(dim).values).any()):
        message = f"output 0: other values than the {shape[dim]} that are asked for"
    return Freedom(message) if message else Freedom(None, _tie_note(want[1], got[1], 1), frozenset({0, 1}))


# --- factors ---------------------------------------------------------------------------------------------------------


def _factored(call: Comparison, want: _Values, got: _Values) -> Freedom:
    """Judge the factors of a matrix by reconstruction, orthonormality and form; values beside them by value."""
    row = next(row for row in call.rows if row.what == "properties")
    judge, matrix = FACTORS[row.by], call.argument("A")
    matrix = call.argument("self") if matrix is None else matrix
    if not isinstance(matrix, torch.Tensor) or not bool(matrix.isfinite().all()) or not matrix.numel():
        return NONE
    if any(not bool(t.isfinite().all()) for t in got.values()):
        return NONE  # judged by values: the placement of what is not finite comes first there
    options = {name: call.argument(name) for name in ("mode", "compute_uv", "UPLO", "compute_v")}
    instead = {0: nearest_order(want[0], got[0])} if judge.unordered else {}
    message = judge.message(matrix, want, got, options, computed_as(matrix.dtype, call.compute_dtype))
    if message is not None:
        return Freedom(message)
    free = (judge.free & set(want)) - frozenset(instead) if judge.has_vectors(options) else frozenset()
    changed = [n for n in sorted(judge.free | set(instead)) if not _aligned(want[n], got[n])]
    words = "other signs, phases or order, which are right by their properties"
    return Freedom(None, f"output {changed[0]}: {words}" if changed else None, free, instead)


JUDGES: Mapping[str, Callable[[Comparison, _Values, _Values], Freedom]] = {
    "picked": _picked,
    "sorted": _sorted,
    "top": _top,
    **dict.fromkeys(FACTORS, _factored),
}
"""Key `by` of a row in exceptions.toml → its judge."""
