"""`neuron-ops check`: run a model on the simulated device and say how each of its operators would be served."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.cli.check_device import print_compared
from neuron_ops.cli.check_text import print_assessment
from neuron_ops.cli.fetched import named_catalogue
from neuron_ops.cli.stored import stored_results
from neuron_ops.cli.sweep import Size
from neuron_ops.cli.target import requested
from neuron_ops.op_tests.capture.assessment import assess
from neuron_ops.op_tests.capture.documents import to_html, to_markdown
from neuron_ops.op_tests.capture.report import DOING, Report
from neuron_ops.op_tests.capture.rows import CallRoute
from neuron_ops.op_tests.capture.sarif import repository, to_sarif
from neuron_ops.op_tests.records import BadInput, InputFailed
from neuron_ops.workers.judge import judge

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from neuron_ops.op_tests.capture.assessment import Assessment
    from neuron_ops.op_tests.capture.evidence import Catalogue

_FORMATS = ("json", "sarif", "markdown", "html")


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
    "--fail-on", type=click.Choice(["unsupported", "wrong", "fallback", "unknown", "never"]), default="unsupported",
    show_default=True, help="Exit with 1 when an operator is of this kind or worse; unsupported is worst.",
)  # fmt: skip
@click.option(
    "--timeout", default=120.0, show_default=True, type=click.FloatRange(min=0, min_open=True),
    help="Seconds that the file's code may take.",
)  # fmt: skip
@click.option("--memory", default="8GiB", show_default=True, type=Size(), help="Memory that it may take.")
@click.option("--all", "show_all", is_flag=True, help="List the calls that only change shape or strides too.")
@click.option(
    "--catalogue",
    metavar="FILE|URL",
    help="Stored results to judge by, of a file or an https address; default: the shipped ones.",
)
@click.option("--db", help="Database URL or SQLite file with stored results; default: that of the settings.")
@click.option(
    "--export-cases", "export", type=click.Path(path_type=Path), metavar="FOLDER",
    help="Write the calls that no stored result covers exactly, as cases that `sweep` runs.",
)  # fmt: skip
@click.option(
    "--device", "target", metavar="NAME",
    help="Run on this device, which must be there (cuda, cpu, sim for the simulated one), and on the CPU, and compare.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--sarif", "as_sarif", is_flag=True, help="Print SARIF 2.1.0, for code scanning.")
@click.option("--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a pull request.")
@click.option("--html", "as_html", is_flag=True, help="Print one HTML page.")
def check(
    model: str, fail_on: str, timeout: float, memory: int, show_all: bool, catalogue: str | None, db: str | None,
    export: Path | None, **options: Any,
) -> int:  # fmt: skip
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
    format_ = _format({name: options.pop(f"as_{name}") for name in _FORMATS})
    request = requested(model, **options)
    named = None if catalogue is None else [named_catalogue(catalogue)]
    if request.target is not None and (export is not None or format_ not in ("text", "json")):
        raise BadInput("--device compares results; expected --json or text with it; leave the other format out")
    if export is not None:
        request = dataclasses.replace(
            request, export=_new_folder(export), known=_exact(named or stored_results(db, ()))
        )
    report = judge(request, seconds=timeout, memory=memory)
    if request.target is not None:
        return _compared(report, format_, fail_on)
    assessment = assess(report, stored_results(db, {row.overload for row in report.rows}) if named is None else named)
    if format_ == "text":
        print_assessment(assessment, show_all=show_all)
    else:
        click.echo(_text(assessment, format_, Path(request.file)), nl=format_ != "markdown")
    if report.failure is not None and not report.failure.device_only:
        raise InputFailed(_failure_text(report))
    if report.printed and format_ == "text":
        click.echo(f"\nprinted by {Path(request.file).name}:\n{report.printed}", err=True)
    return int(assessment.found(fail_on))


def _compared(report: Report, format_: str, fail_on: str) -> int:
    """Print what a run on a device showed and return the exit code."""
    if report.failure is not None and not report.failure.device_only:
        raise InputFailed(_failure_text(report))
    print_compared(report, as_json=format_ == "json")
    if fail_on == "never":
        return 0
    routes = {row.route for row in report.rows}
    lost = {CallRoute.ERROR, CallRoute.UNSUPPORTED} | ({CallRoute.FALLBACK} if fail_on == "fallback" else set())
    differs = report.compared is None or report.compared.differs
    return int(bool(routes & lost) or differs)


def _new_folder(folder: Path) -> str:
    if (folder / "bank").exists():
        raise BadInput(f"{folder} has a sample bank already; expected a new folder for the cases; name another")
    return str(folder.absolute())


def _exact(catalogues: Sequence[Catalogue]) -> tuple[str, ...]:
    """Return the signatures that stored results cover exactly."""
    return tuple(signature for catalogue in catalogues for signature in catalogue.exact)


def _format(formats: Mapping[str, bool]) -> str:
    """Return the name of the one format that was asked for, else ``text``; raises BadInput for two."""
    asked = [name for name, chosen in formats.items() if chosen]
    if len(asked) > 1:
        raise BadInput(
            f"--{asked[0]} and --{asked[1]} both say what to print; expected one of them; run the check once for each"
        )
    return asked[0] if asked else "text"


def _text(assessment: Assessment, format_: str, file: Path) -> str:
    if format_ == "json":
        return json.dumps(assessment.to_json(), ensure_ascii=False)
    if format_ == "sarif":
        return json.dumps(to_sarif(assessment, repository(file)), ensure_ascii=False)
    return to_markdown(assessment) if format_ == "markdown" else to_html(assessment)


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
