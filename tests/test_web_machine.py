"""What programs read of the site: tables, badges, feeds, entity tags, metrics, and that they say what the pages say."""

from __future__ import annotations

import csv
import io
import json
from xml.etree import ElementTree

import pytest

pytest.importorskip("flask")

from neuron_ops.coverage_db.database import open_database, write
from neuron_ops.coverage_db.nights import Change
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.queries import latest_run
from neuron_ops.coverage_db.recorder import finalize_run, record_results, start_run
from neuron_ops.op_tests.records import (
    Build,
    Case,
    Denominators,
    Evidence,
    FallbackReason,
    Outcome,
    Result,
    Route,
    Status,
)
from neuron_ops.web.feeds import got_worse
from neuron_ops.web.figures import percent
from neuron_ops.web.tables import records
from site_database import HOSTILE, LETTERS, OPERATORS, fill
from site_reading import get, opened, strict

ATOM = "{http://www.w3.org/2005/Atom}"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "x.sqlite"
    old, new = fill(path)
    with opened(path) as app:
        app.old, app.new = old, new
        yield app


def table(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize(
    "address",
    [
        "/index",
        "/ops",
        "/ops?status=W",
        "/op/aten.add.Tensor",
        "/op/add",
        "/search?q=soft",
        "/runs",
        "/run/{new}",
        "/run/{old}",
    ],
)
def test_every_json_has_its_records_as_csv_and_ndjson(site, address):
    path, _, query = address.format(new=site.new, old=site.old).partition("?")
    told = strict(get(site, f"{path}.json?{query}"))
    lines = [json.loads(line) for line in get(site, f"{path}.ndjson?{query}").splitlines()]
    rows = table(get(site, f"{path}.csv?{query}"))
    assert len(lines) == len(rows) == told.get("total", len(records(told))) > 0
    for line, record in zip(lines, records(told), strict=False):
        assert record.items() <= line.items()
    for row, line in zip(rows, lines, strict=True):
        plain = {name: value for name, value in line.items() if isinstance(value, str) and not value.startswith("-")}
        assert plain.items() <= row.items()
        assert row["run_evidence"] == ("simulated" if told.get("run") else "")


def test_the_whole_matrix_is_one_table_with_its_provenance(site):
    rows = {row["name"]: row for row in table(get(site, "/ops.csv"))}
    assert len(rows) == len([op for op in OPERATORS if not op.excluded])
    for name, letters in LETTERS.items():
        assert {dtype: rows[name][f"cells.{dtype}.status"] for dtype in letters} == letters
    assert {row["run_slug"] for row in rows.values()} == {site.new}


def test_a_text_never_becomes_a_formula_of_a_spreadsheet():
    from neuron_ops.web.tables import _csv

    assert _csv([{"a": "=1+1", "b": "@x", "c": "plain", "d": -1}]) == "a,b,c,d\r\n'=1+1,'@x,plain,-1\r\n"


def test_a_table_answers_errors_as_the_json_does(site):
    assert "colour" in strict(get(site, "/ops.csv?colour=red", 400))["error"]
    assert "no operator nothing" in strict(get(site, "/op/nothing.ndjson", 404))["error"]


def test_badges_say_the_published_numbers(site):
    engine = open_database(site.extensions["neuron_ops_engine"].url.render_as_string(hide_password=False))
    with engine.connect() as conn:
        true = numbers(conn, latest_run(conn).id)
    engine.dispose()
    for one in true:
        told = strict(get(site, f"/badge/{one.id}.json"))
        picture = get(site, f"/badge/{one.id}.svg")
        assert told["schemaVersion"] == 1
        if one.m:
            assert told["message"].startswith(f"{one.n:,} of {one.m:,} ({percent(one.n, one.m)}) · ")
        assert told["message"] in picture
        ElementTree.fromstring(picture)
    assert "there are badges of core-native" in get(site, "/badge/nothing.json", 404)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("aten.add.Tensor", "W wrong result, 1 of 3 dtypes · simulated"),
        ("aten.softmax.int", "N native pass, 2 of 2 dtypes · simulated"),
        ("aten.sort.default", "untested"),
    ],
)
def test_an_overload_has_a_badge(site, name, message):
    told = strict(get(site, f"/badge/op/{name}.json"))
    assert told["message"] == message
    assert told["isError"] is (message == "untested")


def test_an_unchanged_page_answers_304_and_a_new_run_changes_it(tmp_path):
    path = tmp_path / "x.sqlite"
    fill(path)
    with opened(path) as app, app.test_client() as client:
        tags = {
            address: client.get(address).headers["ETag"]
            for address in ("/", "/ops", "/ops.csv", "/op/aten.add.Tensor.json")
        }
        for address, tag in tags.items():
            again = client.get(address, headers={"If-None-Match": tag})
            assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag)
            assert "max-age=60" in again.headers["Cache-Control"]
        _run(path, [Case("aten.add.Tensor", "float32", "opinfo/x/forward/0")], [])
        for address, tag in tags.items():
            assert client.get(address, headers={"If-None-Match": tag}).status_code == 200, address


