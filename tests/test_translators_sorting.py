"""Translators of sorting, searching, scans and reductions: ties, NaN, empty and strided inputs as ATen on the CPU."""

import math

import pytest
import torch
from neuron_ops.translators import histograms, ordering, products, reductions, scans, segments, sorting
from translator_calls import same, shapes, specials

MODULES = (histograms, products, reductions, scans, segments, sorting)  # imported for their registrations
ROWS = torch.tensor([[3.0, 1.0, math.nan, 1.0, -math.inf, 3.0], [0.0, -0.0, 2.0, math.nan, math.nan, math.inf]])


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_sort_is_stable_by_counting_and_by_network(dtype, descending, monkeypatch):
    generator = torch.Generator().manual_seed(1)
    x = torch.randint(0, 9, (3, 100), generator=generator).to(dtype)
    for most in (2**24, 0):
        monkeypatch.setattr(ordering, "_MOST_COMPARISONS", most)
        for dim in (0, 1):
            same("aten.sort.stable", x, stable=True, dim=dim, descending=descending)
        if dtype.is_floating_point:
            same("aten.sort.stable", ROWS.to(dtype), stable=True, dim=-1, descending=descending)


def test_sort_of_odd_shapes():
    for x in shapes():
        same("aten.sort.stable", x, stable=True, dim=-1)
        same("aten.sort.default", x, 0, True)
        same("aten.argsort.stable", x, stable=True, dim=-1)


@pytest.mark.parametrize("keepdim", [False, True])
def test_selection(keepdim):
    x = torch.tensor([[5.0, 2.0, 9.0, 4.0], [1.0, 0.0, 7.0, 3.0]])
    for dim in (0, 1, -1):
        same("aten.kthvalue.default", x, 2, dim, keepdim)
        same("aten.median.dim", x, dim, keepdim)
        same("aten.nanmedian.dim", x, dim, keepdim)
    same("aten.median.default", x)
    same("aten.median.default", specials())
    same("aten.nanmedian.default", specials()[2:])
    same("aten.median.default", torch.empty(0))
    same("aten.median.dim", torch.tensor(3.0), 0, keepdim)
    same("aten.kthvalue.default", torch.tensor(3), 1, 0, keepdim)


def test_median_with_nan_in_a_row():
    x = torch.tensor([[1.0, math.nan, 0.0], [4.0, 3.0, 2.0], [math.nan, math.nan, 1.0]])
    same("aten.median.dim", x, 1)
    same("aten.nanmedian.dim", x, 1)


def test_mode():
    x = torch.tensor([[1, 2, 2, 1, 5], [3, 3, 3, 0, 0], [4, 2, 1, 0, 3]])
    for dim in (0, 1):
        same("aten.mode.default", x, dim)
        same("aten.mode.default", x, dim, True)


@pytest.mark.parametrize("right", [False, True])
def test_search(right):
    ordered = torch.tensor([1.0, 3.0, 3.0, 7.0])
    values = torch.tensor([[0.0, 1.0, 3.0], [5.0, 9.0, math.nan]])
    same("aten.searchsorted.Tensor", ordered, values, right=right)
    same("aten.searchsorted.Tensor", ordered.expand(2, 4), values, right=right, out_int32=True)
    same("aten.searchsorted.Tensor", ordered.flip(0), values, sorter=torch.tensor([3, 2, 1, 0]), right=right)
    same("aten.searchsorted.Scalar", ordered, 3, right=right)
    same("aten.searchsorted.Tensor", torch.empty(0), values, right=right)
    same("aten.bucketize.Tensor", values, ordered, right=right)
    same("aten.bucketize.Scalar", 3.5, ordered, right=right)


def test_isin():
    a, b = torch.tensor([[1, 2], [3, 4]]), torch.tensor([4, 1, 9])
    for invert in (False, True):
        same("aten.isin.Tensor_Tensor", a, b, invert=invert)
        same("aten.isin.Tensor_Scalar", a, 3, invert=invert)
        same("aten.isin.Scalar_Tensor", 9, b, invert=invert)
    same("aten.isin.Tensor_Tensor", a, b[:0])


@pytest.mark.parametrize("dim", [0, 1])
def test_scans(dim):
    same("aten.cumprod.default", ROWS, dim)
    same("aten.cumprod.default", torch.tensor([[1, 2, 3], [4, 0, 6]]), dim)
    same("aten._logcumsumexp.default", ROWS[:, :2], dim)
    for name in ("_cummax_helper", "_cummin_helper"):
        for x in (ROWS, torch.tensor([[2, 2, 1], [3, 0, 3]]), torch.tensor([[True, False, True]])):
            same(f"aten.{name}.default", x, torch.empty_like(x), torch.empty_like(x, dtype=torch.int64), dim)
    for x in shapes():
        if x.dim():
            same("aten.cumprod.default", x, dim)


