"""The sandbox gives one right result a case, whatever cases do, and leaves no process behind."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from neuron_ops.op_tests.records import BadInput, Case, Outcome, Result
from neuron_ops.workers.process import last_words
from neuron_ops.workers.sandbox import ISOLATIONS, Limits, Sandbox

HERE = Path(__file__).parent
CALM = Limits(seconds=20, memory=300 << 20, start_seconds=20, grace_seconds=5, output=64 << 20)
QUICK = Limits(seconds=0.4, start_seconds=20, grace_seconds=0.3)


@pytest.fixture(autouse=True)
def _fakes_can_be_imported(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]))


def case(act: str, number: int = 0) -> Case:
    return Case(f"test.{act}.default", "float32", f"fake/{number}")


def sandbox(folder: Path, target: str = "fake", limits: Limits = CALM, function: str = "open_session") -> Sandbox:
    return Sandbox(target, bank_folder=folder, limits=limits, session=f"fake_sessions:{function}")


def run(folder: Path, *acts: str, **options):
    cases = [case(act, number) for number, act in enumerate(acts)]
    with sandbox(folder, **options) as box:
        results = list(box.run(cases))
    assert [r.case for r in results] == [c.key for c in cases]
    return results


def wait_for_death(pid: int, seconds: float = 5.0) -> None:
    """Return once a process is dead (a zombie counts as dead); fail after the seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor, "rb", closefd=True):
        assert select.select([descriptor], [], [], seconds)[0], f"process {pid} is alive"


@pytest.mark.parametrize(
    ("act", "outcome", "words"),
    [
        (
            "segfault",
            Outcome.CRASH,
            ("SIGSEGV", "Fatal Python error: Segmentation fault", "in string_at", "in segfault"),
        ),
        ("abort", Outcome.CRASH, ("SIGABRT", "the last words of a library", "in abort")),
        ("spin", Outcome.TIMEOUT, ("no result within 0.4 s", "in spin")),
        ("deaf", Outcome.TIMEOUT, ("no result within 0.4 s",)),
        ("hog", Outcome.CRASH, ("memory limit", "MiB resident", "300 MiB allowed")),
        ("flood", Outcome.CRASH, ("output limit", "64 MiB allowed")),
        ("unpicklable", Outcome.ERROR, ("Local: ('planted'",)),
        ("raises", Outcome.ERROR, ("LookupError: planted", "in raises")),
        ("leaves", Outcome.CRASH, ("exit status 3",)),
        ("exits", Outcome.CRASH, ("exit status 0",)),
        ("kills", Outcome.CRASH, ("SIGKILL, not sent by the sandbox",)),
        ("lies", Outcome.CRASH, ("what is no event",)),
        ("scribbles", Outcome.CRASH, ("what is no event",)),
    ],
)
def test_a_case_that_ends_its_process_costs_only_itself(tmp_path, act, outcome, words):
    limits = QUICK if outcome is Outcome.TIMEOUT else CALM
    before, fault, after = run(tmp_path, "normal", act, "normal", limits=limits)
    assert fault.outcome is outcome
    for word in words:
        assert word in fault.message
    assert "0x0" not in fault.message
    assert len(fault.message) < 6000
    assert (before.outcome, after.outcome) == (Outcome.PASS, Outcome.PASS)


def test_faults_in_a_row_each_get_their_own_result(tmp_path):
    results = run(tmp_path, "abort", "segfault", "kills", "leaves", "wrong", "raises", "normal")
    assert [r.outcome for r in results] == [
        Outcome.CRASH, Outcome.CRASH, Outcome.CRASH, Outcome.CRASH, Outcome.WRONG, Outcome.ERROR, Outcome.PASS,
    ]  # fmt: skip


@pytest.mark.parametrize("act", ["reads", "forks", "noisy"])
def test_a_case_that_meddles_with_its_process_harms_nobody(tmp_path, act):
    assert [r.outcome for r in run(tmp_path, act, "normal", act, "normal")] == [Outcome.PASS] * 4


def test_a_file_of_the_users_folder_shadows_no_module_of_the_child(tmp_path, monkeypatch):
    (tmp_path / "resource.py").write_text("raise SystemExit('shadowed')")
    monkeypatch.chdir(tmp_path)
    assert [r.outcome for r in run(tmp_path, "normal")] == [Outcome.PASS]


