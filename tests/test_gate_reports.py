"""A gate's verdict in the formats that CI services read: each validates against its schema and loses nothing."""

from __future__ import annotations

import html
import json
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import small_run
import xmlschema
from neuron_ops.cli import main
from neuron_ops.coverage_db import queries
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.coverage_db.reports import RULES, findings, headline
from neuron_ops.coverage_db.reports.junit import junit
from neuron_ops.coverage_db.reports.markdown import markdown
from neuron_ops.coverage_db.reports.plain import as_json
from neuron_ops.coverage_db.reports.sarif import sarif
from neuron_ops.coverage_db.rows import CaseRow
from neuron_ops.coverage_db.verdicts import (
    Breach,
    BrokenExpectation,
    Difference,
    Expectation,
    Flaky,
    GateResult,
    Group,
    Seen,
    Side,
    VersionChange,
)
from neuron_ops.op_tests.records import Evidence, Outcome, Result, Route, Status

SCHEMAS = Path(__file__).parent / "data" / "schemas"
HOSTILE = "it's a\0b \x1b[31m | <script>alert(1)</script> `x` ]]> &amp; \U0001f600\nsecond line"
NATIVE, WRONG, FALLBACK = Seen(Status.NATIVE, 1.0, 1e-14), Seen(Status.WRONG, 9.0, 0.1), Seen(Status.FALLBACK)
SIDE = Side("2026-12-01-aaaaaa", "sim", Evidence.SIMULATED, {"torch": "2.13.0"}, "core, float32", 400)


def _difference(group: Group, before: Seen | None, after: Seen | None, message: str | None = None) -> Difference:
    number = list(Group).index(group)
    case = CaseRow(f"{number:032x}", f"aten.add.{number}", "float32", f"opinfo/add/forward/{number}", "forward", 0)
    return Difference(group, case, before, after, message)


REGRESSIONS = (
    _difference(Group.NEWLY_FAILING, NATIVE, WRONG, HOSTILE),
    _difference(Group.FALLBACK_GAINED, NATIVE, FALLBACK),
    _difference(Group.ERROR_GROWN, NATIVE, Seen(Status.NATIVE, 8.0, 1e-9)),
    _difference(Group.CASES_VANISHED, NATIVE, None),
)
IMPROVEMENTS = (_difference(Group.NEWLY_PASSING, WRONG, NATIVE), _difference(Group.CASES_ADDED, None, NATIVE))
ROW = Expectation("aten.mul.*", "an old compiler's fault", "https://example.org/1", date(2026, 1, 1), 12, "wrong")
CLEAN = GateResult(replace(SIDE, label="2026-11-30-bbbbbb"), SIDE, (), 8.0)
FULL = replace(
    CLEAN,
    product=(VersionChange("torch", "2.13.0", "2.14.1"), VersionChange("neuronx-cc", None, "2.21")),
    differences=(*REGRESSIONS, *IMPROVEMENTS),
    broken=(
        BrokenExpectation(Breach.EXPIRED, ROW, (), "the row of line 12 expired on 2026-01-01"),
        BrokenExpectation(Breach.HEALED, ROW, ((REGRESSIONS[0].case, Status.NATIVE),), "the row of line 12 has healed"),
    ),
    flaky=(Flaky(_difference(Group.FALLBACK_LOST, FALLBACK, NATIVE), {"N": 1, "C": 2}, 1, 3),),
    quarantined=(_difference(Group.FAILING_OTHERWISE, WRONG, Seen(Status.CRASH)),),
    expected=(_difference(Group.ERROR_SHRUNK, WRONG, WRONG, "known"),),
)
REFUSED = replace(CLEAN, refusals=("The run has no case; sweep again.",))
RESULTS = [CLEAN, FULL, REFUSED]


@pytest.fixture(scope="module")
def junit_schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd"))


@pytest.mark.parametrize("result", RESULTS)
def test_junit_validates_and_its_counts_are_those_of_its_elements(
    result: GateResult, junit_schema: xmlschema.XMLSchema
) -> None:
    text = junit(result)
    junit_schema.validate(text.encode())
    suite = ET.fromstring(text)[0]
    cases = suite.findall("testcase")
    assert len(cases) == int(suite.attrib["tests"]) == len(list(findings(result))) + 1
    for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.attrib[attribute]) == len(suite.findall(f"testcase/{element}"))
    assert (int(suite.attrib["failures"]) == 0) is result.passed


def test_junit_says_what_fails_and_what_is_known() -> None:
    suite = ET.fromstring(junit(FULL))[0]
    kinds = Counter(child.tag for case in suite.findall("testcase") for child in case)
    assert kinds == {"failure": 1 + 4 + 2, "skipped": 3, "system-out": 2}
    first = suite.findall("testcase")[1]
    assert first.attrib["classname"] == "aten.add.0"
    assert first.attrib["name"] == "float32 forward opinfo/add/forward/0 (00000000)"
    assert first[0].text == HOSTILE.replace("\0", "\ufffd").replace("\x1b", "\ufffd")
    assert suite.find("properties/property[@name='changed torch']").attrib["value"] == "2.13.0 to 2.14.1"  # type: ignore[union-attr]


