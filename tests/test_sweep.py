"""A sweep stores one result a case, survives what ends it, and says what came out."""

import contextlib
import dataclasses
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from neuron_ops.cli.main import neuron_ops, run
from neuron_ops.coverage_db.database import open_database, read, write
from neuron_ops.coverage_db.history import Known
from neuron_ops.coverage_db.queries import latest_run, overload
from neuron_ops.coverage_db.recorder import count_results
from neuron_ops.coverage_db.rows import Totals
from neuron_ops.coverage_db.settings import load_settings
from neuron_ops.op_tests.records import BadInput, Build, Case, Evidence, Outcome, Status
from neuron_ops.workers import local, runs
from neuron_ops.workers.batch import RunOptions, deadline
from neuron_ops.workers.planner import PlanRequest, request_plan
from neuron_ops.workers.runs import Progress
from neuron_ops.workers.sandbox import Limits

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _own_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("NEURON_OPS_DATA", str(tmp_path))
    monkeypatch.setenv("NEURON_OPS_CACHE", str(tmp_path))
    monkeypatch.delenv("NEURON_OPS_DATABASE_URL", raising=False)
    monkeypatch.chdir(tmp_path)


def plan(tmp_path, *ops, target="fake", dtypes=("float32",), limit=None, progress=lambda *_: None):
    request = PlanRequest(target, ops, dtypes, limit, 7, tmp_path)
    return request_plan(request, progress=progress, plan="fake_sessions:make_plan")


def sweep(tmp_path, planned, *, jobs=1, progress=lambda _: None, **limits):
    run_options = RunOptions(Limits(**{"seconds": 20, **limits}), session="fake_sessions:open_session")
    options = local.SweepOptions(tmp_path, jobs, run_options)
    return local.sweep(load_settings(), planned, options=options, progress=progress)


def stored():
    """Return the latest run and how many results it has, without disturbing who writes."""
    engine = open_database(load_settings().database_url)
    with read(engine) as conn:
        found = latest_run(conn)
        result = found, count_results(conn, found.id) if found else 0
    engine.dispose()
    return result


def start_command(*arguments):
    return subprocess.Popen([sys.executable, str(HERE / "fake_command.py"), "sweep", "--jobs", "1", *arguments])