def test_the_message_holds_nothing_that_an_earlier_case_wrote(tmp_path):
    _, fault = run(tmp_path, "noisy", "leaves")
    assert "noise" not in fault.message


def test_one_child_serves_many_cases_and_many_calls(tmp_path):
    with sandbox(tmp_path) as box:
        pids = {r.message for _ in range(2) for r in box.run(case("pid", n) for n in range(200))}
    assert len(pids) == 1
    assert box.starts == 1


def test_the_child_is_replaced_after_the_agreed_number_of_cases(tmp_path):
    limits = Limits(recycle=64)
    results = run(tmp_path, *["pid"] * 130, limits=limits)
    assert len({r.message for r in results}) == 3


def test_a_child_that_grew_is_replaced_before_it_costs_a_case(tmp_path):
    # Twelve times 40 MiB: without a replacement at the end of a chunk the later ones would hit the limit.
    results = run(tmp_path, *(["grow"] * 4 + ["pid"] * 60) * 3, limits=Limits(memory=300 << 20))
    assert {r.outcome for r in results} == {Outcome.PASS}
    assert len({r.message for r in results if r.message}) == 4


def test_a_death_with_no_case_running_is_charged_to_none(tmp_path):
    cases = [*(case("normal", n) for n in range(63)), case("later"), *(case("normal", n) for n in range(63, 66))]

    def slowly():
        yield from cases[:64]  # one chunk
        wait_for_death(box.pid)
        yield from cases[64:]

    with sandbox(tmp_path) as box:
        results = list(box.run(slowly()))
    assert [r.case for r in results] == [c.key for c in cases]
    assert {r.outcome for r in results} == {Outcome.PASS}
    assert box.starts == 2


def test_a_case_before_which_three_children_die_is_given_up(tmp_path):
    with sandbox(tmp_path, function="open_mute") as box:
        results = list(box.run([case("normal"), case("normal", 1)]))
    assert [r.outcome for r in results] == [Outcome.CRASH, Outcome.CRASH]
    assert "exit status 9" in results[0].message
    assert box.starts == 6


def test_a_child_that_reports_bad_input_raises_it(tmp_path):
    with sandbox(tmp_path, "bad") as box, pytest.raises(BadInput, match="There is no target 'bad'"):
        list(box.run([case("normal")]))
    assert box.starts == 1


@pytest.mark.parametrize(("target", "words"), [("broken", "would not open"), ("segfault", "SIGSEGV")])
def test_a_child_that_never_starts_raises_with_its_last_words(tmp_path, target, words):
    with sandbox(tmp_path, target) as box, pytest.raises(RuntimeError, match=f"(?s)failed to start 3 times.*{words}"):
        list(box.run([case("normal")]))
    assert box.starts == 3
    assert box.pid is None


def test_a_child_that_starts_at_the_third_try_is_used(tmp_path):
    assert [r.outcome for r in run(tmp_path, "normal", function="open_flaky")] == [Outcome.PASS]


def test_a_case_whose_child_is_killed_from_outside_gets_a_second_try(tmp_path):
    (tmp_path / "once").touch()
    with sandbox(tmp_path, limits=Limits(seconds=60)) as box:
        stream = box.run([case("normal"), case("stays"), case("normal", 1)])
        next(stream)
        killer = threading.Thread(target=lambda: os.kill(family(tmp_path)[0], signal.SIGKILL))
        killer.start()
        assert [r.outcome for r in stream] == [Outcome.PASS, Outcome.PASS]
        killer.join()
        assert box.starts == 2


def test_when_the_process_that_forks_is_killed_another_takes_its_place(tmp_path):
    (tmp_path / "once").touch()
    with sandbox(tmp_path, limits=Limits(seconds=60)) as box:
        stream = box.run([case("normal"), case("stays"), case("normal", 1)])
        next(stream)
        pid, other = box._zygote.pid, []
        killer = threading.Thread(target=lambda: (other.extend(family(tmp_path)), os.kill(pid, signal.SIGKILL)))
        killer.start()
        assert [r.outcome for r in stream] == [Outcome.PASS, Outcome.PASS]
        killer.join()
        assert box._zygote.pid != pid
        for one in (pid, *other):
            wait_for_death(one)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_both_ways_to_start_a_child_serve_and_survive(tmp_path, isolation):
    box = Sandbox("fake", bank_folder=tmp_path, limits=CALM, session="fake_sessions:open_session", isolation=isolation)
    with box:
        results = list(box.run([case("normal"), case("segfault"), case("exits"), case("raises"), case("normal", 1)]))
    assert [r.outcome for r in results] == [Outcome.PASS, Outcome.CRASH, Outcome.CRASH, Outcome.ERROR, Outcome.PASS]
    assert "in segfault" in results[1].message