def test_results_have_memory_of_their_own():
    for x in (torch.ones(1, 3), torch.ones(1)):
        for got in (
            scans.cumprod(x, 0),
            scans.logcumsumexp(x, 0),
            scans.prod_dim(x, 0),
            scans.prod(x[:1].reshape(-1)[:1]),
        ):
            assert got.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_products():
    for x in (ROWS, ROWS[:0], torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor(2.0), torch.tensor([True, False])):
        same("aten.prod.default", x)
        same("aten.prod.dim_int", x, 0)
    same("aten.prod.dim_int", torch.ones(2, 0, 3), 1, True)
    same("aten.prod.default", torch.tensor([2.5, 2.5]), dtype=torch.float64)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_places_of_extremes(name):
    for x in (ROWS, torch.tensor([[3, 1, 3], [1, 1, 5]]), torch.tensor([-(2**31), 2**31 - 1], dtype=torch.int32)):
        same(f"aten.{name}.default", x)
        same(f"aten.{name}.default", x, 0)
        same(f"aten.{name}.default", x, -1, True)
    same(f"aten.{name}.default", ROWS, None, True)


def test_smallest_and_both():
    for x in (ROWS, torch.tensor([[3, 1, 3], [1, 1, 5]]), torch.tensor([[3, 255]], dtype=torch.uint8)):
        same("aten.min.dim", x, 1)
        same("aten.min.dim", x, 0, True)
        same("aten.min.default", x)
        same("aten.aminmax.default", x, dim=1)
        same("aten.aminmax.default", x)
    with pytest.raises(RuntimeError, match="numel"):
        reductions.min_(torch.empty(0))


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_moments(name):
    for x in shapes():
        if x.numel():
            same(f"aten.{name}.correction", x, rtol=1e-5, atol=1e-6)
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    same(f"aten.{name}.correction", x, [0], correction=0, keepdim=True)
    same(f"aten.{name}.correction", x, [0, 1], correction=2)
    same(f"aten.{name}.correction", x.bfloat16(), [1])
    same(f"aten.{name}.correction", x[:1], [0])
    same(f"aten.{name}.correction", x[:0], [0])


def test_counts_sums_and_norms():
    same("aten.nansum.default", ROWS[:, :4], [1])
    same("aten.nansum.default", torch.tensor([1, 2]))
    same("aten.count_nonzero.dim_IntList", ROWS, [0])
    same("aten.trace.default", torch.arange(12.0).view(3, 4))
    x = torch.arange(-6.0, 6.0).view(3, 4)
    for p in (None, 0, 1, 2, 3.5, math.inf):
        same("aten.norm.ScalarOpt_dim", x, p, [1], True)
    same("aten.renorm.default", x, 2, 0, 5)
    same("aten.renorm.default", x, 1, 1, 4.0)


def test_products_with_a_sum():
    g = torch.Generator().manual_seed(2)
    a, b, c = (torch.randn(s, generator=g) for s in ((2, 3, 4), (2, 4, 5), (2, 3, 5)))
    same("aten.baddbmm.default", c, a, b, beta=0.5, alpha=2)
    same("aten.baddbmm.default", torch.full((2, 3, 5), math.nan), a, b, beta=0)
    same("aten.baddbmm.default", c[0, 0], a, b)
    same("aten.baddbmm.default", c.long(), (a * 3).long(), (b * 3).long(), beta=2, alpha=3)
    same("aten.addbmm.default", c[0], a, b, beta=0.5)
    same("aten._addmm_activation.default", c[0], a[0], b[0], use_gelu=False)


def test_histograms():
    x = torch.tensor([0.0, 1.0, 2.0, 2.5, 4.0, 9.0])
    same("aten.histogram.bin_ct", x, 4)
    same("aten.histogram.bin_ct", x, 4, range=[1.0, 4.0], density=True)
    same("aten.histogram.bin_ct", torch.full((3,), 2.0), 2)
    same("aten.histogram.bins_tensor", x, torch.tensor([0.0, 1.0, 3.0, 4.0]), weight=x)
    points = x.view(3, 2)
    same("aten._histogramdd_from_bin_cts.default", points, [2, 3])
    same("aten._histogramdd_bin_edges.default", points, [2, 3])


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("initial", [None, 2.0])
def test_segments(reduce, initial):
    data = torch.tensor([[1.0, 0.0], [2.0, 3.0], [2.0, math.nan], [4.0, -5.0], [0.5, 6.0]])
    for at in ({"lengths": torch.tensor([2, 0, 3])}, {"offsets": torch.tensor([0, 2, 2, 5])}):
        same("aten.segment_reduce.default", data, reduce, **at, axis=0, unsafe=True, initial=initial)
        finite = data.nan_to_num(3.0)
        out = torch.segment_reduce(finite, reduce, **at, axis=0, unsafe=True, initial=initial)
        grad = torch.arange(1.0, 7.0).view(3, 2)
        same("aten._segment_reduce_backward.default", grad, out, finite, reduce, **at, axis=0, initial=initial)


def test_products_of_bytes_are_exact():
    generator = torch.Generator().manual_seed(2)
    x, y = (torch.randint(-128, 128, shape, generator=generator, dtype=torch.int8) for shape in ((5, 3000), (3000, 4)))
    same("aten._int_mm.default", x, y)
    same(
        "aten._int_mm.default",
        torch.full((2, 2048), -128, dtype=torch.int8),
        torch.full((2048, 2), -128, dtype=torch.int8),
    )
    same("aten._int_mm.default", x[:, :0], y[:0])


def test_batches_of_nothing_are_summed():
    for a, b, c in (((3, 4), (0, 3, 2), (0, 2, 4)), ((3, 4), (5, 3, 0), (5, 0, 4)), ((0, 4), (5, 0, 2), (5, 2, 4))):
        same("aten.addbmm.default", torch.ones(a), torch.ones(b), torch.ones(c))