def test_a_broken_report_does_not_validate(junit_schema: xmlschema.XMLSchema) -> None:
    with pytest.raises(xmlschema.XMLSchemaValidationError):
        junit_schema.validate(junit(FULL).replace("properties>", "mishaps>"))
    broken = json.loads(sarif(FULL))
    broken["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        _validate_sarif(broken)


def _validate_sarif(document: object) -> None:
    schema = json.loads((SCHEMAS / "sarif-2.1.0.json").read_text())
    jsonschema.Draft4Validator(schema).validate(document)


@pytest.mark.parametrize("expectations", [None, "expectations.toml"])
@pytest.mark.parametrize("result", RESULTS)
def test_sarif_validates(result: GateResult, expectations: str | None) -> None:
    document = json.loads(sarif(result, expectations))
    _validate_sarif(document)
    (run,) = document["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"])
    assert len(run["results"]) == len(list(findings(result)))
    unsuppressed = [one for one in run["results"] if one["level"] == "error" and "suppressions" not in one]
    assert (not unsuppressed) is result.passed
    assert run["invocations"][0]["executionSuccessful"] is not bool(result.refusals)


def test_sarif_points_to_the_row_and_knows_a_case_again() -> None:
    results = json.loads(sarif(FULL, "expectations.toml"))["runs"][0]["results"]
    lines = [one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in results]
    assert lines == [1, 1, 1, 1, 12, 12, 1, 1, 1, 1, 1]
    assert results[0]["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "aten.add.0 float32 forward"
    other_words = replace(FULL, differences=(replace(REGRESSIONS[0], message="other words"), *FULL.differences[1:]))
    again = json.loads(sarif(other_words))["runs"][0]["results"]
    assert again[0]["partialFingerprints"] == results[0]["partialFingerprints"]
    assert len({one["partialFingerprints"]["case/v1"] for one in results if "partialFingerprints" in one}) == 10
    states = Counter(one["baselineState"] for one in results)
    assert states == {"new": 4 + 2 + 1, "unchanged": 2, "absent": 2}


def test_markdown_shows_all_groups_and_no_message_becomes_markup() -> None:
    text = markdown(FULL)
    assert text.startswith(
        "## neuron-ops gate failed: 2026-12-01-aaaaaa against 2026-11-30-bbbbbb on sim (simulated), 4 of 400 "
    )
    assert "| torch | 2.13.0 | 2.14.1 |" in text
    for rule in ("newly failing", "fallback gained", "cases vanished", "expectation healed", "flaky", "quarantined"):
        assert f"| {rule} | 1 |" in text
    assert "<script" not in text
    assert "neuron-ops repro 00000000 --run" in text
    # every row of every table has the columns of its head, however hostile the message
    (row,) = [line for line in text.splitlines() if "alert" in line]
    assert row.count("|") == 3
    assert "it's a\0b \x1b[31m | <script>alert(1)</script> `x` ]]> &amp;" in html.unescape(row)


def test_markdown_of_a_silent_gate_is_two_lines_and_a_long_one_is_cut() -> None:
    assert markdown(CLEAN).splitlines()[2:] == ["No case did otherwise than in the baseline."]
    many = tuple(replace(REGRESSIONS[0], case=replace(REGRESSIONS[0].case, key=f"{n:032x}")) for n in range(9000))
    text = markdown(replace(CLEAN, differences=many))
    assert "| newly failing | 9000 |" in text
    assert "and 8950 more" in text
    assert len(text.encode()) < 1 << 20


@pytest.mark.parametrize("result", RESULTS)
def test_json_has_every_finding(result: GateResult) -> None:
    document = json.loads(as_json(result))
    assert document["passed"] is result.passed
    assert document["verdict"] == headline(result)
    assert [one["text"] for one in document["findings"]] == [finding.text for finding in findings(result)]
    assert {one["rule"] for one in document["findings"]} <= set(RULES)


def test_the_command_writes_what_was_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "runs.sqlite")
    engine = open_database(database)
    build = replace(small_run.SIM, versions={"torch": "2.13.0", "bank": "2", "comparer": "1"})
    wrong = Result("", Outcome.WRONG, Route.NATIVE, message="now wrong")
    old, _ = small_run.record(engine, build), small_run.record(engine, build, changed={0: wrong})
    with read(engine) as conn:
        row = queries.run_by_id(conn, old)
    engine.dispose()
    assert row is not None
    reports = {kind: tmp_path / kind for kind in ("junit", "sarif", "markdown", "json")}
    asked = [word for kind, path in reports.items() for word in ("--report", f"{kind}={path}")]
    # two of the 22 cases of the small run crash or time out
    arguments = ["gate", "--db", database, "--reruns", "0", "--max-crashes", "50", "--json", *asked, "--baseline"]
    assert main.run([*arguments, row.slug]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(reports["json"].read_text())
    assert [one["rule"] for one in document["findings"]] == ["newly failing"]
    assert 'failures="2"' in reports["junit"].read_text()
    assert '"level": "error"' in reports["sarif"].read_text()
    assert "| newly failing | 1 |" in reports["markdown"].read_text()
    # a gate that ends early leaves no older verdict
    assert main.run([*arguments, "nonsense"]) == 2
    assert [path.read_text() for path in reports.values()] == [""] * 4


@pytest.mark.parametrize(
    ("report", "words"),
    [("yaml=x", "expected FORMAT=FILE"), ("junit", "expected FORMAT=FILE"), ("junit=no/x", "cannot be written")],
)
def test_a_report_that_cannot_be_is_refused(
    report: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.run(["gate", "--report", report]) == 2
    assert words in capsys.readouterr().err


def test_the_headline_says_why() -> None:
    assert headline(CLEAN).startswith("passed: ")
    assert headline(FULL).endswith("4 of 400 cases got worse, 2 rows of the expectations do not hold")
    assert headline(REFUSED) == "refused: The run has no case; sweep again."