def test_feeds_say_what_changed_and_how(site):
    feed = ElementTree.fromstring(get(site, "/op/aten.add.Tensor.atom"))
    (entry,) = feed.findall(f"{ATOM}entry")
    assert site.new in entry.findtext(f"{ATOM}id")
    assert "bfloat16: new → W (1 of 2 cases)" in entry.findtext(f"{ATOM}content")
    for address in ("/changes.atom", "/regressions.atom"):
        assert ElementTree.fromstring(get(site, address)).findtext(f"{ATOM}updated")


def test_a_run_that_got_worse_has_an_entry_that_names_what_and_how(tmp_path):
    path = tmp_path / "x.sqlite"
    fill(path)
    cases = [Case("aten.add.Tensor", "float32", f"opinfo/y/{number}") for number in range(3)]
    native = [Result(case.key, Outcome.PASS, Route.NATIVE) for case in cases]
    fallback = Result(cases[0].key, Outcome.PASS, Route.FALLBACK, FallbackReason.UNIMPLEMENTED)
    wrong = Result(cases[0].key, Outcome.WRONG, Route.NATIVE, message=HOSTILE)
    slugs = [_run(path, cases, [first, *native[1:]]) for first in (fallback, wrong, native[0])]
    with opened(path) as app:
        feeds = {name: ElementTree.fromstring(get(app, f"/{name}.atom")) for name in ("changes", "regressions")}
        texts = {name: get(app, f"/{name}.atom") for name in feeds}
    found = {name: feed.findall(f"{ATOM}entry") for name, feed in feeds.items()}
    assert [entry.findtext(f"{ATOM}id") for entry in found["changes"]] == [
        f"tag:neuron-ops,2026:changed/{slugs[2]}", f"tag:neuron-ops,2026:changed/{slugs[1]}",
    ]  # fmt: skip
    (worse,) = found["regressions"]
    assert worse.findtext(f"{ATOM}title") == (
        f"{slugs[0]} → {slugs[1]}: 1 case worse (aten.add.Tensor), simulated on sim"
    )
    assert f"aten.add.Tensor float32: C → W, case {cases[0].key[:12]}" in worse.findtext(f"{ATOM}content")
    assert all("<script" not in text for text in texts.values())


def _run(path, cases, results):
    engine = open_database(str(path))
    build = Build("sim", Evidence.SIMULATED, {"torch": "2.13.0"})
    with write(engine) as conn:
        start = start_run(
            conn, build=build, denominators=Denominators("2.13.0", 1, 1, 1, 1), cases=cases, seed=0, selection="all"
        )
        record_results(conn, start.run_id, results)
        finalize_run(conn, start.run_id)
    engine.dispose()
    return start.slug


@pytest.mark.parametrize(
    ("before", "after", "worse"),
    [("N", "W", True), ("N", "C", True), ("W", "N", False), ("N", None, False), (None, "W", False), ("D", "N", False)],
)
def test_what_is_new_or_gone_is_no_regression(before, after, worse):
    change = Change("0" * 32, "aten.x.default", "float32", before and Status(before), after and Status(after))
    assert got_worse(change) is worse


def test_crawlers_and_browsers_find_their_files(site):
    sitemap = ElementTree.fromstring(get(site, "/sitemap.xml"))
    found = [place.text.removeprefix("http://localhost") for place in sitemap.findall(".//{*}loc")]
    assert {"/", "/ops", "/runs", "/op/aten.add.Tensor", f"/run/{site.new}"} <= set(found)
    assert len(found) == len(set(found))
    for address in found[:20]:
        get(site, address)
    assert "Sitemap: http://localhost/sitemap.xml" in get(site, "/robots.txt")
    assert "search?q={searchTerms}" in get(site, "/opensearch.xml")


def test_metrics_count_by_route(site):
    for name in ("aten.add.Tensor", "aten.add.Scalar"):
        get(site, f"/op/{name}")
    text = get(site, "/metrics")
    assert 'route="/op/<name>",status="200"' in text
    assert "aten.add.Tensor" not in text, "an address of its own for each operator would make thousands of series"


def test_messages_stay_text_in_every_format(site):
    assert HOSTILE in get(site, "/op/aten.add.Tensor.csv")
    assert "<script>" not in get(site, "/op/aten.add.Tensor.atom")
    assert "<script>" not in get(site, "/badge/op/%3Cscript%3E.svg", 404)
