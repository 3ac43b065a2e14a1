"""/api/v1 keeps its own promises, and no address of the site fails, whatever it is asked."""

from __future__ import annotations

from urllib.parse import quote

import pytest

pytest.importorskip("flask")
pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from neuron_ops.coverage_db.database import read
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.queries import latest_run
from schemathesis.specs.openapi.checks import positive_data_acceptance
from site_database import LETTERS, fill
from site_reading import get, opened, strict

SCHEMA = "/api/v1/openapi.json"
PATHS = ("numbers", "runs", "runs/{slug}", "ops", "ops/{name}", "search", "diff")
QUICK = settings(
    max_examples=25, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "x.sqlite"
    old, new = fill(path)
    with opened(path) as app:
        app.old, app.new = old, new
        yield app


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_has_the_layout_that_the_document_promises(site, path):
    operation = schemathesis.openapi.from_wsgi(SCHEMA, site)[f"/api/v1/{path}"]["GET"]
    seen = set()

    @QUICK
    @given(operation.as_strategy())
    def ask(case):
        # Words such as “colour:red” have the layout of a search and are refused for what they say.
        seen.add(case.call_and_validate(excluded_checks=[positive_data_acceptance]).status_code)

    ask()
    assert seen & {200, 404}


def test_the_document_names_every_address_with_its_errors(site):
    told = strict(get(site, SCHEMA))
    assert set(told["paths"]) == {f"/api/v1/{path}" for path in PATHS}
    for path in told["paths"].values():
        assert {"200", "400", "404"} <= set(path["get"]["responses"])


def test_api_and_pages_say_the_same(site):
    with read(site.extensions["neuron_ops_engine"]) as conn:
        true = [(one.id, one.n, one.m) for one in numbers(conn, latest_run(conn).id)]
    for address in ("/api/v1/numbers", f"/api/v1/runs/{site.new}", "/index.json"):
        assert [(one["id"], one["n"], one["m"]) for one in strict(get(site, address))["numbers"]] == true
    assert strict(get(site, "/api/v1/ops/aten.add.Tensor")) == strict(get(site, "/op/aten.add.Tensor.json"))
    found = strict(get(site, "/api/v1/search?q=gelu"))
    assert found.pop("run") is None
    assert found == strict(get(site, "/search.json?q=gelu"))


def test_all_overloads_come_by_following_next(site):
    address, rows = "/api/v1/ops?size=50", {}
    while address:
        told = strict(get(site, address))
        assert len(told["rows"]) <= 50
        rows |= {row["name"]: row["cells"] for row in told["rows"]}
        address = told["next"]
    assert len(rows) == told["total"] == 127
    for name, letters in LETTERS.items():
        assert {dtype: cell["status"] for dtype, cell in rows[name].items()} == letters


@pytest.mark.parametrize(
    ("address", "status", "hint"),
    [
        ("ops?colour=red", 400, "“colour” is no query key here: it takes run, q, status"),
        ("ops?page=x", 400, "page: Input should be a valid integer"),
        ("ops?status=purple", 400, "“purple” is no status"),
        ("ops/gelu", 404, "/api/v1/search?q= finds them"),
        ("ops?run=nothing", 404, "There is no run nothing"),
        ("diff?before={old}&after={new}", 400, "is not done; compare done runs"),
        ("diff?before=a&after=b", 404, "/api/v1/runs lists"),
        ("nothing", 404, "There is no page"),
    ],
)
def test_errors_are_problems_with_a_hint(site, address, status, hint):
    with site.test_client().get(f"/api/v1/{address.format(old=site.old, new=site.new)}") as response:
        assert (response.status_code, response.mimetype) == (status, "application/problem+json")
        assert hint in response.get_json()["detail"]
        assert response.get_json()["status"] == status


WORDS = ("aten.add.Tensor", "add", "core", "float32", "pointwise", "W", "native", "core-native", "aten.add.Tensor.json")
TEXT = st.sampled_from(WORDS) | st.text(max_size=30)
KEYS = st.sampled_from(
    ["q", "status", "dtype", "family", "tier", "tag", "kind", "page", "size", "run", "before", "after", "limit", "target", "x"]
)  # fmt: skip
ENDINGS = st.sampled_from(["", ".json", ".csv", ".ndjson", ".atom", ".svg", "/"])


def test_no_address_fails_whatever_it_is_asked(site):
    rules = sorted(rule.rule for rule in site.url_map.iter_rules() if "GET" in rule.methods)
    client, seen = site.test_client(), set()

    @settings(QUICK, max_examples=600)
    @given(
        st.sampled_from(rules),
        st.lists(TEXT, min_size=3, max_size=3),
        ENDINGS,
        st.lists(st.tuples(KEYS, TEXT), max_size=2),
    )
    def ask(rule, names, ending, query):
        pieces = iter(names)
        path = "/".join(
            quote(next(pieces), safe="") + piece.rpartition(">")[2] if "<" in piece else piece
            for piece in rule.split("/")
        )
        with client.get(path + ending, query_string=query) as response:
            seen.add(response.status_code)
            assert response.status_code < 500, (path + ending, query)
            if response.status_code >= 400:
                assert len(response.get_data(as_text=True)) > 20, "an error says what to do"

    ask()
    assert {200, 400, 404} <= seen
