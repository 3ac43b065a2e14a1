"""Batches belong to one worker at a time, in the database's time; nothing is lost when a worker is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import small_run
import sqlalchemy as sa
from neuron_ops.coverage_db import leases, queries, recorder
from neuron_ops.coverage_db import models as m
from neuron_ops.coverage_db.batches import cut
from neuron_ops.coverage_db.database import read, write
from neuron_ops.coverage_db.history import Known, fatal_cases, known_times
from neuron_ops.op_tests.records import BadInput, Case, Outcome, Result, Status

if TYPE_CHECKING:
    from neuron_ops.coverage_db.leases import Claim
    from sqlalchemy import Engine

pytest_plugins = ["services"]


def _start(engine: Engine) -> int:
    with write(engine) as conn:
        recorder.record_operators(conn, small_run.OPERATORS)
        return recorder.start_run(
            conn, build=small_run.SIM, denominators=small_run.DENOMINATORS, cases=small_run.cases(), seed=7,
            selection="--all", options={"seconds": 1},
        ).run_id  # fmt: skip


def _claim(engine: Engine, run_id: int, owner: str = "me", lease: float = 60.0, no: int | None = None) -> Claim | None:
    with write(engine) as conn:
        return leases.claim(conn, run_id, owner, no=no, lease=lease)


def _must_claim(engine: Engine, run_id: int, owner: str = "me", lease: float = 60.0) -> Claim:
    held = _claim(engine, run_id, owner, lease)
    assert held is not None
    return held


def _batch(engine: Engine, no: int) -> sa.Row[tuple[object, ...]]:
    with read(engine) as conn:
        return conn.execute(sa.select(m.run_batch).where(m.run_batch.c.no == no)).one()


def _results(held: Claim) -> list[Result]:
    wanted = {case.key for case in held.cases}
    return [result for result in small_run.results() if result.case in wanted]


def test_batches_are_claimed_once_and_hold_every_case_once(engine: Engine) -> None:
    run_id = _start(engine)
    first, second = _must_claim(engine, run_id, "a"), _must_claim(engine, run_id, "b")
    assert (first.no, second.no) == (0, 1)
    assert _claim(engine, run_id) is None
    assert _claim(engine, run_id, no=0) is None
    assert sorted(c.key for c in (*first.cases, *second.cases)) == sorted(c.key for c in small_run.cases())
    assert len(first.cases) == 16


def test_a_lease_that_ran_out_passes_the_batch_on_and_the_old_owner_stores_nothing(engine: Engine) -> None:
    run_id = _start(engine)
    old = _must_claim(engine, run_id, "old", lease=-1.0)
    new = _must_claim(engine, run_id, "new")
    assert (new.no, new.cases) == (old.no, old.cases)
    with pytest.raises(leases.LeaseLost), write(engine) as conn:
        leases.flush(conn, old, _results(old), lease=60)
    with read(engine) as conn:
        assert recorder.count_results(conn, run_id) == 0
    with write(engine) as conn:
        assert leases.flush(conn, new, _results(new), lease=60, done=True)
    assert _batch(engine, new.no).state == leases.DONE


def test_a_flush_extends_the_lease_and_the_next_owner_gets_what_is_missing(engine: Engine) -> None:
    run_id = _start(engine)
    held = _must_claim(engine, run_id, lease=1.0)
    before = _batch(engine, held.no).lease_until
    with write(engine) as conn:
        leases.flush(conn, held, _results(held)[:5], lease=100.0)
    row = _batch(engine, held.no)
    assert row.lease_until > before + 50
    assert row.attempts == 0
    with write(engine) as conn:
        leases.flush(conn, held, [], lease=-1.0)
    again = _must_claim(engine, run_id, "next")
    assert again.no == held.no
    assert [c.key for c in again.cases] == [r.case for r in _results(held)[5:]]


def test_storing_a_result_again_overwrites_it(engine: Engine) -> None:
    run_id = _start(engine)
    held = _must_claim(engine, run_id)
    changed = Result(held.cases[0].key, Outcome.ERROR, message="second time")
    with write(engine) as conn:
        leases.flush(conn, held, _results(held), lease=60)
        leases.flush(conn, held, [changed], lease=60)
    with read(engine) as conn:
        assert recorder.count_results(conn, run_id) == len(held.cases)
        outcomes = conn.execute(sa.select(m.result.c.outcome).join(m.case_).where(
            m.case_.c.key == bytes.fromhex(changed.case)))  # fmt: skip
        assert outcomes.scalar() == "error"


def test_a_batch_that_never_stores_anything_is_given_up_and_the_run_says_so(engine: Engine) -> None:
    run_id = _start(engine)
    for _ in range(leases.MAX_ATTEMPTS):
        assert _must_claim(engine, run_id, lease=-1.0).no == 0
    other = _must_claim(engine, run_id)
    assert other.no == 1
    with write(engine) as conn:
        leases.flush(conn, other, _results(other), lease=60, done=True)
        assert not recorder.finalize_if_complete(conn, run_id)
        assert leases.settle(conn, run_id) == 0
        assert recorder.finalize_if_complete(conn, run_id)
    assert _batch(engine, 0).state == leases.GIVEN_UP
    with read(engine) as conn:
        run = queries.latest_run(conn)
    assert run is not None
    assert (run.state, run.planned - (run.recorded or 0)) == ("failed", 16)
    with write(engine) as conn:
        assert leases.reopen(conn, run_id) == 1
    assert _must_claim(engine, run_id).no == 0


def test_what_is_given_back_costs_no_attempt_and_what_the_dead_held_is_free(engine: Engine) -> None:
    run_id = _start(engine)
    held = _must_claim(engine, run_id, "alive")
    with write(engine) as conn:
        leases.release(conn, held)
    assert (_batch(engine, 0).state, _batch(engine, 0).attempts) == (leases.QUEUED, 0)
    _must_claim(engine, run_id, "alive")
    _must_claim(engine, run_id, "dead")
    with write(engine) as conn:
        assert leases.release_dead(conn, run_id, lambda owner: owner == "dead") == 1
    assert _must_claim(engine, run_id).no == 1
    assert _claim(engine, run_id) is None


def test_a_cancelled_run_is_claimed_by_nobody_and_tells_its_workers(engine: Engine) -> None:
    run_id = _start(engine)
    held = _must_claim(engine, run_id)
    with write(engine) as conn:
        assert leases.cancel(conn, run_id)
        assert not leases.cancel(conn, run_id)
    assert _claim(engine, run_id) is None
    with write(engine) as conn:
        assert not leases.flush(conn, held, _results(held), lease=60)
        leases.release(conn, held)
        assert recorder.finalize_run(conn, run_id).recorded == 16
    with write(engine) as conn:
        assert leases.run_to_do(conn, run_id).state == "cancelled"
        leases.reopen(conn, run_id)
        assert leases.run_to_do(conn, run_id).state == "running"


def test_batches_are_announced_once_and_again_only_after_the_wait(engine: Engine) -> None:
    run_id = _start(engine)
    with write(engine) as conn:
        assert leases.to_publish(conn, run_id, wait=60) == [0, 1]
        assert leases.to_publish(conn, run_id, wait=60) == []
        assert leases.to_publish(conn, run_id, wait=-1) == [0, 1]
        leases.unpublish(conn, run_id, [1])
        assert leases.to_publish(conn, run_id, wait=60) == [1]
    _must_claim(engine, run_id)
    with write(engine) as conn:
        assert leases.to_publish(conn, run_id, wait=-1) == [1]


def test_a_run_without_batches_is_refused(engine: Engine) -> None:
    run_id = small_run.start(engine)
    with read(engine) as conn, pytest.raises(BadInput, match="not made to be shared"):
        leases.run_to_do(conn, run_id)
    with read(engine) as conn, pytest.raises(BadInput, match="no run 99"):
        leases.run_to_do(conn, 99)


def test_a_result_that_the_database_refuses_costs_only_itself(engine: Engine) -> None:
    run_id = _start(engine)
    held = _must_claim(engine, run_id)
    results = _results(held)
    guilty = Result(results[3].case, Outcome.PASS, device_ms="no number at all")  # type: ignore[arg-type]
    results[3] = guilty
    with write(engine) as conn:
        leases.flush(conn, held, results, lease=60, done=True)
    with read(engine) as conn:
        rows = conn.execute(
            sa.select(m.case_.c.key, m.result.c.outcome, m.error_signature.c.text)
            .select_from(m.case_)
            .join(m.result)
            .outerjoin(m.error_signature, m.error_signature.c.id == m.result.c.signature_id)
        ).all()
    found = {row.key.hex(): row for row in rows}
    assert len(found) == 16
    assert found[guilty.case].outcome == "error"
    assert found[guilty.case].text.startswith("our fault: the result could not be stored")
    assert [found[r.case].outcome for r in results if r is not guilty] == [
        r.outcome.value for r in results if r is not guilty
    ]


def test_a_done_run_teaches_times_and_the_running_one_counts_its_dead(engine: Engine) -> None:
    run_id = _start(engine)
    while (held := _claim(engine, run_id)) is not None:
        with write(engine) as conn:
            leases.flush(conn, held, _results(held), lease=60, done=True)
    with write(engine) as conn:
        assert recorder.finalize_if_complete(conn, run_id)
        known = known_times(conn, run_id, ["aten.add.Tensor", "aten.addmm.default"])
        assert known["aten.add.Tensor", "float32"] == Known(3, 4.5, 1.5, Status.NATIVE)
        assert {name for name, _ in known} == {"aten.add.Tensor", "aten.addmm.default"}
        assert fatal_cases(conn, run_id, small_run.cases()) == {
            ("aten.addmm.default", "bfloat16"): 1, ("aten.add_.Tensor", "float32"): 1,
        }  # fmt: skip
    second = _start(engine)
    with read(engine) as conn:
        assert leases.run_to_do(conn, second).learned_from == run_id


def test_batches_are_of_one_length_in_time_and_those_that_end_processes_are_small() -> None:
    cases = [
        Case(f"test.{name}.default", "float32", f"s/{n}") for name in ("slow", "quick", "fatal") for n in range(40)
    ]
    known = {
        ("test.slow.default", "float32"): Known(1, 4998.0, 4998.0, Status.NATIVE),
        ("test.quick.default", "float32"): Known(10, 10.0, 1.0, Status.NATIVE),
        ("test.fatal.default", "float32"): Known(1, 10.0, 10.0, Status.CRASH),
    }
    batches = cut(cases, known, workers=1)
    assert sorted(c.key for batch in batches for c in batch.cases) == sorted(c.key for c in cases)
    names = [{case.overload for case in batch.cases} for batch in batches]
    assert names[:10] == [{"test.slow.default"}] * 10
    assert [len(batch.cases) for batch in batches[:10]] == [4] * 10
    assert [len(b.cases) for b, n in zip(batches, names, strict=True) if n == {"test.fatal.default"}] == [16, 16, 8]
    assert [batch.est_ms for batch in batches] == sorted((batch.est_ms for batch in batches), reverse=True)
    assert max(len(batch.cases) for batch in cut(cases * 100, {}, workers=1)) == 500
