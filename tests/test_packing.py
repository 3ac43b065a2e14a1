"""Arguments come back bit for bit, with strides, aliasing and special values."""

import pytest
import torch
from neuron_ops.op_tests.packing import Sample, Unpackable, pack

SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0, 1e-42]


def there_and_back(*args, **kwargs):
    return Sample.from_bytes(pack(args, kwargs).to_bytes()).unpack()


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride() and torch.equal(
        a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8)
    )  # fmt: skip


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(SPECIAL),
        torch.tensor(SPECIAL, dtype=torch.bfloat16),
        torch.arange(12).reshape(3, 4).t(),
        torch.arange(20.0)[3::4],
        torch.ones(1, 3).expand(4, 3),
        torch.randn(1, 2, 3, 4).to(memory_format=torch.channels_last),
        torch.empty(0, 3),
        torch.tensor(True),
        torch.tensor(2**63 - 1),
        torch.tensor([0.5]).to(torch.float8_e5m2),
        torch.tensor([2**40], dtype=torch.uint64),
    ],
    ids=lambda t: f"{t.dtype}-{tuple(t.shape)}",
)
def test_tensors(tensor):
    (back,), _ = there_and_back(tensor)
    assert same(back, tensor)


def test_conjugate_and_negative_bits_are_kept():
    value = torch.tensor([1 + 2j])
    (conj, neg), _ = there_and_back(value.conj(), torch._neg_view(torch.ones(1)))
    assert conj.is_conj()
    assert neg.is_neg()
    assert torch.equal(conj, value.conj())
    assert neg.item() == -1


def test_shared_memory_stays_shared_and_is_cut_to_what_is_read():
    base = torch.arange(100_000.0)
    sample = pack((base[10:14], [base[12:16]]), {"same": base[10:14]})
    assert [len(s) for s in sample.storages] == [24]
    (first, (second,)), kwargs = sample.unpack()
    second[0] = -1
    assert first.tolist() == [10.0, 11.0, -1.0, 13.0]
    assert kwargs["same"].tolist() == first.tolist()


def test_empty_tensors_do_not_become_one_storage():
    left, right = torch.empty(0), torch.empty(0, dtype=torch.int64)
    (a, b), _ = there_and_back(left, right)
    a.resize_(2).fill_(1)
    b.resize_(2).fill_(2)
    assert a.tolist() == [1.0, 1.0]


def test_each_unpacking_is_fresh():
    sample = pack((torch.zeros(2),), {})
    sample.unpack()[0][0].add_(1)
    assert sample.unpack()[0][0].tolist() == [0.0, 0.0]


def test_everything_else_that_overloads_take():
    args, kwargs = there_and_back(
        1, True, None, "mean", 2.0, 1e-300, float("inf"), 1 + 2j, [1, 2], dtype=torch.bfloat16, layout=torch.strided,
        memory_format=torch.channels_last, device=torch.device("cpu"),
    )  # fmt: skip
    assert args == [1, True, None, "mean", 2.0, 1e-300, float("inf"), 1 + 2j, [1, 2]]
    assert [type(a) for a in args[:2]] == [int, bool]
    assert kwargs == {
        "dtype": torch.bfloat16, "layout": torch.strided, "memory_format": torch.channels_last, "device": torch.device("cpu"),
    }  # fmt: skip


def test_wide_means_float64_and_complex128():
    sample = pack(
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.complex64), torch.arange(2)),
        {"dtype": torch.float16},
    )
    args, kwargs = sample.unpack(wide=True)
    assert [a.dtype for a in args] == [torch.float64, torch.complex128, torch.int64]
    assert kwargs["dtype"] == torch.float64


def test_the_device_argument_becomes_the_target():
    _, kwargs = pack((), {"device": torch.device("cpu")}).unpack("meta")
    assert kwargs["device"] == torch.device("meta")


@pytest.mark.parametrize(
    "value",
    [torch.Generator(), torch.ones(2).to_sparse(), torch.zeros(1 << 20), object(), torch.ones(2, device="meta")],
    ids=["generator", "sparse", "large", "object", "meta"],
)
def test_what_cannot_be_kept(value):
    with pytest.raises(Unpackable):
        pack((value,), {})


def test_damage_is_noticed():
    data = pack((torch.ones(3),), {}).to_bytes()
    with pytest.raises(ValueError, match="damaged sample"):
        Sample.from_bytes(data[:-9])
