"""Which route a call takes on the simulated device, and what the tracking calls say of it."""

import pytest
import torch
from neuron_ops.op_tests.records import BadInput, FallbackReason, Route
from neuron_ops.op_tests.targets import sim
from neuron_ops.op_tests.targets.sim import kernels, profile
from neuron_ops.op_tests.targets.sim.journal import Entry, summarize

TARGET = sim.Sim()


def served(overload, call, *tensors):
    placed = [t.to("neuron") for t in tensors]
    TARGET.clear()
    call(*placed)
    return TARGET.served(overload)


def test_a_registered_overload_is_native():
    found = served("aten.add.Tensor", torch.add, torch.ones(2), torch.ones(2))
    assert (found.route, found.reason, found.composite, found.received) == (
        Route.NATIVE,
        None,
        False,
        "aten.add.Tensor",
    )
    assert sim.get_executed_ops() == ["aten::add.Tensor"]
    assert sim.get_fallback_ops() == []


def test_an_unregistered_overload_without_composite_falls_back():
    found = served("aten.bincount.default", torch.bincount, torch.tensor([1, 2]))
    assert (found.route, found.reason) == (Route.FALLBACK, FallbackReason.UNIMPLEMENTED)
    assert sim.get_fallback_ops() == ["aten::bincount"]


def test_a_structured_overload_arrives_as_out_and_is_named_as_called():
    found = served("aten.lgamma.default", torch.lgamma, torch.ones(2))
    assert (found.route, found.composite, found.received) == (Route.FALLBACK, True, "aten.lgamma.out")
    assert [(part.overload, part.route) for part in found.parts] == [("aten.lgamma.out", Route.FALLBACK)]
    assert [entry.overload for entry in sim.journal.entries()] == ["aten.lgamma.default"]


def test_a_composite_of_native_parts_is_native_through_composite():
    found = served("aten.square.default", torch.square, torch.ones(2))
    assert (found.route, found.composite) == (Route.NATIVE, True)
    assert {part.overload for part in found.parts} == {"aten.pow.Tensor_Scalar_out"}


def test_complex_numbers_fail_on_the_device():
    found = served("aten.add.Tensor", torch.add, torch.ones(2, dtype=torch.complex64), torch.ones(2))
    assert (found.route, found.reason) == (Route.FALLBACK, FallbackReason.FAILED)


def test_integer_indices_do_not_count_as_integer_input():
    index = torch.tensor([[0, 1]])
    found = served(
        "aten.scatter_add.default", lambda x, i, s: x.scatter_add(0, i, s), torch.zeros(2, 2), index, torch.ones(1, 2)
    )
    assert found.route is Route.NATIVE
    ints = served(
        "aten.scatter_add.default",
        lambda x, i, s: x.scatter_add(0, i, s),
        torch.zeros(2, 2).int(),
        index,
        torch.ones(1, 2).int(),
    )
    assert (ints.route, ints.reason) == (Route.FALLBACK, FallbackReason.FAILED)


def test_a_registered_kernel_that_works_on_the_host_hides_from_tracking_and_not_from_us():
    found = served("aten.argsort.stable", lambda x: torch.argsort(x, stable=True), torch.tensor([2.0, 1.0]))
    assert (found.route, found.reason) == (Route.FALLBACK, FallbackReason.HOST)
    assert sim.get_executed_ops() == sim.get_fallback_ops() == []


def test_views_are_native_and_untracked():
    found = served("aten.transpose.int", lambda x: x.transpose(0, 1), torch.ones(2, 3))
    assert found.route is Route.NATIVE
    assert sim.get_executed_ops() == []


def test_nothing_to_do_is_native():
    assert served("aten.contiguous.default", lambda x: x.contiguous(), torch.ones(2)).route is Route.NATIVE


def test_nothing_can_serve_the_fused_recurrent_cells():
    cell = torch.nn.LSTMCell(3, 4).to("neuron")
    with pytest.raises(NotImplementedError, match=r"_thnn_fused_lstm_cell.*'CPU' backend"):
        cell(torch.ones(2, 3).to("neuron"))
    assert TARGET.served("aten._thnn_fused_lstm_cell.default").route is None


@pytest.mark.parametrize(
    ("cell", "bias"), [(c, b) for c in (torch.nn.LSTMCell, torch.nn.GRUCell) for b in (True, False)]
)
def test_reference_values_of_the_recurrent_cells_equal_the_cpu(cell, bias, monkeypatch):
    monkeypatch.setattr(sim.state, "serve_unsupported", True)
    host = cell(3, 4, bias=bias)
    batch = torch.randn(2, 3)
    expected = host(batch)
    (expected[0] if isinstance(expected, tuple) else expected).square().sum().backward()
    grads = [p.grad.clone() for p in host.parameters()]
    host.zero_grad()
    device = host.to("neuron")
    found = device(batch.to("neuron"))
    (found[0] if isinstance(found, tuple) else found).square().sum().backward()
    for want, got in zip(
        expected if isinstance(expected, tuple) else [expected],
        found if isinstance(found, tuple) else [found],
        strict=True,
    ):
        torch.testing.assert_close(got.detach().cpu(), want.detach())
    for want, parameter in zip(grads, device.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), want)


