"""The whole-table pages, the page of a cell, and what leads to them."""

from __future__ import annotations

import pytest

pytest.importorskip("flask")

from neuron_ops.web import words
from site_database import DTYPES, HOSTILE, LETTERS, NEW, fill
from site_reading import get, opened, page, strict


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "x.sqlite"
    old, new = fill(path)
    with opened(path) as app:
        app.old, app.new = old, new
        yield app


@pytest.mark.parametrize("address", ["/ops/all", "/ops/core", "/family/pointwise", "/tag/core", "/status/wrong"])
def test_a_whole_table_shows_what_its_json_says(site, address):
    shown, told = page(site, address), strict(get(site, f"{address}.json"))
    rows = {row["name"]: row["cells"] for row in told["rows"]}
    for name, letters in LETTERS.items():
        assert rows.get(name, letters) == letters
    assert sum(told["counts"].values()) == told["total"] * len(DTYPES) == len(rows) * len(DTYPES)
    # one head row for each table of a hundred rows, then a row head for each overload
    tables = -(-len(rows) // 100)
    names = {href.removeprefix("/op/") for href in shown.links() if href.startswith("/op/") and href.count("/") == 2}
    assert names == set(rows)
    assert len(shown.of("section")) == tables
    for letter, number in told["counts"].items():
        assert f"{letter}{'' if letter in '– n/a' else '~'} {words.STATUSES[letter].label}{number:,} of" in shown.text


def test_the_tables_choose(site):
    def names(address):
        return {row["name"] for row in strict(get(site, address))["rows"]}

    assert names("/tag/core.json") == names("/ops/core.json")
    assert names("/ops/core.json") == {
        "aten.add.Tensor",
        "aten.add.Scalar",
        "aten.gelu.default",
        "aten._softmax.default",
    }
    assert names("/status/wrong.json") == {"aten.add.Tensor"}
    assert names("/status/crash.json") == {"aten._softmax.default"}
    assert "aten.gelu_backward.default" not in names("/ops/all.json"), "outside the denominator"
    assert len(names("/ops/all.json")) == 127


@pytest.mark.parametrize(
    ("address", "hint"),
    [
        ("/family/nothing", "it has pointwise"),
        ("/tag/nothing", "it has core, pointwise"),
        ("/status/purple", "the statuses are native"),
        ("/dtype/float99", "it has float32, bfloat16, int64"),
        ("/op/aten.add.Tensor/float99", "see the operator’s page"),
        ("/op/nothing/float32", "see the operator’s page"),
    ],
)
def test_an_unknown_word_answers_with_the_known_ones(site, address, hint):
    assert hint in page(site, address, 404).text
    assert hint in strict(get(site, f"{address}.json", 404))["error"]


def test_small_tables_link_their_cells_and_large_ones_do_not(site, monkeypatch):
    assert "/op/aten.add.Tensor/bfloat16" in page(site, "/status/wrong").links()
    monkeypatch.setattr("neuron_ops.web.grids._LINKED", 2)
    assert "/op/aten.add.Tensor/bfloat16" not in page(site, "/status/wrong").links()


def test_dtype_page_counts_and_names_what_float32_does_better(site):
    told = strict(get(site, "/dtype/bfloat16.json"))
    assert told["counts"] == {"W": 1, "X": 1, "E": 1, "D": 1, "N": 1, "–": 122}
    assert told["families"] == {"pointwise": told["counts"]}
    assert [row["name"] for row in told["lost"]] == ["aten._softmax.default", "aten.add.Tensor"]
    shown = page(site, "/dtype/bfloat16")
    assert {"/op/aten.add.Tensor/bfloat16", "/family/pointwise", "/browse"} <= set(shown.links())
    assert "2 overloads." in shown.text
    assert "On the device in" not in page(site, "/dtype/float32").text


def test_cell_page_tells_each_case(site):
    shown = page(site, "/op/aten.add.Tensor/bfloat16")
    told = strict(get(site, "/op/aten.add.Tensor/bfloat16.json"))
    assert (told["status"], told["k"], told["n"]) == ("W", 1, 2)
    assert told["verdict"] in shown.text
    assert len(told["cases"]) == 2
    assert {case["dtype"] for case in told["cases"]} == {"bfloat16"}
    assert HOSTILE in shown.text
    assert "/op/aten.add.Tensor/float32" in shown.links()
    assert "/op/aten.add.Tensor/bfloat16" in page(site, "/op/aten.add.Tensor").links()
    assert page(site, f"/op/aten.add.Tensor/float32?run={site.old}").text.count("CPU fallback") > 0


def test_history_shows_every_run_and_the_last_change(tmp_path):
    path = tmp_path / "x.sqlite"
    better = {**NEW, "aten.gelu.default": {"float32": ["native"], "bfloat16": ["error"], "int64": ["timeout"]}}
    runs = fill(path, (NEW, better, better))
    with opened(path) as app:
        shown = page(app, "/op/aten.gelu.default")
        assert f"C → N in {runs[1]}" in shown.text
        assert "none seen" in shown.text
        titles = [f"{slug}: {letter}" for slug, letter in zip(runs, "CNN", strict=True)]
        assert all(title in shown.text for title in titles)
        told = strict(get(app, "/op/aten.gelu.default/float32.json"))
        assert [(night["run"], night["status"]) for night in told["history"]] == list(zip(runs, "CNN", strict=True))


def test_browse_leads_to_all_shelves(site):
    links = set(page(site, "/browse").links())
    assert {"/dtype/int64", "/status/crash", "/family/pointwise", "/tag/core", "/ops/all", "/ops/core"} <= links
    for address in links - {"#main"}:
        get(site, address)
