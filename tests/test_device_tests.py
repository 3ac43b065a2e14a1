"""PyTorch's own device tests read the configuration that a run gives, and leave out exactly what it says."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import small_run
from neuron_ops.cli import main
from neuron_ops.coverage_db import environments, recorder
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.coverage_db.reports.device_tests import device_tests, python_file
from neuron_ops.op_tests.records import BadInput, Build, Case, Evidence, Outcome, Result, Route

if TYPE_CHECKING:
    from neuron_ops.coverage_db.reports.device_tests import DeviceTests

PROGRAM = Path(__file__).with_name("torch_device_tests.py")
# OpInfo, dtype, variant → outcomes of its cases
MEASURED = {
    ("add", "float32", "forward"): "pass pass", ("add", "float32", "backward"): "pass",
    ("add", "bfloat16", "forward"): "pass wrong",
    ("div.floor_rounding", "float32", "forward"): "pass", ("div.floor_rounding", "bfloat16", "forward"): "pass",
    ("mul", "float32", "backward"): "crash", ("mul", "bfloat16", "backward"): "pass",
    ("sub", "float32", "forward"): "unsupported", ("sub", "bfloat16", "forward"): "error",
    ("nn.functional.gelu", "float32", "forward"): "not_applicable",
    # axes of ours do not decide about an operator, but about the tests that ask the same of all operators
    ("add", "float32", "sliced"): "wrong", ("add", "float32", "transposed"): "pass",
    ("add", "float32", "out_larger:2"): "wrong pass wrong",
    ("mul", "float64", "backward"): "timeout",
}  # fmt: skip
ALLOWED = {"add", "div.floor_rounding", "mul"}
NOT_MADE = {"TestCommon.test_out", "TestBwdGradients.test_fn_grad"}
SKIPPED = {("add", "bfloat16"), ("mul", "float32")}


def _tests(path: Path, target: str = "sim", measured: dict[tuple[str, str, str], str] = MEASURED) -> DeviceTests:
    results = {
        Case("aten.add.Tensor", dtype, f"opinfo/{name}/forward/{number}", variant): Outcome(word)
        for (name, dtype, variant), words in measured.items()
        for number, word in enumerate(words.split())
    }
    engine = open_database(str(path))
    build = Build(target, Evidence.SIMULATED, {"torch": "2.13.0"})
    with write(engine) as conn:
        recorder.record_operators(conn, small_run.OPERATORS)
        start = recorder.start_run(
            conn, build=build, denominators=small_run.DENOMINATORS, cases=list(results), seed=0, selection="x"
        )
        found = [Result(case.key, outcome, Route.NATIVE) for case, outcome in results.items()]
        recorder.record_results(conn, start.run_id, found)
        recorder.finalize_run(conn, start.run_id)
    try:
        with read(engine) as conn:
            return device_tests(conn, environments.named(conn, start.slug))
    finally:
        engine.dispose()


def _torch(*arguments: str) -> dict[str, str]:
    """Return test → what became of it."""
    command = [sys.executable, str(PROGRAM), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    words: dict[str, str] = json.loads(done.stdout)
    return words


def _expected(every: dict[str, str]) -> tuple[set[str], set[str]]:
    """Return the tests that must not be made and those that must be skipped, by what their names say."""
    gone, skipped = set(), set()
    for test in every:
        name, _, rest = test.partition("_neuron")
        operator = next(
            (n for n in ("add", "div_floor_rounding", "mul", "sub", "nn_functional_gelu") if name.endswith(f"_{n}")),
            None,
        )
        not_allowed = operator is not None and operator.replace("div_floor", "div.floor") not in ALLOWED
        if not_allowed or any(name.startswith(start) for start in NOT_MADE):
            gone.add(test)
        elif operator and (operator, rest.removeprefix("_")) in SKIPPED:
            skipped.add(test)
    return gone, skipped


def test_what_is_excluded_is_exactly_ours(tmp_path: Path) -> None:
    settings = _tests(tmp_path / "runs.sqlite")
    path = tmp_path / "configuration.py"
    path.write_text(python_file(settings))
    every, left = _torch(), _torch(str(path))
    gone, skipped = _expected(every)
    assert len(every) == 31
    assert every.keys() - left.keys() == gone
    assert len(gone) == 20 + 4
    ours = {test for test, word in left.items() if word.startswith("skip: ") and "cases of run" in word}
    assert ours == skipped
    assert len(ours) == 2
    assert {word for test, word in left.items() if test not in ours} == {"run"}


def test_the_settings_say_why(tmp_path: Path) -> None:
    settings = _tests(tmp_path / "runs.sqlite")
    assert set(settings.allowed) == ALLOWED
    assert settings.excluded == {"TestCommon": ("test_out", "test_out_warning"), "TestBwdGradients": ("*",)}
    assert {(name, dtype) for name, whys in settings.skipped.items() for dtype in whys} == SKIPPED | {
        ("mul", "float64")
    }
    key = Case("aten.add.Tensor", "bfloat16", "opinfo/add/forward/1").key[:8]
    why = f"1 of 2 cases of run {settings.run.slug} fail: {key} is wrong"
    assert settings.skipped["add"]["bfloat16"] == why


def test_the_file_runs_a_test_file_with_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, test_file = tmp_path / "configuration.py", tmp_path / "folder" / "test_x.py"
    path.write_text(python_file(_tests(tmp_path / "runs.sqlite")).replace("    configure()\n", ""))
    test_file.parent.mkdir()
    (test_file.parent / "beside.py").write_text("VALUE = 7\n")
    test_file.write_text(
        "import sys, beside, pathlib\npathlib.Path(sys.argv[1]).write_text(f'{__name__} {beside.VALUE}')\n"
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", [str(path), str(test_file), str(tmp_path / "said")])
    runpy.run_path(str(path), run_name="__main__")
    assert (tmp_path / "said").read_text() == "__main__ 7"


def test_what_cannot_be_configured_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="'cpu', which is no PrivateUse1 device"):
        _tests(tmp_path / "a.sqlite", target="cpu")
    with pytest.raises(BadInput, match="measured no sample of an OpInfo"):
        _tests(tmp_path / "b.sqlite", measured={("add", "float32", "forward"): "skipped"})


def test_the_command_prints_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.sqlite"
    settings = _tests(path)
    assert main.run(["runs", "device-tests", "--db", str(path)]) == 0
    assert capsys.readouterr().out == python_file(settings)
