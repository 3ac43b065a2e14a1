"""The site: what its pages say, that their JSON says the same, and what they answer to a bad query."""

from __future__ import annotations

import gzip
import re
from urllib.parse import urlsplit

import pytest

pytest.importorskip("flask")

import sqlalchemy as sa
from neuron_ops.coverage_db.database import read
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.queries import case_by_key, latest_run, totals
from neuron_ops.op_tests.records import BadInput, Case, Status
from neuron_ops.web import words
from neuron_ops.web.figures import percent
from neuron_ops.web.query_text import read_terms
from site_database import DTYPES, HOSTILE, LETTERS, fill
from site_reading import Page, get, opened, page, strict

PAGES = (
    "/", "/ops", "/op/aten.add.Tensor", "/op/add", "/search?q=soft", "/runs", "/statuses", "/numbers", "/browse",
    "/ops/all", "/ops/core", "/ops/all.json", "/ops/core.json", "/dtype/float32", "/dtype/float32.json",
    "/regressions", "/regressions.json", "/errors", "/errors.json", "/errors?q=compilation",
    "/translators", "/translators.json", "/translators/core", "/disagreements", "/disagreements.json",
    "/index.json", "/ops.json", "/op/aten.add.Tensor.json", "/search.json?q=soft", "/runs.json",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "x.sqlite"
    old, new = fill(path)
    with opened(path) as app:
        app.old, app.new = old, new
        yield app


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("empty") / "x.sqlite") as app:
        yield app


@pytest.mark.parametrize("address", PAGES)
def test_pages_answer_with_and_without_results(site, empty, address):
    for app in (site, empty):
        known = app is site or "/op/" not in address
        text = get(app, address, 200 if known else 404)
        if ".json" in address:
            strict(text)
        else:
            assert len(Page(text).of("h1")) == 1


@pytest.mark.parametrize("address", PAGES)
def test_a_page_takes_no_unknown_query_key(site, address):
    text = get(site, f"{address}{'&' if '?' in address else '?'}colour=red", 400)
    assert "colour" in text
    assert "it takes" in text


@pytest.mark.parametrize("address", [*PAGES, "/healthz", "/op/nothing", "/run/nothing"])
def test_a_page_needs_at_most_eight_statements(site, address):
    engine, seen = site.extensions["neuron_ops_engine"], []

    def note(_conn, _cursor, statement, *_rest):
        if not statement.startswith(("PRAGMA", "BEGIN")):
            seen.append(statement)

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        site.test_client().get(address).close()
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)
    assert len(seen) <= 8


def test_numbers_are_the_same_on_every_page(site):
    with read(site.extensions["neuron_ops_engine"]) as conn:
        run = latest_run(conn)
        true = numbers(conn, run.id)
    assert run.slug == site.new
    told = strict(get(site, "/index.json"))
    assert [(one["id"], one["n"], one["m"], one["percent"]) for one in told["numbers"]] == [
        (one.id, one.n, one.m, percent(one.n, one.m)) for one in true
    ]
    assert told["run"]["denominators"]["D_key"] == 1896
    assert true[0].n == 3  # add.Tensor, add.Scalar and _softmax in float32
    for address in ("/", "/numbers", f"/run/{site.new}"):
        text = page(site, address).text
        for one in true:
            assert f"{one.n:,} of {one.m:,}" in text
            assert percent(one.n, one.m) in text
            assert address == f"/run/{site.new}" or one.definition in text
        assert "simulated" in text


def test_home_says_what_was_measured_on_hardware(site):
    with read(site.extensions["neuron_ops_engine"]) as conn:
        cells = totals(conn, latest_run(conn)).cells
    measured = sum(number for letter, number in cells.items() if letter not in {"–", "n/a"})
    assert measured == 12
    assert "0 cells measured on hardware; 12 simulated." in page(site, "/").text
    assert strict(get(site, "/index.json"))["cells_by_evidence"] == {"hardware": 0, "simulated": 12}
    assert words.EVIDENCE["simulated"].definition[1:] in page(site, "/").text


def test_home_of_an_empty_database_says_what_to_do(empty):
    text = page(empty, "/").text
    assert "0 cells measured on hardware; 0 simulated." in text
    assert "neuron-ops sweep --target sim" in text
    assert strict(get(empty, "/index.json"))["run"] is None


