"""The first bad build of a case: from the stored runs, and by installing builds and trying them."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import small_run
from neuron_ops.cli import main
from neuron_ops.coverage_db import blame as blaming
from neuron_ops.coverage_db import queries
from neuron_ops.coverage_db.blame import blame, part_of
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.coverage_db.retention import prune_results
from neuron_ops.op_tests.records import BadInput, Case, Environment, Outcome, Result, Route, Status
from neuron_ops.workers import bisection

if TYPE_CHECKING:
    from sqlalchemy import Engine

pytest_plugins = ["services"]

GOOD = Result("", Outcome.PASS, Route.NATIVE)
WRONG = Result("", Outcome.WRONG, Route.NATIVE, message="now wrong")
ERROR = Result("", Outcome.ERROR, message="raises")
HOST = Result("", Outcome.PASS, Route.FALLBACK)
SKIPPED = Result("", Outcome.SKIPPED, message="not run")
KEY = small_run.cases()[0].key


def _environment(number: int) -> Environment:
    """Return what night `number` ran in: the compiler changes every second night, the runtime on the fourth."""
    packages = {
        "torch": "2.13.0",
        "neuronx-cc": f"2.{number // 2}",
        "aws-neuronx-runtime-lib": "1" if number < 4 else "2",
    }
    return Environment({**packages, "rich": str(number)}, "", {"neuron driver": "2.24"}, {}, {"bank": "2"})


def _nights(engine: Engine, results: str) -> list[str]:
    """Store a run for each letter, in which the first case does that; return the slugs."""
    words = {"N": GOOD, "W": WRONG, "E": ERROR, "C": HOST, "–": SKIPPED}
    build = replace(small_run.SIM, versions={"torch": "2.13.0", "profile": "April"})
    ids = [
        small_run.record(engine, build, environment=_environment(number), changed={0: words[letter]})
        for number, letter in enumerate(results)
    ]
    with read(engine) as conn:
        return [row.slug for run_id in ids if (row := queries.run_by_id(conn, run_id))]


@pytest.mark.parametrize(
    ("results", "good", "bad", "turns"),
    [
        ("NNNWW", 2, 3, 1),  # what it is for
        ("NNWEE", 1, 2, 1),  # bad in another way later: the first way counts
        ("NWNNW", 3, 4, 2),  # the last turn counts
        ("NN–W", 1, 3, 1),  # a run that skipped it says nothing
        ("NCCWW", 2, 3, 1),  # a fallback is good for a case that fails now
        ("NNCC", 1, 2, 1),  # and bad for one that falls back now
        ("NWCC", 0, 1, 1),
        ("WWW", None, 0, 0),
        ("NWN", None, None, 1),
    ],
)
def test_the_first_bad_run(engine: Engine, results: str, good: int | None, bad: int | None, turns: int) -> None:
    slugs = _nights(engine, results)
    with read(engine) as conn:
        row = queries.case_by_key(conn, KEY)
        assert row is not None
        found = blame(conn, row)
    assert found.runs == len(results)
    assert found.turns == turns
    assert (found.good and found.good.run.slug) == (None if good is None else slugs[good])
    assert (found.bad and found.bad.run.slug) == (None if bad is None else slugs[bad])


def test_what_changed_is_named_by_part(engine: Engine) -> None:
    _nights(engine, "NNNNW")
    with read(engine) as conn:
        row = queries.case_by_key(conn, KEY)
        assert row is not None
        changes = blame(conn, row).changes
    assert [(c.part, c.name, c.before, c.after) for c in changes] == [
        ("compiler", "neuronx-cc", "2.1", "2.2"), ("runtime", "aws-neuronx-runtime-lib", "1", "2"), (blaming.OTHER, "rich", "3", "4"),
    ]  # fmt: skip


def test_the_answer_outlives_the_results(engine: Engine) -> None:
    slugs = _nights(engine, "NNWW")
    prune_results(engine, keep=1)
    with read(engine) as conn:
        row = queries.case_by_key(conn, KEY)
        assert row is not None
        found = blame(conn, row)
    assert found.good is not None
    assert found.bad is not None
    assert (found.good.run.slug, found.bad.run.slug) == (slugs[1], slugs[2])


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("torch", "torch"), ("torch-neuronx", "torch-neuronx"), ("torch_neuronx", "torch-neuronx"), ("neuronx-cc", "compiler"),
        ("libneuronxla", "runtime"), ("neuron driver", "runtime"), ("profile", "profile"), ("comparer", "harness"),
        ("torchvision", blaming.OTHER),
    ],
)  # fmt: skip
def test_parts(name: str, part: str) -> None:
    assert part_of(name) == part


def test_the_command_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "runs.sqlite")
    engine = open_database(path)
    slugs = _nights(engine, "NNNNW")

    def ask(*arguments: str) -> tuple[int, str]:
        code = main.run(["bisect", KEY[:10], "--db", path, *arguments])
        return code, capsys.readouterr().out

    code, text = ask()
    assert code == 0
    assert f"first bad  run {slugs[4]} of " in text
    assert f"last good  run {slugs[3]} of " in text
    assert "  compiler         neuronx-cc 2.1 → 2.2\n" in text
    document = json.loads(ask("--json")[1])
    assert (document["first_bad"], document["last_good"], document["now"]) == (slugs[4], slugs[3], "W")
    assert document["changes"][1] == {"part": "runtime", "name": "aws-neuronx-runtime-lib", "before": "1", "after": "2"}
    _nights(engine, "N")
    code, text = ask()
    assert code == 0
    assert "it is good now; nothing to blame" in text
    engine.dispose()


def test_a_case_that_was_never_good_blames_nobody(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "runs.sqlite")
    engine = open_database(path)
    _nights(engine, "WE")
    engine.dispose()
    assert main.run(["bisect", KEY, "--db", path]) == 1
    assert "it was never good: bad since run" in capsys.readouterr().out


@pytest.mark.parametrize("bad", range(1, 40))
def test_builds_are_searched_in_few_steps(bad: int) -> None:
    builds, tried = [str(n) for n in range(40)], []

    def probe(build: str) -> bool:
        tried.append(build)
        return int(build) < bad

    found = bisection.first_bad(builds, probe)
    assert (found.good, found.bad, found.between) == (str(bad - 1), str(bad), ())
    assert len(set(tried)) == len(tried) <= 2 + math.ceil(math.log2(40))


def test_builds_that_cannot_be_tried_stay_in_doubt() -> None:
    builds = list("abcdefgh")
    words = dict(zip(builds, [True, True, None, True, None, None, False, False], strict=True))
    assert bisection.first_bad(builds, words.__getitem__) == bisection.FirstBad("d", "g", ("e", "f"))


@pytest.mark.parametrize(
    ("ends", "words"),
    [((False, False), "'a' is bad, but the first"), ((True, True), "'b' is good, but the last"), ((None, False), "'a' could not be tried")],
)  # fmt: skip
def test_ends_that_do_not_differ_are_refused(ends: tuple[bool | None, bool | None], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        bisection.first_bad(["a", "b"], dict(zip("ab", ends, strict=True)).__getitem__)


def test_a_build_is_installed_and_its_case_run_in_a_new_interpreter(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "runs.sqlite")
    engine = open_database(path)
    _nights(engine, "N")
    engine.dispose()
    program = (
        "import pathlib, sys; sys.exit(3) if sys.argv[2] == '5' else pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    )
    command = f'{sys.executable} -c "{program}" {tmp_path}/build {{build}}'
    tried: list[str] = []

    def session(case: Case, target: str, times: int, *, bank_folder: Path) -> Status | str:
        tried.append((tmp_path / "build").read_text())
        assert (case.key, target, times) == (KEY, "sim", 2)
        return Status.FALLBACK if int(tried[-1]) >= 6 else Status.NATIVE

    arguments = [
        "bisect",
        KEY,
        "--db",
        path,
        "--install",
        command,
        "--builds",
        "1,2,3,4,5,6,7",
        "--times",
        "2",
        "--json",
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bisection, "try_case", session)
        assert main.run(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["first_bad"], document["last_good"], document["untried_between"]) == ("6", "4", ["5"])
    assert tried == ["7", "1", "4", "6"]
    assert document["seen"]["5"] == "the install command exited with 3"


@pytest.mark.parametrize(
    ("act", "expected"), [("normal", Status.NATIVE), ("wrong", Status.WRONG), ("segfault", Status.CRASH)]
)
def test_the_worst_of_several_runs_counts(
    act: str, expected: Status, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a new interpreter does not know pytest's path
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    )
    case = Case(f"test.{act}.default", "float32", "fake/0")
    found = bisection.try_case(case, "sim", 2, bank_folder=tmp_path, session="fake_sessions:open_session")
    assert found is expected


def test_one_bad_run_of_several_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([GOOD, ERROR, HOST])

    class Box(contextlib.nullcontext["Box"]):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__(self)

        def run(self, cases: list[Case]) -> list[Result]:
            return [next(outcomes) for _ in cases]

    monkeypatch.setattr(bisection, "Sandbox", Box)
    assert bisection.try_case(small_run.cases()[0], "sim", 3, bank_folder=tmp_path) is Status.ERROR


def test_a_case_that_cannot_be_run_says_why(tmp_path: Path) -> None:
    case = Case("test.normal.default", "float32", "fake/0")
    found = bisection.try_case(case, "nonsense", 1, bank_folder=tmp_path)
    assert "unknown target 'nonsense'" in str(found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--install", "pip install x=={build}"], "--install and --builds belong together"),
        (["--install", "pip install x", "--builds", "1,2"], "has no {build}"),
        (["--install", "echo {build}", "--builds", "1"], "names 1 builds"),
        (["--install", "echo '{build}", "--builds", "1,2"], "cannot be read"),
        (["--install", "/no/such {build}", "--builds", "1,2"], "cannot be run"),
        (["--target", "cpu"], "No done run on cpu has a result"),
    ],
)
def test_bad_input_gets_a_sentence(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "runs.sqlite")
    engine = open_database(path)
    _nights(engine, "N")
    engine.dispose()
    assert main.run(["bisect", KEY, "--db", path, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_an_unknown_case_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_database(str(tmp_path / "runs.sqlite")).dispose()
    assert main.run(["bisect", "abcdef", "--db", str(tmp_path / "runs.sqlite")]) == 2
    assert "no case 'abcdef'" in capsys.readouterr().err
