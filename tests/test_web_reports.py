"""The form for reports of check, the models, the method, the data and its state."""

from __future__ import annotations

import json
import sqlite3
import time

import pytest
from neuron_ops.coverage_db import demand, shared_reports
from neuron_ops.op_tests.records import Status
from neuron_ops.web import create_app
from shared_report import operator, report
from site_database import fill
from site_reading import get, opened, page, strict


@pytest.fixture
def path(tmp_path):
    fill(tmp_path / "x.sqlite")
    return tmp_path / "x.sqlite"


@pytest.fixture
def site(path):
    with opened(path) as app:
        app.config["CHECK_RATE"] = "1000 per minute"
        yield app


def give(app, told, status=303):
    text = told if isinstance(told, str) else json.dumps(told)
    with app.test_client().post("/check", data={"report": text}) as answer:
        assert answer.status_code == status, answer.get_data(as_text=True)[-1500:]
        return answer.headers.get("Location") or answer.get_data(as_text=True)


def test_a_report_gets_one_page_for_good_without_what_is_private(site):
    where = give(site, report())
    assert len(where) == len("/check/") + 64
    assert give(site, report()) == where, "the same report has the same address"
    assert give(site, report(printed="else", file="/home/bob/net.py")) == where, "what is not kept makes no difference"
    assert give(site, report(model="Other")) != where
    told = page(site, where)
    assert "1 of 1 operators falls back" in told.text
    assert "net.py:7" in told.text
    assert "/op/aten.gelu.default" in told.links()
    everything = get(site, where) + get(site, f"{where}.json")
    assert "/home" not in everything
    assert "secret" not in everything
    assert strict(get(site, f"{where}.json"))["operators"][0]["overload"] == "aten.gelu.default"
    assert "aten.gelu.default" in get(site, f"{where}.csv")
    assert where in page(site, "/models").links()


def test_a_report_in_json_answers_with_its_address(site):
    with site.test_client().post("/check", json=report()) as answer:
        assert answer.status_code == 201
        assert answer.json["url"] == f"http://localhost/check/{answer.json['hash']}"
    assert "Net" in page(site, f"/check/{answer.json['hash']}").text


def test_what_a_report_says_is_text(site):
    script = "<script>alert(1)</script>"
    told = report([operator(overload=script, dtypes=[script])], model=script, verdict=script, inputs=script,
                  evidence_note=script, versions={script: script}, notes=[{"text": script, "where": None}])  # fmt: skip
    answer = page(site, give(site, told))
    assert [a for a in answer.of("script") if "src" not in a] == []
    assert answer.text.count(script) >= 7
    assert [a for a in page(site, "/models").of("script") if "src" not in a] == []


@pytest.mark.parametrize(
    ("told", "sentence"),
    [
        ("", "There is no report in this request"),
        ("{", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "[] is not of type"),
        (json.dumps(report(schema=1)), "at schema, 2 was expected"),
        (json.dumps(report([operator(count=-1)])), "at operators/0/count, -1 is less than the minimum of 0"),
        (json.dumps(report()).replace('"syncs": 0', '"syncs": NaN', 1), "it has the number NaN"),
    ],
)
def test_what_is_no_report_is_refused_in_one_sentence(site, told, sentence):
    answer = give(site, told, 400)
    assert sentence in answer.replace("&#39;", "'").replace("&lt;", "<")


def test_a_report_of_two_thousand_rows_is_kept_and_larger_ones_are_refused_at_once(site):
    rows = [operator(f"aten.op{number}.default") for number in range(2000)]
    began = time.monotonic()
    where = give(site, report(rows))
    assert time.monotonic() - began < 60, "measured: 3 s on a quiet core"
    assert "1,500 more are in the JSON" in page(site, where).text
    many = json.dumps(report(rows * 10))
    began = time.monotonic()
    give(site, many, 413)
    assert "20,000 operators and 2,000 are taken" in give(
        site, json.dumps(report([{"overload": "x", "route": "native"}] * 20_000)), 400
    )
    assert time.monotonic() - began < 20, "nothing of it is checked row by row"


def test_only_giving_is_limited(path):
    with opened(path) as app:
        for _ in range(10):
            give(app, report())
        assert "10 per 1 minute" in give(app, report(), 429)
        for _ in range(30):
            get(app, "/check")


def test_a_full_store_takes_no_more(site, monkeypatch):
    monkeypatch.setattr(shared_reports, "MOST", 1)
    where = give(site, report())
    assert give(site, report()) == where
    assert "takes no more" in give(site, report(model="Other"), 400)


@pytest.mark.parametrize("config", [{"CHECK_FORM": False}, {"STATIC_SITE": True}])
def test_the_form_can_be_absent(path, config):
    app = create_app(str(path), config)
    get(app, "/check", 404)
    give(app, report(), 404)
    assert not [link for link in page(app, "/models").links() if "/check" in link]
    app.extensions["neuron_ops_engine"].dispose()


def test_models_are_judged_by_the_published_run(site):
    listed = strict(get(site, "/models.json"))
    by_name = {one["name"]: one for one in listed["models"]}
    bert = by_name["bert_base"]
    # Of what site_database fills, bert calls add.Tensor (W in bfloat16) and gelu (E).
    assert bert["training"]["W"] == 1
    assert bert["training"]["E"] == 1
    assert bert["lacks_inference"] == ["aten.add.Tensor", "aten.gelu.default"]
    assert sum(bert["training"].values()) == len(demand.families()["bert_base"].overloads(train=True))
    first = listed["needs"][0]
    assert first["overload"] == "aten.add.Tensor"
    assert first["models"] == [name for name, one in by_name.items() if "aten.add.Tensor" in one["lacks_training"]]
    told = page(site, "/model/bert_base").text
    assert "2 not" in told
    assert "aten.gelu.default" in get(site, "/model/bert_base.csv")
    assert "There is no model x" in page(site, "/model/x", 404).text


def test_steps_unlock_every_model_with_each_operator_once():
    known = dict.fromkeys({n for f in demand.families().values() for n in f.overloads(train=True)}, Status.NATIVE)
    known |= {"aten.gelu.default": Status.FALLBACK, "aten.gelu_backward.default": Status.WRONG}
    steps = demand.steps(known, train=True)
    assert steps[0].adds == ()
    assert [one.operators for one in steps] == [0, 2]
    assert steps[1].adds == ("aten.gelu.default", "aten.gelu_backward.default")
    assert "bert_base" in steps[1].unlocks
    assert "resnet50" in steps[0].unlocks
    assert steps[-1].models == len(demand.families())
    known["aten.gelu.default"] = Status.UNTESTED
    assert demand.missing(["aten.gelu.default"], known) == frozenset(), "unknown is not missing"


def test_state_of_the_data_names_what_was_not_published(path, site):
    told = page(site, "/status").text
    assert "It ended before every planned case had a result." in told
    assert "old" not in strict(get(site, "/status.json"))["published"][0]["target"]
    assert strict(get(site, "/status.json"))["published"][0]["old"] is False
    with sqlite3.connect(path) as conn:
        conn.execute("UPDATE run SET finished = '2020-01-01 00:00:00.000000'")
    conn.close()
    assert strict(get(site, "/status.json"))["published"][0]["old"] is True
    assert "days, old" in page(site, "/status").text


def test_every_address_of_the_data_page_answers(site):
    for where in page(site, "/data").links():
        if where.startswith("/"):
            get(site, where)
