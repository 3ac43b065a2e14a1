"""The script that a night runs: its steps in order, its exit code, and what it leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Stands in for the command: notes its arguments, writes the reports that it is asked for, exits as told.
COMMAND = """#!{python}
import json, os, pathlib, sys
arguments = sys.argv[1:]
with open("calls", "a") as calls:
    calls.write(json.dumps(arguments) + "\\n")
if arguments[:2] == ["runs", "show"]:
    print(arguments[2], arguments[3])
elif arguments[0] == "runs":
    print(json.dumps([{{"slug": "2026-12-01-aaaaaa"}}]))
for name in [word.partition("=")[2] for word in arguments if "=nightly/" in word]:
    pathlib.Path(name).write_text("report of " + name)
what = "BASELINE" if "--write-baseline" in arguments else arguments[0].upper()
sys.exit(int(os.environ.get("FAKE_" + what, "0")))
"""


def _night(folder: Path, *arguments: str, **codes: str) -> tuple[int, list[list[str]]]:
    """Run the script and return its exit code and the commands that it ran."""
    command = folder / "bin" / "neuron-ops"
    command.parent.mkdir()
    command.write_text(COMMAND.format(python=sys.executable))
    command.chmod(0o755)
    variables = {
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(folder / "summary"), **codes,
    }  # fmt: skip
    done = subprocess.run([ROOT / ".ci" / "nightly", *arguments], check=False, cwd=folder, env=variables, timeout=60)
    return done.returncode, [json.loads(line) for line in (folder / "calls").read_text().splitlines()]


def test_a_night_sweeps_judges_and_leaves_its_reports(tmp_path: Path) -> None:
    (tmp_path / "nightly").mkdir()
    (tmp_path / "nightly" / "gate.old").write_text("of the night before")
    code, calls = _night(tmp_path, "sim", "--ops", "aten.add.*", "--", "--baseline", "x y.gz")
    assert code == 0
    run = "2026-12-01-aaaaaa"
    assert calls[0] == ["sweep", "--target", "sim", "--ops", "aten.add.*"]
    assert calls[-2][:4] == ["gate", run, "--baseline", "x y.gz"]
    assert calls[-1] == ["gate", run, "--write-baseline", "nightly/run.baseline.gz"]
    left = {path.name for path in (tmp_path / "nightly").iterdir()}
    assert left == {"run.json", "requirements.txt", "gate.xml", "gate.sarif", "gate.md", "gate.json"}
    assert (tmp_path / "nightly" / "requirements.txt").read_text() == f"{run} --freeze\n"
    assert (tmp_path / "summary").read_text() == "report of nightly/gate.md"


@pytest.mark.parametrize("baseline", ["0", "2"])
@pytest.mark.parametrize("code", ["1", "2"])
def test_the_gates_exit_code_is_the_nights_and_the_summary_is_there(code: str, baseline: str, tmp_path: Path) -> None:
    found, _ = _night(tmp_path, "sim", FAKE_GATE=code, FAKE_BASELINE=baseline)
    assert found == int(code)
    assert (tmp_path / "summary").read_text() == "report of nightly/gate.md"


def test_a_baseline_that_cannot_be_written_fails_the_night(tmp_path: Path) -> None:
    assert _night(tmp_path, "sim", FAKE_BASELINE="2")[0] == 1


def test_a_sweep_that_fails_ends_the_night(tmp_path: Path) -> None:
    code, calls = _night(tmp_path, "sim", FAKE_SWEEP="4")
    assert code == 4
    assert [call[0] for call in calls] == ["sweep"]
