"""Samples are derived, searched, cast and filtered: on a handful of overloads, without torch's test databases."""

import functools

import pytest
import torch
from neuron_ops.op_tests import agreement, catalogue, derivation, search
from neuron_ops.op_tests.agreement import is_of_dtype, judge
from neuron_ops.op_tests.candidates import candidates
from neuron_ops.op_tests.casting import cast
from neuron_ops.op_tests.donors import Donor, Donors, cast_donors
from neuron_ops.op_tests.packing import Unpackable, pack
from neuron_ops.op_tests.shelves import BelowAutograd, Recorder, Room
from neuron_ops.op_tests.stock import GIVEN, Stock, derive, take_given
from neuron_ops.op_tests.trials import Outcomes, Proposal, Wanted, try_all


def quiet(*_):
    pass


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Children are forked from here: what is cached here is not computed in each."""
    catalogue.by_name()


def lend(name, shelves, dtype=torch.float32):
    packed = {source: {str(i): pack(*call) for i, call in enumerate(calls)} for source, calls in shelves.items()}
    proposals = functools.partial(derivation.proposals, shelves=packed, dtype=dtype)
    return try_all([name], proposals, dtype, Wanted(4), quiet)


MATRIX = torch.arange(12.0).reshape(3, 4)


class TestDerivation:
    @pytest.mark.parametrize(
        ("name", "source", "call"),
        [
            ("aten.add.out", "aten.add.Tensor", ((MATRIX, MATRIX), {"alpha": 2})),
            ("aten.add_.Tensor", "aten.add.Tensor", ((MATRIX, MATRIX), {"alpha": 2})),
            ("aten.add.Scalar", "aten.add.Tensor", ((MATRIX, MATRIX), {})),
            ("aten.transpose_copy.int", "aten.transpose.int", ((MATRIX, 0, 1), {})),
            ("aten.split_copy.Tensor_out", "aten.split.Tensor", ((MATRIX, 2), {})),
            ("aten._foreach_add.Scalar_out", "aten._foreach_add.Scalar", (([MATRIX, MATRIX], 2), {})),
            ("aten.clip.default", "aten.clamp.default", ((MATRIX, 1, 2), {})),
            ("aten.special_expm1.default", "aten.expm1.default", ((MATRIX,), {})),
            ("aten.bitwise_and.Scalar_Tensor", "aten.bitwise_and.Tensor", ((MATRIX.int(), MATRIX.int()), {})),
        ],
    )
    def test_a_relative_lends_its_arguments(self, name, source, call):
        dtype = torch.int32 if "bitwise" in name else torch.float32
        entries = lend(name, {source: [call]}, dtype).kept[name]
        label, entry = next(iter(entries.items()))
        assert label == f"sibling/{source}/0"
        assert entry.refused is None
        args, kwargs = entry.sample.unpack()
        catalogue.resolve(name)(*args, **kwargs)

    def test_arguments_go_by_name_and_all_of_them_arrive(self):
        entries = lend("aten.add.out", {"aten.add.Tensor": [((MATRIX, MATRIX), {"alpha": 2})]}).kept["aten.add.out"]
        _, kwargs = next(iter(entries.values())).sample.unpack()
        assert kwargs["alpha"] == 2
        assert kwargs["out"].shape == (3, 4)
        assert not kwargs["out"].any()

    def test_the_shape_of_outputs_comes_from_the_functional_form(self):
        call = ((MATRIX, 2, 1), {})
        entries = lend("aten.topk.values", {"aten.topk.default": [call]}).kept["aten.topk.values"]
        _, kwargs = next(iter(entries.values())).sample.unpack()
        assert kwargs["values"].shape == (3, 2)
        assert kwargs["indices"].dtype == torch.int64

    def test_twins_lend_before_others(self):
        assert derivation.sources("aten.add_.Tensor")[0] in ("aten.add.Tensor", "aten.add.out")
        assert "aten.add.Scalar" not in derivation.sources("aten.add_.Tensor")[:2]

    def test_no_more_than_wanted(self):
        calls = [((torch.ones(n), torch.ones(n)), {}) for n in range(1, 9)]
        assert len(lend("aten.add_.Tensor", {"aten.add.Tensor": calls}).kept["aten.add_.Tensor"]) == 4

    def test_calls_of_another_dtype_do_not_enter(self):
        call = ((MATRIX.int(), MATRIX.int()), {})
        outcome = lend("aten.add_.Tensor", {"aten.add.Tensor": [call]}, torch.float32)
        assert not outcome.kept
        assert outcome.dropped["aten.add_.Tensor"][""] == "the call has no argument of torch.float32"

    @pytest.mark.parametrize(
        ("value", "kind", "becomes"),
        [
            (torch.tensor([3.0, 4.0]), "number", 3.0), (torch.tensor([3.5]), "int", 3), (2 + 1j, "float", 2.0), ([7, 8], "int", 7),
            (5, "List[int]", [5]), (None, "Optional[int]", None), ("mean", "str", "mean"), (torch.empty(0), "number", 1),
        ],
    )  # fmt: skip
    def test_values_take_the_shape_of_the_schema_type(self, value, kind, becomes):
        assert derivation.converted(value, kind, torch.float32) == becomes


class TestSearch:
    @pytest.mark.parametrize(
        "name", ["aten.bartlett_window.default", "aten._weight_norm.default", "aten._foreach_powsum.Scalar", "aten.logit_backward.default"]
    )  # fmt: skip
    def test_finds_what_the_cpu_computes(self, name):
        look = functools.partial(search.proposals, dtype=torch.float32)
        found = try_all([name], look, torch.float32, Wanted(2), quiet).kept[name]
        assert found
        assert all(label.startswith("search/") for label in found)

    def test_is_bounded_and_the_same_every_time(self):
        name = "aten.lstm.data"
        first = [p.label for p in search.proposals(name, torch.float32)]
        assert len(first) <= search.COMBINATIONS + search.ALIGNED
        shapes = [[str(p.make().tree) for p in list(search.proposals(name, torch.float32))[:20]] for _ in range(2)]
        assert shapes[0] == shapes[1]

    def test_a_crash_costs_only_the_combination_in_flight(self):
        # Indices outside the input make this kernel write outside its memory: it dies on most combinations.
        name = "aten._cummax_helper.default"
        look = functools.partial(search.proposals, dtype=torch.float32)
        outcome = try_all([name, "aten.bartlett_window.default"], look, torch.float32, Wanted(3), quiet)
        assert any("died of SIG" in reason for reason in outcome.dropped[name].values())
        assert outcome.kept[name]
        assert outcome.kept["aten.bartlett_window.default"]

    @pytest.mark.parametrize(
        "kind", ["Tensor", "int", "List[int]", "Optional[Tensor]", "str", "bool", "List[Tensor]", "Storage"]
    )
    def test_every_kind_has_a_candidate(self, kind):
        assert candidates("anything", kind, torch.float32)


class TestAgreement:
    def test_both_ways_of_a_sound_call(self):
        assert judge("aten.mul.Tensor", pack((MATRIX, MATRIX), {})).variants == ("forward", "backward")

    def test_the_words_of_a_refusal(self):
        verdict = judge("aten.bitwise_and.Tensor", pack((MATRIX, MATRIX), {}))
        assert verdict.refused
        assert not verdict.variants
        assert "not implemented for 'Float'" in verdict.reason

    def test_memory_that_nobody_wrote_is_noticed(self, monkeypatch):
        sizes = range(4, 4000, 111)
        noticed = 0
        for elements in sizes:
            monkeypatch.setattr(agreement, "perform", lambda *_, elements=elements: torch.empty(elements))
            verdict = judge("aten.clone.default", pack((MATRIX,), {}))
            noticed += verdict == agreement.Verdict((), "three runs over dirtied memory disagree")
        assert noticed > len(sizes) // 2, "the allocator decides whose memory is reused: one size alone proves nothing"

    def test_a_kernel_that_reads_memory_it_did_not_write(self):
        # With g longer than v this kernel leaves norms that it never computes.
        look = functools.partial(search.proposals, dtype=torch.float32)
        name = "aten._weight_norm_interface.default"
        outcome = try_all([name], look, torch.float32, Wanted(3), quiet)
        assert "three runs over dirtied memory disagree" in outcome.dropped[name].values()

    def test_overloads_without_defined_values_are_kept(self):
        assert judge("aten.empty_like.default", pack((torch.ones(1000),), {})).variants == ("forward",)

    def test_a_result_that_cannot_be_read_is_no_refusal(self):
        verdict = judge("aten._neg_view.default", pack((torch.tensor([True]),), {}))
        assert verdict.reason.startswith("the result cannot be read: ")
        assert not verdict.refused

    def test_in_place_calls_have_no_backward(self):
        assert judge("aten.mul_.Tensor", pack((MATRIX.clone(), MATRIX), {})).variants == ("forward",)

    def test_a_random_call_repeats_because_it_is_seeded(self):
        assert "forward" in judge("aten.bernoulli.p", pack((MATRIX, 0.5), {})).variants

    @pytest.mark.parametrize(
        ("name", "args", "kwargs", "dtype", "belongs"),
        [
            ("aten.add.Tensor", (MATRIX, MATRIX), {}, torch.float32, True),
            ("aten.add.Tensor", (MATRIX, MATRIX), {}, torch.int64, False),
            ("aten.add.out", (MATRIX.int(), MATRIX.int()), {"out": torch.empty(3, 4)}, torch.float32, False),
            ("aten.zeros.out", ([3],), {"out": torch.empty(3, dtype=torch.int8)}, torch.int8, True),
            ("aten.zeros.default", ([3],), {"dtype": torch.bool}, torch.bool, True),
            ("aten.zeros.default", ([3],), {}, torch.float32, True),
            ("aten.zeros.default", ([3],), {}, torch.bool, False),
        ],
    )
    def test_which_bank_a_call_belongs_to(self, name, args, kwargs, dtype, belongs):
        assert is_of_dtype(name, pack(args, kwargs), dtype) is belongs


class TestCasting:
    def test_geometry_and_aliasing_stay(self):
        base = torch.arange(20.0)
        sample = pack((base[2:10:2], base[4:8]), {"other": torch.arange(3)})
        (first, second), kwargs = cast("aten.add.Tensor", sample, torch.float32, torch.int16).unpack()
        assert first.dtype == second.dtype == torch.int16
        assert first.stride() == (2,)
        assert first.tolist() == [2, 4, 6, 8]
        second[0] = 99
        assert first.tolist() == [2, 99, 6, 8]
        assert kwargs["other"].dtype == torch.int64

    def test_only_zero_becomes_zero(self):
        sample = pack((torch.tensor([0.0, 0.2, -0.2, 1.5, float("nan"), float("inf")]),), {})
        ((value,), _) = cast("aten.abs.default", sample, torch.float32, torch.int8).unpack()
        assert value.tolist() == [0, 1, -1, 2, 0, 100]

    def test_conjugation_is_dropped_with_the_imaginary_part(self):
        sample = pack((torch.tensor([1 + 2j]).conj(),), {})
        ((value,), _) = cast("aten.abs.default", sample, torch.complex64, torch.float32).unpack()
        assert value.tolist() == [1.0]
        assert not value.is_conj()

    def test_dtype_arguments_follow(self):
        sample = pack(([3],), {"dtype": torch.float32})
        assert cast("aten.zeros.default", sample, torch.float32, torch.bool).unpack()[1] == {"dtype": torch.bool}
        bare = cast("aten.zeros.default", pack(([3],), {}), torch.float32, torch.bool)
        assert bare.unpack()[1] == {"dtype": torch.bool}

    def test_nothing_to_cast(self):
        with pytest.raises(Unpackable, match="nothing of dtype float32"):
            cast("aten.abs.default", pack((torch.arange(3),), {}), torch.float32, torch.int8)

    def test_two_dtypes_in_one_storage(self):
        base = torch.arange(4.0)
        with pytest.raises(Unpackable, match="two dtypes"):
            cast("aten.add.Tensor", pack((base, base.view(torch.int32)), {}), torch.float32, torch.int8)


class TestStock:
    def test_refused_donors_stay_as_two_refusals(self):
        sample = [
            Donor(torch.int64, f"opinfo/bitwise_and/forward/{n}", pack((torch.ones(n + 1).long(),) * 2, {}))
            for n in range(3)
        ]
        stock = Stock(torch.float32)
        cast_donors(stock, Donors({"aten.bitwise_and.Tensor": sample}, {}), quiet)
        entries = stock.entries["aten.bitwise_and.Tensor"]
        assert list(entries) == [f"cast/int64/opinfo/bitwise_and/forward/{n}" for n in range(2)]
        assert all("not implemented for 'Float'" in entry.refused for entry in entries.values())
        assert stock.samples() == {"aten.bitwise_and.Tensor": {}}

    def test_donors_that_the_cpu_computes_are_samples(self):
        donors = {"aten.abs.default": [Donor(torch.float32, "search/0", pack((MATRIX,), {}))]}
        for dtype, label in ((torch.float32, "search/0"), (torch.int8, "cast/float32/search/0")):
            stock = Stock(dtype)
            cast_donors(stock, Donors(donors, {}), quiet)
            (found,) = stock.entries["aten.abs.default"].items()
            assert found[0] == label
            assert found[1].refused is None

    def test_derived_samples_are_lent_in_turn(self):
        stock = Stock(
            torch.float32,
            served=[o.name for o in catalogue.operators() if ".abs" not in o.name and ".absolute" not in o.name],
        )
        take_given(stock, {"aten.abs.default": {"opinfo/abs/forward/0": pack((MATRIX,), {})}}, quiet)
        derive(stock, GIVEN, quiet)
        assert {"aten.abs.out", "aten.abs_.default", "aten.absolute.default", "aten.absolute_.default"} <= set(
            stock.entries
        )

    def test_the_reason_of_what_stays_without_samples(self):
        proposals = {"aten.bitwise_not.default": [Proposal("search/0", lambda: pack((MATRIX,), {}))]}
        outcome = try_all(list(proposals), proposals.__getitem__, torch.float32, Wanted(1), quiet)
        assert isinstance(outcome, Outcomes)
        assert not outcome.kept
        assert "not implemented for 'Float'" in outcome.dropped["aten.bitwise_not.default"][""]


class TestRecorder:
    def recorded(self):
        recorder = Recorder(torch.float32, Room())
        recorder.source, recorder.about, recorder.phase = "opinfo/mul", "mul", "forward"
        with BelowAutograd(recorder):
            for n in range(12):
                torch.mul(torch.ones(n), torch.ones(n))
                torch.add(torch.ones(n), torch.ones(n))
            torch.mul(torch.ones(3).int(), 2)
        return recorder.samples()

    def test_room_for_own_and_other_calls(self):
        samples = self.recorded()
        assert len(samples["aten.mul.Tensor"]) == 8
        assert list(samples["aten.add.Tensor"]) == [f"opinfo/mul/forward/{n}" for n in range(3)]

    def test_one_call_of_a_geometry(self):
        recorder = Recorder(torch.float32, Room())
        with BelowAutograd(recorder):
            torch.mul(torch.ones(3), torch.ones(3))
            torch.mul(torch.zeros(3), torch.zeros(3))
        assert len(recorder.samples()["aten.mul.Tensor"]) == 1


def test_digest_refuses_what_is_not_strided():
    with pytest.raises(ValueError, match="expected a strided one"):
        agreement._digest(torch.ones(2).to_sparse())
