"""What `neuron-ops translators` prints, and the table that it prints from."""

import json

import pytest
from neuron_ops.cli import main
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.targets.sim import state
from neuron_ops.op_tests.translation import cost
from neuron_ops.translators.choices import BadChoices, Choice, read_choices, shipped_choices, write_choices
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


def test_the_list_and_its_json(capsys):
    assert main.run(["translators", "list", "aten.hardswish*", "--json"]) == 0
    rows = {row["overload"]: row for row in json.loads(capsys.readouterr().out)}
    row = rows["aten.hardswish.default"]
    assert row["evidence"] == "simulated"
    assert "float32" in row["dtypes"]
    assert {part["route"] for part in row["closure"]} == {"native"}
    assert row["launches"] > 1
    assert row["fallback_cheaper_below_bytes"] == cost.break_even_bytes(row["launches"])
    assert main.run(["translators", "list", "aten.hardswish*"]) == 0
    assert f"{len(rows)} of {len(shipped_choices())} translations; evidence: simulated" in capsys.readouterr().out
    assert main.run(["translators", "list", "aten.nope*"]) == 2
    assert "no translator matches aten.nope*" in capsys.readouterr().err


def test_a_table_survives_the_round_trip_and_a_damaged_one_is_named():
    choices = {
        "aten.x.y": Choice("aten.x.y", "ours, derived", ("float32",), ("aten.add.out",), 3, 12, 'not "bool": a, b')
    }
    text = write_choices(choices, "torch 0")
    assert read_choices(text)["aten.x.y"] == Choice(
        "aten.x.y", "ours, derived", ("float32",), ("aten.add.out",), 3, 12, "not 'bool': a, b"
    )
    with pytest.raises(BadChoices, match=r"names aten\.x\.y twice"):
        read_choices(text + text.splitlines()[-1])
    with pytest.raises(BadChoices, match=r"damaged at aten\.x\.y"):
        read_choices(text.replace(",3,12,", ",three,12,"))
    with pytest.raises(BadChoices, match="has columns"):
        read_choices("overload,source\n")


def test_the_cost_model_prefers_the_host_for_small_tensors_and_many_calls():
    assert cost.break_even_bytes(1) == 0
    assert cost.fallback_seconds(0) < cost.translated_seconds(10)
    even = cost.break_even_bytes(10)
    assert cost.fallback_seconds(even) == pytest.approx(cost.translated_seconds(10))
