"""What the self-test plants where: hand-made samples of many families, each with the faults that it can show.

A fault needs a sample that shows it: no sign of zero is lost where there is no zero, nothing wraps below 2**24. All
numbers are made by formula, so that every run plants the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Tensor = torch.Tensor
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Plot:
    """Samples of one overload and the faults to plant: at `at`, the overload itself unless another one serves the call."""

    overload: str
    faults: tuple[str, ...]
    samples: Callable[[], list[Arguments]]
    dtype: str = "float32"
    variant: str = "forward"
    at: str = ""

    @property
    def place(self) -> str:
        """Return the overload whose kernel carries the fault."""
        return self.at or self.overload


FUNCTIONAL = ("value", "one-element", "zeros", "dtype", "shape", "empty", "input-mutated")
"""What every call can show that returns a new tensor."""

MATRIX = (*FUNCTIONAL, "stride")
GRADIENT = ("gradient-scaled", "gradient-zero")
INTEGER = ("value", "one-element", "dtype", "shape", "empty", "input-mutated")
INPLACE = ("value", "one-element", "mutation-missed", "written-outside", "written-at-the-start")
SPECIAL = ("nan-dropped", "infinity-sign", "zero-sign")


def wave(*shape: int, dtype: torch.dtype = torch.float32, start: float = 0.3) -> Tensor:
    """Return numbers between -2 and 2 without a pattern that a fault could follow; never zero."""
    count = math.prod(shape)
    numbers = 2 * torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + start)
    return (numbers + 0.001 * numbers.sign()).reshape(shape).to(dtype)


def positive(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return numbers between 0.5 and 2.5."""
    return (wave(*shape, dtype=torch.float64).abs() + 0.5).to(dtype)


def edges(dtype: torch.dtype = torch.float32) -> Tensor:
    """Return NaN, both infinities, both zeros and ordinary numbers in two rows."""
    inf, nan = math.inf, math.nan
    return torch.tensor([[nan, inf, -inf, -0.0, 0.0], [1.5, -2.5, nan, 0.25, -0.0]], dtype=dtype)


def whole(*shape: int, dtype: torch.dtype = torch.int64, start: int = 0) -> Tensor:
    """Return whole numbers from `start` on."""
    return (torch.arange(math.prod(shape)) + start).reshape(shape).to(dtype)


def gappy(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor]:
    """Return two matrices of one shape on one storage: one at its start, and one behind it with gaps between its rows."""
    count = rows * columns
    memory = wave(count + rows * (columns + 4), dtype=dtype)
    wide = memory[count:].view(rows, columns + 4)
    return memory[:count].view(rows, columns), wide[:, 2:-2]


def one(*args: Any, **kwargs: Any) -> list[Arguments]:
    """Return one sample."""
    return [(args, kwargs)]


bf16, f16 = torch.bfloat16, torch.float16