def until(condition, seconds=15.0):
    """Return the first true value of the condition, or fail."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end
        select.select([], [], [], 0.02)
    return value


def test_a_plan_crosses_the_border_unchanged(tmp_path):
    told = []
    planned = plan(tmp_path, "normal*700", "wrong", dtypes=("float32", "bfloat16"), progress=lambda *p: told.append(p))
    assert told == [(1, 2, "samples of torch 0.0"), (2, 2, "samples of torch 0.0")]
    assert planned.build == Build("fake", Evidence.SIMULATED, {"fake-torch": "0.0"})
    assert [o.name for o in planned.operators] == ["test.normal.default", "test.wrong.default"]
    assert planned.operators[0].tags == ("core",)
    assert planned.denominators.to_json()["excluded"] == {"internal": 1}
    assert len(planned.cases) == 1402
    assert planned.cases[-1] == Case("test.wrong.default", "bfloat16", "fake/0", seed=7)
    assert planned.selection == "normal*700 wrong, float32 bfloat16"
    limited = plan(tmp_path, "normal*9", limit=3)
    assert (len(limited.cases), limited.selection) == (3, "normal*9, float32, at most 3 samples")


def test_a_planner_that_refuses_raises_bad_input(tmp_path):
    with pytest.raises(BadInput, match="No operator matches"):
        plan(tmp_path, "nothing")


def test_a_planner_that_dies_raises_with_its_last_words(tmp_path):
    with pytest.raises(RuntimeError, match=r"(?s)SIGABRT.*in make_plan"):
        plan(tmp_path, "death")


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_planned_case_is_recorded_once(tmp_path, jobs):
    told = []
    planned = plan(tmp_path, "normal*620", "segfault*2", "wrong*3", "leaves", "raises", "spin")
    report = sweep(tmp_path, planned, jobs=jobs, progress=told.append, seconds=0.7, grace_seconds=0.3)
    totals = report.totals
    assert (totals.planned, totals.recorded, totals.lost) == (628, 628, 0)
    assert totals.counts == {"N": 620, "X": 3, "W": 3, "E": 1, "T": 1}
    assert totals.cells == {"N": 1, "X": 2, "W": 1, "E": 1, "T": 1}
    worst = [(found.case.overload.split(".")[1], found.status) for found in report.worst]
    assert worst[0] == ("wrong", Status.WRONG)
    assert {name for name, status in worst[1:3] if status is Status.CRASH} == {"segfault", "leaves"}
    assert worst[3:] == [("spin", Status.TIMEOUT), ("raises", Status.ERROR)]
    assert {found.case.overload: found.device_ms for found in report.slowest} == {
        "test.normal.default": 1.0,
        "test.wrong.default": 1.0,
    }
    assert [p.done for p in told] == sorted(p.done for p in told)
    assert told[-1].done == told[-1].total == 628
    assert told[-1].counts[Status.NATIVE] == 620
    run_row, count = stored()
    assert (run_row.slug, run_row.state, run_row.seed, count) == (report.run.slug, "done", 7, 628)


def test_the_rate_counts_from_the_first_result():
    progress = Progress(done=31, total=91, counts={}, seconds=3.0)
    assert (progress.rate, progress.seconds_left) == (10.0, 6.0)
    assert Progress(done=1, total=91, counts={}, seconds=0.0).seconds_left is None


def test_two_sandboxes_share_a_short_sweep(tmp_path):
    assert sweep(tmp_path, plan(tmp_path, "normal*40"), jobs=2).children == 2


def test_a_case_planned_twice_runs_once(tmp_path):
    planned = plan(tmp_path, "normal*2")
    planned = dataclasses.replace(planned, cases=planned.cases * 2)
    told = []
    assert sweep(tmp_path, planned, progress=told.append).totals.planned == 2
    assert (told[-1].done, told[-1].total, stored()[1]) == (2, 2, 2)


def test_a_target_that_cannot_be_opened_closes_the_run_as_failed(tmp_path):
    with pytest.raises(BadInput, match="There is no target 'bad'"):
        sweep(tmp_path, plan(tmp_path, "normal*3", target="bad"), jobs=2)
    run_row, count = stored()
    assert (run_row.state, count) == ("failed", 0)


def test_kill_minus_nine_of_a_sweep_keeps_what_was_flushed(tmp_path):
    with start_command("--ops", "normal*600,family", "--dtypes", "float32") as command:
        try:
            until(lambda: (tmp_path / "neuron-ops.sqlite").exists() and stored()[1] == 600)
            pids = until(lambda: (path := tmp_path / "family").exists() and path.read_text().split())
        finally:
            command.kill()
    assert stored()[1] == 600
    for pid in pids:
        until(lambda pid=pid: is_dead(int(pid)))


def test_ctrl_c_stores_what_is_finished_and_closes_the_run(tmp_path):
    with start_command("--ops", "normal*10,family", "--dtypes", "float32") as command:
        until((tmp_path / "family").exists)
        command.send_signal(signal.SIGINT)
        assert command.wait(10) == 130
    run_row, count = stored()
    assert (run_row.state, count) == ("failed", 10)
    for pid in (tmp_path / "family").read_text().split():
        until(lambda pid=pid: is_dead(int(pid)))


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_resume_goes_on_where_any_death_left_it(tmp_path, end):
    (tmp_path / "once").touch()
    with start_command("--ops", "normal*600,stays,wrong", "--dtypes", "float32") as command:
        try:
            until((tmp_path / "family").exists)
        finally:
            command.send_signal(end)
    run_row, count = stored()
    assert (run_row.state, count) in {("running", 600), ("failed", 600)}
    code, out, err = command_output("--resume", "--jobs", "2", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert (data["run"], data["planned"], data["recorded"]) == (run_row.slug, 602, 602)
    assert data["counts"] == {"N": 601, "W": 1}
    assert data["seconds"] < 30  # the lease of the dead sweep was not waited for
    assert run(["sweep", "--resume"]) == 2
    assert run(["sweep", "--resume", run_row.slug]) == 2
    assert run(["sweep", "--resume", "2026-01-01-none"]) == 2


def test_an_overload_that_keeps_ending_processes_is_not_run_to_its_end(tmp_path):
    report = sweep(tmp_path, plan(tmp_path, "normal*3", "segfault*40", "leaves*2"), jobs=1)
    assert report.totals.counts == {"N": 3, "X": 5, "–": 37}
    assert report.totals.cells == {"N": 1, "X": 2}
    assert report.children == 6
    engine = open_database(load_settings().database_url)
    with read(engine) as conn:
        page = overload(conn, latest_run(conn), "test.segfault.default")
    engine.dispose()
    skipped = [case for case in page.cases if case.outcome is Outcome.SKIPPED]
    assert len(skipped) == 37
    assert "not run (breaker): 3 cases of test.segfault.default in float32" in skipped[0].message


def test_deadlines_are_learned_within_a_floor_and_a_cap():
    assert deadline(None, 30.0) == 30.0
    assert deadline(Known(9, 90.0, 10.0, Status.NATIVE), 30.0) == 5.0
    assert deadline(Known(9, 9000.0, 1000.0, Status.NATIVE), 30.0) == 20.0
    assert deadline(Known(9, 90000.0, 10000.0, Status.NATIVE), 30.0) == 30.0


@pytest.fixture
def small_disk(monkeypatch):
    """Return a list whose one item is how many pages the database may have from the next transaction on."""
    pages = [1 << 30]

    def open_small(url, **options):
        engine = open_database(url, **options)

        @sa.event.listens_for(engine, "begin")
        def _begin(conn):
            conn.exec_driver_sql(f"PRAGMA max_page_count={pages[0]}")

        return engine

    monkeypatch.setattr(local, "open_database", open_small)
    return pages


def test_a_full_disk_is_one_sentence_and_resume_completes_when_there_is_room(tmp_path, small_disk, capsys, monkeypatch):
    planned = plan(tmp_path, "normal*3000")
    begin = runs.begin

    def begin_and_fill(engine, *arguments, **options):
        start = begin(engine, *arguments, **options)
        with read(engine) as conn:
            small_disk[0] = conn.exec_driver_sql("PRAGMA page_count").scalar() + 5
        return start

    monkeypatch.setattr(runs, "begin", begin_and_fill)
    monkeypatch.setattr("neuron_ops.cli.sweep.request_plan", lambda *_, **__: planned)
    monkeypatch.setattr(
        "neuron_ops.cli.sweep.RunOptions", partial(RunOptions, session="fake_sessions:open_session", lease=4.0)
    )
    assert run(["sweep", "--jobs", "1"]) == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert "is full" in sentence
    assert "sweep --resume" in sentence
    assert stored()[0].state != "done"
    small_disk[0] = 1 << 30
    assert run(["sweep", "--resume", "--jobs", "1"]) == 0
    assert (stored()[0].state, stored()[1]) == ("done", 3000)


def test_a_database_that_nobody_may_write_is_one_sentence(tmp_path):
    sweep(tmp_path, plan(tmp_path, "normal*2"))
    engine = open_database(load_settings().database_url)
    sa.event.listen(engine, "begin", lambda conn: conn.exec_driver_sql("PRAGMA query_only=ON"))
    with pytest.raises(BadInput, match="cannot be opened for writing"), write(engine) as conn:
        conn.exec_driver_sql("DELETE FROM result")
    engine.dispose()


def test_a_run_of_other_versions_is_not_mixed_with_ours(tmp_path):
    planned = plan(tmp_path, "normal*2")
    planned = dataclasses.replace(planned, build=dataclasses.replace(planned.build, versions={"click": "1.0"}))
    with pytest.raises(BadInput, match=r"planned with click 1\.0 and .* is installed here"):
        sweep(tmp_path, planned)
    assert stored()[0].state == "failed"


def is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def command_output(*arguments):
    done = subprocess.run(
        [sys.executable, str(HERE / "fake_command.py"), "sweep", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_json_is_one_object_on_standard_output(tmp_path):
    code, out, err = command_output("--target", "fake", "--ops", "normal*4,segfault", "--jobs", "1", "--json")
    assert code == 0, err
    data = json.loads(out)
    assert (data["target"], data["evidence"], data["versions"]) == ("fake", "simulated", {"fake-torch": "0.0"})
    assert (data["planned"], data["recorded"], data["lost"]) == (10, 10, 0)
    assert data["counts"] == {"N": 8, "X": 2}
    assert data["cells"] == {"N": 2, "X": 2}
    core = next(number for number in data["numbers"] if number["id"] == "core-native")
    assert (core["n"], core["evidence"]) == (2, "simulated")
    assert stored()[0].slug == data["run"]
    assert "10 of 10 cases" in err


def test_the_summary_names_letters_numbers_findings_and_the_next_command(tmp_path):
    code, out, _ = command_output("--ops", "normal*4,segfault,wrong", "--dtypes", "float32", "--db", "my.sqlite")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    assert ["N", "native", "1", "4"] in lines
    assert ["X", "crash", "1", "1"] in lines
    assert any(line[:3] == ["W", "test.wrong.default", "float32"] for line in lines)
    assert any(line[:3] == ["X", "test.segfault.default", "float32"] and line[4] == "SIGSEGV" for line in lines)
    assert any(line[:1] == ["1.0"] and line[2] == "test.normal.default" for line in lines)
    assert "1 of " in out
    assert f"sqlite:///{tmp_path}/my.sqlite" in out
    assert out.endswith("  neuron-ops serve --db my.sqlite\n")


def test_a_terminal_gets_a_bar_with_rate_and_counts():
    terminal, other_end = pty.openpty()
    command = [sys.executable, str(HERE / "fake_command.py"), "sweep", "--ops", "normal*40,wrong", "--json"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=other_end, env=environment) as process:
        os.close(other_end)
        seen = b""
        with contextlib.suppress(OSError):  # the end of a terminal whose other end is closed
            while data := os.read(terminal, 4096):
                seen += data
        assert json.loads(process.stdout.read())["recorded"] == 82
    os.close(terminal)
    assert b"82/82" in seen
    assert b"N 80 W 2" in seen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--memory", "much"), "write a number with a unit"),
        (("--memory", "0GiB"), "write a number with a unit"),
        (("--timeout", "0"), "0"),
        (("--limit", "0"), "1"),
        (("--ops", " , "), "expected at least one name"),
        (("--plant", "aten.add.Tensor"), "expected OVERLOAD=FAULT"),
        (("--db", "oracle://x/y"), "use sqlite:///FILE or postgresql"),
    ],
)
def test_bad_options_end_with_2_and_a_sentence_before_anything_runs(tmp_path, capsys, arguments, words):
    assert run(["sweep", *arguments]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "size"), [("4GiB", 4 << 30), ("512 MiB", 512 << 20), ("1.5g", 3 << 29), ("1000", 1000)]
)
def test_sizes(text, size):
    from neuron_ops.cli.sweep import Size

    assert Size().convert(text, None, None) == size


def test_a_lost_case_ends_with_4(tmp_path, monkeypatch, capsys):
    planned = plan(tmp_path, "normal*2")
    monkeypatch.setattr("neuron_ops.cli.sweep.request_plan", lambda *_, **__: planned)
    report = sweep(tmp_path, planned)
    lossy = dataclasses.replace(report, totals=Totals(2, 1, 1, {"N": 1, "–": 1}, {"N": 1}))
    monkeypatch.setattr(local, "sweep", lambda *_, **__: lossy)
    assert run(["sweep"]) == 4
    assert "1 planned cases have no result" in capsys.readouterr().err


def test_the_hidden_option_is_not_in_the_help():
    text = CliRunner().invoke(neuron_ops, ["sweep", "--help"]).output
    assert "--memory" in text
    assert "--plant" not in text
