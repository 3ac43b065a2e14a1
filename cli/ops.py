"""`neuron-ops ops`: the operators of the installed torch and the counts that every percentage is of."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping

    from neuron_ops.op_tests.coverage import Share
    from neuron_ops.op_tests.records import Operator


@click.group(invoke_without_command=True)
@click.option("--stats", is_flag=True, help="Print the denominators and the count of each exclusion.")
@click.option(
    "--coverage", is_flag=True, help="Print which overloads have cases in the sample bank, and why others have none."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the bank that --coverage reads.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def ops(context: click.Context, stats: bool, coverage: bool, seed: int, as_json: bool) -> None:
    """List the operators of the installed torch, or show one.

    Example: neuron-ops ops --stats
    """
    if context.invoked_subcommand is None and not (stats or coverage):
        click.echo(context.get_help())
    if stats:
        _print_stats(as_json)
    if coverage:
        _print_coverage(seed, as_json)


def _print_stats(as_json: bool) -> None:
    from neuron_ops.op_tests import catalogue

    counts = catalogue.denominators()
    if as_json:
        click.echo(json.dumps(counts.to_json()))
        return
    click.echo(f"torch {counts.torch}: {counts.registered} ATen overloads in the dispatcher")
    click.echo(f"  D_all {counts.d_all:>6}  take or return a tensor and can run on the CPU")
    click.echo(f"  D_key {counts.d_key:>6}  of these reach a backend's dispatch key (tiers T1 and T2)")
    click.echo(f"  T1    {counts.t1:>6}  of these have no composite kernel: native, translated or fallback")
    for reason, number in counts.excluded.items():
        click.echo(f"  left out {number:>3}  {reason}")


def _print_coverage(seed: int, as_json: bool) -> None:
    from neuron_ops.coverage_db.settings import load_settings
    from neuron_ops.op_tests.bank import DTYPES, Bank
    from neuron_ops.op_tests.coverage import measure
    from neuron_ops.op_tests.records import BadInput

    bank = Bank(load_settings().cache_folder, seed)
    built = [dtype for dtype in DTYPES if dtype not in bank.missing(DTYPES)]
    if not built:
        raise BadInput(
            f"no sample bank in {bank.folder} for seed {seed}; expected one; run `neuron-ops bank build` first"
        )
    found = measure(bank, built)
    if as_json:
        click.echo(json.dumps(found.to_json()))
        return
    click.echo(f"overloads with at least one case, in {len(built)} of {len(DTYPES)} dtypes")
    click.echo(_shares_line("any dtype", found.shares))
    for title, parts in (("dtype", found.per_dtype), ("axis", found.per_axis), ("source", found.per_source)):
        click.echo(f"by {title}")
        for name, shares in parts.items():
            note = f"   refused by the CPU: {found.refused[name]} overloads" if title == "dtype" else ""
            click.echo(_shares_line(name, shares) + note)
    click.echo(f"without cases: {len(found.without)}")
    for name, reason in found.without.items():
        click.echo(f"  {name:<52} {' '.join(reason.split())[:160]}")


def _shares_line(name: str, shares: Mapping[str, Share]) -> str:
    parts = (
        f"{denominator} {share.covered} of {share.of} ({share.percent} %)" for denominator, share in shares.items()
    )
    return f"  {name:<14} {'   '.join(parts)}"


@ops.command("list")
@click.argument("patterns", nargs=-1)
@click.option("--excluded", is_flag=True, help="List the overloads outside the denominator, with the reason of each.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
def list_operators(patterns: tuple[str, ...], excluded: bool, as_json: bool) -> None:
    """List overloads: core, all, T1, an operator, an overload or a glob; all where nothing is named.

    Example: neuron-ops ops list "aten.linalg_*"
    """
    from neuron_ops.op_tests import catalogue

    found = catalogue.select(patterns or ("all",))
    if excluded:
        found = tuple(operator for operator in catalogue.operators() if operator.excluded is not None)
    for operator in found:
        if as_json:
            click.echo(json.dumps(_row(operator)))
        else:
            note = f"excluded: {operator.excluded}" if operator.excluded else "core" if operator.core else ""
            click.echo(f"{operator.name:<64} {operator.tier} {operator.kind:<10} {operator.family:<16} {note}".rstrip())


@ops.command("show")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show_operator(name: str, as_json: bool) -> None:
    """Show one overload, or all overloads of an operator.

    Example: neuron-ops ops show aten.add.Tensor
    """
    from neuron_ops.op_tests import catalogue

    canonical = name.replace("::", ".")
    named = [o for o in catalogue.operators() if canonical in (o.name, o.packet, f"{o.packet}.{o.name}")]
    found = named or list(catalogue.select((name,)))
    if as_json:
        click.echo(json.dumps([_row(operator) for operator in found]))
        return
    for operator in found:
        click.echo(operator.name)
        click.echo(f"  schema  {operator.schema}")
        click.echo(f"  tier    {operator.tier}, {_TIERS[operator.tier]}")
        click.echo(f"  kind    {operator.kind}, family {operator.family}")
        click.echo(f"  tags    {', '.join(operator.tags) or 'none'}")
        click.echo(f"  counts  {'no: ' + operator.excluded if operator.excluded else 'yes'}")


_TIERS = {
    "T1": "no composite kernel: native, translated or fallback",
    "T2": "a composite kernel runs where the backend has none",
    "T3": "opens into other operators before it reaches the backend",
}


def _row(operator: Operator) -> dict[str, object]:
    return {**asdict(operator), "core": operator.core}
