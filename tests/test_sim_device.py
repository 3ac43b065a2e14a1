"""The simulated device as a user of PyTorch meets it; the seven pitfalls of a Python-only backend each have a test."""

import copy
import gc
import threading

import pytest
import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.targets import sim
from torch import nn

MODELS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)), torch.randn(5, 4)),
    "cnn": lambda: (
        nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)),
        torch.randn(2, 3, 8, 8),
    ),
    "attention": lambda: (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), torch.randn(2, 5, 8)),
    "embedding": lambda: (nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 2)), torch.randint(0, 10, (3, 5))),
}  # fmt: skip


def on_device(*shape, **options):
    return torch.randn(*shape, **options).to("neuron")


def test_a_tensor_of_the_device():
    ones = torch.ones(2, device="neuron")
    assert ones.device.type == "neuron"
    assert type(ones) is torch.Tensor
    assert (ones + 1).tolist() == [2.0, 2.0]
    assert ones.is_neuron


@pytest.mark.parametrize("name", MODELS)
def test_two_training_steps_equal_the_cpu(name):
    torch.manual_seed(0)
    model, batch = MODELS[name]()
    twin = copy.deepcopy(model).to("neuron")
    optimizers = [
        torch.optim.AdamW(m.parameters(), lr=0.01, eps=1e-3) for m in (model, twin)
    ]  # eps: keeps rounding from being amplified
    for _ in range(2):
        losses = [model(batch).square().sum(), twin(batch.to("neuron")).square().sum()]
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        assert losses[0].item() == pytest.approx(losses[1].item(), rel=1e-5)
    for (key, here), there in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        assert there.device.type == "neuron"
        torch.testing.assert_close(there.cpu(), here, rtol=1e-4, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}")


def test_deepcopy_shares_nothing():
    original = on_device(3)
    twin = copy.deepcopy(original)
    twin.zero_()
    assert twin.device.type == "neuron"
    assert original.abs().sum().item() > 0


def test_save_and_load(tmp_path):
    model = nn.Linear(3, 2).to("neuron")
    torch.save(model.state_dict(), tmp_path / "model.pt")
    on_cpu = torch.load(tmp_path / "model.pt", map_location="cpu")
    back = torch.load(tmp_path / "model.pt")
    assert on_cpu["weight"].device.type == "cpu"
    assert back["weight"].device.type == "neuron"
    assert torch.equal(on_cpu["weight"], model.weight.detach().cpu())
    assert torch.equal(back["weight"].cpu(), on_cpu["weight"])


def test_compile_with_decompositions_equals_the_cpu():
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.compilers import nop

    backend = aot_autograd(fw_compiler=nop, bw_compiler=nop, decompositions=torch._decomp.core_aten_decompositions())
    model, batch = MODELS["mlp"]()
    twin = copy.deepcopy(model).to("neuron")
    compiled = torch.compile(twin, backend=backend)
    expected, found = model(batch), compiled(batch.to("neuron"))
    expected.square().sum().backward()
    found.square().sum().backward()
    torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-6)
    for here, there in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=1e-5, atol=1e-6)
    torch._dynamo.reset()


# --- pitfall 1: the capsule must hold a fresh alias ------------------------------------------------------------------


def test_giving_a_tensor_other_memory_leaves_its_earlier_alias_alone():
    device = torch.arange(4096.0).to("neuron")
    alias = sim.memory.to_host(device)
    device.set_()  # drops the device tensor's own hold on the memory
    gc.collect()
    filler = [torch.full((4096,), 7.0) for _ in range(100)]  # would land in it, had it been freed
    assert torch.equal(alias, torch.arange(4096.0))
    assert len(filler) == 100


# --- pitfall 2: conjugate and negative bits, zero tensors ------------------------------------------------------------


def test_conjugate_and_negative_bits_reach_the_kernels():
    host = torch.randn(3, 4, dtype=torch.complex64)
    device = host.to("neuron")
    for change in (
        torch.conj,
        lambda t: t.conj().imag,
        lambda t: t.conj() @ t.mT,
        lambda t: torch._neg_view(t.imag) + 1,
        lambda t: t.conj().clone(),
    ):
        assert torch.equal(change(device).cpu().resolve_conj(), change(host).resolve_conj())


