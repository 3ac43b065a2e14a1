"""The gate says exactly what was planted, in its group, and fails closed."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import gate_runs as g
import pytest
import sqlalchemy as sa
from neuron_ops.cli import main
from neuron_ops.coverage_db import baselines, differences, gating
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.coverage_db.expectations import Expectations, read_expectations
from neuron_ops.coverage_db.gate_selftest import PLANTS
from neuron_ops.coverage_db.gating import Pending, Rules
from neuron_ops.coverage_db.verdicts import Breach, GateResult, Group, Seen
from neuron_ops.op_tests.records import BadInput, Result, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from neuron_ops.coverage_db.rows import RunRow
    from sqlalchemy import Engine

pytest_plugins = ["services"]

TODAY = date(2026, 12, 1)
KEYS = [case.key for case in g.CASES]
GELU_ROW = """
[[expect]]
overload = "aten.gelu.default"
dtypes = ["float32"]
samples = ["hand/0"]
outcome = "wrong"
reason = "The table has too few entries."
link = "https://example.org/1"
expires = 2027-01-31
"""


def judge(
    engine: Engine, before: RunRow | differences.Recording, after: RunRow, *,
    again: Callable[[str], tuple[Seen, ...]] | None = None, **rules: Any,
) -> GateResult:  # fmt: skip
    """Return the verdict; `again` says what a case does when run again, by default what it did in the run."""
    with read(engine) as conn:
        pending = gating.prepare(conn, before, after, Rules(today=TODAY, **rules))
    if not isinstance(pending, Pending):
        return pending
    found = {d.case.key: again(d.case.key) if again else (d.after,) * 5 for d in pending.doubtful}
    return gating.conclude(pending, found)  # type: ignore[arg-type]


def rows(tmp_path: Path, text: str) -> Expectations:
    file = tmp_path / "known.toml"
    file.write_text(text)
    return read_expectations(file)


def groups(result: GateResult) -> dict[str, Group]:
    return {d.case.key: d.group for d in result.differences}


def silent(result: GateResult) -> bool:
    """Return whether a verdict names nothing but what its `differences` are."""
    return not (result.refusals or result.broken or result.flaky or result.quarantined or result.expected)


@pytest.mark.parametrize(
    ("planted", "group"),
    [
        ({0: g.WRONG}, Group.NEWLY_FAILING),
        ({0: g.CRASH}, Group.NEWLY_FAILING),
        ({0: g.FALLBACK}, Group.FALLBACK_GAINED),
        ({0: g.ulps(8.0)}, Group.ERROR_GROWN),
        ({0: None, 50: None, 99: None}, Group.CASES_VANISHED),
    ],
)
def test_a_planted_regression_is_found_and_nothing_else(
    engine: Engine, planted: Mapping[int, Result | None], group: Group
) -> None:
    before, after = g.night(engine), g.night(engine, planted)
    result = judge(engine, before, after)
    assert groups(result) == {KEYS[n]: group for n in planted}
    assert silent(result)
    assert not result.passed
    back = judge(engine, after, before)
    assert groups(back) == {KEYS[n]: group.mirror for n in planted}
    assert silent(back)
    assert back.passed


def test_the_like_of_a_baseline_passes_in_silence(engine: Engine) -> None:
    run = g.night(engine)
    result = judge(engine, run, run)
    assert (result.differences, result.passed) == ((), True)
    assert silent(result)


def test_what_does_not_come_back_is_flaky_in_both_directions(engine: Engine) -> None:
    native, wrong = Seen(Status.NATIVE, 1.0, 1e-14), Seen(Status.WRONG)
    before, after = g.night(engine), g.night(engine, {0: g.WRONG, 40: g.NATIVE, 3: g.ulps(8.0), 60: g.WRONG})
    does = {
        KEYS[0]: (wrong, native, wrong), KEYS[40]: (native, native, wrong), KEYS[3]: (native,) * 3, KEYS[60]: (wrong,) * 3
    }  # fmt: skip
    result = judge(engine, before, after, again=lambda key: does[key])
    assert groups(result) == {KEYS[60]: Group.NEWLY_FAILING}
    assert {f.difference.case.key: dict(f.again) for f in result.flaky} == {
        KEYS[0]: {"W": 2, "N": 1}, KEYS[40]: {"N": 2, "W": 1}, KEYS[3]: {"N": 3}
    }  # fmt: skip
    assert result.rerun == 4
    assert not result.passed
    only = judge(engine, before, g.night(engine, {0: g.WRONG}), again=lambda key: (native,))
    assert (len(only.flaky), only.differences, only.passed) == (1, (), True)


def test_flaky_and_quarantined_cases_have_a_budget(engine: Engine, tmp_path: Path) -> None:
    quarantine = 'budget = 2\n[[quarantine]]\noverload = "aten.mm.default"\ndtypes = ["float32"]\nsamples = ["hand/[01]"]\nreason = "a race"\nlink = "x"\nexpires = 2027-01-01\n'
    known = rows(tmp_path, quarantine)
    before, after = g.night(engine), g.night(engine, {60: g.WRONG})
    result = judge(engine, before, after, expectations=known)
    assert [d.case.key for d in result.quarantined] == [KEYS[60]]
    assert (result.differences, result.rerun, result.passed) == ((), 0, True)
    more = judge(
        engine, before, g.night(engine, {0: g.WRONG}), expectations=known, again=lambda key: (Seen(Status.NATIVE),)
    )
    (sentence,) = more.refusals
    assert sentence.startswith("Flaky cases (1) and cases in quarantine (2) are 3 and the budget is 2; mend some")
    assert not more.passed


def test_expectations_are_strict_both_ways(engine: Engine, tmp_path: Path) -> None:
    before = g.night(engine, {40: g.NATIVE})
    known = rows(tmp_path, GELU_ROW)
    as_said = judge(engine, before, g.night(engine), expectations=known)
    assert [d.case.key for d in as_said.expected] == [KEYS[40]]
    assert (as_said.differences, as_said.broken, as_said.passed) == ((), (), True)
    for changed, breach in ((g.NATIVE, Breach.HEALED), (g.CRASH, Breach.OTHERWISE)):
        for base in (before, g.night(engine)):
            result = judge(engine, base, g.night(engine, {40: changed}), expectations=known)
            assert [(b.breach, [case.key for case, _ in b.cases]) for b in result.broken] == [(breach, [KEYS[40]])]
            assert (result.differences, result.expected, result.passed) == ((), (), False)
    flaky = judge(
        engine, before, before, expectations=known, again=lambda key: (Seen(Status.NATIVE), Seen(Status.WRONG))
    )
    assert (flaky.broken, [f.difference.case.key for f in flaky.flaky]) == ((), [KEYS[40]])


@pytest.mark.parametrize(
    ("change", "breach"),
    [
        (("2027-01-31", "2026-11-30"), Breach.EXPIRED),
        (("aten.gelu.default", "aten.gone.default"), Breach.UNMATCHED),
        (('["float32"]', '["int64"]'), Breach.UNMATCHED),
        (("hand/0", "hand/3"), Breach.UNMATCHED),
    ],
)
def test_a_row_that_is_over_or_matches_nothing_fails(
    engine: Engine, tmp_path: Path, change: tuple[str, str], breach: Breach
) -> None:
    run = g.night(engine)
    result = judge(engine, run, run, expectations=rows(tmp_path, GELU_ROW.replace(*change)))
    assert [(b.breach, b.row.line) for b in result.broken] == [(breach, 2)]
    assert result.differences == ()
    assert not result.passed


def test_quarantine_ends(engine: Engine, tmp_path: Path) -> None:
    text = GELU_ROW.replace("[[expect]]", "[[quarantine]]").replace('outcome = "wrong"\n', "")
    before, after = g.night(engine), g.night(engine, {40: g.CRASH})
    inside = judge(engine, before, after, expectations=rows(tmp_path, text))
    assert ([d.case.key for d in inside.quarantined], inside.broken, inside.passed) == ([KEYS[40]], (), True)
    over = judge(engine, before, after, expectations=rows(tmp_path, text.replace("2027-01-31", "2026-11-30")))
    assert ([b.breach for b in over.broken], over.differences, over.passed) == ([Breach.EXPIRED], (), False)


def test_a_row_of_another_build_says_nothing(engine: Engine, tmp_path: Path) -> None:
    run = g.night(engine)
    for builds, breaches in (('"sim torch=2.13.*"', 0), ('"neuron"', 0), ('"sim torch=2.14.*"', 0), ('"sim"', 1)):
        text = GELU_ROW.replace("2027-01-31", "2026-11-30") + f"builds = [{builds}]\n"
        expected = breaches or int("2.13" in builds)
        assert len(judge(engine, run, run, expectations=rows(tmp_path, text)).broken) == expected


def test_two_rows_may_not_claim_one_case(engine: Engine, tmp_path: Path) -> None:
    run = g.night(engine)
    with pytest.raises(BadInput, match=r"rows at lines 2 and 11 of the expectations both match aten.gelu.default"):
        judge(engine, run, run, expectations=rows(tmp_path, GELU_ROW * 2))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('reason = "The table has too few entries."', 'reason = ""'), "line 2 .* has no reason"),
        (('link = "https://example.org/1"\n', ""), "has no link"),
        (("2027-01-31", '"soon"'), "has no date in expires"),
        (('"wrong"', '"pass"'), "has the outcome 'pass'"),
        (("samples", "sample"), "unknown key sample"),
        (('["float32"]', '"float32"'), "expected a list of globs"),
        (("[[expect]]", "[[expected]]"), "expected; write only"),
        (("[[expect]]", "[[expect]"), "cannot be read"),
        (("[[expect]]", "[[quarantine]]"), "has an outcome"),
        (("[[expect]]", "budget = true\n[[expect]]"), "of another kind"),
    ],
)
def test_a_row_that_is_incomplete_is_one_sentence(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    assert change[0] in GELU_ROW
    with pytest.raises(BadInput, match=words):
        rows(tmp_path, GELU_ROW.replace(*change))


def test_runs_that_are_worth_nothing_are_refused(engine: Engine) -> None:
    good = g.night(engine)
    killed = judge(engine, good, g.night(engine, lost=2))
    empty = judge(engine, good, g.night(engine, dict.fromkeys(range(100), g.SKIPPED)))
    fewer = judge(engine, good, g.night(engine, dict.fromkeys(range(5), None)))
    enough = judge(engine, good, g.night(engine, dict.fromkeys(range(4), None)))
    crashes = judge(engine, good, g.night(engine, dict.fromkeys(range(4), g.CRASH)), max_crashes=0.04)
    words = (
        "is failed and 2 of its 100 cases",
        "measured no case",
        "94 cases and the baseline 99",
        None,
        "5 of 99 cases",
    )
    for result, word in zip((killed, empty, fewer, enough, crashes), words, strict=True):
        assert not result.passed
        assert [word in sentence for sentence in result.refusals] == ([True] if word else [])
    assert (killed.differences, empty.differences, len(fewer.differences)) == ((), (), 5)


def test_a_baseline_of_another_target_or_harness_is_refused(engine: Engine) -> None:
    run = g.night(engine)
    for words, other in (
        ("ran on neuron", g.night(engine, target="neuron")),
        (r"another harness .*comparer 2 → 1", g.night(engine, versions=g.VERSIONS | {"comparer": "2"})),
        ("is failed", g.night(engine, lost=1)),
    ):
        with pytest.raises(BadInput, match=words):
            judge(engine, other, run)
    product = judge(engine, g.night(engine, versions=g.VERSIONS | {"torch": "2.12.0"}), run)
    assert ([c.name for c in product.product], product.passed) == (["torch"], True)


def test_the_latest_good_run_is_the_newest_that_passed(engine: Engine) -> None:
    runs = [g.night(engine) for _ in range(4)]
    other = g.night(engine, target="neuron")
    with read(engine) as conn, pytest.raises(BadInput, match="has passed a gate; name the first baseline"):
        baselines.latest_good(conn, runs[3])
    for run, changed in ((runs[0], None), (runs[1], None), (runs[2], g.WRONG), (other, None)):
        base = g.night(engine, {0: changed} if changed else {}, target=run.target)
        verdict = judge(engine, base, run) if not changed else judge(engine, run, base)
        with write(engine) as conn:
            gating.store_verdict(conn, run, verdict)
    with read(engine) as conn:
        assert baselines.latest_good(conn, runs[3]).id == runs[1].id
        assert baselines.latest_good(conn, runs[1]).id == runs[0].id  # a run is not its own baseline
        stored = conn.execute(sa.select(m.gate).order_by(m.gate.c.run_id)).all()
    assert [(row.passed, row.counts) for row in stored] == [
        (True, {}),
        (True, {}),
        (False, {"newly failing": 1}),
        (True, {}),
    ]


def test_rates_of_flaky_operators_are_stored(engine: Engine) -> None:
    before, after = g.night(engine), g.night(engine, {0: g.WRONG, 1: g.WRONG, 60: g.WRONG})
    with read(engine) as conn:
        pending = gating.prepare(conn, before, after, Rules())
    assert isinstance(pending, Pending)
    wrong, native = Seen(Status.WRONG), Seen(Status.NATIVE)
    again = {KEYS[0]: (wrong, native), KEYS[1]: (wrong, wrong), KEYS[60]: (wrong, wrong)}
    for _ in range(2):  # judging twice counts once
        with write(engine) as conn:
            gating.store_reruns(conn, after, pending, again)
    with read(engine) as conn:
        assert gating.flake_rates(conn, "sim") == {"aten.add.Tensor": (1, 2), "aten.mm.default": (0, 1)}
        assert gating.flake_rates(conn, "sim", ["aten.mm.default"]) == {"aten.mm.default": (0, 1)}
        assert gating.flake_rates(conn, "neuron") == {}


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs the command on a database of this test, and that database."""
    url = str(tmp_path / "gate.sqlite")
    engine = open_database(url)

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main.run(["gate", *arguments, "--db", url])
        return code, *capsys.readouterr()

    yield call, engine
    engine.dispose()


