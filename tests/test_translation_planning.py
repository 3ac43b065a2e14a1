"""The planner takes what is right, prefers most dtypes, then fewest calls, then ours, and says why the rest has nothing."""

import dataclasses

import pytest
from neuron_ops.op_tests.targets.sim import PROFILE_VARIABLE, core_profile, named_profile
from neuron_ops.op_tests.translation import cost, counting, planning
from neuron_ops.op_tests.translation.planning import Bench, plan
from neuron_ops.op_tests.translation.trials import Report, Trial
from neuron_ops.translators.choices import Choice
from neuron_ops.translators.registry import resolve
from neuron_ops.translators.sources import AUTOGRAD_TABLE, DERIVED, FUNCTIONAL, OURS, Candidate

A, B, C = "aten.a.default", "aten.b.default", "aten.c.default"


@dataclasses.dataclass
class World:
    """What candidates do: (overload, source) → dtype → calls of the device, or the words of a failure; `needs` overloads."""

    serves: dict
    needs: dict = dataclasses.field(default_factory=dict)
    runs: list = dataclasses.field(default_factory=list)
    always: dict = dataclasses.field(default_factory=dict)

    def beside(self, always):
        return dataclasses.replace(self, always=always)

    def run(self, what, trials, beside):
        beside = {**self.always, **beside}
        self.runs.append((what, [(t.overload, t.source) for t in trials], dict(beside)))
        return [report for trial in trials for dtype in trial.dtypes if (report := self._report(trial, dtype, beside))]

    def _report(self, trial, dtype, beside):
        if trial.source is None:
            return Report(
                trial, dtype, 2, 2, host=set() if self._stays(trial.overload, dtype, beside) else {trial.overload}
            )
        said = self.serves[trial.overload, trial.source].get(dtype)
        if said is None:
            return None
        if isinstance(said, str):
            return Report(trial, dtype, 2, 1, said)
        needs = self.needs.get((trial.overload, trial.source), ())
        host = {name for name in needs if not self._stays(name, dtype, beside)}
        return Report(
            trial,
            dtype,
            2,
            2,
            host=host,
            parts={"aten.mul.Tensor"},
            launches=[said] * 2,
            bytes=[64, 128],
            axes={"forward"},
        )

    def _stays(self, name, dtype, beside):
        return name in beside and (beside[name][1] is None or dtype in beside[name][1])


@pytest.fixture
def planned(monkeypatch, tmp_path):
    """A function that plans in a world; every overload of it falls back without translators."""

    def act(world, **options):
        names = dict.fromkeys(name for name, _ in world.serves)
        monkeypatch.setattr(planning, "BY_TEST", {})
        monkeypatch.setattr(planning, "DTYPES", ("float32", "int8"))
        monkeypatch.setattr(planning, "needing", lambda *_: [Trial(name, None, ("float32",), 4) for name in names])
        monkeypatch.setattr(
            planning, "candidates", lambda name: [Candidate(n, s, print) for n, s in world.serves if n == name and s]
        )
        return plan(world, tmp_path, **options)

    return act


def test_one_that_needs_another_waits_for_it(planned):
    world = World({(A, OURS): {"float32": 3}, (B, OURS): {"float32": 1}}, needs={(A, OURS): [B]})
    found = planned(world)
    assert {name: (c.source, c.dtypes, c.launches) for name, c in found.choices.items()} == {
        A: (OURS, ("float32",), 3), B: (OURS, ("float32",), 1),
    }  # fmt: skip
    assert found.without == {}
    rounds = [trials for what, trials, _ in world.runs if what.startswith("round")]
    assert rounds == [[(A, OURS), (B, OURS)], [(A, OURS)]]


def test_two_that_need_each_other_have_no_translation(planned):
    world = World({(A, OURS): {"float32": 3}, (B, OURS): {"float32": 1}}, needs={(A, OURS): [B], (B, OURS): [A]})
    found = planned(world)
    assert found.choices == {}
    assert found.without == {A: f"in float32 it needs the host: {B}", B: f"in float32 it needs the host: {A}"}


@pytest.mark.parametrize(
    ("ours", "table", "source"),
    [
        ({"float32": 9, "int8": 9}, {"float32": 1}, OURS),
        ({"float32": 9}, {"float32": 1, "int8": 1}, AUTOGRAD_TABLE),
        ({"float32": 2}, {"float32": 1}, AUTOGRAD_TABLE),
        ({"float32": 2}, {"float32": 2}, OURS),
        ({"float32": "output 0: stride (1,)"}, {"float32": 7}, AUTOGRAD_TABLE),
    ],
)
def test_most_dtypes_then_fewest_calls_then_ours(planned, ours, table, source):
    for order in ((OURS, AUTOGRAD_TABLE), (AUTOGRAD_TABLE, OURS)):
        serves = {OURS: ours, AUTOGRAD_TABLE: table}
        assert planned(World({(A, s): serves[s] for s in order})).choices[A].source == source