def _pointwise() -> Iterator[Plot]:
    yield Plot("aten.add.Tensor", (*MATRIX, *SPECIAL[:2], "hidden-fallback", "raise", "unsupported"),
               lambda: [*one(wave(3, 4), wave(3, 4)), *one(edges(), positive(2, 5))])  # fmt: skip
    yield Plot("aten.add.Tensor", (*INTEGER, "keywords-ignored", "integer-through-float32"),
               lambda: one(whole(3, 2, start=2**24 + 1), whole(3, 2), alpha=3), "int32")  # fmt: skip
    yield Plot("aten.mul.Tensor", (*MATRIX, *SPECIAL, "strides-ignored", "offset-ignored", "hidden-fallback"),
               lambda: [*one(edges(), positive(2, 5)), *one(*gappy(3, 3)), *one(wave(3, 3).t(), wave(3, 3))])  # fmt: skip
    yield Plot("aten.div.Tensor", MATRIX, lambda: one(wave(3, 4), positive(3, 4)))
    yield Plot("aten.div.Tensor", (*MATRIX, "truncated"), lambda: one(whole(3, 2), whole(3, 2, start=3)), "int64")
    yield Plot("aten.reciprocal.default", (*FUNCTIONAL, "truncated"), lambda: one(whole(4, start=1)), "int64")
    yield Plot("aten.sub.Tensor", FUNCTIONAL, lambda: one(wave(4), wave(4, start=1)))
    yield Plot("aten.abs.default", (*MATRIX, "infinity-sign", "nan-dropped"), lambda: one(edges()))
    yield Plot("aten.neg.default", (*MATRIX, *SPECIAL), lambda: one(edges()))
    yield Plot(
        "aten.ceil.default",
        (*MATRIX, "zero-sign", "identity"),
        lambda: one(torch.tensor([[-0.5, 0.5, 2.25], [1.5, -1.5, 0.25]])),
    )
    yield Plot("aten.frac.default", ("zero-sign", "one-element"), lambda: one(torch.tensor([-0.0, 1.75, -2.5])))
    yield Plot("aten.minimum.default", ("zero-sign", "nan-dropped"), lambda: one(edges(), torch.zeros(2, 5)))
    yield Plot("aten.nextafter.default", ("identity", "one-element", "unsupported"),
               lambda: one(positive(5, dtype=bf16), 9 * positive(5, dtype=bf16)), "bfloat16")  # fmt: skip
    yield Plot("aten.hypot.default", ("large-is-nan", "one-element"), lambda: one(40 * wave(6), 30 * wave(6)))
    yield Plot("aten.exp.default", (*MATRIX, "nan-dropped", "low-precision"), lambda: [*one(edges()), *one(wave(3, 4))])
    yield Plot(
        "aten.exp.default", ("low-precision", "one-element", "zeros"), lambda: one(wave(3, 4, dtype=bf16)), "bfloat16"
    )
    yield Plot("aten.lgamma.default", (*MATRIX, "strides-ignored"),
               lambda: one(positive(3, 1).expand(3, 4)))  # fmt: skip
    yield Plot(
        "aten.clamp.Tensor", ("strides-ignored", *MATRIX), lambda: one(wave(3, 3), wave(3, 3).t(), 3 + wave(3, 3))
    )


def _choices() -> Iterator[Plot]:
    yield Plot("aten.where.self", (*MATRIX, "nan-dropped"), lambda: one(wave(2, 5) > 0, edges(), wave(2, 5)))
    yield Plot("aten.bitwise_xor.Tensor", INTEGER, lambda: one(whole(6), whole(6, start=9)), "int64")
    yield Plot(
        "aten.eq.Tensor",
        ("value", "one-element", "dtype", "shape", "zeros"),
        lambda: one(whole(4) % 2, whole(4) % 3),
        "int64",
    )
    yield Plot("aten.mul.Tensor", (*MATRIX, "low-precision"),
               lambda: one(torch.complex(wave(3, 2), positive(3, 2)), torch.complex(positive(3, 2), wave(3, 2))), "complex64")  # fmt: skip


def _in_place() -> Iterator[Plot]:
    yield Plot("aten.add_.Tensor", (*INPLACE, "input-mutated"), lambda: one(*reversed(gappy(3, 3))))
    yield Plot("aten.zero_.default", ("mutation-missed", "written-outside"), lambda: one(gappy(3, 3)[1]))
    yield Plot("aten.addcdiv_.default", ("mutation-missed", "value", "written-at-the-start"),
               lambda: one(*(m.t() for m in reversed(gappy(3, 2))), positive(2, 3)))  # fmt: skip
    yield Plot("aten.mul_.Tensor", ("mutation-missed", "strides-ignored", "integer-through-float32"),
               lambda: one(whole(3, 2, start=2**25 + 1).t(), whole(3, 2, start=1).t()), "int64")  # fmt: skip
    yield Plot("aten.copy_.default", ("mutation-missed",), lambda: one(gappy(3, 3)[1], whole(3, 3).float()))
    yield Plot("aten.fill_.Scalar", ("mutation-missed", "written-outside"), lambda: one(gappy(2, 2)[1], 3.5))
    yield Plot(
        "aten.add.out",
        ("out-not-resized", "value", "one-element"),
        lambda: one(wave(2, 3), positive(2, 3), out=torch.empty(0)),
    )
    yield Plot("aten.mm.out", ("mutation-missed", "written-outside", "written-at-the-start", "out-not-resized"),
               lambda: [*_product_into_columns(), *one(wave(2, 3), wave(3, 2), out=torch.empty(0))])  # fmt: skip
    yield Plot(
        "aten._foreach_add_.Scalar", ("mutation-missed", "value", "one-element"), lambda: one([wave(2), wave(3)], 1)
    )
    yield Plot("aten._foreach_mul.List", FUNCTIONAL, lambda: one([wave(2, 2), wave(3)], [wave(2, 2), positive(3)]))


