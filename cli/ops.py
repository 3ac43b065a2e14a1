"""`neuron-ops ops`: the operators of the installed torch and the counts that every percentage is of."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from neuron_ops.op_tests.records import Operator


@click.group(invoke_without_command=True)
@click.option("--stats", is_flag=True, help="Print the denominators and the count of each exclusion.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def ops(context: click.Context, stats: bool, as_json: bool) -> None:
    """List the operators of the installed torch, or show one.

    Example: neuron-ops ops --stats
    """
    if context.invoked_subcommand is None and not stats:
        click.echo(context.get_help())
    elif stats:
        _print_stats(as_json)


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
