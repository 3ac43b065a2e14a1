"""In-place and out= forms follow from the functional one as ATen's do."""

import pytest
import torch
from neuron_ops.translators.variants import derive, functional_of, structured_outs, written

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("op", "functional"),
    [
        (aten.hardswish_.default, aten.hardswish.default),
        (aten.hardswish.out, aten.hardswish.default),
        (aten.add.out, aten.add.Tensor),
        (aten.sort.values_stable, aten.sort.stable),
        (aten._foreach_abs_.default, aten._foreach_abs.default),
        (aten.relu.default, None),
        (aten._fused_adam_.default, None),
    ],
)
def test_the_functional_form(op, functional):
    assert functional_of(op) is functional


@pytest.mark.parametrize(
    ("op", "outs"),
    [
        (aten.maximum.default, [aten.maximum.out]),
        (aten.lt_.Scalar, [aten.lt.Scalar_out]),
        (aten.sort.stable, [aten.sort.values_stable]),
        (aten.maximum.out, []),
        (aten._adaptive_avg_pool2d.default, []),
    ],
)
def test_the_form_that_structured_kernels_call(op, outs):
    assert list(structured_outs(op)) == outs


def test_errors_are_those_of_aten():
    x, whole = torch.ones(2), torch.ones(2, dtype=torch.int64)
    for op, call in (
        (aten.add.out, derive(aten.add.out, torch.add)),
        (aten.add_.Tensor, derive(aten.add_.Tensor, torch.add)),
    ):
        said = []
        for form in (op, call):
            with pytest.raises(RuntimeError) as error:
                form(x, x, out=whole) if op is aten.add.out else form(whole, x)
            said.append(str(error.value))
        assert said[0] == said[1]


def test_written_arguments():
    assert written(aten.sort.values_stable) == ("values", "indices")
    assert written(aten.relu_.default) == ("self",)


def test_out_takes_shape_strides_and_dtype():
    call = derive(aten.mul.out, lambda a, b: torch.mul(a, b))
    a, out = torch.randn(3, 4).t(), torch.empty(0)
    assert call(a, a, out=out) is out
    assert torch.equal(out, a * a)
    assert out.stride() == (a * a).stride()
    wide = torch.empty(4, 3, dtype=torch.float64)
    assert torch.equal(call(a, a, out=wide), (a * a).double())
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        call(a, a, out=torch.empty(4, 3, dtype=torch.int64))
    with pytest.raises(RuntimeError, match="Expected out tensor to have device meta, but got cpu instead"):
        call(a.to("meta"), a.to("meta"), out=torch.empty(4, 3))
    with pytest.warns(UserWarning, match=r"was resized since it had shape \[2\]"):
        call(a, a, out=torch.empty(2))


def test_an_out_that_is_an_input_gets_the_result():
    a = torch.tensor([1.0, 2.0, 3.0])
    derive(aten.mul.out, lambda x, y: torch.stack([x[1], x[2], x[0]]))(a, a, out=a)
    assert a.tolist() == [2, 3, 1]


def test_several_outs_and_lists():
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    found = derive(aten.sort.values_stable, lambda self, *, stable, dim, descending: self.sort(dim, descending))(
        torch.tensor([2.0, 1.0]), stable=True, dim=0, descending=False, values=values, indices=indices
    )
    assert found[0] is values
    assert (values.tolist(), indices.tolist()) == ([1, 2], [1, 0])
    out = [torch.empty(0), torch.empty(0)]
    assert derive(aten._foreach_abs.out, lambda self: [t.abs() for t in self])([-torch.ones(2)] * 2, out=out) is None
    assert out[1].tolist() == [1, 1]


def test_in_place():
    call = derive(aten.mul_.Tensor, lambda self, other: self * other)
    a = torch.ones(2)
    assert call(a, torch.tensor([2.0, 3.0])) is a
    assert a.tolist() == [2, 3]
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        call(a, torch.ones(3, 2))
    with pytest.raises(RuntimeError, match="can't be cast"):
        call(torch.ones(2, dtype=torch.int64), torch.ones(2))
    items = [torch.ones(2)]
    assert derive(aten._foreach_neg_.default, lambda self: [-t for t in self])(items) is None
    assert items[0].tolist() == [-1, -1]
