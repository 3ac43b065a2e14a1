"""The site's addresses: spellings, search, pins, links, headers, and that a page needs nothing from elsewhere."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from urllib.parse import urldefrag

import pytest

pytest.importorskip("flask")

import sqlalchemy as sa
from neuron_ops.web import words
from neuron_ops.web.pinned import connection
from site_database import DTYPES, fill
from site_reading import Page, get, opened, page, strict

CSS = Path(words.__file__).parent / "static" / "site.css"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "x.sqlite"
    old, new = fill(path)
    with opened(path) as app:
        app.old, app.new = old, new
        yield app


@pytest.mark.parametrize(
    ("spelling", "target"),
    [
        ("aten::add.Tensor", "aten.add.Tensor"),
        ("add.Tensor", "aten.add.Tensor"),
        ("torch.ops.aten.add.Tensor", "aten.add.Tensor"),
        ("gelu", "aten.gelu.default"),
        ("aten.gelu", "aten.gelu.default"),
        ("torch.gelu", "aten.gelu.default"),
        ("F.gelu", "aten.gelu.default"),
        ("gelu.json", "aten.gelu.default.json"),
    ],
)
def test_a_spelling_of_one_overload_redirects(site, spelling, target):
    with site.test_client().get(f"/op/{spelling}") as response:
        assert (response.status_code, response.headers["Location"]) == (301, f"/op/{target}")
    with site.test_client().get(f"/op/{spelling}?run={site.old}") as response:
        assert response.headers["Location"] == f"/op/{target}?run={site.old}"


@pytest.mark.parametrize("spelling", ["add", "aten.add", "torch.add", "aten::add"])
def test_a_spelling_of_several_lists_them(site, spelling):
    shown = page(site, f"/op/{spelling}")
    assert {"/op/aten.add.Tensor", "/op/aten.add.Scalar"} <= set(shown.links())
    assert {op["name"] for op in strict(get(site, f"/op/{spelling}.json"))["overloads"]} == {
        "aten.add.Tensor", "aten.add.Scalar",
    }  # fmt: skip


def test_an_unknown_name_answers_with_the_nearest(site):
    shown = page(site, "/op/sofmax", 404)
    near = [href for href in shown.links() if href.startswith("/op/")]
    assert near == ["/op/aten.softmax.int", "/op/aten._softmax.default"]
    assert "/op/aten.gelu.default" in page(site, "/op/egelu", 404).links()
    assert strict(get(site, "/op/sofmax.json", 404))["nearest"][0] == "aten.softmax.int"
    assert "<script>" not in get(site, "/op/<script>", 404)


def test_search_goes_to_the_one_exact_hit_and_lists_otherwise(site):
    for text in ("aten::gelu", "torch.nn.functional.gelu", "Could not run 'aten::gelu' with arguments from 'neuron'"):
        with site.test_client().get("/search", query_string={"q": text}) as response:
            assert (response.status_code, response.headers["Location"]) == (302, "/op/aten.gelu.default")
    assert "2 overloads found" in page(site, "/search?q=add").text
    assert "/op/aten._softmax.default" in page(site, "/search?q=soft").links()
    assert "Nothing found" in page(site, "/search?q=qqq").text
    assert "Every one of these finds an operator" in page(site, "/search?q=").text
    told = strict(get(site, "/search.json?q=add"))
    assert told["exact"] is True
    assert len(told["hits"]) == 2


def test_a_pinned_page_shows_its_run_and_stays_pinned(site):
    pin = f"run={site.old}"
    told = strict(get(site, f"/op/aten.add.Tensor.json?{pin}"))
    assert told["run"]["slug"] == site.old
    assert told["cells"]["float32"]["status"] == "C"
    shown = page(site, f"/op/aten.add.Tensor?{pin}")
    assert f"/op/aten.add.Scalar?{pin}" in shown.links()
    assert shown.of("input", type="hidden", name="run", value=site.old)
    assert "/op/aten.add.Tensor" in shown.links(), "the way back to the latest"
    assert f"/ops?tag=core&{pin}" in page(site, f"/ops?{pin}").links()
    assert "There is no run nothing" in page(site, "/ops?run=nothing", 404).text


def test_every_link_leads_somewhere(site):
    starts = [
        "/",
        "/ops?tag=core",
        "/op/aten.add.Tensor",
        f"/run/{site.new}",
        "/runs",
        "/search?q=soft",
        "/numbers",
        "/op/x",
    ]
    seen = {}
    for start in starts:
        with site.test_client().get(start) as response:
            found = Page(response.get_data(as_text=True))
        for href in found.links():
            assert href.startswith(("/", "#")), f"{href} leaves the site"
            address, fragment = urldefrag(href)
            address = address or start
            if address not in seen:
                with site.test_client().get(address, follow_redirects=True) as response:
                    assert response.status_code in (200, 404 if address == "/op/x" else 200), (start, href)
                    target = response.get_data(as_text=True)
                seen[address] = {a["id"] for _, a in Page(target).elements if "id" in a}
            # A cell with no case has no place on its overload's page; the top of the page says so.
            assert not fragment or fragment in seen[address] | set(DTYPES), (start, href)
    assert len(seen) > 30


@pytest.mark.parametrize("address", ["/", "/ops", "/op/aten.add.Tensor", "/statuses", "/run/nothing"])
def test_pages_need_nothing_from_elsewhere(site, address):
    with site.test_client().get(address) as response:
        text = response.get_data(as_text=True)
        assert response.headers["Content-Security-Policy"].startswith(
            "default-src 'none'; style-src 'self'; img-src 'self'"
        )
        assert response.headers["X-Content-Type-Options"] == "nosniff"
    found = Page(text)
    assert [a["src"] for a in found.of("script")] == ["/static/site.js"]
    for tag, attributes in found.elements:
        assert "style" not in attributes, "the policy forbids inline styles"
        assert not any(name.startswith("on") for name in attributes)
        assert "src" not in attributes or tag == "script"
        if tag == "link" and attributes["rel"] in ("stylesheet", "icon"):
            assert attributes["href"].startswith("/static/")


def test_an_unchanged_page_is_not_sent_again(site):
    client = site.test_client()
    with client.get("/ops") as first:
        tag = first.headers["ETag"]
        assert first.cache_control.max_age == 60
    with client.get("/ops", headers={"If-None-Match": tag}) as again:
        assert (again.status_code, again.data) == (304, b"")
    with client.get("/ops?tag=core", headers={"If-None-Match": tag}) as other:
        assert other.status_code == 200
    with client.get("/ops.json") as told:
        assert told.headers["Access-Control-Allow-Origin"] == "*"


def test_the_site_cannot_write(site):
    with site.test_request_context("/"), pytest.raises(sa.exc.OperationalError, match="readonly"):
        connection().exec_driver_sql("DELETE FROM op")
    with site.test_client().post("/") as response:
        assert response.status_code == 405


def test_style_sheet_is_small_and_its_letters_can_be_read():
    text = CSS.read_text()
    assert len(gzip.compress(text.encode())) <= 10 * 1024
    assert "forced-colors: active" in text
    light, _, rest = text.partition("@media")
    for theme in (light, light + rest.partition("}\n}")[0]):
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", theme))
        for letter in "ndcwue":
            assert contrast(colours[letter], colours.get(f"{letter}-ink", "#111")) >= 4.5, letter
        for ink in ("text", "quiet", "link"):
            assert contrast(colours["page"], colours[ink]) >= 4.5, ink
            assert contrast(colours["soft"], colours[ink]) >= 4.5, ink


def contrast(one, other):
    """Return the contrast of two colours by WCAG 2, 1 to 21."""

    def light(colour):
        digits = colour[1:] if len(colour) == 7 else "".join(c * 2 for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
