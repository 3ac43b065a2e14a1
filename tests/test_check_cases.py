"""`check` on the 39 models and scripts of a survey of what breaks such tools; each case says in `expected` what is asked."""

import importlib.util
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

CASES = json.loads((Path(__file__).parent / "data" / "check_cases.json").read_text())
CHECKS = [
    pytest.param(
        case, check, id=f"{case['id']}-{number}",
        marks=[pytest.mark.xfail(strict=True, reason=case["left"])] if "left" in case else [],
    )
    for case in CASES for number, check in enumerate(case["checks"])
]  # fmt: skip


def run(folder, *arguments):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def prepared(case, folder):
    """Write the files of the case, run what makes others of them, and return the folder."""
    for name, text in case["files"].items():
        file = folder / case["id"] / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    if "make" in case:
        assert run(folder / case["id"], case["make"]).returncode == 0
    return folder / case["id"]


@pytest.fixture(scope="module")
def finished(request, tmp_path_factory):
    """Return what tells a check's result: the chosen ones run two at once, because most of a check is waiting for torch."""
    base = tmp_path_factory.mktemp("cases")
    chosen = [
        item.callspec.params
        for item in request.session.items
        if item.path == request.path and hasattr(item, "callspec")
    ]
    chosen = [one for one in chosen if not missing(one["case"])]
    with ThreadPoolExecutor(2) as pool:
        folders = {c["case"]["id"]: pool.submit(prepared, c["case"], base) for c in chosen}

        def checked(case, check):
            folder = folders[case["id"]].result()
            options = [*check["arguments"]]
            options.insert(1, "--json")
            return run(folder, "-m", "neuron_ops.cli", "check", *options)

        results = {id(c["check"]): pool.submit(checked, c["case"], c["check"]) for c in chosen}
        yield lambda check: results[id(check)].result()
        pool.shutdown(cancel_futures=True)


def missing(case):
    return "needs" in case and importlib.util.find_spec(case["needs"]) is None


@pytest.mark.parametrize(("case", "check"), CHECKS)
def test_a_case_behaves_as_expected(case, check, finished):
    if missing(case):
        pytest.skip(f"{case['needs']} is not installed")
    done = finished(check)
    assert done.returncode == check["exit"], done.stderr
    for words in check.get("words", ()):
        assert words in done.stdout + done.stderr.replace("\n", " ")
    for words in check.get("unsaid", ()):
        assert words not in done.stderr
    if check["exit"] == 2:
        assert (done.stdout, done.stderr.count("\n")) == ("", 1)
        return
    report = json.loads(done.stdout)
    calls = {}
    for row in report["operators"]:
        calls[row["overload"]] = calls.get(row["overload"], 0) + row["count"]
    compare(check, report, calls)


def compare(check, report, calls):
    """Assert what the check says of the operators, the waits and how the model was run."""
    assert set(check.get("contains", ())) <= set(calls)
    assert not set(check.get("absent", ())) & set(calls)
    for start in check.get("starts", ()):
        assert any(name.startswith(start) for name in calls)
    if "operators" in check:
        assert sorted(calls) == check["operators"]
    for name, count in check.get("calls", {}).items():
        assert calls[name] == count
    for name, route in check.get("routes", {}).items():
        assert {row["route"] for row in report["operators"] if row["overload"] == name} == {route}
    if "waits" in check:
        assert [told(wait) for wait in report["waits"]] == check["waits"]
    if "syncs" in check:
        assert report["counts"]["syncs"] == check["syncs"]
    for name in ("complete", "inputs"):
        assert report[name] == check.get(name, report[name])
    assert report["mode"] == {**report["mode"], **check.get("mode", {})}


def told(wait):
    return f"{wait['kind']} {wait['where']} {wait['calls']}{' steers' if wait['steers'] else ''}"


def test_a_script_that_leaves_with_zero_is_no_pass(tmp_path):
    (tmp_path / "leaves.py").write_text(
        "import sys\nfrom torch import nn, ones\nmodel = nn.ReLU()\nexample_inputs = ones(1)\nsys.exit(0)\n"
    )
    done = run(tmp_path, "-m", "neuron_ops.cli", "check", "leaves.py")
    assert done.returncode == 3
    assert "nothing was judged" in done.stderr
