"""Lists of faults: whatever a snippet does, its row says what became of it, and the rest of the list goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from neuron_ops.cli.main import run
from neuron_ops.op_tests.records import BadInput
from neuron_ops.op_tests.selftest_agreement import LADDER, Strictness, difference, reading
from neuron_ops.op_tests.selftest_faults import Entry, read_list
from neuron_ops.op_tests.selftest_snippets import NotPython, Raised, Unset, namespace, plain, raises
from neuron_ops.op_tests.selftest_snippets import run as run_snippet

DATA = Path(__file__).parent / "data"

SMALL: list[Any] = [
    {"id": "value", "repro": "got = torch.ones(3, device=dev) * 2", "want": "want = torch.full((3,), 2.)",
     "fault": "bad = want.clone(); bad[1] = 5", "detect_by": ["value"], "runnable": True},
    {"id": "expressions", "repro": "torch.arange(4, device=dev).sum()", "want": "6", "fault": "7", "detect_by": "value"},
    {"id": "json", "repro": ["x = [1, 2]", "got = x"], "want": [1, 2], "fault": [2, 1]},
    {"id": "loop", "repro": "x=torch.zeros(3,device=dev); for i in range(3): x[i]=i; got=x", "want": "want=torch.tensor([0.,1.,2.])",
     "fault": "bad=torch.zeros(3)"},
    {"id": "raises", "repro": "got=raises(lambda: torch.ones(2,device=dev)@torch.ones(3,device=dev))", "want": "want='RuntimeError'",
     "fault": "bad=torch.ones(1)", "detect_by": ["exception"]},
    {"id": "assert", "repro": "assert torch.ones(2,device=dev).sum()==2"},
    {"id": "abort", "kind": "crash", "repro": "got=1", "want": "want=1", "fault": "import os; os.abort()"},
    {"id": "exit", "kind": "crash", "repro": "got=1", "want": "want=1", "fault": "import os; os._exit(0)"},
    {"id": "hang", "kind": "hang", "repro": "got=1", "want": "want=1", "fault": "import time; time.sleep(10**9)"},
    {"id": "memory", "repro": "got=1", "want": "want=1", "fault": "bad=torch.ones(1<<33)"},
    {"id": "described", "repro": None, "runnable": False, "note": "needs 8 GB."},
    {"id": "after", "repro": "got=torch.ones(2,device=dev).dtype", "want": "want=torch.float32", "fault": "bad=torch.float64"},
]  # fmt: skip

BROKEN: list[Any] = [
    {"id": "wrong want", "repro": "got=torch.ones(2,device=dev)", "want": "want=torch.zeros(2)", "fault": "bad=torch.full((2,),3.)"},
    {"id": "tame fault", "repro": "got=1.5", "want": "want=1.5", "fault": "bad=1.5"},
    {"id": "prose", "repro": "this is no code", "want": "want=1", "fault": "bad=2"},
    {"id": "raises", "repro": "got=torch.ones(2,device=dev)@torch.ones(3,device=dev)", "want": "want=torch.ones(1)", "fault": "bad=None"},
    {"id": "dies", "repro": "import os; os.abort()", "want": "want=1", "fault": "bad=2"},
    {"id": "nothing"},
    17,
]  # fmt: skip


def listed(
    entries: list[Any], folder: Path, capsys: pytest.CaptureFixture[str], *more: str
) -> tuple[int, dict[str, Any], dict[str, int]]:
    """Return the exit code, the rows by id and the totals of one list."""
    path = folder / "list.json"
    path.write_text(json.dumps(entries), encoding="utf-8")
    code = run(["selftest", "--bank", str(path), "--json", "--timeout", "3", "--memory", "1GiB", *more])
    found = json.loads(capsys.readouterr().out)
    return code, {row["id"]: row for row in found["entries"]}, found["totals"]


def answers(row: dict[str, Any]) -> tuple[Any, Any, Any]:
    return row["repro_passes"], row["want_accepted"], row["fault_flagged"]


def test_a_list_of_all_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows, totals = listed(SMALL, tmp_path, capsys)
    assert code == 0, rows
    assert list(rows) == [entry["id"] for entry in SMALL]
    assert {name: answers(row) for name, row in rows.items() if answers(row) != (True, True, True)} == {
        "assert": (True, None, None), "described": (None, None, None),
    }  # fmt: skip
    assert rows["abort"]["note"] == "the fault died of SIGABRT"
    assert rows["exit"]["note"] == "the fault ended its process with exit status 0"
    assert rows["hang"]["note"] == "the fault did not end within 3 s"
    assert "memory" in rows["memory"]["note"]
    assert rows["described"]["note"] == "the list says that it cannot run: needs 8 GB"
    assert set(rows["value"]) == {"id", "repro_passes", "want_accepted", "fault_flagged", "note"}
    assert totals == {
        "entries": 12, "ran": 11, "repro_passes": 11, "want_accepted": 10, "fault_flagged": 10, "complete": 11,
    }  # fmt: skip


def test_what_is_wrong_is_said_and_turns_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, rows, totals = listed(BROKEN, tmp_path, capsys, "--target", "cpu")
    assert code == 1
    assert {name: answers(row) for name, row in rows.items()} == {
        "wrong want": (False, False, True), "tame fault": (True, True, False), "prose": (None, None, True),
        "raises": (False, False, True), "dies": (False, None, True), "nothing": (None, None, None), "#6": (None, None, None),
    }  # fmt: skip
    assert (
        "torch's CPU gives another result than the list wants: output 0: 2 of 2 elements" in rows["wrong want"]["note"]
    )
    assert "takes the faulty result for the wanted one" in rows["tame fault"]["note"]
    assert "the repro is no Python" in rows["prose"]["note"]
    assert "raises RuntimeError: inconsistent tensor size" in rows["raises"]["note"]
    assert "on torch's CPU the repro died of SIGABRT" in rows["dies"]["note"]
    sentence = "malformed: it has no repro; expected an object with a repro that sets `got`; correct the list"
    assert rows["nothing"]["note"] == sentence
    assert rows["#6"]["note"].startswith("malformed: it is a int; expected an object")
    assert (totals["entries"], totals["ran"], totals["complete"]) == (7, 7, 0)


def test_real_faults_of_other_backends_are_all_caught(capsys: pytest.CaptureFixture[str]) -> None:
    """Each stands for a kind that was reported of some backend; numbers and shapes are our own."""
    code = run(["selftest", "--bank", str(DATA / "fault_list.json"), "--json", "--timeout", "4"])
    found = json.loads(capsys.readouterr().out)
    assert [row for row in found["entries"] if answers(row) != (True, True, True)] == []
    assert found["totals"]["entries"] == found["totals"]["complete"] == 62
    assert code == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "cannot read"),
        ("not json", "is no JSON"),
        ("[]", "holds an empty list"),
        ("{}", "holds a dict"),
        ("3", "holds a int"),
        ("[" * 100_000, "is no JSON"),
    ],
)
def test_a_file_that_is_no_list(
    text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "list.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=words):
        read_list(path)
    assert run(["selftest", "--bank", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_list_inside_an_object(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    path.write_text('{"version": 1, "faults": [{"id": "a"}]}', encoding="utf-8")
    assert read_list(path) == [{"id": "a"}]


def test_fields_under_other_names() -> None:
    entry = Entry.read(
        {"name": "a", "code": "got=1", "expected": "1", "bad": "2", "aten_op": "aten::add.Tensor, aten::mul"}, 0
    )
    assert (entry.id, entry.repro, entry.want, entry.fault) == ("a", "got=1", "1", "2")
    assert entry.operators == ("aten.add", "aten.mul")
    assert (
        Entry.read({"repro": 5}, 3).reason
        == "malformed: its repro is a int; expected an object with a repro that sets `got`; correct the list"
    )
    assert Entry.read({"repro": 5}, 3).id == "#3"


# --- snippets --------------------------------------------------------------------------------------------------------


def evaluated(text: str, *results: str) -> Any:
    return run_snippet(text, namespace("cpu"), results or ("got",))


def test_what_a_snippet_hands_back() -> None:
    assert evaluated("x = 1; got = x + 1") == 2
    assert evaluated("  x = 1\n  got = x + 1") == 2
    assert evaluated("got = 1\n5") == 1
    assert evaluated("x = 2\nx + 3") == 5
    assert evaluated("import math as m; got = [m.floor(v) for v in (1.5, 2.5)]") == [1, 2]
    assert evaluated("s = 'a;b'; if s: got = s") == "a;b"
    assert evaluated("result = 4", "got", "result") == 4
    assert isinstance(evaluated("import sys; sys.exit(3)"), Raised)
    with pytest.raises(Unset):
        evaluated("x = 1")
    with pytest.raises(NotPython):
        evaluated("returns a tensor")


def test_names_that_a_snippet_may_use() -> None:
    names = "torch, F, nn, np, numpy, math, dev, device, raises, inf, nan, aten, os, time, random, warnings"
    assert evaluated(f"got = all(v is not None for v in ({names}))") is True


def test_raises() -> None:
    def fails(x: int) -> None:
        raise NotImplementedError(f"no {x}")

    name = raises(fails, 3)
    assert name == "NotImplementedError"
    assert plain(name).fits("RuntimeError")
    assert plain(name).fits("any-error")
    assert not plain(name).fits("IndexError")
    assert raises(lambda: 5) == 5
    assert raises(RuntimeError, lambda: fails(1)) == "NotImplementedError"
    with raises(RuntimeError):
        fails(2)
    with pytest.raises(AssertionError), raises(RuntimeError):
        pass


# --- agreement -------------------------------------------------------------------------------------------------------

LOOSE = LADDER[-1]


@pytest.mark.parametrize(
    ("want", "found"),
    [
        ((1, 2), [1, 2]),
        ([1, 2], torch.tensor([1, 2])),
        (torch.tensor([1.0, 2.0]), [1, 2]),
        (2.5, torch.tensor(2.5)),
        (torch.tensor(True), True),
        (1, True),
        ([2, 3], torch.Size([2, 3])),
        ("IndexError", Raised.of(IndexError("x"))),
        ("any-error", Raised.of(OSError("x"))),
        ("RuntimeError", Raised.of(NotImplementedError("x"))),
        (float("nan"), torch.tensor(float("nan"))),
        (None, None),
    ],
    ids=str,
)
def test_forms_that_say_the_same(want: Any, found: Any) -> None:
    assert difference(plain(want), plain(found), LOOSE) is None


@pytest.mark.parametrize(
    ("want", "found"),
    [
        (True, False),
        (1, 2),
        (1, None),
        ("IndexError", Raised.of(KeyError("x"))),
        ("IndexError", torch.tensor([1])),
        (torch.tensor([1.0]), Raised.of(RuntimeError("x"))),
        (torch.tensor([1.0]), torch.tensor([1])),
        (torch.tensor([1.0]), torch.tensor([[1.0]])),
        (torch.tensor([1.0]), torch.tensor([1.002])),
        (torch.tensor([1.0]), torch.tensor([float("nan")])),
        (torch.tensor([float("inf")]), torch.tensor([-float("inf")])),
        ((torch.ones(1), torch.ones(1)), (torch.ones(1),)),
        ([1, 3], (3, 1)),
        ("torch.float32", "torch.float64"),
        (float("nan"), 1.0),
    ],
    ids=str,
)
def test_differences_that_no_reading_excuses(want: Any, found: Any) -> None:
    assert difference(plain(want), plain(found), LOOSE) is not None


def test_a_wanted_result_is_read_as_literally_as_the_cpu_allows() -> None:
    def read(want: Any, computed: Any, *, zero_sign: bool = False) -> Strictness | None:
        return reading(plain(want), plain(computed), zero_sign=zero_sign)

    one, turned = torch.ones(2, 3), torch.ones(3, 2).t()
    assert read(one, one.clone()) == Strictness()
    assert read(one, turned) == Strictness(strides=False)
    assert read(torch.zeros(1), -torch.zeros(1)) == Strictness(zero_sign=False)
    assert read(torch.zeros(1), -torch.zeros(1), zero_sign=True) is None
    assert read(0.8414710, float(torch.tensor(1.0).sin())) == Strictness(exact=False)
    assert read(0.8414, float(torch.tensor(1.0).sin())) == Strictness(exact=False, relative=1e-4)
    assert read(0.84, float(torch.tensor(1.0).sin())) is None
    assert read(one, one.double()) is None
    half = torch.tensor([1.0], dtype=torch.bfloat16)
    step = torch.tensor([1.0078125], dtype=torch.bfloat16)
    assert difference(step, half, Strictness()) is not None
    assert difference(step, half, Strictness(exact=False)) is None


def test_what_the_results_share_is_not_compared() -> None:
    x = torch.zeros(2, 3)
    assert difference(plain((torch.zeros(2, 3), torch.zeros(3))), plain((x, x[0])), Strictness()) is None
    assert difference(plain(torch.ones(3)), plain(torch.ones(1).expand(3)), Strictness()) is not None
    assert difference(plain(torch.ones(3)), plain(torch.ones(1).expand(3)), Strictness(strides=False)) is None
