"""`neuron-ops translators`: list what is chosen, plan the choice, verify it, count what it brings."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.cli.bank import progress_of_parts
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from neuron_ops.op_tests.translation.counting import Called
    from neuron_ops.op_tests.translation.planning import Bench
    from neuron_ops.op_tests.translation.trials import Report
    from neuron_ops.translators.choices import Choice

DEVICES = ("neuron", "core")
_SERVED = {"native": "native", "translated": "translated", "host": "by the host"}
_DEVICE = click.option(
    "--device", type=click.Choice(DEVICES), default=DEVICES[0], show_default=True,
    help="What the device has: the vendor's registrations, or torch's core tag and runtime primitives.",
)  # fmt: skip


@click.group()
def translators() -> None:
    """Show and verify the translations of operators that a device lacks."""


def _bank(progress: Callable[[int, int, str], None]) -> Path:
    """Return the cache folder with a bank of every dtype, recorded first where one is missing."""
    from neuron_ops.coverage_db.settings import load_settings
    from neuron_ops.op_tests.bank import DTYPES, Bank

    folder = load_settings().cache_folder
    bank = Bank(folder)
    if missing := bank.missing(DTYPES):  # a bank without the axes' variants is one too
        bank.build(missing, progress)
    return folder


def _bench(folder: Path, progress: Callable[[int, int, str], None], device: str) -> Bench:
    from neuron_ops.op_tests.translation.counting import PROFILES
    from neuron_ops.op_tests.translation.planning import Bench

    return Bench(folder, len(os.sched_getaffinity(0)), progress, PROFILES[device] or "")


def _check_planned(device: str) -> None:
    """Raise BadInput where no translations were planned for a device."""
    from neuron_ops.translators.choices import planned

    if not planned(device):
        raise BadInput(
            f"no translations were planned for the device {device!r} yet; expected a table of them in the package; "
            f"write it with `neuron-ops translators plan --device {device} --write`"
        )


def _chosen(globs: Sequence[str], device: str) -> dict[str, Choice]:
    """Return the choices that the globs name, all without one; raises BadInput for a glob that names none."""
    import fnmatch

    from neuron_ops.translators.choices import shipped_choices

    _check_planned(device)
    choices = shipped_choices(device)
    for glob in globs:
        if not fnmatch.filter(choices, glob):
            raise BadInput(
                f"no translator matches {glob!r}; expected overloads such as aten.hardswish.default; see `neuron-ops translators list`"
            )
    return {n: c for n, c in choices.items() if not globs or any(fnmatch.fnmatchcase(n, glob) for glob in globs)}


@translators.command("list")
@click.argument("globs", nargs=-1)
@_DEVICE
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with all fields.")
def show(globs: tuple[str, ...], device: str, as_json: bool) -> None:
    """List the chosen translations: source, device calls, verified dtypes.

    Example: neuron-ops translators list 'aten.max_pool2d*'
    """
    from neuron_ops.translators.choices import shipped_choices

    choices = _chosen(globs, device)
    if as_json:
        click.echo(json.dumps([_described(choice) for choice in choices.values()], indent=1))
        return
    for name, choice in choices.items():
        click.echo(f"{name:48} {choice.source:34} {choice.launches:4} calls  {' '.join(choice.dtypes)}")
    click.echo(f"{len(choices)} of {len(shipped_choices(device))} translations; evidence: simulated")


def _described(choice: Choice) -> dict[str, Any]:
    from neuron_ops.op_tests.translation import cost

    return {
        **dataclasses.asdict(choice), "closure": [{"overload": need, "route": "native"} for need in choice.needs],
        "host_bytes_avoided": 2 * choice.bytes, "fallback_cheaper_below_bytes": cost.break_even_bytes(choice.launches),
        "evidence": "simulated",
    }  # fmt: skip


@translators.command()
@click.argument("globs", nargs=-1)
@click.option("--dtypes", help="Only these of the verified dtypes, separated by commas.")
@_DEVICE
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(globs: tuple[str, ...], dtypes: str | None, device: str, as_json: bool) -> int:
    """Run every chosen translation through all cases of its overload in its dtypes; exit code 1 where one fails.

    Example: neuron-ops translators verify 'aten.hardswish*'
    """
    from neuron_ops.op_tests.plan import dtypes_named
    from neuron_ops.op_tests.translation.trials import Trial
    from neuron_ops.translators.choices import shipped_choices

    named = _chosen(globs, device)
    asked = dtypes_named([part.strip() for part in dtypes.split(",")]) if dtypes is not None else None
    trials = [
        Trial(name, choice.source, kept)
        for name, choice in named.items()
        if (kept := tuple(d for d in choice.dtypes if asked is None or d in asked))
    ]
    beside = {c.overload: (c.source, c.dtypes) for c in shipped_choices(device).values()}
    with progress_of_parts() as progress:
        reports = _bench(_bank(progress), progress, device).run("verify", trials, beside)
    found = _verdicts(trials, reports)
    failures = {f"{name} {row['dtype']}": row["refused"] for name, rows in found.items() for row in rows if row["refused"]}  # fmt: skip
    cases, passed = sum(r.cases for r in reports), sum(r.passed for r in reports)
    if as_json:
        click.echo(
            json.dumps({"translations": len(trials), "cases": cases, "passed": passed, "failures": failures, "verdicts": found}, indent=1)
        )  # fmt: skip
    else:
        for name, words in sorted(failures.items()):
            click.echo(f"{name}: {words}")
        click.echo(
            f"{len(trials)} translations, {passed} of {cases} cases pass, {len(failures)} failures; evidence: simulated"
        )
    return int(bool(failures))


def _verdicts(trials: Sequence[Any], reports: Sequence[Report]) -> Mapping[str, list[dict[str, Any]]]:
    """Return overload → a row for each dtype: cases, those that passed, the axes they vary, why it is refused."""
    from neuron_ops.op_tests.translation.trials import refused_because

    found: dict[str, list[dict[str, Any]]] = {trial.overload: [] for trial in trials}
    for r in reports:
        found[r.trial.overload].append(
            {"dtype": r.dtype, "cases": r.cases, "passed": r.passed, "axes": sorted(r.axes), "refused": refused_because(r)}
        )  # fmt: skip
    return found


@translators.command()
@click.argument("globs", nargs=-1)
@_DEVICE
@click.option(
    "--prefer", type=click.Choice(("device", "cost")), default="device", show_default=True,
    help="cost: leave to the host what is estimated to be cheaper there for every sample.",
)  # fmt: skip
@click.option("--write", is_flag=True, help="Write the table into the package, where `install` reads it.")
def plan(globs: tuple[str, ...], device: str, prefer: str, write: bool) -> None:
    """Choose translations anew for the simulated device and print the table; a quarter of an hour of CPU.

    With names or globs of overloads only those are chosen anew, in a minute; the rest of the table stays as it is.

    Example: neuron-ops translators plan 'aten.hardswish*' --write
    """
    import importlib.resources

    import torch
    from neuron_ops.op_tests import catalogue
    from neuron_ops.op_tests.targets.sim import named_profile
    from neuron_ops.op_tests.translation import planning
    from neuron_ops.op_tests.translation.counting import PROFILES
    from neuron_ops.translators.choices import TABLES, shipped_choices, write_choices

    names = {operator.name for operator in catalogue.select(globs)} if globs else None
    if globs:
        _check_planned(device)
    kept = shipped_choices(device).values() if globs else ()
    with progress_of_parts() as progress:
        folder = _bank(progress)
        bench = _bench(folder, progress, device)
        planned = planning.plan(bench, folder, names=names, kept=kept, by_cost=prefer == "cost")
    version, title = torch.__version__.partition("+")[0], named_profile(PROFILES[device]).title
    text = write_choices(planned.choices, f"torch {version}, {title}; written by `neuron-ops translators plan`")
    if write:
        table = importlib.resources.files("neuron_ops.translators").joinpath(f"data/{TABLES[device]}")
        Path(str(table)).write_text(text, "utf-8")
    else:
        click.echo(text, nl=False)
    for name, words in sorted(planned.without.items()):
        click.echo(f"without: {name}: {words}", err=True)
    click.echo(f"{len(planned.choices)} overloads translated, {len(planned.without)} stay on the host", err=True)


@translators.command()
@click.option(
    "--device", "devices", type=click.Choice(DEVICES), multiple=True, help="One device only; default: all with a table."
)
@click.option("--models", is_flag=True, help="The overloads that 33 model families call, instead of D_key.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print a JSON list, one object a device, with --models one a call."
)
def coverage(devices: tuple[str, ...], models: bool, as_json: bool) -> None:
    """Count the overloads of D_key that run with no work on the host, without and with translators."""
    from neuron_ops.op_tests.translation.counting import called_by_models, count
    from neuron_ops.translators.choices import planned

    for device in devices:
        _check_planned(device)
    with progress_of_parts() as progress:
        folder, chosen = _bank(progress), devices or tuple(filter(planned, DEVICES))
        if models:
            calls = {device: called_by_models(_bench(folder, progress, device), device) for device in chosen}
            _print_called(calls, as_json)
            return
        found = [count(_bench(folder, progress, device), folder, device) for device in chosen]
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(counts) for counts in found], indent=1))
        return
    for counts in found:
        click.echo(f"{counts.profile} (evidence: simulated)")
        for label, n in (("without translators", counts.without), ("with translators", counts.with_translators)):
            click.echo(
                f"  {label}: {n} of {counts.d_key} overloads of D_key ({n / counts.d_key:.1%}) run with no work on the host"
            )


def _print_called(calls: Mapping[str, Sequence[Called]], as_json: bool) -> None:
    """Print of each device how many overloads are served in which way, and those that the host serves with the reason."""
    if as_json:
        rows = [{"device": d, **dataclasses.asdict(call)} for d, found in calls.items() for call in found]
        click.echo(json.dumps(rows, indent=1))
        return
    for device, found in calls.items():
        kinds = collections.Counter(call.served for call in found)
        text = ", ".join(f"{kinds[kind]} {words}" for kind, words in _SERVED.items())
        click.echo(f"{device}: {len(found)} overloads of 33 model families: {text} (evidence: simulated)")
        for call in found:
            if call.reason:
                click.echo(f"  {call.overload} ({call.models} models), {_SERVED[call.served]}: {call.reason}")