def test_zero_tensors_are_given_memory():
    host, device = torch.randn(3, requires_grad=True), on_device(3).requires_grad_()
    for leaf in (host, device):
        leaf.sgn().sum().backward()
    assert device.grad.cpu().tolist() == [0.0] * 3
    assert host.grad._is_zerotensor()


# --- pitfall 3: copies of conjugate tensors recurse without fallthroughs ---------------------------------------------


def test_copying_a_conjugate_tensor_ends():
    device = torch.randn(3, dtype=torch.complex64).to("neuron")
    assert torch.equal(torch.empty_like(device).copy_(device.conj()).cpu(), device.cpu().conj().resolve_conj())
    assert torch.equal(device.conj().cpu().resolve_conj(), device.cpu().conj().resolve_conj())


# --- pitfall 4: no allocator behind storages -------------------------------------------------------------------------


def test_storages_can_be_made_and_cloned():
    storage = torch.UntypedStorage(8, device="neuron")
    assert (storage.nbytes(), storage.device.type) == (8, "neuron")
    original = on_device(4).untyped_storage()
    twin = original.clone()
    assert twin.device.type == "neuron"
    assert twin.data_ptr() != original.data_ptr()
    assert torch.UntypedStorage(4).device.type == "cpu"


def test_resize_and_out_with_too_little_room():
    grown = torch.arange(2.0).to("neuron").resize_(2, 3)
    assert grown.shape == (2, 3)
    assert grown.flatten()[:2].tolist() == [0.0, 1.0]
    out = torch.empty(0, device="neuron")
    assert torch.add(on_device(2, 3), 1, out=out) is out
    assert out.shape == (2, 3)
    values, indices = torch.empty(0, device="neuron"), torch.empty(0, dtype=torch.int64, device="neuron")
    torch.sort(torch.tensor([2.0, 1.0]).to("neuron"), out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([1.0, 2.0], [1, 0])


def test_resize_keeps_the_strides_of_an_equal_size():
    transposed = on_device(2, 3).t()
    assert transposed.resize_(3, 2).stride() == (1, 3)


# --- pitfall 5: the caller's overload is recorded, mixed devices are refused -----------------------------------------


def test_every_overload_that_reaches_the_key_has_a_kernel():
    registered = set(torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"))
    wanted = {o.name for o in catalogue.operators() if o.excluded is None and o.tier != "T3"}
    missing = {name for name in wanted if catalogue.resolve(name).name() not in registered}
    assert missing == {
        "aten.copy_.default",
        "aten.lift.default",
        "aten.lift_fresh.default",
        "aten.detach.default",
    }


def test_mixed_devices_are_refused_and_host_scalars_are_not():
    device = on_device(3)
    with pytest.raises(RuntimeError, match=r"same device.*'other'.*on cpu, expected neuron"):
        device + torch.ones(3)
    with pytest.raises(RuntimeError, match="same device"):
        torch.mm(on_device(2, 2), torch.ones(2, 2))
    assert torch.equal((device + torch.tensor(1.0)).cpu(), device.cpu() + 1)
    assert device[torch.tensor([0, 2])].shape == (2,)


def test_numbers_in_place_of_tensors_promote_as_wrapped_numbers():
    for host in (
        torch.ones(2, dtype=torch.bfloat16),
        torch.tensor(1.5, dtype=torch.float16),
        torch.ones(2, dtype=torch.int8),
    ):
        for call in (
            lambda t: t + 1,
            lambda t: t * 0.5,
            lambda t: torch.remainder(t, 2),
            lambda t: t.eq(1),
            lambda t: t / 3,
        ):
            expected, found = call(host), call(host.to("neuron"))
            assert found.dtype == expected.dtype
            assert torch.equal(found.cpu(), expected)
    index = torch.tensor([[0, 5]]).to("neuron")
    assert torch.take_along_dim(torch.arange(6.0).to("neuron")[None], index, 1).tolist() == [[0.0, 5.0]]


# --- pitfall 6: autocast --------------------------------------------------------------------------------------------


def test_autocast_casts_products_down_and_losses_up():
    weight, batch = on_device(3, 3), on_device(3, 3)
    with torch.autocast("neuron", dtype=torch.bfloat16):
        product = batch @ weight
        assert product.dtype == torch.bfloat16
        assert (batch + weight).dtype == torch.float32
        assert product.exp().dtype == torch.float32
    assert (batch @ weight).dtype == torch.float32


def test_function_transforms_work():
    host = torch.randn(3, 4)
    device = host.to("neuron")
    assert torch.equal(torch.vmap(torch.sin)(device).cpu(), torch.vmap(torch.sin)(host))
    assert torch.equal(torch.func.grad(lambda t: (t * t).sum())(device).cpu(), 2 * host)


# --- pitfall 7: one fallback a key, backward in its own thread -------------------------------------------------------


def test_backward_is_recorded_from_its_own_thread():
    weights = on_device(3).requires_grad_()
    loss = weights.exp().sum()
    sim.journal.clear()
    threads = []
    loss.register_hook(lambda grad: threads.append(threading.get_ident()))
    loss.backward()
    assert "aten.mul.Tensor" in {entry.overload for entry in sim.journal.entries()}


def test_the_device_cannot_be_installed_twice():
    with pytest.raises(RuntimeError, match="fallback"):
        torch.library.Library("_", "IMPL").fallback(lambda *a: None, "PrivateUse1")


# --- memory ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float64,
        torch.bfloat16,
        torch.int8,
        torch.uint16,
        torch.uint64,
        torch.bool,
        torch.complex32,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
def test_round_trip_of_every_kind_of_dtype(dtype):
    host = torch.arange(6).to(dtype) if dtype != torch.complex32 else torch.arange(6.0).to(torch.complex64).to(dtype)
    back = host.to("neuron").cpu()
    assert back.dtype == dtype
    assert torch.equal(back.view(torch.uint8), host.view(torch.uint8))


def test_views_share_memory_and_writes_go_through():
    base = torch.zeros(2, 3, device="neuron")
    base[1].add_(5)
    base.t()[0, 0] = 7
    assert base.tolist() == [[7.0, 0.0, 0.0], [5.0, 5.0, 5.0]]
    assert base.view(-1).data_ptr() == base.data_ptr()
    assert base.expand(4, 2, 3).stride() == (0, 3, 1)


def test_int64_wraps_as_int32_and_float64_rounds_as_float32():
    wide = torch.tensor([2**31, 5]).to("neuron")
    assert (wide + 0).tolist() == [-(2**31), 5]
    assert wide.cpu().tolist() == [2**31, 5]  # stored and copied whole
    fine = torch.tensor([1 + 2**-40, 2.0], dtype=torch.float64).to("neuron")
    assert (fine * 1).tolist() == [1.0, 2.0]
    assert (fine[0] * 1).item() == 1 + 2**-40  # 0-dim tensors are not narrowed


def test_random_numbers_are_those_of_the_cpu_generator():
    torch.manual_seed(3)
    host = torch.randn(4)
    torch.manual_seed(3)
    assert torch.equal(torch.randn(4, device="neuron").cpu(), host)


def test_a_copy_that_need_not_wait_needs_no_pinned_memory():
    x = torch.arange(3.0, device="neuron")
    assert x.to("cpu", non_blocking=True).tolist() == [0.0, 1.0, 2.0]
    assert x.to("cpu", torch.float16, non_blocking=True).dtype == torch.float16
    assert torch.ones(2).to("neuron", non_blocking=True).device.type == "neuron"


def test_an_empty_view_that_is_resized_stays_in_its_memory_where_there_is_room():
    base = torch.zeros(6, device="neuron")
    torch.arange(3, out=base[2:2])
    assert base.tolist() == [0.0, 0.0, 0.0, 1.0, 2.0, 0.0]
    alone = torch.empty(0, device="neuron")
    assert torch.arange(3, out=alone).tolist() == [0, 1, 2]


def test_tied_weights_stay_tied_and_come_back():
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 10, bias=False))
    model[1].weight = model[0].weight
    held = model[0].weight
    model.to("neuron")
    assert model[0].weight is model[1].weight is held
    assert held.is_neuron
    model(torch.arange(3, device="neuron")).sum().backward()
    assert held.grad.is_neuron
    model.to("cpu")
    assert model[0].weight is model[1].weight
    assert not held.is_neuron
    assert held.grad.device.type == "cpu"