def _product_into_columns() -> list[Arguments]:
    front, back = gappy(2, 2)
    return one(front, wave(2, 2), out=back)


def _views() -> Iterator[Plot]:
    yield Plot("aten.t.default", ("view-detached", "shape"), lambda: one(wave(2, 3)))
    yield Plot("aten.select.int", ("view-detached",), lambda: one(wave(3, 2), 0, 1))
    yield Plot("aten.slice.Tensor", ("view-detached", "dtype"), lambda: one(wave(6), 0, 1, 5, 2))
    yield Plot("aten.expand.default", ("view-detached",), lambda: one(wave(3, 1), [3, 4]))
    yield Plot("aten.view.default", ("view-detached", "shape"), lambda: one(wave(6), [2, 3]))
    yield Plot("aten.split.Tensor", ("view-detached",), lambda: one(wave(6), 2))
    yield Plot("aten.clone.default", ("input-aliased", *MATRIX, "strides-ignored"), lambda: one(wave(3, 4).t()))


def _reductions() -> Iterator[Plot]:
    yield Plot("aten.sum.default", ("one-element", "zeros", "low-precision", "wrong-past-65536"),
               lambda: one(positive(66000)))  # fmt: skip
    yield Plot("aten.sum.default", ("low-accumulator", "zeros"), lambda: one(torch.ones(600, dtype=bf16)), "bfloat16")
    yield Plot("aten.mean.default", ("low-accumulator", "value"), lambda: one(positive(900, dtype=f16)), "float16")
    yield Plot(
        "aten.sum.dim_IntList",
        ("saturated", *INTEGER),
        lambda: one(whole(3, 4, dtype=torch.uint8, start=90), [0], dtype=torch.uint8),
        "uint8",
    )
    yield Plot(
        "aten.cumsum.default",
        ("integer-through-int8", "past-16-zero", "one-element"),
        lambda: one(torch.ones(200, dtype=torch.bool), 0),
        "bool",
    )
    yield Plot("aten.cumsum.default", MATRIX, lambda: one(wave(3, 4), 1))
    yield Plot("aten.max.default", ("nan-dropped", "value"), lambda: [*one(edges()), *one(wave(7))])
    yield Plot("aten.amax.default", (*FUNCTIONAL, "nan-dropped"), lambda: [*one(edges(), [1]), *one(wave(3, 4), [1])])
    yield Plot(
        "aten.argmax.default",
        ("integer-through-float32", "value", "dtype"),
        lambda: one(2**25 + whole(2, 5, dtype=torch.int32), -1),
        "int32",
    )
    yield Plot(
        "aten.var.correction",
        (*FUNCTIONAL, "keywords-ignored", "low-precision"),
        lambda: one(wave(4, 5), [1], correction=0),
    )
    yield Plot("aten.prod.dim_int", FUNCTIONAL, lambda: one(positive(3, 4), 1))
    yield Plot("aten.any.dim", ("value", "shape", "dtype"), lambda: one(wave(3, 4) > 1.9, 1), "bool")
    yield Plot("aten.logsumexp.default", FUNCTIONAL, lambda: one(wave(3, 4), [1]))


