"""`neuron-ops translators`: exit codes of verify, what the JSON holds, and one sentence for bad input."""

import json

import pytest
from neuron_ops.cli import translators as command
from neuron_ops.cli.main import run
from neuron_ops.op_tests.translation.trials import Report
from neuron_ops.translators import choices
from neuron_ops.translators.choices import BadChoices, Choice, read_choices, write_choices

HARDSWISH, FLOOR = "aten.hardswish.default", "aten.floor.default"
TABLE = {
    HARDSWISH: Choice(HARDSWISH, "ours", ("float32", "bfloat16"), ("aten.mul.Tensor",), 4, 48, 'not int8: "odd", it says', ("empty", "forward")),
    FLOOR: Choice(FLOOR, "torch _refs, derived", ("float32",), ("aten.ceil.default",), 1, 96, "", ("forward",)),
}  # fmt: skip


class FakeBench:
    """Reports two cases for each dtype; one of those named in `wrong` fails."""

    wrong = ()

    def run(self, what, trials, beside):
        assert set(beside) == set(TABLE)
        return [
            Report(t, d, 2, 1 if (t.overload, d) in self.wrong else 2, "float32 forward of x/0: nan", axes={"forward"})
            for t in trials
            for d in t.dtypes
        ]


@pytest.fixture(autouse=True)
def bench(monkeypatch, tmp_path):
    bench = FakeBench()
    monkeypatch.setattr(choices, "shipped_choices", lambda device="neuron": TABLE)
    monkeypatch.setattr(choices, "planned", lambda device: device == "neuron")
    monkeypatch.setattr(command, "_bank", lambda progress: tmp_path)
    monkeypatch.setattr(command, "_bench", lambda *_: bench)
    return bench


def test_a_table_of_before_the_axes_is_read():
    old = f"# x\noverload,source,dtypes,needs,launches,bytes,note\n{FLOOR},ours,float32,aten.ceil.default,1,96,\n"
    assert read_choices(old)[FLOOR].axes == ()
    with pytest.raises(BadChoices, match="has columns"):
        read_choices(old.replace(",needs,", ",want,"))
    assert read_choices(write_choices(TABLE, "about"))[FLOOR] == TABLE[FLOOR]


def test_list_shows_each_choice(capsys):
    assert run(["translators", "list"]) == 0
    out = capsys.readouterr().out
    assert "4 calls  float32 bfloat16" in out
    assert out.endswith("2 of 2 translations; evidence: simulated\n")


def test_list_json_has_closure_axes_and_costs(capsys):
    assert run(["translators", "list", "--json", "aten.hard*"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["closure"] == [{"overload": "aten.mul.Tensor", "route": "native"}]
    assert (found["axes"], found["launches"], found["host_bytes_avoided"]) == (["empty", "forward"], 4, 96)
    assert found["fallback_cheaper_below_bytes"] > 0


def test_verify_exits_with_0_when_all_pass(capsys):
    assert run(["translators", "verify", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["translations"], found["cases"], found["passed"], found["failures"]) == (2, 6, 6, {})
    assert found["verdicts"][FLOOR] == [
        {"dtype": "float32", "cases": 2, "passed": 2, "axes": ["forward"], "refused": ""}
    ]


def test_verify_exits_with_1_and_names_what_fails(bench, capsys):
    bench.wrong = ((FLOOR, "float32"),)
    assert run(["translators", "verify"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0] == f"{FLOOR} float32: wrong result: float32 forward of x/0: nan"
    assert out[-1] == "2 translations, 5 of 6 cases pass, 1 failures; evidence: simulated"


def test_verify_takes_some_dtypes(capsys):
    assert run(["translators", "verify", "--dtypes", "bfloat16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["translations"], found["cases"]) == (1, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["list", "--device", "core"], "no translations were planned for the device 'core' yet; expected a table"),
        (["coverage", "--device", "core"], "write it with `neuron-ops translators plan --device core --write`"),
        (["list", "aten.hard*", "aten.nothing*"], "no translator matches 'aten.nothing*'; expected overloads such as "),
        (["verify", "nothing"], "no translator matches 'nothing'; expected overloads such as "),
        (["verify", "--dtypes", "float31"], "unknown dtype 'float31'; expected all, or one of "),
    ],
)
def test_bad_input_is_one_sentence(arguments, says, capsys):
    assert run(["translators", *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert err.count("\n") == 1