def test_percentages_are_cut_so_that_only_all_is_a_hundred():
    assert [percent(n, m) for n, m in ((0, 5), (1, 3), (1999, 2000), (5, 5), (0, 0))] == [
        "0.0 %", "33.3 %", "99.9 %", "100.0 %", "–",
    ]  # fmt: skip


def test_matrix_shows_the_letters_that_were_recorded(site):
    rows = {row["name"]: row for row in strict(get(site, "/ops.json"))["rows"]}
    for name, letters in LETTERS.items():
        assert {dtype: cell["status"] for dtype, cell in rows[name]["cells"].items()} == letters
    shown = page(site, "/ops")
    for name, letters in LETTERS.items():
        for dtype, letter in letters.items():
            (cell,) = [a for a in shown.of("a", href=f"/op/{name}#{dtype}") if "aria-label" in a]
            assert cell["aria-label"].startswith(f"{dtype}: {letter}")
    assert "bfloat16: W 1/2, wrong result, 1 of 2 cases, simulated" in [a.get("aria-label") for a in shown.of("a")]
    assert "W1/2~" in shown.text
    assert [a["scope"] for a in shown.of("th")] == ["col"] * (len(DTYPES) + 1) + ["row"] * 100


def test_matrix_has_a_legend_with_every_letter(site):
    shown, meanings = page(site, "/ops"), page(site, "/statuses")
    anchors = {a["id"] for _, a in meanings.elements if "id" in a}
    for status in Status:
        word = words.STATUSES[status]
        assert shown.of("a", href=f"/statuses#{word.anchor}")
        assert word.anchor in anchors
        assert word.definition in meanings.text


def test_facet_counts_are_what_the_links_lead_to(site):
    shown = page(site, "/ops")
    counts = strict(get(site, "/ops.json"))["facets"]
    assert counts["status"]["W"] == 1
    for facet in ("status", "family", "tier", "tag", "kind"):
        for value, number in counts[facet].items():
            told = strict(get(site, f"/ops.json?{facet}={value}"))
            assert told["total"] == number, (facet, value)
    leads = [urlsplit(href).query for href in shown.links() if href.startswith("/ops?")]
    assert {"status=W", "tier=T1", "tag=core", "kind=out", "family=pointwise", "dtype=int64"} <= set(leads)
    narrowed = page(site, "/ops?status=W&tag=core")
    assert "/ops?tag=core" in narrowed.links(), "a chosen value's link takes it away"
    assert "aten.gelu.default" not in narrowed.text


def test_matrix_has_a_hundred_rows_a_page(site):
    first, last = page(site, "/ops"), page(site, "/ops?page=2")
    assert len(first.of("th", scope="row")) == 100
    assert len(last.of("th", scope="row")) == 27
    assert first.of("a", rel="next", href="/ops?page=2")
    assert last.of("a", rel="prev", href="/ops")
    assert strict(get(site, "/ops.json"))["next"] == "/ops.json?page=2"
    assert strict(get(site, "/ops.json?page=2"))["next"] is None
    assert len(first.elements) <= 7000
    assert len(gzip.compress(get(site, "/ops").encode())) <= 15 * 1024


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("q=softmax", {"aten.softmax.int", "aten._softmax.default"}),
        ("q=softmax+status:crash", {"aten._softmax.default"}),
        ("q=softmax&status=X", {"aten._softmax.default"}),
        ("q=status:wrong,timeout", {"aten.add.Tensor", "aten.gelu.default"}),
        ("status=W&status=T", {"aten.add.Tensor", "aten.gelu.default"}),
        ("status=w,T", {"aten.add.Tensor", "aten.gelu.default"}),
        ("q=status:wrong+dtype:float32", set()),
        ("q=tag:core+aten::add.Tensor", {"aten.add.Tensor"}),
        ("q=gelu_backward", {"aten.gelu_backward.default"}),
    ],
)
def test_matrix_answers_words_and_keys(site, query, names):
    assert {row["name"] for row in strict(get(site, f"/ops.json?{query}"))["rows"]} == names
    shown = page(site, f"/ops?{query}")
    assert len(shown.of("th", scope="row")) == len(names)