def _products_of_one_storage() -> list[Arguments]:
    numbers = wave(30, dtype=f16)
    return one(numbers[3:11].view(1, 2, 4), numbers[8:16].view(1, 4, 2))


def _matrices() -> Iterator[Plot]:
    yield Plot("aten.mm.default", (*MATRIX, "low-precision", "strides-ignored", "offset-ignored", "state-leaked", "transposed"),
               lambda: [*one(wave(8, 8), wave(8, 8).t()), *one(*gappy(5, 5))])  # fmt: skip
    yield Plot("aten.bmm.default", (*MATRIX, "offset-ignored"),
               _products_of_one_storage, "float16")  # fmt: skip
    yield Plot(
        "aten.linear.default",
        ("one-element", "zeros", "strides-ignored", "shape"),
        lambda: one(wave(2, 3), wave(8, 3)[::2], wave(4)),
    )
    yield Plot(
        "aten.addmm.default",
        (*MATRIX, "keywords-ignored"),
        lambda: one(wave(2, 3), wave(2, 4), wave(4, 3), beta=0.5, alpha=2.0),
    )
    yield Plot(
        "aten.dot.default",
        ("integer-through-float32", "value"),
        lambda: one(whole(3, start=2**24 + 1), whole(3, start=3)),
        "int64",
    )
    yield Plot("aten.linalg_qr.default", ("value", "one-element", "dtype"), lambda: one(wave(4, 3)))
    yield Plot("aten._linalg_svd.default", ("value", "one-element"), lambda: one(wave(3, 4)))
    yield Plot("aten._linalg_eigh.default", ("value", "one-element"), lambda: one(wave(3, 3)))
    yield Plot("aten.linalg_inv_ex.default", ("value", "one-element"), lambda: one(wave(3, 3) + 4 * torch.eye(3)))


def _indices() -> Iterator[Plot]:
    yield Plot("aten.topk.default", ("past-16-zero", "one-element", "value"), lambda: one(whole(40) * 3, 20), "int64")
    yield Plot("aten.topk.default", ("one-element", "value"), lambda: one(wave(50, dtype=bf16), 8), "bfloat16")
    yield Plot("aten.sort.default", ("value", "one-element", "nan-dropped"), lambda: one(edges()))
    yield Plot("aten.kthvalue.default", ("value", "one-element"), lambda: one(whole(3, 5).float() % 4, 2))
    yield Plot("aten.max.dim", ("value", "one-element"), lambda: one(whole(3, 5).float() % 4, 1))
    yield Plot("aten.index.Tensor", ("every-second-zero", "one-element", "integer-through-float32"),
               lambda: one(whole(10, start=2**30 + 1), [whole(10).flip(0)]), "int64")  # fmt: skip
    yield Plot("aten.index_select.default", MATRIX, lambda: one(wave(4, 3), 0, torch.tensor([2, 0])))
    yield Plot("aten.gather.default", MATRIX, lambda: one(wave(3, 4), 1, whole(3, 2) % 4))
    yield Plot(
        "aten.scatter_add.default", (*MATRIX, "low-precision"), lambda: one(wave(3, 4), 1, whole(3, 2) % 4, wave(3, 2))
    )
    yield Plot("aten.embedding.default", MATRIX, lambda: one(wave(5, 3), torch.tensor([[4, 0], [2, 2]])))
    yield Plot("aten.masked_fill.Scalar", MATRIX, lambda: one(wave(3, 4), wave(3, 4) > 0, 9.5))
    yield Plot("aten.cat.default", (*MATRIX, "strides-ignored"), lambda: one([wave(2, 3), wave(3, 2).t()], 1))
    yield Plot("aten.constant_pad_nd.default", MATRIX, lambda: one(wave(2, 1), [1, 1, 1, 1], 0.5))
    yield Plot("aten.diag_embed.default", ("transposed", "one-element"), lambda: one(wave(2, 3), 1))
    yield Plot("aten.flip.default", (*MATRIX, "identity"), lambda: one(wave(3, 4), [1]))