def test_the_command_fails_closed(gate, tmp_path: Path) -> None:
    call, engine = gate
    code, _, err = call()
    assert (code, err) == (2, "neuron-ops: There is no run in this database; make one with `neuron-ops sweep`.\n")
    good = g.night(engine)
    code, _, err = call()
    assert (code, "has passed a gate; name the first" in err) == (2, True)
    (tmp_path / "bad.gz").write_bytes(b"x")
    code, _, err = call("--baseline", str(tmp_path / "bad.gz"))
    assert (code, "bad.gz cannot be read" in err) == (2, True)
    code, _, err = call("--baseline", str(tmp_path / "absent.gz"))
    assert (code, "There is no run" in err) == (2, True)
    g.night(engine, lost=1)
    code, out, _ = call("--baseline", good.slug)  # the killed run is the newest
    assert (code, "is failed and 1 of its 100 cases" in out) == (1, True)
    empty = g.night(engine, dict.fromkeys(range(100), g.SKIPPED))
    code, out, _ = call(empty.slug, "--baseline", good.slug)
    assert (code, "measured no case" in out) == (1, True)


def test_the_command_passes_in_one_line_and_remembers_it(gate, tmp_path: Path) -> None:
    call, engine = gate
    first, second = g.night(engine), g.night(engine)
    line = f"passed: {second.slug} against {first.slug}, 99 cases measured\n"
    assert call("--baseline", first.slug)[:2] == (0, line)
    third = g.night(engine, {0: g.WRONG})
    code, out, _ = call("--reruns", "0")
    assert (code, out.splitlines()[:3]) == (
        1, [f"failed: {third.slug} against {second.slug}, 99 cases measured", "", "newly failing (1)"]
    )  # fmt: skip
    file = tmp_path / "base.gz"
    code, out, _ = call(second.slug, "--write-baseline", str(file))
    assert (code, out) == (0, f"wrote 100 cases of run {second.slug} to {file} ({file.stat().st_size} bytes)\n")
    assert call("--baseline", str(file), "--reruns", "0")[0] == 1
    assert call(second.slug, "--baseline", str(file))[0] == 0


def test_the_self_test_catches_every_planted_regression(capsys) -> None:
    code = main.run(["selftest", "--gate", "100", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, found["caught"], found["missed"], found["alarms"]) == (0, 100, [], 0)


def test_the_self_test_sees_a_gate_that_is_blind(capsys, monkeypatch) -> None:
    blind = {Group.FALLBACK_GAINED, Group.ERROR_GROWN, Group.CASES_VANISHED}
    group_of = differences.group_of
    monkeypatch.setattr(differences, "group_of", lambda *a: None if group_of(*a) in blind else group_of(*a))
    code = main.run(["selftest", "--gate", "30", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (code, {PLANTS[one["kind"]][0] for one in found["missed"]}, found["alarms"]) == (1, blind, 0)


def test_the_self_test_sees_a_gate_that_cries_wolf(capsys, monkeypatch) -> None:
    monkeypatch.setattr(gating, "_over_budget", lambda *_: ("planted",))
    code = main.run(["selftest", "--gate", "20"])
    assert code == 1
    assert (
        "0 of 20 planted regressions caught, each named alone and in its group; 2 false alarms in 2"
        in capsys.readouterr().out
    )
