"""The counts of design.md §3 on the tested torch, and what every other torch must keep."""

import re

import pytest
import torch
from neuron_ops.op_tests import catalogue
from neuron_ops.op_tests.records import BadInput

TESTED = torch.__version__.startswith("2.13.0")


@pytest.mark.skipif(not TESTED, reason=f"the counts are those of torch 2.13.0, this is {torch.__version__}")
def test_counts_of_torch_2_13_0():
    counts = catalogue.denominators()
    assert (counts.registered, counts.d_all, counts.d_key, counts.t1) == (3110, 2526, 1896, 618)
    assert counts.excluded == {
        "sparse layout": 164, "vendor library": 155, "internal": 106, "quantized": 67, "nested": 40, "no CPU kernel": 38,
        "no tensor": 14,
    }  # fmt: skip


def test_every_overload_counts_or_has_a_reason():
    counts = catalogue.denominators()
    assert counts.d_all + sum(counts.excluded.values()) == counts.registered
    assert 0 < counts.t1 < counts.d_key < counts.d_all
    reasons = {rule.reason for rule in catalogue.exclusion_rules()}
    assert set(counts.excluded) <= reasons


def test_operators_are_sorted_and_named_once():
    names = [operator.name for operator in catalogue.operators()]
    assert names == sorted(set(names))
    assert all(re.fullmatch(r"aten\.\w+\.\w+", name) for name in names)


@pytest.mark.parametrize(
    ("name", "kind", "tier"),
    [
        ("aten.add.Tensor", "functional", "T2"),
        ("aten.add.out", "out", "T1"),
        ("aten.add_.Tensor", "inplace", "T2"),
        ("aten.__iand__.Tensor", "inplace", "T3"),
        ("aten._native_batch_norm_legit.default", "mutable", "T1"),
        ("aten.linear.default", "functional", "T3"),
    ],
)
def test_kind_and_tier(name, kind, tier):
    operator = catalogue.by_name()[name]
    assert (operator.kind, operator.tier, operator.excluded) == (kind, tier, None)


def test_families_cover_everything_with_sense():
    family = {operator.name: operator.family for operator in catalogue.operators()}
    assert family["aten.convolution.default"] == "convolution"
    assert family["aten._foreach_add.List"] == "foreach"
    assert family["aten.sum.dim_IntList"] == "reduction"
    assert family["aten.exp.default"] == "elementwise"


def test_the_ten_entry_points_exist_and_are_outside_the_denominator():
    points = catalogue.privateuse1_entry_points()
    assert len(points) == 10
    for name, public in points.items():
        assert catalogue.by_name()[name].excluded is not None
        assert catalogue.by_name()[public].excluded is None


def test_selection():
    assert {o.name for o in catalogue.select(["add.Tensor"])} == {"aten.add.Tensor"}
    assert {o.name for o in catalogue.select(["aten::add"])} == {
        "aten.add.Tensor",
        "aten.add.Scalar",
        "aten.add.out",
        "aten.add.Scalar_out",
    }
    assert all(o.core for o in catalogue.select(["core"]))
    assert len(catalogue.select(["aten.linalg_q*", "mm"])) == 4


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("ad", "did you mean"),
        ("nonsense_operator", "expected core, all"),
        ("aten._nnz", "outside the denominator (sparse layout)"),
        ("zz*", "expected core, all"),
    ],
)
def test_selecting_nothing_says_what_to_do(pattern, words):
    with pytest.raises(BadInput, match=re.escape(words)) as error:
        catalogue.select([pattern])
    assert pattern in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["aten.add.Nonsense", "aten.nonsense.default", "add", "aten.add"])
def test_resolving_an_unknown_overload(name):
    with pytest.raises(BadInput, match="no operator overload"):
        catalogue.resolve(name)
