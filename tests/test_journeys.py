"""What people come for, done in a real browser with the clicks counted. Typing is no click."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("flask")
pytest.importorskip("playwright.sync_api")

import site_browser
from shared_report import report
from site_browser import tab

address, chromium = site_browser.address, site_browser.chromium  # fixtures


class Reader:
    """Somebody at the site who counts the clicks."""

    def __init__(self, opened, address):
        self.opened, self.address, self.clicks = opened, address, 0

    def goes(self, where):
        self.opened.goto(self.address + where)

    def click(self, role, name):
        self.opened.get_by_role(role, name=name).first.click()
        self.clicks += 1

    def reads(self, text):
        return text in " ".join(self.opened.locator("main").inner_text().split())

    @property
    def at(self):
        return self.opened.url.removeprefix(self.address)


@pytest.fixture
def reader(chromium, address):
    with tab(chromium, address, scripts=True) as opened:
        yield Reader(opened, address)


@pytest.mark.parametrize(
    ("typed", "where"),
    [
        ("aten::add.Tensor", "/op/aten.add.Tensor"),
        ("F.gelu", "/op/aten.gelu.default"),
        ("nn.GELU", "/op/aten.gelu.default"),
        ("torch.ops.aten._softmax.default", "/op/aten._softmax.default"),
    ],
)
def test_a_porter_finds_an_operator_by_typing(reader, typed, where):
    reader.goes("/runs")
    reader.opened.keyboard.press("/")
    reader.opened.keyboard.type(typed)
    reader.opened.keyboard.press("Enter")
    reader.opened.wait_for_url(f"{reader.address}{where}")
    assert reader.clicks == 0
    assert re.search(r"(float32|bfloat16).*: ", reader.opened.locator("main").inner_text())


def test_a_porter_sees_why_not_in_one_click(reader):
    reader.goes("/op/aten.gelu.default")
    assert reader.reads("RuntimeError: compilation failed")
    reader.opened.locator("a[href*='/op/aten.gelu.default/bfloat16']").first.click()
    assert reader.at.startswith("/op/aten.gelu.default/bfloat16")
    assert reader.opened.get_by_text("neuron-ops repro").count()


def test_a_porter_keeps_the_report_of_a_model_with_one_paste_and_one_click(reader):
    reader.goes("/check")
    reader.opened.get_by_label("The report, as JSON").fill(json.dumps(report(model="Porter")))
    reader.click("button", "Keep it")
    reader.opened.wait_for_url(re.compile(r"/check/[0-9a-f]{64}$"))
    assert reader.clicks == 1
    assert reader.reads("fallback: unimplemented")


def test_an_engineer_is_at_the_failing_cell_in_two_clicks(reader):
    reader.goes("/regressions")
    assert reader.reads("still so")
    reader.opened.locator("main h2 a").first.click()
    reader.opened.wait_for_url(re.compile(r"/diff/"))
    assert reader.reads("neuron-ops 0.1.0 0.1.1"), "the difference of versions comes first"
    reader.click("link", "aten.gelu.default")
    reader.opened.wait_for_url(re.compile(r"/op/aten\.gelu\.default/bfloat16"))
    assert reader.reads("RuntimeError: compilation failed")


def test_a_manager_reads_the_numbers_at_once_and_takes_the_table_in_one_click(reader):
    reader.goes("/")
    assert len(reader.opened.locator(".numbers li").all()) >= 4
    for card in reader.opened.locator(".numbers li").all():
        assert re.search(r"\d+ of \d+", card.inner_text())
    assert reader.reads("0 cells measured on hardware")
    with reader.opened.expect_download() as download:
        reader.click("link", "CSV")
    assert download.value.suggested_filename.endswith(".csv")
    assert reader.clicks == 1


def test_a_link_for_an_issue_takes_one_key_and_stays_pinned(reader):
    reader.goes("/op/aten.add.Tensor#bfloat16")
    reader.opened.keyboard.press("y")
    reader.opened.wait_for_url(re.compile(r"\?run="))
    pinned = reader.at.partition("run=")[2].partition("#")[0]
    assert reader.at.endswith("#bfloat16"), "the place in the page stays"
    reader.click("link", "Operators")
    assert f"run={pinned}" in reader.at, "so does the run, from page to page"


def test_a_script_gets_json_and_then_nothing_new(reader):
    first = reader.opened.request.get(f"{reader.address}/op/aten.add.Tensor.json")
    assert first.json()["run"]["target"] == "sim"
    assert first.headers["access-control-allow-origin"] == "*"
    again = reader.opened.request.get(first.url, headers={"If-None-Match": first.headers["etag"]})
    assert again.status == 304
    reader.goes("/")  # a tab is held to have asked for something


def test_whoever_runs_sweeps_sees_the_state_of_each(reader):
    reader.goes("/")
    reader.click("link", "State of the data")
    assert reader.reads("Published")
    assert reader.reads("None of the newest 30 runs.")
    reader.opened.locator("main tbody a").first.click()
    assert reader.reads("planned cases have a result")
    assert reader.clicks == 1