@pytest.mark.parametrize(
    "options", [{}, {"is_causal": True}, {"mask": "bool"}, {"mask": "float"}, {"scale": 0.3}, {"heads": 1}], ids=str
)
def test_fused_attention_equals_the_cpu_forward_and_backward(options):
    torch.manual_seed(1)
    heads = options.pop("heads", 2)
    mask = options.pop("mask", None)
    if mask == "bool":
        options["attn_mask"] = torch.rand(3, 5) > 0.3
    elif mask == "float":
        options["attn_mask"] = torch.randn(3, 5)
    query, key, value = torch.randn(2, 2, 3, 8), torch.randn(2, heads, 5, 8), torch.randn(2, heads, 5, 8)
    results = []
    for place in ("cpu", "neuron"):
        leaves = [t.to(place).detach().requires_grad_() for t in (query, key, value)]
        moved = {k: v.to(place) if isinstance(v, torch.Tensor) else v for k, v in options.items()}
        out = torch.nn.functional.scaled_dot_product_attention(*leaves, **moved, enable_gqa=heads == 1)
        out.square().sum().backward()
        results.append([out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves)])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-5)
    assert "aten._scaled_dot_product_fused_attention_overrideable.default" in {
        e.overload for e in sim.journal.entries()
    }


def test_attention_of_other_ranks_is_the_math_composite():
    x = torch.ones(2, 3, 8)
    found = served(
        "aten.scaled_dot_product_attention.default",
        lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q),
        x,
    )
    assert not any("fused" in part.overload for part in found.parts)
    assert any("bmm" in part.overload for part in found.parts)


def test_linear_keeps_its_gradients():
    weight = torch.randn(2, 3).to("neuron").requires_grad_()
    torch.nn.functional.linear(torch.ones(4, 3).to("neuron"), weight).sum().backward()
    assert torch.equal(weight.grad.cpu(), torch.full((2, 3), 4.0))


def test_one_part_on_the_host_makes_the_call_a_fallback():
    entry = Entry("aten.x.default", None, composite=True)
    entry.below = [
        Entry("aten.a.default", None, Route.NATIVE),
        Entry("aten.b.default", None, Route.FALLBACK, FallbackReason.HOST),
    ]
    found = summarize("aten.x.default", [entry])
    assert (found.route, found.reason, found.received) == (Route.FALLBACK, FallbackReason.HOST, "aten.a.default")
    entry.below[1].route, entry.below[1].reason = Route.TRANSLATED, None
    assert summarize("aten.x.default", [entry]).route is Route.TRANSLATED


def test_planting_is_undone_and_checked():
    with kernels.planted(sim.state, {"aten.add.Tensor": "zeros"}):
        assert torch.add(torch.ones(2).to("neuron"), 1).tolist() == [0.0, 0.0]
    assert torch.add(torch.ones(2).to("neuron"), 1).tolist() == [2.0, 2.0]
    with pytest.raises(BadInput, match="unknown fault 'nonsense'; expected one of abort"):
        TARGET.plant({"aten.add.Tensor": "nonsense"})
    with pytest.raises(BadInput, match="no operator overload"):
        TARGET.plant({"aten.nonsense.default": "value"})
    assert sim.state.faults == {}
    TARGET.plant({"aten.add.Tensor": "zeros"})
    try:
        assert torch.add(torch.ones(2).to("neuron"), 1).tolist() == [0.0, 0.0]
    finally:
        sim.state.faults.clear()


# --- the profile file ------------------------------------------------------------------------------------------------


def test_the_shipped_profile_names_its_source_and_matches_the_installed_torch():
    shipped = profile.shipped_profile()
    assert "2026-04-21" in shipped.title
    assert len(shipped.registrations) == 367
    assert len(shipped.unmatched()) < 5  # operators come and go between torch releases


def test_a_row_without_an_operator_is_listed_and_no_error(tmp_path):
    path = tmp_path / "profile.csv"
    path.write_text(
        "# somewhere, 2026-04-21\noverload,how,narrows_64_bit,limits,source\naten.gone.default,native,yes,,x.py\n"
    )
    assert profile.read_profile(path).unmatched() == ("aten.gone.default",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("overload,how\n", "first line"),
        ("# title\nwhat,is,this\n", "columns"),
        ("# title\noverload,how,narrows_64_bit,limits,source\n", "no registrations"),
        ("# title\noverload,how,narrows_64_bit,limits,source\naten.add.Tensor,perhaps,yes,,x\n", "line 3: damaged"),
        (
            "# title\noverload,how,narrows_64_bit,limits,source\naten.add.Tensor,native,no,,x\naten.add.Tensor,native,no,,x\n",
            "line 4",
        ),
        ("# title\noverload,how,narrows_64_bit,limits,source\naten.add,native,no,,x\n", "line 3"),
    ],
)
def test_a_damaged_profile_is_refused_in_one_sentence(tmp_path, text, words):
    path = tmp_path / "profile.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=words) as error:
        profile.read_profile(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_profile_that_cannot_be_read(tmp_path):
    with pytest.raises(BadInput, match="cannot read the profile"):
        profile.read_profile(tmp_path / "absent.csv")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadInput, match="cannot read the profile"):
        profile.read_profile(tmp_path / "binary.csv")


def test_backward_parts_do_not_make_a_native_kernel_a_composite():
    found = summarize(
        "aten.gelu.default",
        [Entry("aten.gelu.default", None, Route.NATIVE), Entry("aten.gelu_backward.default", None, Route.NATIVE)],
    )
    assert (found.route, found.composite) == (Route.NATIVE, False)
    assert [part.overload for part in found.parts] == ["aten.gelu.default", "aten.gelu_backward.default"]
