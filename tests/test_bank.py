"""Where samples are kept: all or nothing, one overload at a time, and no foreign file is read."""

import sqlite3

import pytest
import torch
from neuron_ops.op_tests import bank as banks
from neuron_ops.op_tests.packing import pack
from neuron_ops.op_tests.plan import make_plan
from neuron_ops.op_tests.records import BadInput, Case


def test_cases_come_in_a_stable_order_and_samples_come_back(bank_folder):
    bank = banks.Bank(bank_folder)
    cases = bank.cases("aten.add.Tensor", "float32")
    assert [(c.sample, c.variant) for c in cases] == [("hand/0", "forward"), ("hand/1", "forward")]
    args, _ = bank.sample(cases[1]).unpack()
    assert args[0][0, 0].item() == float("inf")
    assert bank.cases("aten.sub.Tensor", "float32") == []
    assert "aten.relu.default" in bank.overloads("float32")


def test_an_unknown_sample_says_what_to_do(bank_folder):
    with pytest.raises(BadInput, match=r"no sample 'other'.*bank build"):
        banks.Bank(bank_folder).sample(Case("aten.add.Tensor", "float32", "other"))


def test_a_missing_bank_says_what_to_do(tmp_path):
    with pytest.raises(BadInput, match=r"no sample bank at .*bank build --dtypes int8"):
        banks.Bank(tmp_path).cases("aten.add.Tensor", "int8")


def test_nothing_is_left_of_a_bank_that_was_not_finished(tmp_path):
    path = tmp_path / "float32.sqlite"
    writer = banks.BankWriter(path, "float32", 0)
    writer.add("aten.relu.default", "hand/0", pack((torch.ones(2),), {}), ["forward"])
    assert path not in tmp_path.iterdir()
    assert list(tmp_path.glob("*.tmp"))
    writer.__exit__(RuntimeError, RuntimeError("stop"), None)
    assert list(tmp_path.iterdir()) == []


def truncated(path):
    path.write_bytes(path.read_bytes()[:5000])


def scribbled(path):
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(data)


def another_program(path):
    path.unlink()
    sqlite3.connect(path).execute("CREATE TABLE x (y)").connection.close()


def no_database(path):
    path.write_text("hello, this is not a database file at all" * 100)


def another_version(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()


def another_torch(path):
    connection = sqlite3.connect(path)
    connection.execute("UPDATE meta SET value = '1.0.0' WHERE key = 'torch'")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("damage", [truncated, scribbled, another_program, no_database, another_version, another_torch])
def test_a_damaged_or_foreign_file_is_refused_in_one_sentence(bank_folder, damage):
    path = banks.bank_file(bank_folder, "float32", 0)
    damage(path)
    with pytest.raises(BadInput, match="bank build") as error:
        banks.Bank(bank_folder).cases("aten.add.Tensor", "float32")
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_bank_folder_that_cannot_be_written():
    with pytest.raises(BadInput, match=r"cannot write the sample bank into /proc/.*NEURON_OPS_CACHE"):
        banks.Bank(banks.Path("/proc/neuron-ops")).build(["float32"], lambda *_: None)


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_names_build_denominators_and_cases(bank_folder):
    plan = make_plan("sim", ["add.Tensor", "aten.mul.*"], ["float32"], None, 0, bank_folder)
    assert [(c.overload, c.sample) for c in plan.cases] == [
        ("aten.add.Tensor", "hand/0"), ("aten.add.Tensor", "hand/1"), ("aten.mul.Tensor", "hand/0"),
    ]  # fmt: skip
    assert plan.build.evidence == "simulated"
    assert {"torch", "profile", "neuron-ops", "bank"} <= set(plan.build.versions)
    assert plan.denominators.registered == len(plan.operators)


def test_a_limit_bounds_the_samples_of_an_overload(bank_folder):
    plan = make_plan("cpu", ["add.Tensor"], ["float32"], 1, 0, bank_folder)
    assert [c.sample for c in plan.cases] == ["hand/0"]


@pytest.mark.parametrize(
    ("target", "ops", "dtypes", "words"),
    [
        ("tpu", ["add"], ["float32"], "unknown target 'tpu'"),
        ("sim", ["nonsense"], ["float32"], "no operator matches 'nonsense'"),
        ("sim", ["add"], ["flaot32"], "unknown dtype 'flaot32'.*did you mean float32"),
        ("sim", ["add"], ["x"], "unknown dtype 'x'"),
        ("sim", ["sub"], ["float32"], "no samples for sub in float32"),
    ],
)
def test_bad_requests_are_refused_in_one_sentence(bank_folder, target, ops, dtypes, words):
    with pytest.raises(BadInput, match=words) as error:
        make_plan(target, ops, dtypes, None, 0, bank_folder)
    assert "\n" not in str(error.value)
