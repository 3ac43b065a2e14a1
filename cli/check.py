"""`neuron-ops check`: run a model on the simulated device and say how each of its operators would be served."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.cli.sweep import Size
from neuron_ops.cli.target import requested
from neuron_ops.op_tests.capture.report import DOING, EVIDENCE, FAKE, Report, plural
from neuron_ops.op_tests.capture.rows import CallRoute, Row, Wait
from neuron_ops.op_tests.records import InputFailed
from neuron_ops.workers.judge import judge

if TYPE_CHECKING:
    from collections.abc import Sequence


@click.command()
@click.argument("model", metavar="FILE[:ATTR]")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENT...]")
@click.option("--call", "function", metavar="NAME", help="Call this function with the inputs, in place of a model.")
@click.option(
    "--input", "inputs", multiple=True, metavar="NAME:DTYPE[SIZES]",
    help="One argument of the model, such as x:float32[1,3,224,224] or ids:int64[1,16]<1000; repeat for more.",
)  # fmt: skip
@click.option("--train", is_flag=True, help="Run in train mode, with backward and one step of AdamW.")
@click.option(
    "--dtype", type=click.Choice(["float32", "bfloat16", "float16"]),
    help="Cast the model and its floating-point inputs first.",
)  # fmt: skip
@click.option("--eval", "evaluate", is_flag=True, help="With --train: keep eval mode (no dropout, fixed batch norms).")
@click.option(
    "--autocast", type=click.Choice(["bfloat16", "float16"]), help="Run forward under autocast of the device."
)
@click.option("--unsafe-load", is_flag=True, help="Unpickle a whole model, which runs code in the file.")
@click.option(
    "--fail-on", type=click.Choice(["unsupported", "fallback", "never"]), default="unsupported", show_default=True,
    help="Exit with 1 when an operator is served this way or worse.",
)  # fmt: skip
@click.option(
    "--timeout", default=120.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
    help="Seconds that the file's code may take.",
)  # fmt: skip
@click.option("--memory", default="8GiB", show_default=True, type=Size(), help="Memory that it may take.")
@click.option("--all", "show_all", is_flag=True, help="List the calls that only change shape or strides too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(model: str, fail_on: str, timeout: float, memory: int, show_all: bool, as_json: bool, **options: Any) -> int:
    """Judge how a model would be served on the device.

    FILE.py holds the model: an nn.Module, a function build_model() or an nn.Module class; FILE.py:NAME or
    package.module:NAME names one of several, or a function to call. Programs of torch.export.save and torch.jit.save
    and the config.json of a Hugging Face model, or its folder, need no Python file.

    The file also says what to call the model with: `example_inputs` (a tensor, a tuple of arguments or a dict of keyword
    arguments) or a function `get_inputs()`; --input says it from outside, and without either the inputs are guessed where
    the first layer tells them. It all runs in a child process on a simulated device without a network. Blocks under
    `if __name__ == "__main__"` do not run, unless the file has no model and arguments follow --: then the script runs.

    Example: neuron-ops check mymodel.py:Net --input 'x:float32[1,3,224,224]' --fail-on fallback
    """
    request = requested(model, **options)
    report = judge(request, seconds=timeout, memory=memory)
    if as_json:
        click.echo(json.dumps(report.to_json(), ensure_ascii=False))
    else:
        _print_report(report, show_all=show_all)
    failure = report.failure
    if failure is not None and not failure.device_only:
        raise InputFailed(_failure_text(report))
    if report.printed and not as_json:
        click.echo(f"\nprinted by {Path(request.file).name}:\n{report.printed}", err=True)
    return int(report.found(fail_on))


def _failure_text(report: Report) -> str:
    """Return the user's traceback, what they printed, and one sentence."""
    failure = report.failure
    assert failure is not None
    file = Path(report.request.file).name
    where = f" at {failure.where}" if failure.where and failure.where not in failure.message else ""
    if failure.kind in ("raised", "exited"):
        sentence = f"{file} failed in {DOING[failure.phase]}{where}: {failure.message}"
    else:
        sentence = f"{file}: {failure.message}"
    printed = f"printed by {file}:\n{report.printed}" if report.printed else ""
    return "\n\n".join(part for part in (printed, failure.traceback, f"neuron-ops: {sentence}") if part)


