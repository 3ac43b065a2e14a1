"""Differences of two runs, regressions, and messages by what they say."""

from __future__ import annotations

import pytest

pytest.importorskip("flask")

from neuron_ops.coverage_db.fingerprints import fingerprint, message_pattern, pattern
from site_database import HOSTILE, NEW, fill
from site_reading import get, opened, page, strict

BETTER = {
    "aten.add.Tensor": {"float32": ["native", "native"], "bfloat16": ["native", "native"], "int64": ["error"]},
    "aten.add.Scalar": {"float32": ["fallback"], "bfloat16": ["native"], "int64": ["n/a"]},
    "aten.gelu.default": {"float32": ["wrong"], "bfloat16": ["error"], "int64": ["timeout"]},
    "aten.softmax.int": {"float32": ["composite"], "bfloat16": ["composite"]},
    "aten.sort.default": {"float32": ["native"]},
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    path = tmp_path_factory.mktemp("site") / "x.sqlite"
    first, second, third = fill(path, (NEW, BETTER, BETTER))
    with opened(path) as app:
        app.first, app.second, app.third = first, second, third
        yield app


def told(rows):
    return {(row["overload"], row["dtype"]): (row["before"], row["after"]) for row in rows}


def test_a_difference_has_five_blocks(site):
    found = strict(get(site, f"/diff/{site.first}...{site.second}.json"))
    assert told(found["regressions"]) == {
        ("aten.add.Scalar", "float32"): ("N", "C"), ("aten.gelu.default", "float32"): ("C", "W"),
    }  # fmt: skip
    assert told(found["improvements"]) == {("aten.add.Tensor", "bfloat16"): ("W", "N")}
    assert told(found["unranked"]) == {
        ("aten.add.Scalar", "bfloat16"): ("D", "N"), ("aten.add.Tensor", "int64"): ("U", "E"),
    }  # fmt: skip
    assert [(one["overload"], one["dtype"]) for one in found["added"]] == [("aten.sort.default", "float32")]
    assert {one["overload"] for one in found["removed"]} == {"aten._softmax.default"}
    assert found["versions"] == {"neuron-ops": ["0.1.0", "0.1.1"]}
    assert found["aligned"] == found["same"] + 5 == 11
    shown = page(site, f"/diff/{site.first}...{site.second}")
    for block, number in (("Regressions", 2), ("Improvements", 1), ("Added", 1), ("Removed", 2)):
        assert f"{block} {number}" in shown.text, block
    assert f"/op/aten.gelu.default/float32?run={site.second}" in shown.links()


def test_a_difference_mirrors_and_a_run_does_not_differ_from_itself(site):
    there = strict(get(site, f"/diff/{site.first}...{site.second}.json"))
    back = strict(get(site, f"/diff/{site.second}...{site.first}.json"))

    def turned(rows):
        return {key: pair[::-1] for key, pair in told(rows).items()}

    assert turned(there["regressions"]) == told(back["improvements"])
    assert turned(there["improvements"]) == told(back["regressions"])
    assert turned(there["unranked"]) == told(back["unranked"])
    assert (there["added"], there["removed"]) == (back["removed"], back["added"])
    own = strict(get(site, f"/diff/{site.first}...{site.first}.json"))
    assert [own[block] for block in ("regressions", "improvements", "unranked", "added", "removed")] == [[]] * 5
    assert own["same"] == own["aligned"] == 13
    assert own["versions"] == {}


@pytest.mark.parametrize("pair", ["nothing", "a...b", "...", "....json"])
def test_a_difference_of_unknown_runs_says_what_to_name(site, pair):
    assert "/runs" in page(site, f"/diff/{pair}", 404).text or "/runs" in get(site, f"/diff/{pair}", 404)


def test_run_page_leads_to_what_changed(site):
    assert f"/diff/{site.first}...{site.second}" in page(site, f"/run/{site.second}").links()
    assert not [href for href in page(site, f"/run/{site.first}").links() if href.startswith("/diff/")]


def test_regressions_stand_together_by_step_and_message(site):
    found = strict(get(site, "/regressions.json"))["regressions"]
    assert [(one["was"], one["now"], one["cells"][0]["overload"], one["still"]) for one in found] == [
        ("C", "W", "aten.gelu.default", 1), ("N", "C", "aten.add.Scalar", 1),
    ]  # fmt: skip
    assert {(one["before"], one["after"]) for one in found} == {(site.first, site.second)}
    shown = page(site, "/regressions")
    assert f"/diff/{site.first}...{site.second}" in shown.links()
    assert "values differ <script>" in shown.text
    assert [one.get("src") for one in shown.of("script")] == ["/static/site.js"]


def test_messages_stand_together_by_what_they_say(site):
    found = {one["status"]: one for one in strict(get(site, f"/errors.json?run={site.first}"))["clusters"]}
    assert set(found) == {"W", "U", "E", "X", "T"}, "a refusal of the reference is no message of the target"
    assert found["W"]["cells"] == [{"overload": "aten.add.Tensor", "dtype": "bfloat16", "cases": 1}]
    assert found["U"]["pattern"] == "NotImplementedError: ‹dtype› is not supported"
    one = page(site, f"/error/{found['W']['fingerprint']}?run={site.first}")
    assert HOSTILE in one.text
    assert f"/op/aten.add.Tensor/bfloat16?run={site.first}" in one.links()
    assert f"/error/{found['W']['fingerprint']}?run={site.first}" in page(site, f"/errors?run={site.first}").links()
    assert "see /errors" in page(site, "/error/000000000000", 404).text


@pytest.mark.parametrize(
    ("pasted", "status"),
    [
        ("NotImplementedError: float32 is not supported", "U"),
        ("Traceback (most recent call last):\n  File 'x.py', line 3\nRuntimeError: compilation failed", "E"),
        ("died with signal 6", "X"),
        ("signal 11", "X"),
        ("no answer within 30", "T"),
    ],
)
def test_a_pasted_error_finds_its_messages(site, pasted, status):
    with site.test_client().get("/errors.json", query_string={"q": pasted, "run": site.first}) as response:
        assert [one["status"] for one in response.json["clusters"]] == ([] if pasted.endswith(" 6") else [status])
    with site.test_client().get("/errors", query_string={"q": pasted, "run": site.first}) as response:
        assert pasted.splitlines()[-1] in response.get_data(as_text=True)


def test_a_paste_without_end_is_read_from_its_end(site):
    with site.test_client().get(
        "/errors.json", query_string={"q": "x\n" * 5000 + "RuntimeError: compilation failed"}
    ) as r:
        assert [one["status"] for one in r.json["clusters"]] == ["E"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("aten::add.Tensor got 3 of 5", "aten::mul got 7 of 9,000"),
        ("output 0: worst at [0, 3]: 1e-5, expected 0.25", "output 1: worst at [11]: nan, expected -3"),
        ("Could not run 'aten::a' in float32", "Could not run 'aten::b.out' in bfloat16"),
        ("failed at /a/b/c.cpp:281", "failed at /d/e.cpp:3"),
        ("expected True", "expected 3.5"),
    ],
)
def test_lines_that_differ_by_the_call_have_one_pattern(one, other):
    assert pattern(one) == pattern(other)
    assert fingerprint(pattern(one)) == fingerprint(pattern(other))


def test_lines_that_say_something_else_keep_apart():
    lines = ["tensor's size is wrong", "tensor's stride is wrong", "NaN placement", "CPU/CUDA/MKLDNN", "sign of zero"]
    assert len({pattern(line) for line in lines}) == len(lines)
    assert message_pattern("\n\n  first 1\nsecond") == "first #"
    assert message_pattern("") == ""