def test_modules_that_start_threads_when_imported_are_not_forked(tmp_path, monkeypatch):
    (tmp_path / "threaded.py").write_text(
        "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "from fake_sessions import open_session\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"]]))
    box = Sandbox("fake", bank_folder=tmp_path, session="threaded:open_session")
    with box, pytest.raises(BadInput, match=r"start 1 threads .* run with --isolation spawn"):
        list(box.run([case("normal")]))
    with pytest.raises(BadInput, match="use fork or spawn"):
        Sandbox("fake", bank_folder=tmp_path, isolation="thread")


def test_refused_cases_do_not_run_and_deadlines_are_the_cases_own(tmp_path):
    cases = [case("spin"), case("normal"), case("leaves"), case("normal", 1)]
    ticks = []
    with sandbox(tmp_path, limits=Limits(seconds=60, grace_seconds=0.3)) as box:
        results = list(
            box.run(
                cases, seconds=lambda c: 0.4 if "spin" in c.overload else 60, tick=lambda: ticks.append(1),
                refuse=lambda c: Result(c.key, Outcome.SKIPPED) if "leaves" in c.overload else None,
            )
        )  # fmt: skip
    assert {r.case: r.outcome for r in results} == {
        c.key: o for c, o in zip(cases, [Outcome.TIMEOUT, Outcome.PASS, Outcome.SKIPPED, Outcome.PASS], strict=True)
    }
    assert "no result within 0.4 s" in next(r for r in results if r.outcome is Outcome.TIMEOUT).message
    assert ticks


def test_close_ends_the_child_and_what_it_started(tmp_path):
    with sandbox(tmp_path, limits=Limits(seconds=60)) as box:
        stream = box.run([case("pid"), case("family")])
        worker = int(next(stream).message)
        pids = family(tmp_path)
        assert pids[0] == worker
        stream.close()
        assert box.pid is None
    for pid in pids:
        wait_for_death(pid)


def test_cancel_from_another_thread_ends_the_run_at_once(tmp_path):
    with sandbox(tmp_path, limits=Limits(seconds=60)) as box:
        stream = box.run([case("normal"), case("spin"), case("normal", 1)])
        next(stream)
        began = time.monotonic()
        threading.Timer(0.05, box.cancel).start()
        assert list(stream) == []
        assert time.monotonic() - began < 2
        assert box.pid is None


def test_kill_minus_nine_of_the_supervisor_leaves_no_process(tmp_path):
    script = (
        "import sys, fake_sessions, test_sandbox as t; from pathlib import Path\n"
        "box = t.sandbox(Path(sys.argv[1]), limits=t.Limits(seconds=60))\n"
        "list(box.run([t.case('family')]))"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)]) as supervisor:
        try:
            pids = family(tmp_path)
        finally:
            supervisor.send_signal(signal.SIGKILL)
    for pid in pids:
        wait_for_death(pid)


def family(folder: Path) -> list[int]:
    """Return the process ids that the case `family` wrote, once it has."""
    end = time.monotonic() + 10
    while not (text := read_if_there(folder / "family")):
        assert time.monotonic() < end, "the case never started"
        select.select([], [], [], 0.01)
    return [int(word) for word in text.split()]


def read_if_there(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


def test_last_words_keep_the_top_of_a_deep_stack():
    frames = "".join(f'  File "f.py", line {n} in frame_{n}\n' for n in range(500))
    text = f"what a library said\nFatal Python error: Aborted\n\nCurrent thread 0x00007f1234567890:\n{frames}"
    words = last_words((text + "\nExtension modules: numpy, torch\n").encode())
    assert words.startswith("what a library said\nFatal Python error: Aborted")
    assert "in frame_0\n" in words
    assert "Extension modules" not in words
    assert "0x00007f" not in words
    assert len(words) <= 4096


def test_last_words_are_the_tail_where_nothing_fatal_was_said():
    words = last_words(b"start\n" + b"x" * 5000 + b" end")
    assert words.endswith(" end")
    assert len(words) == 4096