@pytest.mark.parametrize(
    ("query", "status", "hint"),
    [
        ("q=stauts:wrong", 400, "“stauts:” is no search key"),
        ("q=-dtype:int64", 400, "cannot do"),
        ("status=purple", 400, "“purple” is no status"),
        ("page=0", 400, "whole number from 1"),
        ("page=one", 400, "whole number from 1"),
        ("page=²", 400, "whole number from 1"),
        ("page=99999999999999999999", 400, "whole number from 1"),
        ("page=3", 404, "the last one"),
    ],
)
def test_matrix_refuses_with_a_hint(site, query, status, hint):
    assert hint in page(site, f"/ops?{query}", status).text
    told = strict(get(site, f"/ops.json?{query}", status))
    assert told["status"] == status
    assert hint in told["error"]


def test_terms_come_back_from_their_own_link():
    terms = read_terms("soft max status:W,T", {"dtype": "int64, float32"})
    again = read_terms(terms.arguments()["q"], {k: v for k, v in terms.arguments().items() if k != "q"})
    assert again == terms
    assert terms.toggled("status", "W").wanted("status") == ("T",)
    assert terms.toggled("kind", "out").toggled("kind", "out").arguments() == terms.arguments()
    with pytest.raises(BadInput):
        read_terms("colour:red", {})


def test_overload_page_tells_all_of_it(site):
    shown = page(site, "/op/aten.add.Tensor")
    for piece in (
        "aten::add.Tensor(Tensor self) -> Tensor",
        "T2, composite if unregistered",
        words.TIERS["T2"].definition,
        "float32: native pass in all 2 cases; simulated on target sim",
        "bfloat16: wrong result in 1 of 2 cases, the other cases did better",
        "received as aten.add.out",
        "0.0021 abs, inf rel, 9 ulp",
        HOSTILE,
        "int64: unsupported in the one case tested",
    ):
        assert piece in shown.text, piece
    assert all("src" in a for a in shown.of("script")), "a message is text"
    assert "/op/aten.add.Scalar" in shown.links()
    assert {a.get("id") for a in shown.of("div")} >= set(DTYPES), "the cells of the matrix lead here"
    told = strict(get(site, "/op/aten.add.Tensor.json"))
    assert told["cells"]["bfloat16"]["verdict"] in shown.text
    assert told["run"]["slug"] == site.new
    assert next(case for case in told["cases"] if case["device_figures"])["device_figures"]["max_rel"] == "inf"


def test_overload_page_names_the_reason_and_links_the_parts(site):
    assert "CPU fallback in the one case tested" in page(site, "/op/aten.gelu.default").text
    assert words.REASONS["unimplemented"].definition in page(site, "/op/aten.gelu.default").text
    composite = page(site, "/op/aten.softmax.int")
    assert "native pass through PyTorch’s composite kernel" in composite.text
    assert {"/op/aten.add.Tensor", "/op/aten.gelu.default"} <= set(composite.links())
    excluded = page(site, "/op/aten.gelu_backward.default")
    assert "backward of another operator" in excluded.text
    assert "Untested" in excluded.text


def test_repro_line_names_a_stored_case(site):
    prefixes = re.findall(r"neuron-ops repro ([0-9a-f]+)", page(site, "/op/aten.gelu.default").text)
    assert len(prefixes) == 3
    with read(site.extensions["neuron_ops_engine"]) as conn:
        found = {case_by_key(conn, prefix).key for prefix in prefixes}
    assert Case("aten.gelu.default", "float32", "opinfo/x/forward/0").key in found


def test_run_pages(site):
    shown = page(site, f"/run/{site.old}")
    assert "1 of 2 planned cases have no result" in shown.text
    assert "failed" in shown.text
    told = strict(get(site, f"/run/{site.old}.json"))
    assert told["totals"]["lost"] == 1
    assert sum(told["totals"]["cases"].values()) == told["totals"]["planned"] == 2
    assert told["run"]["versions"]["neuron-ops"] == "0.0.9"
    assert [run["slug"] for run in strict(get(site, "/runs.json"))["runs"]] == [site.new, site.old]
    assert "There is no run nothing" in page(site, "/run/nothing", 404).text


def test_health_names_the_latest_run(site, empty):
    assert strict(get(site, "/healthz")) == {"ok": True, "latest_run": site.new}
    assert strict(get(empty, "/healthz")) == {"ok": True, "latest_run": None}
