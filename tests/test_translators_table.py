"""The table of translations that comes with the package, and the estimate of what they cost."""

import pytest
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.targets.sim import state
from neuron_ops.op_tests.translation import cost
from neuron_ops.translators.choices import shipped_choices
from neuron_ops.translators.families import load
from neuron_ops.translators.sources import DERIVED, SOURCES, function_of


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
