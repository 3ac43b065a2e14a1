"""`neuron-ops translators`: list what is chosen, plan the choice, verify it, count what it brings."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from neuron_ops.translators.choices import Choice


@click.group()
def translators() -> None:
    """Show and verify the translations of operators that a device lacks."""


def _report(text: str) -> None:
    click.echo(text, err=True)


def _bank(progress: Callable[[str], None]) -> Path:
    """Return the cache folder with a bank of every dtype, recorded first where one is missing."""
    from neuron_ops.coverage_db.settings import load_settings
    from neuron_ops.op_tests.bank import DTYPES, Bank

    folder = load_settings().cache_folder
    bank = Bank(folder)
    if missing := bank.missing(DTYPES):
        progress(f"recording samples of {', '.join(missing)}")
        bank.build(missing, lambda *_: None)
    return folder


@translators.command("list")
@click.argument("globs", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list with all fields.")
def show(globs: tuple[str, ...], as_json: bool) -> None:
    """List the chosen translations: source, verified dtypes, device calls, what they call.

    Example: neuron-ops translators list 'aten.max_pool2d*'
    """
    import fnmatch

    from neuron_ops.translators.choices import shipped_choices

    choices = shipped_choices()
    names = [n for n in choices if not globs or any(fnmatch.fnmatch(n, glob) for glob in globs)]
    if not names:
        raise BadInput(
            f"no translator matches {' '.join(globs)}; expected overloads such as aten.hardswish.default; list all without a name"
        )
    if as_json:
        click.echo(json.dumps([_described(choices[name]) for name in names], indent=1))
        return
    for name in names:
        choice = choices[name]
        click.echo(f"{name:48} {choice.source:34} {choice.launches:4} calls  {' '.join(choice.dtypes)}")
    click.echo(f"{len(names)} of {len(choices)} translations; evidence: simulated")


def _described(choice: Choice) -> dict[str, Any]:
    from neuron_ops.op_tests.translation import cost

    return {
        **dataclasses.asdict(choice), "closure": [{"overload": need, "route": "native"} for need in choice.needs],
        "host_bytes_avoided": 2 * choice.bytes, "fallback_cheaper_below_bytes": cost.break_even_bytes(choice.launches),
        "evidence": "simulated",
    }  # fmt: skip


@translators.command()
@click.argument("globs", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def verify(globs: tuple[str, ...], as_json: bool) -> int:
    """Run every chosen translation through all cases of its overload in its dtypes; exit code 1 where one fails.

    Example: neuron-ops translators verify 'aten.hardswish*'
    """
    import fnmatch

    from neuron_ops.op_tests.translation.planning import Bench
    from neuron_ops.op_tests.translation.trials import Trial, refused_because
    from neuron_ops.translators.choices import shipped_choices

    choices = shipped_choices()
    names = [n for n in choices if not globs or any(fnmatch.fnmatch(n, glob) for glob in globs)]
    if not names:
        raise BadInput(
            f"no translator matches {' '.join(globs)}; expected overloads such as aten.hardswish.default; see `neuron-ops translators list`"
        )
    beside = {c.overload: (c.source, c.dtypes) for c in choices.values()}
    trials = [Trial(name, choices[name].source, choices[name].dtypes) for name in names]
    reports = Bench(_bank(_report), len(os.sched_getaffinity(0)), _report).run("verify", trials, beside)
    failures = {f"{r.trial.overload} {r.dtype}": words for r in reports if (words := refused_because(r))}
    cases = sum(r.cases for r in reports)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "translations": len(names),
                    "cases": cases,
                    "passed": sum(r.passed for r in reports),
                    "failures": failures,
                },
                indent=1,
            )
        )
    else:
        for name, words in sorted(failures.items()):
            click.echo(f"{name}: {words}")
        click.echo(
            f"{len(names)} translations, {sum(r.passed for r in reports)} of {cases} cases pass, {len(failures)} failures; evidence: simulated"
        )
    return int(bool(failures))


@translators.command()
@click.option("--write", is_flag=True, help="Write the table into the package, where `install` reads it.")
def plan(write: bool) -> None:
    """Choose translations anew for the simulated device's profile and print the table; a quarter of an hour of CPU."""
    import importlib.resources

    import torch
    from neuron_ops.op_tests.targets.sim import state
    from neuron_ops.op_tests.translation import planning
    from neuron_ops.translators.choices import write_choices

    planned = planning.plan(_bank(_report), len(os.sched_getaffinity(0)), _report)
    version = torch.__version__.partition("+")[0]
    text = write_choices(
        planned.choices, f"torch {version}, {state.profile.title}; written by `neuron-ops translators plan`"
    )
    if write:
        Path(str(importlib.resources.files("neuron_ops.translators").joinpath("data/choices.csv"))).write_text(
            text, "utf-8"
        )
    else:
        click.echo(text, nl=False)
    for name, words in sorted(planned.without.items()):
        click.echo(f"without: {name}: {words}", err=True)
    click.echo(f"{len(planned.choices)} overloads translated, {len(planned.without)} stay on the host", err=True)


@translators.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def coverage(as_json: bool) -> None:
    """Count the overloads of D_key that run with no work on the host, without and with translators."""
    from neuron_ops.op_tests.translation.counting import count

    counts = count(_bank(_report), len(os.sched_getaffinity(0)), _report)
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(counts), indent=1))
        return
    for label, n in (("without translators", counts.without), ("with translators", counts.with_translators)):
        click.echo(
            f"{label}: {n} of {counts.d_key} overloads of D_key ({n / counts.d_key:.1%}) run with no work on the host; {counts.profile}; evidence: simulated"
        )