def test_why_an_overload_has_none_is_told(planned):
    found = planned(World({(A, OURS): {"float32": "float32 forward of x/0: output 0: stride (1,)"}, (B, ""): {}}))
    assert found.without == {
        A: "wrong stride: float32 forward of x/0: output 0: stride (1,)", B: "nothing computes it yet",
    }  # fmt: skip


def test_a_partial_one_says_which_dtypes_and_why(planned):
    choice = planned(World({(A, OURS): {"float32": 2, "int8": "int8 forward of x/0: output 0: dtype int32"}})).choices[
        A
    ]
    assert choice.dtypes == ("float32",)
    assert choice.note == "not int8: wrong dtype: int8 forward of x/0: output 0: dtype int32"
    assert (choice.launches, choice.bytes, choice.needs, choice.axes) == (2, 96, ("aten.mul.Tensor",), ("forward",))


def test_a_dtype_that_hangs_on_one_that_is_not_verified_goes_too(planned):
    """C needs B needs A: A's int8 is wrong, so that B's goes in the first turn and C's in the second."""
    world = World(
        {(A, OURS): {"float32": 1, "int8": "int8 forward of x/0: RuntimeError: no"}, (B, OURS): {"float32": 1, "int8": 1}, (C, OURS): {"float32": 1, "int8": 1}},
        needs={(B, OURS): [A], (C, OURS): [B]},
    )  # fmt: skip
    found = planned(world)
    assert {name: c.dtypes for name, c in found.choices.items()} == dict.fromkeys((A, B, C), ("float32",))
    assert found.choices[C].note == f"not int8: in int8 it needs the host: {B}"


def test_the_host_keeps_what_is_cheaper_there_only_when_asked(planned):
    serves = {(A, OURS): {"float32": 50}, (B, OURS): {"float32": 1}}
    assert set(planned(World(serves)).choices) == {A, B}
    found = planned(World(serves), by_cost=True)
    assert set(found.choices) == {B}
    assert found.without[A] == (
        "the fallback is estimated to be cheaper for all 2 samples: at least 50 calls of the device, at most 128 bytes of arguments"
    )


def test_named_ones_are_planned_beside_the_rest_of_the_table(planned):
    kept = [Choice(B, OURS, ("float32",), (), 1, 8, "old"), Choice(A, AUTOGRAD_TABLE, ("int8",), (), 9, 8, "old")]
    world = World({(A, OURS): {"float32": 3}, (B, OURS): {"float32": 5}}, needs={(A, OURS): [B]})
    found = planned(world, names={A}, kept=kept)
    assert (found.choices[A].source, found.choices[A].launches, found.choices[B]) == (OURS, 3, kept[0])
    assert {name for _, trials, _ in world.runs for name, _ in trials} == {A}


def test_break_even_is_where_the_estimates_meet():
    for launches in (2, 5, 100):
        at = cost.break_even_bytes(launches)
        assert at > 0
        assert cost.fallback_seconds(at) == pytest.approx(cost.translated_seconds(launches))
    assert cost.break_even_bytes(1) == 0


def test_counts_with_and_without(monkeypatch, tmp_path):
    choices = {A: dataclasses.make_dataclass("C", ["overload", "source", "dtypes"])(A, OURS, ("float32",))}
    monkeypatch.setattr(counting, "shipped_choices", lambda device: choices)
    monkeypatch.setattr(counting, "needing", lambda *_: [Trial(name, None, ("float32",), 4) for name in (A, B)])
    found = counting.count(World({}), tmp_path, "core")
    assert (found.with_cases, found.without, found.with_translators, found.host) == (2, 0, 1, (B,))
    assert found.profile.startswith("torch ")


def test_the_core_profile_is_the_tag_and_the_primitives(monkeypatch):
    found = named_profile("core").registrations
    assert {"aten.add.Tensor", "aten.relu.default", "aten.copy_.default"} <= set(found)
    assert not {"aten.add.out", "aten.maximum.out", "aten.lgamma.default"} & set(found)
    for name in core_profile.PRIMITIVES:
        resolve(f"aten.{name}")
    monkeypatch.setenv(PROFILE_VARIABLE, "core")
    assert set(named_profile().registrations) == set(found)


def test_a_bench_simulates_the_device_that_it_is_asked_for(bank_folder, monkeypatch):
    """On a device of the core set `add.out` is served by `add.Tensor`; reports come in the order of the trials."""
    monkeypatch.delenv(PROFILE_VARIABLE, raising=False)
    told = []
    bench = Bench(bank_folder, 1, lambda *progress: told.append(progress), "core")
    source = FUNCTIONAL + DERIVED
    trials = [Trial("aten.add.out", None, ("float32",)), Trial("aten.add.out", source, ("float32",)), Trial("aten.add.Tensor", None, ("float32",))]  # fmt: skip
    bare, derived, native = bench.run("test", trials, {})
    assert bare.host == {"aten.add.out"}
    assert derived.verified
    assert derived.parts >= {"aten.add.Tensor", "aten.copy_.default"}
    assert native.verified
    assert told == [(1, 1, "test, 3 trials")]
    assert PROFILE_VARIABLE not in planning.os.environ
