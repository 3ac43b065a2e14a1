"""What `--write-expectations` proposes makes the run pass once a person has given the reasons, and says no more."""

from __future__ import annotations

import random
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import gate_runs as g
import pytest
from neuron_ops.cli import main
from neuron_ops.coverage_db import differences, gating, proposals
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.coverage_db.expectations import Expectations, read_expectations
from neuron_ops.coverage_db.gating import Pending, Rules
from neuron_ops.coverage_db.verdicts import Seen
from neuron_ops.op_tests.records import Outcome, Result, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from neuron_ops.coverage_db.rows import RunRow
    from neuron_ops.coverage_db.verdicts import GateResult
    from sqlalchemy import Engine

FAILS = [
    g.WRONG,
    g.FALLBACK,
    Result("", Outcome.UNSUPPORTED, message="no kernel"),
    Result("", Outcome.ERROR, message="x"),
]


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.chdir(tmp_path)
    opened = open_database("test.sqlite")
    yield opened
    opened.dispose()


def propose(engine: Engine, before: RunRow, after: RunRow, flaky: set[str] = frozenset()) -> tuple[GateResult, str]:
    """Return the verdict by known.toml, if it is there, and the patch of it."""
    file = Path("known.toml")
    rows = read_expectations(file) if file.exists() else Expectations()
    with read(engine) as conn:
        pending = gating.prepare(conn, before, after, Rules(rows, max_crashes=1.0))
        assert isinstance(pending, Pending)
        again = {d.case.key: (Seen(Status.TIMEOUT),) if d.case.key in flaky else (d.after,) for d in pending.doubtful}
        result = gating.conclude(pending, again)
        cases = differences.cases_of(conn, after, set(g.NAMES))
    return result, proposals.patch("known.toml", file.read_text() if file.exists() else None, pending, result, cases)


def accept(patch: str) -> str:
    """Apply a patch as git does, give the reasons that a person would, and return the new text."""
    subprocess.run(["git", "apply", "-"], input=patch, text=True, check=True)
    text = re.sub(r'(reason|link) = ""', r'\1 = "looked at"', Path("known.toml").read_text())
    Path("known.toml").write_text(text)
    return text


def test_a_new_file_has_exact_rows_with_the_evidence(engine: Engine) -> None:
    all_mm = dict.fromkeys(range(60, 80), g.WRONG)
    after = g.night(engine, {0: g.FALLBACK, 12: g.WRONG, **all_mm})
    _, patch = propose(engine, g.night(engine), after)
    subprocess.run(["git", "apply", "-"], input=patch, text=True, check=True)
    lines = Path("known.toml").read_text().splitlines()
    key = g.CASES[12].key[:8]
    assert lines[0].startswith(
        f"# run {after.slug}, 1 of its changes, such as aten.add.Tensor bfloat16 forward hand/2 ({key})"
    )
    assert lines[0].endswith(": native before, wrong now")
    assert lines[1:11] == [
        "# output 0: wrong", f"# repeat it with: neuron-ops repro {key}", "[[expect]]",
        'overload = "aten.add.Tensor"', 'dtypes = ["bfloat16"]', 'axes = ["forward"]', 'samples = ["hand/2"]',
        'builds = ["sim"]', 'outcome = "wrong"', 'reason = ""',
    ]  # fmt: skip
    mm = lines.index('overload = "aten.mm.default"')
    assert lines[mm + 1 : mm + 4] == ['dtypes = ["bfloat16", "float32"]', 'builds = ["sim"]', 'outcome = "wrong"']
    with pytest.raises(Exception, match="has no reason"):
        read_expectations(Path("known.toml"))


def test_rows_that_are_healed_go_with_their_comments_and_others_stay(engine: Engine) -> None:
    _, patch = propose(engine, g.night(engine), g.night(engine, {0: g.WRONG, 1: g.WRONG, 60: g.FALLBACK}))
    text = "# ours\n\nbudget = 3\n\n" + accept(patch) + "\n# the end\n"
    Path("known.toml").write_text(text)
    _, patch = propose(engine, g.night(engine), g.night(engine, {0: g.NATIVE, 1: g.WRONG}))
    text = accept(patch)
    assert text.startswith("# ours\n\nbudget = 3\n")
    assert text.count("[[expect]]") == 1
    assert 'samples = ["hand/1"]\n' in text
    assert "aten.mm.default" not in text
    assert "# the end\n" in text


@pytest.mark.parametrize("seed", range(6))
def test_what_was_proposed_and_reasoned_makes_the_run_pass(engine: Engine, seed: int) -> None:
    chance = random.Random(seed)
    before = g.night(engine, usual={})

    def changes() -> Mapping[int, Result]:
        found = {chance.randrange(100): chance.choice(FAILS) for _ in range(chance.randrange(1, 30))}
        first = chance.randrange(10) * 10
        return found | dict.fromkeys(range(first, first + 10), chance.choice(FAILS))

    for _ in range(3):  # the second and third time rows are narrowed, dropped and changed
        changed = changes()
        after = g.night(engine, changed, usual={})
        flaky = {g.CASES[n].key for n in chance.sample(sorted(changed), 2)}
        _, patch = propose(engine, before, after, flaky)
        assert patch
        accept(patch)
        result, patch = propose(engine, before, after)
        assert (result.refusals, result.broken, result.differences) == ((), (), ())
        assert {d.case.key for d in result.expected + result.quarantined} == {g.CASES[n].key for n in changed}
        assert patch == ""


def test_the_command_writes_the_patch(engine: Engine, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = g.night(engine), g.night(engine, {0: g.WRONG})
    common = ["gate", after.slug, "--baseline", before.slug, "--reruns", "0", "--db", "test.sqlite"]
    assert main.run([*common, "--write-expectations", "-"]) == 2
    assert "needs --expectations FILE" in capsys.readouterr().err
    assert main.run([*common, "--expectations", "known.toml", "--write-expectations", "p.patch"]) == 1
    accept(Path("p.patch").read_text())
    assert main.run([*common, "--expectations", "known.toml"]) == 0
    assert "as expected (1)" in capsys.readouterr().out
