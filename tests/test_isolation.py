"""A call that kills its process costs exactly itself."""

import os
import signal
import time

import pytest
from neuron_ops.op_tests import isolation
from neuron_ops.op_tests.isolation import Death, Found, isolated


def run(tasks, work, counts=lambda payload: True):
    return list(isolated(tasks, work, counts))


def numbered(task, place):
    """Yield (task, attempt) of three attempts; a task names the attempt that kills."""
    for attempt in range(3):
        if not place.starts(attempt):
            continue
        if attempt == task:
            os.kill(os.getpid(), signal.SIGSEGV)
        yield task, attempt


def test_every_other_attempt_comes_back_in_order():
    events = run([9, 1, 9], numbered)
    assert [e.payload for e in events if isinstance(e, Found)] == [
        (9, 0), (9, 1), (9, 2), (1, 0), (1, 2), (9, 0), (9, 1), (9, 2),
    ]  # fmt: skip
    assert [e for e in events if isinstance(e, Death)] == [Death(1, 1, "the CPU kernel died of SIGSEGV")]


def test_a_death_that_does_not_repeat_is_not_held_against_the_attempt(tmp_path):
    marker = tmp_path / "died"

    def work(task, place):
        for attempt in range(2):
            if place.starts(attempt):
                if attempt == 1 and not marker.exists():
                    marker.touch()
                    os._exit(11)
                yield attempt

    assert run([0], work) == [Found(0, 0), Found(0, 1)]


def test_an_attempt_that_does_not_end_is_ended(monkeypatch):
    monkeypatch.setattr(isolation, "CPU_SECONDS", 0.2)

    def work(task, place):
        if place.starts(0):
            while time.process_time():
                pass
        if place.starts(1):
            yield "after"

    assert run([0], work) == [Death(0, 0, "no answer in 0.2 s"), Found(0, "after")]


def test_a_task_that_kills_all_the_time_is_given_up():
    def work(task, place):
        for attempt in range(1000):
            if place.starts(attempt):
                os.kill(os.getpid(), signal.SIGKILL)
        yield task

    events = run([0, 1], work)
    assert len(events) == 2 * isolation.DEATHS_OF_A_TASK


def test_payloads_of_before_a_death_are_counted():
    def work(task, place):
        yield place.found
        if place.starts(0):
            os.kill(os.getpid(), signal.SIGKILL)

    payloads = [e.payload for e in run([0], work, lambda payload: payload == 0) if isinstance(e, Found)]
    assert payloads[0] == 0
    assert payloads[-1] == 1


def test_a_fault_of_the_work_itself_is_raised_with_its_traceback():
    def work(task, place):
        yield from [task / 0]

    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        run([1], work)


def test_a_child_does_not_take_the_memory_of_the_machine():
    def work(task, place):
        try:
            bytearray(64 << 30)
        except MemoryError:
            yield "refused"

    assert run([0], work) == [Found(0, "refused")]
