"""The site in a real browser with scripts off: it opens, it is whole, and it asks nobody else for anything."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("flask")
pytest.importorskip("playwright.sync_api")

from neuron_ops.web import create_app
from playwright.sync_api import sync_playwright
from site_database import LETTERS, fill
from werkzeug.serving import make_server

CHROMIUM = Path(os.environ.get("CHROMIUM", "/usr/bin/chromium"))
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PAGES = (
    "/", "/ops", "/op/aten.add.Tensor", "/op/add", "/search?q=soft", "/runs", "/statuses", "/numbers", "/browse",
    "/ops/all", "/ops/core", "/family/pointwise", "/status/wrong", "/dtype/bfloat16", "/op/aten.add.Tensor/bfloat16",
    "/regressions", "/errors", "/translators", "/disagreements",
)  # fmt: skip


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    path = tmp_path_factory.mktemp("browser") / "x.sqlite"
    fill(path)
    app = create_app(str(path))
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
    app.extensions["neuron_ops_engine"].dispose()


@pytest.fixture(scope="module")
def chromium():
    if not CHROMIUM.exists():
        reason = f"there is no Chromium at {CHROMIUM}; install it or name one with CHROMIUM"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        yield browser
        browser.close()


@contextmanager
def tab(chromium, address, *, width=1280, **options):
    """Open a tab with scripts off; at its end no complaint may be on the console and no request may have left."""
    context = chromium.new_context(java_script_enabled=False, viewport={"width": width, "height": 800}, **options)
    opened, complaints, requests = context.new_page(), [], []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    # a click may leave a page before its icon has come: the browser drops that request, which is nobody's fault
    opened.on("requestfailed", lambda r: complaints.append(r.url) if r.failure != "net::ERR_ABORTED" else None)
    context.on("request", lambda request: requests.append(request.url))
    yield opened
    context.close()
    assert complaints == []
    assert requests
    assert [url for url in requests if not url.startswith(f"{address}/")] == []


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