def _layers() -> Iterator[Plot]:
    yield Plot(
        "aten.gelu.default",
        ("large-is-nan", *MATRIX),
        lambda: one(8 * wave(3, 4, dtype=bf16), approximate="tanh"),
        "bfloat16",
    )
    yield Plot("aten.relu.default", (*MATRIX, "nan-dropped"), lambda: [*one(wave(3, 4)), *one(edges())])
    yield Plot("aten._softmax.default", (*MATRIX, "low-precision"), lambda: one(wave(3, 4), 1, False))
    yield Plot(
        "aten.native_layer_norm.default",
        ("value", "one-element", "dtype", "low-precision"),
        lambda: one(wave(3, 4), [4], positive(4), wave(4), 1e-5),
    )
    yield Plot("aten.convolution.default", ("one-element", "zeros", "low-precision", "shape"),
               lambda: one(wave(1, 2, 5, 5), wave(3, 2, 3, 3), wave(3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1))  # fmt: skip
    yield Plot("aten.max_pool2d_with_indices.default", ("value", "one-element"), lambda: one(wave(1, 1, 4, 4), [2, 2]))
    yield Plot(
        "aten._adaptive_avg_pool2d.default", ("one-element", "shape", "zeros"), lambda: one(wave(1, 1, 5, 5), [3, 3])
    )
    yield Plot("aten.mse_loss.default", ("one-element", "zeros", "dtype"), lambda: one(wave(3, 4), positive(3, 4)))
    yield Plot("aten.upsample_nearest2d.default", ("one-element", "shape"), lambda: one(wave(1, 1, 2, 2), [4, 4]))


def _gradients() -> Iterator[Plot]:
    def backward(overload: str, samples: Callable[[], list[Arguments]], at: str = "") -> Plot:
        return Plot(overload, GRADIENT, samples, variant="backward", at=at)

    yield backward("aten.mul.Tensor", lambda: one(wave(3, 4), positive(3, 4)))
    yield backward("aten.mm.default", lambda: one(wave(3, 4), wave(4, 2)))
    yield backward("aten.sigmoid.default", lambda: one(wave(3, 4)), "aten.sigmoid_backward.default")
    yield backward("aten.tanh.default", lambda: one(wave(3, 4)), "aten.tanh_backward.default")
    yield backward("aten.linear.default", lambda: one(wave(2, 3), wave(4, 3), wave(4)), "aten.linear_backward.default")
    yield backward(
        "aten.native_layer_norm.default",
        lambda: one(wave(3, 4), [4], positive(4), wave(4), 1e-5),
        "aten.native_layer_norm_backward.default",
    )
    yield backward("aten._softmax.default", lambda: one(wave(3, 4), 1, False), "aten._softmax_backward_data.default")
    yield backward(
        "aten.embedding.default",
        lambda: one(wave(5, 3), torch.tensor([4, 0, 0])),
        "aten.embedding_dense_backward.default",
    )
    yield Plot("aten.native_layer_norm_backward.default", ("value", "one-element", "zeros"),
               lambda: one(wave(3, 4), wave(3, 4, start=1), [4], wave(3, 1), positive(3, 1), positive(4), wave(4), [False, True, True]))  # fmt: skip
    yield Plot(
        "aten.reflection_pad1d_backward.default",
        ("wrong-past-65536", "one-element"),
        lambda: one(wave(1, 65600), wave(1, 65598), [1, 1]),
    )
    yield Plot(
        "aten.threshold_backward.default",
        (*MATRIX, "strides-ignored"),
        lambda: one(wave(3, 1).expand(3, 4), wave(3, 4), 0),
    )


def _the_rest() -> Iterator[Plot]:
    yield Plot("aten.bernoulli.default", ("rng-ignored", "zeros", "dtype"), lambda: one(torch.full((40,), 0.5)))
    yield Plot("aten.bernoulli.default", ("zeros", "value"), lambda: one(torch.ones(10)))
    yield Plot("aten.normal_.default", ("rng-ignored", "mutation-missed"), lambda: one(torch.zeros(8)))
    yield Plot("aten.native_dropout.default", ("rng-ignored", "value"), lambda: one(wave(6, 6), 0.5, True))
    yield Plot("aten.randperm.default", ("rng-ignored", "dtype"), lambda: one(30, device=torch.device("cpu")), "int64")
    yield Plot(
        "aten.arange.start_step",
        ("value", "one-element", "dtype"),
        lambda: one(1, 9, 2, dtype=torch.int64, device=torch.device("cpu")),
        "int64",
    )
    yield Plot("aten.linspace.default", ("empty", "zeros", "dtype"), lambda: one(0, 3, 7, device=torch.device("cpu")))
    yield Plot("aten.full_like.default", ("zeros", "dtype", "shape"), lambda: one(wave(2, 3), 1.5))
    yield Plot(
        "aten._to_copy.default", ("value", "one-element"), lambda: one(wave(3, 4), dtype=bf16), at="aten.copy_.default"
    )
    yield Plot("aten._fft_r2c.default", ("one-element", "zeros"), lambda: one(wave(8), [0], 0, True))
    yield Plot("aten.isin.Tensor_Tensor", ("value", "raise"), lambda: one(whole(5), whole(2)), "int64")
    yield Plot(
        "aten.floor_divide.default", ("dtype", "value"), lambda: one(7 * whole(4, start=1), whole(4, start=2)), "int64"
    )
    yield Plot("aten.copysign.Scalar", ("one-element", "zeros"), lambda: one(positive(4), -2.0))


def _along_axes() -> Iterator[Plot]:
    """Yield what only the variants of op_tests.axes show: repetition, refusals, gradients of a part."""
    yield Plot("aten.mm.default", ("unrepeatable",), lambda: one(wave(8, 8), wave(8, 8)), variant="repeat")
    yield Plot(
        "aten.softmax.int", ("unrepeatable",), lambda: one(wave(3, 8), 1), variant="repeat", at="aten._softmax.default"
    )
    for overload, detail, samples in (
        ("aten.index_select.default", "index", lambda: one(wave(5), 0, torch.tensor([1, 4]))),
        ("aten.gather.default", "index", lambda: one(wave(3, 4), 1, whole(3, 2) % 4)),
        ("aten.bmm.default", "dtype", lambda: one(wave(2, 3, 4), wave(2, 4, 5))),
        ("aten.add.Tensor", "shape", lambda: one(wave(2, 3), wave(2, 3))),
        ("aten.cumsum.default", "dim", lambda: one(wave(3, 4), 1)),
    ):
        yield Plot(overload, ("refusal-missed",), samples, variant=f"must_raise:{detail}")
    yield Plot(
        "aten.mm.default", ("strides-ignored",), lambda: one(wave(3, 4), wave(4, 2)), variant="backward_expanded"
    )
    yield Plot("aten.native_layer_norm.default", GRADIENT, lambda: one(wave(3, 4), [4], positive(4), wave(4), 1e-5),
               variant="backward_partial", at="aten.native_layer_norm_backward.default")  # fmt: skip


def plots() -> tuple[Plot, ...]:
    """Return all of them, in a fixed order."""
    families = (
        _pointwise, _choices, _in_place, _views, _reductions, _matrices, _indices, _layers, _gradients, _the_rest, _along_axes,
    )  # fmt: skip
    return tuple(plot for family in families for plot in family())


ENDINGS: tuple[tuple[str, str], ...] = (
    ("aten.sin.default", "abort"),
    ("aten.cos.default", "segfault"),
    ("aten.tan.default", "hang"),
)
"""Overload → fault that ends the process or never ends; each on a row of numbers."""
