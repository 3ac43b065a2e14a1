"""The search: every spelling of an operator finds it, and torch's public names lead where torch itself leads."""

from __future__ import annotations

import csv
from importlib import resources

import pytest
from neuron_ops.coverage_db.spelling import aliases, rank, read_spelling

pytest.importorskip("flask")

from site_database import fill, record_out_form
from site_reading import get, opened, page, strict


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "x.sqlite"
    fill(path)
    record_out_form(path)
    with opened(path) as app:
        yield app


@pytest.mark.parametrize(
    ("text", "packet"),
    [
        ("nn.GELU", "aten.gelu"),
        ("torch.nn.CrossEntropyLoss", "aten.cross_entropy_loss"),
        ("nn.Conv2d", "aten.conv2d"),
        ("torch.Tensor.to_sparse_coo", "aten.to_sparse"),
        ("F.softmin", "aten.softmax"),
        ("torch.linalg.inv", "aten.linalg_inv"),
        ("add_", "aten.add_"),
        ("RuntimeError: \"addmm_impl_cpu_\" not implemented for 'Half'", "aten.addmm"),
        ("Could not run 'aten::_thnn_fused_lstm_cell' with arguments", "aten._thnn_fused_lstm_cell"),
        ("in forward\n  return F.layer_norm(torch.relu(x), 3)\nRuntimeError: bad (really)", "aten.relu"),
    ],
)
def test_a_spelling_is_an_exact_name(text, packet):
    assert rank(f"{packet}.default", read_spelling(text)) == 1


def test_ranks_go_from_the_very_name_to_scattered_words():
    name = "aten.scaled_dot_product_attention.default"
    asked = (name, "scaled_dot_product_attention", "sdpa", "scaled dot", "dot product", "dotproduct", "product scaled")
    assert [rank(name, read_spelling(text)) for text in asked] == [0, 1, 3, 4, 5, 6, 7]
    assert rank(name, read_spelling("sda")) is None
    assert rank("aten.layer_norm.default", read_spelling("\"LayerNormKernelImpl\" not implemented for 'Half'")) == 1


def test_torch_leads_where_the_stored_names_say():
    import torch
    from neuron_ops.op_tests import aliases as computed

    if not torch.__version__.startswith("2.13.0"):
        pytest.skip("the stored names are those of torch 2.13.0")

    table = resources.files("neuron_ops.coverage_db").joinpath("data/aliases.csv").read_text(encoding="utf-8")
    stored = {row["name"]: tuple(row["packets"].split()) for row in csv.DictReader(table.splitlines())}
    assert stored == computed.aliases(), "run python -m neuron_ops.op_tests.aliases > coverage_db/data/aliases.csv"
    assert len(aliases()) > 100


@pytest.mark.parametrize("text", ["nn.GELU", "F.gelu", "torch.nn.functional.gelu", "gelu", "add.Tensor"])
def test_enter_on_the_one_exact_hit_opens_it(site, text):
    name = "aten.add.Tensor" if "add" in text else "aten.gelu.default"
    with site.test_client().get("/search", query_string={"q": text}) as response:
        assert (response.status_code, response.headers["Location"]) == (302, f"/op/{name}")
    assert strict(get(site, f"/search.json?q={text}"))["only"] == name


def test_several_exact_hits_are_listed_and_a_typo_gets_the_nearest_names(site):
    assert strict(get(site, "/search.json?q=add"))["only"] is None
    shown = page(site, "/search?q=sofmax")
    assert "The nearest names" in shown.text
    assert "/op/aten.softmax.int" in shown.links()


def test_a_name_with_one_functional_overload_means_that_one(site):
    with site.test_client().get("/search?q=sort") as response:
        assert (response.status_code, response.headers["Location"]) == (302, "/op/aten.sort.default")
    told = strict(get(site, "/search.json?q=torch.sort"))
    assert (told["only"], len(told["hits"])) == ("aten.sort.default", 2)
