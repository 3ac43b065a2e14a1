"""`neuron-ops selftest`: plant faults, or try a list of faults, and say which of them the harness misses."""

from __future__ import annotations

import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.cli.sweep import Size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.op_tests.records import Result
    from neuron_ops.op_tests.selftest import Planted
    from neuron_ops.op_tests.selftest_faults import Entry, Row

_ENDING_SECONDS = 2.0  # how long a case of the self-test may hang; all others take milliseconds
_SLACK_SECONDS = 10.0  # what the sandbox waits longer than a fork's own limit


@click.command()
@click.option("--target", default="sim", show_default=True, help="Where to plant the faults or run the list.")
@click.option(
    "--bank", type=click.Path(path_type=Path), metavar="FILE",
    help="Try a JSON list of faults (id, repro, want, fault, detect_by) instead of planting our own.",
)  # fmt: skip
@click.option(
    "--timeout", default=10.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
    help="With --bank: seconds that one snippet may take.",
)  # fmt: skip
@click.option("--memory", default="4GiB", show_default=True, type=Size(), help="With --bank: memory that one may take.")
@click.option(
    "--gate", "regressions", type=click.IntRange(min=1), metavar="N",
    help="Plant N random regressions into runs of an own database, and judge each with the gate, instead.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, type=click.INT, help="With --gate: which N.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def selftest(
    target: str, bank: Path | None, timeout: float, memory: int, regressions: int | None, seed: int, as_json: bool
) -> int:
    """Prove that wrong results are caught: plant faults of every kind, exit code 1 when one is missed.

    With --bank, say for each entry of a list whether its repro passes on the target, whether the comparer accepts the
    wanted result, and whether it flags the faulty one. Its snippets run in child processes.

    Example: neuron-ops selftest --bank faults.json
    """
    if regressions is not None:
        return _plant_regressions(regressions, seed, as_json=as_json)
    if bank is None:
        return _plant(target, as_json=as_json)
    return _try_list(bank, target, timeout, memory, as_json=as_json)


# --- planted faults --------------------------------------------------------------------------------------------------


def _plant(target: str, *, as_json: bool) -> int:
    from neuron_ops.op_tests import selftest as tests

    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="neuron-ops-") as name:
        folder = Path(name)
        tests.write_samples(folder)
        planted = [*tests.plant_all(target, folder), *_endings(target, folder)]
    found = tests.report(target, planted) | {"seconds": round(time.monotonic() - start, 1)}
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print_planted(found, planted)
    return int(bool(found["missed"]))


def _endings(target: str, folder: Path) -> list[Planted]:
    """Return what became of the faults that end a process or never end, each run in a sandbox."""
    from neuron_ops.op_tests import selftest as tests
    from neuron_ops.workers.sandbox import Limits, Sandbox

    results: list[Result] = []
    limits = Limits(seconds=_ENDING_SECONDS)
    with Sandbox(target, bank_folder=folder, plants=tests.ending_plants(), limits=limits) as sandbox:
        results.extend(sandbox.run(tests.ending_cases()))
    return tests.ended(results)


def _print_planted(found: dict[str, Any], planted: Sequence[Planted]) -> None:
    for fault in found["faults"]:
        of_kind = [p for p in planted if p.fault == fault]
        places = len({p.overload for p in of_kind})
        click.echo(f"{fault:<26} {sum(p.caught for p in of_kind):>4} of {len(of_kind):>3} caught, {places} overloads")
    for missed in found["missed"]:
        click.echo(
            f"MISSED {missed['fault']} in {missed['overload']} {missed['dtype']} {missed['variant']}: {missed['seen']}"
        )
    click.echo(
        f"{found['caught']} of {found['planted']} planted faults caught over {found['overloads']} overloads on "
        f"{found['target']} in {found['seconds']} s"
    )


# --- planted regressions ---------------------------------------------------------------------------------------------


def _plant_regressions(count: int, seed: int, *, as_json: bool) -> int:
    from neuron_ops.coverage_db.gate_selftest import plant_regressions

    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="neuron-ops-") as name:
        planted, alarms = plant_regressions(Path(name), count, seed)
    seconds = round(time.monotonic() - start, 1)
    missed = [{"kind": p.kind, "overload": p.case.overload, "dtype": p.case.dtype} for p in planted if not p.caught]
    if as_json:
        found = {
            "planted": count,
            "caught": count - len(missed),
            "missed": missed,
            "alarms": alarms,
            "seconds": seconds,
        }
        click.echo(json.dumps(found))
        return int(bool(missed or alarms))
    for kind, of_kind in sorted(Counter(p.kind for p in planted).items()):
        click.echo(f"{kind:<26} {sum(p.caught for p in planted if p.kind == kind):>4} of {of_kind:>3} caught")
    click.echo(
        f"{count - len(missed)} of {count} planted regressions caught, each named alone and in its group; {alarms} false "
        f"alarms in {count // 10} unchanged runs, in {seconds} s"
    )
    return int(bool(missed or alarms))


# --- a list of faults ------------------------------------------------------------------------------------------------


def _try_list(path: Path, target: str, seconds: float, memory: int, *, as_json: bool) -> int:
    from neuron_ops.op_tests.selftest_faults import Entry, read_list, totals

    data = read_list(path)
    entries = [Entry.read(item, number) for number, item in enumerate(data)]
    rows = _judged(data, entries, target, seconds, memory)
    found = {"target": target, "entries": [row.to_json() for row in rows], "totals": totals(rows)}
    if as_json:
        click.echo(json.dumps(found))
    else:
        _print_rows(rows, totals(rows), target)
    return int(not all(row.complete for row in rows))


def _judged(data: list[Any], entries: list[Entry], target: str, seconds: float, memory: int) -> list[Row]:
    """Return a row for each entry, tried in a sandbox."""
    from neuron_ops.op_tests.selftest_faults import ENTRIES_FILE, cases, row_of
    from neuron_ops.workers.sandbox import Limits, Sandbox

    asked = cases(entries)
    results: dict[str, Result] = {}
    with tempfile.TemporaryDirectory(prefix="neuron-ops-") as folder:
        Path(folder, ENTRIES_FILE).write_text(json.dumps(data), encoding="utf-8")
        sandbox = Sandbox(
            target, bank_folder=Path(folder), plants={"seconds": str(seconds), "memory": str(memory)},
            limits=Limits(seconds=seconds + _SLACK_SECONDS, memory=memory + (4 << 30)),
            session="neuron_ops.op_tests.selftest_bank:open_entries",
        )  # fmt: skip
        with sandbox:
            results.update((result.case, result) for result in sandbox.run(asked))
    return [row_of(number, entry, results) for number, entry in enumerate(entries)]


def _print_rows(rows: Sequence[Row], counts: dict[str, int], target: str) -> None:
    answers = {True: "yes", False: "NO", None: "-"}
    width = max(len("entry"), *(len(row.id) for row in rows))
    click.echo(f"{'entry':<{width}}  repro passes  want accepted  fault flagged  note")
    for row in rows:
        cells = (answers[row.repro_passes], answers[row.want_accepted], answers[row.fault_flagged])
        click.echo(f"{row.id:<{width}}  {cells[0]:<12}  {cells[1]:<13}  {cells[2]:<13}  {row.note}".rstrip())
    click.echo(
        f"{counts['complete']} of {counts['ran']} entries that ran on {target} are complete: "
        f"{counts['repro_passes']} repros pass, {counts['want_accepted']} wanted results accepted, "
        f"{counts['fault_flagged']} faults flagged; {counts['entries'] - counts['ran']} of {counts['entries']} did not run"
    )
