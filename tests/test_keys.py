"""The keys of the site in a real browser, and what its script may weigh."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

pytest.importorskip("flask")
pytest.importorskip("playwright.sync_api")

from neuron_ops.web import words
from site_browser import address, chromium  # noqa: F401 - fixtures


@pytest.fixture
def page(chromium):  # noqa: F811
    context = chromium.new_context()
    opened, complaints = context.new_page(), []
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    yield opened
    context.close()
    assert complaints == [], "the policy of the server lets our script run, and it does not fail"


def test_search_needs_no_mouse(page, address):  # noqa: F811
    page.goto(f"{address}/ops")
    page.keyboard.press("/")
    page.keyboard.type("jky?/ softmax")
    assert page.locator("input[type=search]").last.input_value() == "jky?/ softmax", (
        "no key means anything while typing"
    )
    page.goto(f"{address}/")
    page.keyboard.press("/")
    page.keyboard.type("F.gelu")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{address}/op/aten.gelu.default")


def test_y_pins_the_page_to_its_run_and_keeps_its_place(page, address):  # noqa: F811
    page.goto(f"{address}/op/aten.add.Tensor#bfloat16")
    slug = page.evaluate("document.documentElement.dataset.run")
    page.keyboard.press("y")
    page.wait_for_url(f"{address}/op/aten.add.Tensor?run={slug}#bfloat16")
    assert page.locator(".note", has_text=f"Pinned to run {slug}").count() == 1


def test_keys_leave_the_browsers_own_alone_and_can_be_switched_off(page, address):  # noqa: F811
    page.goto(f"{address}/ops")
    page.keyboard.press("Control+j")
    assert page.evaluate("document.activeElement.tagName") == "BODY"
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == page.locator("tbody th a").first.inner_text()
    page.locator("button.keys").click()
    assert page.locator("button.keys").get_attribute("aria-pressed") == "false"
    page.reload()
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.tagName") == "BODY", "the choice is kept"


def test_the_script_is_small():
    script = Path(words.__file__).parent / "static" / "site.js"
    assert len(gzip.compress(script.read_bytes())) <= 8 * 1024