def _print_report(report: Report, *, show_all: bool) -> None:
    """Print the verdict, the rows worst first, and what was run."""
    failure = report.failure
    if failure is not None and not failure.device_only and not report.rows:
        return  # nothing to show but the traceback, which follows on standard error
    click.echo(report.verdict)
    _print_device_failure(report)
    rows = report.rows if show_all else report.working
    if rows:
        click.echo()
        _print_table(("", "operator", "dtype", "calls", "route", "first call"), [_cells(row) for row in rows])
    click.echo()
    for line in _closing_lines(report):
        click.echo(line)


def _print_device_failure(report: Report) -> None:
    failure = report.failure
    if failure is None or not failure.device_only:
        return
    operator = f" in {failure.operator}" if failure.operator else ""
    where = f" at {failure.where}" if failure.where else ""
    click.echo(
        f"{DOING[failure.phase].capitalize()} fails on the simulated device{operator}{where} and works on the CPU: "
        f"{failure.message}"
    )


def _cells(row: Row) -> tuple[str, ...]:
    """Return one row of the table."""
    worst = row.calls[row.route]
    calls = str(row.total) if worst == row.total else f"{worst} of {row.total}"
    route = str(row.route)
    if row.route is CallRoute.FALLBACK and row.reason:
        route = f"{route}: {row.reason}"
    if row.parts:
        route += " (" + ", ".join(f"{p.overload} {p.route} ×{p.calls}" for p in row.parts) + ")"
    if row.message:
        route += f" ({row.message if len(row.message) <= 60 else row.message[:59] + '…'})"
    where = row.where or (f"in {row.phase}" if row.phase != "forward" else "")
    return str(row.route.status), row.overload, row.dtype, calls, route, where


def _closing_lines(report: Report) -> Sequence[str]:
    """Return the lines below the table: counts with denominators, what was run, evidence, versions."""
    calls, metadata, request = report.calls, report.metadata, report.request
    work = ", ".join(
        f"{n} {route}" for route, n in sorted(calls.items(), key=lambda item: list(CallRoute).index(item[0]))
    )
    lines = [
        f"calls: {calls.total()} over {plural(len(report.working), 'place')} of operator and line: {work or 'none'}"
    ]
    if metadata:
        overloads = len({row.overload for row in metadata})
        lines.append(
            f"besides: {plural(sum(row.total for row in metadata), 'call')} of {plural(overloads, 'operator')} whose "
            "only effect is on shape or strides (listed with --all)"
        )
    lines += [_told(wait) for wait in report.waits]
    mode = "train mode with backward and one AdamW step" if request.train else "eval mode"
    gradients = "" if request.train else ", gradients on (forward asks for them)" if request.grad else ", no gradients"
    cast = f", cast to {request.dtype}" if request.dtype else ""
    done = "complete for this input" if report.failure is None else "stopped before the end, so this list is partial"
    lines += [FAKE] if report.fake else []
    lines += [f"note: {note.text}" + (f" at {note.where}" if note.where else "") for note in report.notes]
    lines.append(f"model: {report.model}, {mode}{gradients}{cast}")
    lines.append(f"inputs: {report.inputs}; {done}")
    lines.append("versions: " + ", ".join(f"{name} {value}" for name, value in report.versions.items()))
    lines.append(EVIDENCE)
    return lines


def _told(wait: Wait) -> str:
    """Return one place where the host waits, in words."""
    doing = {
        "value": "the host reads a value",
        "copy": "a tensor is copied to the host",
        "size": "a size follows the data",
    }
    steers = "; other data may lead to other operators" if wait.steers else ""
    return f"waits: {doing[wait.kind]} at {wait.where or 'an unknown line'}, {plural(wait.calls, 'time')} ({wait.overload}){steers}"


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads, columns as wide as they need."""
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
