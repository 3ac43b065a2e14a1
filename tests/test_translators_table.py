"""The table of translations that comes with the package, and the estimate of what they cost."""

import pytest
import torch
from functorch.compile import make_boxed_func
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.targets.sim import state
from neuron_ops.op_tests.translation import cost
from neuron_ops.translators import decomposition_table, tables
from neuron_ops.translators.choices import shipped_choices
from neuron_ops.translators.families import load
from neuron_ops.translators.sources import DERIVED, SOURCES, function_of
from torch._dynamo.backends.common import aot_autograd
from torch.fx.experimental.proxy_tensor import make_fx


def test_the_shipped_table_names_overloads_and_sources_that_exist():
    known = catalogue.by_name()
    native = {name for name, registration in state.profile.registrations.items() if not registration.host}
    for name, choice in shipped_choices().items():
        assert name in known
        assert name not in native
        assert choice.source.removesuffix(DERIVED) in SOURCES
        assert function_of(name, choice.source) is not None
        assert choice.dtypes


def test_our_translators_name_their_source():
    assert len(load()) > 300
    for name, translator in load().items():
        assert name in catalogue.by_name(), name
        assert len(translator.source) > 5, name


def test_the_cost_model_prefers_the_host_for_small_tensors_and_many_calls():
    assert cost.break_even_bytes(1) == 0
    assert cost.fallback_seconds(0) < cost.translated_seconds(10)
    even = cost.break_even_bytes(10)
    assert cost.fallback_seconds(even) == pytest.approx(cost.translated_seconds(10))


@pytest.fixture(scope="module")
def table():
    return decomposition_table()


def called(graph_module):
    return [n.target for n in graph_module.graph.nodes if isinstance(n.target, torch._ops.OpOverload)]


class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.nn.functional.max_pool2d(torch.nn.functional.hardswish(x), 2)
        return torch.atan2(y, y + 1) + torch.cumprod(y, -1) + torch.sort(y, dim=-1)[0]


def test_a_compiled_net_runs_the_parts_of_translators_forward_and_backward(table):
    graphs = []

    def compiler(graph_module, inputs):
        graphs.append(called(graph_module))
        return make_boxed_func(graph_module.forward)

    x, y = (torch.linspace(-2, 3, 64).reshape(1, 4, 4, 4).requires_grad_() for _ in range(2))
    backend = aot_autograd(fw_compiler=compiler, bw_compiler=compiler, decompositions=table)
    result, want = torch.compile(Net(), backend=backend)(x), Net()(y)
    torch.testing.assert_close(result, want)
    result.sum().backward()
    want.sum().backward()
    torch.testing.assert_close(x.grad, y.grad)
    assert len(graphs) == 2
    assert not {op for graph in graphs for op in graph} & set(table)


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch 2.13 warns of itself
def test_an_exported_net_runs_the_parts_of_translators(table):
    x = torch.linspace(-2, 3, 64).reshape(1, 4, 4, 4)
    exported = torch.export.export(Net(), (x,))
    assert set(called(exported.graph_module)) & set(table)
    decomposed = exported.run_decompositions(table)
    assert not set(called(decomposed.graph_module)) & set(table)
    torch.testing.assert_close(decomposed.module()(x), Net()(x))


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: torch.cumprod(x, 0), torch.ones(3, dtype=torch.complex64)),  # no dtype of ours
        (lambda x: torch.complex(x, x), torch.ones(3)),
        (lambda x: torch.bernoulli(x), torch.tensor([0.0, 1.0])),
    ],
)
def test_what_cannot_be_traced_stays_as_it_is(table, function, x):
    graph = make_fx(function, decomposition_table=table, tracing_mode="fake")(x)
    assert called(graph) == called(make_fx(function, tracing_mode="fake")(x))
    torch.testing.assert_close(graph(x), function(x))


def test_a_refusal_leaves_the_call_undecomposed():
    def refuses(self):
        raise NotImplementedError("no")

    op = torch.ops.aten.hardswish.default
    table = {op: tables._decomposition(refuses, frozenset({torch.float32}))}
    assert called(make_fx(op, decomposition_table=table)(torch.ones(2))) == [op]


def test_overloads_of_the_target_are_left_out(table):
    name = "aten.hardswish.default"
    assert set(table) - set(decomposition_table({name})) == {catalogue.resolve(name)}
