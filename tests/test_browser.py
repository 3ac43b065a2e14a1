"""The site in a real browser with scripts off: it opens, it is whole, and it asks nobody else for anything."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("flask")
pytest.importorskip("playwright.sync_api")
pytest.importorskip("axe_playwright_python")

import site_browser
from axe_playwright_python.sync_playwright import Axe
from shared_report import report
from site_browser import tab
from site_database import LETTERS

address, chromium = site_browser.address, site_browser.chromium  # fixtures
PAGES = (
    "/", "/ops", "/op/aten.add.Tensor", "/op/add", "/search?q=soft", "/runs", "/statuses", "/numbers", "/browse",
    "/ops/all", "/ops/core", "/family/pointwise", "/status/wrong", "/dtype/bfloat16", "/op/aten.add.Tensor/bfloat16",
    "/regressions", "/errors", "/translators", "/disagreements",
    "/models", "/model/bert_base", "/check", "/methodology", "/data", "/status",
)  # fmt: skip


@pytest.mark.parametrize("where", PAGES)
def test_page_opens_and_fits_a_narrow_screen(chromium, address, where):
    with tab(chromium, address, width=320, color_scheme="dark") as opened:
        assert opened.goto(address + where).status == 200
        assert opened.locator("h1").is_visible()
        # Asked of the browser itself, as the page runs no script.
        metrics = opened.context.new_cdp_session(opened).send("Page.getLayoutMetrics")
        assert metrics["cssContentSize"]["width"] <= 320


def test_matrix_shows_every_letter(chromium, address):
    with tab(chromium, address) as opened:
        opened.goto(f"{address}/ops?tag=core")
        for name, letters in LETTERS.items():
            if name == "aten.softmax.int":  # not tagged core
                continue
            for dtype, letter in letters.items():
                cell = opened.locator(f"a[aria-label][href='/op/{name}#{dtype}']")
                assert cell.is_visible()
                assert cell.inner_text().startswith(letter)
        legend = opened.get_by_role("list", name="Legend")
        assert {letter for row in LETTERS.values() for letter in row.values()} <= set(legend.inner_text().split())


def test_matrix_scrolls_in_its_own_box_and_keeps_its_heads(chromium, address):
    with tab(chromium, address, width=320) as opened:
        opened.goto(f"{address}/ops")
        box = opened.get_by_role("region", name="Matrix")
        box.scroll_into_view_if_needed()
        frame = box.bounding_box()
        opened.mouse.move(frame["x"] + 100, frame["y"] + 100)
        column = box.locator("thead th").nth(1)
        row = box.locator("tbody th").first
        before = column.bounding_box(), row.bounding_box()
        opened.mouse.wheel(120, 0)
        moved(column, before[0], "x")
        assert row.bounding_box()["x"] == pytest.approx(before[1]["x"], abs=1), "the first column stays"
        opened.mouse.wheel(0, 200)
        moved(row, before[1], "y")
        assert column.bounding_box()["y"] == pytest.approx(before[0]["y"], abs=1), "the head stays"


def moved(locator, before, axis):
    """Wait until an element has moved: a wheel event is handled after the call that sent it."""
    for _ in range(200):
        locator.page.screenshot()  # a frame must be drawn for the scroll to happen
        if abs(locator.bounding_box()[axis] - before[axis]) > 20:
            return
    pytest.fail(f"nothing moved along {axis}")


def test_a_cell_opens_its_cases(chromium, address):
    with tab(chromium, address) as opened:
        opened.goto(f"{address}/op/aten._softmax.default")
        folded = opened.get_by_text("neuron-ops repro").first
        assert not folded.is_visible()
        opened.goto(f"{address}/ops?tag=core")
        opened.locator("a[aria-label][href='/op/aten._softmax.default#float32']").click()
        assert folded.is_visible(), "the browser unfolds what a fragment leads to"
        opened.goto(f"{address}/ops?tag=core")
        opened.locator("a[aria-label][href='/op/aten.add.Tensor#bfloat16']").click()
        assert opened.url == f"{address}/op/aten.add.Tensor#bfloat16"
        table = opened.get_by_role("region", name="Cases of bfloat16")
        assert "neuron-ops repro" in table.inner_text()
        assert "<script>alert(1)</script>" in table.inner_text(), "a message is text"


def test_search_by_its_form(chromium, address):
    with tab(chromium, address) as opened:
        opened.goto(address)
        opened.get_by_role("searchbox").fill("aten::add.Tensor")
        opened.get_by_role("searchbox").press("Enter")
        assert opened.url == f"{address}/op/aten.add.Tensor"
        opened.get_by_role("searchbox").fill("add")
        opened.get_by_role("button", name="Search").click()
        assert opened.get_by_role("heading", name="2 overloads found").is_visible()
        opened.get_by_role("link", name="aten.add.Scalar").click()
        assert opened.get_by_role("heading", name="aten.add.Scalar").is_visible()


def test_forced_colours_keep_letters_and_borders(chromium, address):
    with tab(chromium, address, forced_colors="active") as opened:
        opened.goto(f"{address}/ops?tag=core")
        assert opened.locator("a[aria-label][href='/op/aten.add.Tensor#bfloat16']").inner_text().startswith("W")


def every_kind(opened, address):
    """Return the address of a page of every kind, those of things that got their names here among them."""
    opened.goto(f"{address}/regressions")
    diff = opened.locator("main h2 a").first.get_attribute("href")
    opened.goto(f"{address}/errors")
    message = opened.locator("main tbody th a").first.get_attribute("href")
    opened.goto(f"{address}/runs")
    run = opened.locator("main tbody th a").first.get_attribute("href")
    opened.goto(f"{address}/check")
    opened.get_by_label("The report, as JSON").fill(json.dumps(report()))
    opened.get_by_role("button", name="Keep it").click()
    kept = opened.url.removeprefix(address)
    return (*PAGES, diff, message, run, kept, f"/ops?run={run.rpartition('/')[2]}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_finding_of_axe(chromium, address, scheme):
    found = []
    with tab(chromium, address, scripts=True, color_scheme=scheme) as opened:
        for where in every_kind(opened, address):
            opened.goto(address + where)
            told = Axe().run(opened, options={"resultTypes": ["violations"]}).response["violations"]
            found += [
                (where, one["id"], one["nodes"][0]["html"][:120])
                for one in told
                if one["impact"] in {"serious", "critical"}
            ]
    assert found == []


def test_axe_finds_a_planted_fault(chromium, address):
    with tab(chromium, address, scripts=True) as opened:
        opened.goto(f"{address}/check")
        opened.evaluate("document.querySelector('main label').remove()")
        told = Axe().run(opened).response["violations"]
        assert "label" in {one["id"] for one in told if one["impact"] in {"serious", "critical"}}


@pytest.mark.parametrize("where", ["/", "/ops", "/models"])
def test_forced_colours_keep_every_word(chromium, address, where):
    with tab(chromium, address) as plain, tab(chromium, address, forced_colors="active") as forced:
        plain.goto(address + where)
        forced.goto(address + where)
        assert forced.locator("main").inner_text() == plain.locator("main").inner_text()


def test_print_leaves_out_what_paper_cannot_do(chromium, address):
    with tab(chromium, address) as opened:
        opened.goto(f"{address}/ops/all")
        opened.emulate_media(media="print")
        assert not opened.locator("header form").is_visible()
        assert not opened.locator("header nav").is_visible()
        box = opened.locator(".box.grid").first
        assert opened.locator("main tbody tr").last.is_visible()
        assert box.evaluate("box => box.scrollHeight <= box.clientHeight + 1"), "nothing is cut off"


def test_a_report_is_kept_without_scripts(chromium, address):
    with tab(chromium, address) as opened:
        opened.goto(f"{address}/models")
        opened.get_by_role("link", name="keep its report").click()
        opened.get_by_label("The report, as JSON").fill(json.dumps(report(model="Mine")))
        opened.get_by_role("button", name="Keep it").click()
        assert opened.get_by_role("heading", name="Mine").is_visible()
        assert len(opened.url) == len(f"{address}/check/") + 64
