"""Decides which command runs and what its exit code is."""

from __future__ import annotations

import importlib
import sys
import traceback
from typing import TYPE_CHECKING, NoReturn

import click
from neuron_ops.op_tests.records import BadInput, InputFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: dict[str, tuple[str, str]] = {
    "ops": ("neuron_ops.cli.ops:ops", "List the operators of the installed torch, or show one."),
    "bank": ("neuron_ops.cli.bank:bank", "Build the sample bank that sweeps read."),
    "sweep": ("neuron_ops.cli.sweep:sweep", "Run cases on a target and store the results."),
    "worker": ("neuron_ops.cli.worker:worker", "Take batches of runs from a broker and run them."),
    "runs": ("neuron_ops.cli.runs:runs", "List the stored runs with their counts; cancel, release, prune."),
    "diff": ("neuron_ops.cli.diff:diff", "Say what one run did otherwise than another."),
    "gate": ("neuron_ops.cli.gate:gate", "Judge a run by its baseline."),
    "bisect": ("neuron_ops.cli.bisect:bisect", "Say which build broke a case."),
    "repro": ("neuron_ops.cli.repro:repro", "Print a standalone script that repeats one case."),
    "check": ("neuron_ops.cli.check:check", "Judge how a model would be served on the device."),
    "catalogue": ("neuron_ops.cli.catalogue:catalogue", "Write stored results as one file that checks judge by."),
    "translators": ("neuron_ops.cli.translators:translators", "List, plan and verify translations."),
    "selftest": ("neuron_ops.cli.selftest:selftest", "Plant faults and say which of them are caught."),
    "serve": ("neuron_ops.cli.serve:serve", "Start the site on this machine."),
    "export": ("neuron_ops.cli.export:export", "Write the site as files for any host."),
    "db": ("neuron_ops.cli.db:db", "Upgrade or check the database."),
}
"""Name → (module:function, help line). Modules are imported only when their command runs: torch alone takes seconds."""

EXTRAS = {
    "torch": "run",
    "numpy": "run",
    "flask": "site",
    "apiflask": "site",
    "prometheus_client": "site",
    "pydantic": "site",
    "psycopg": "postgres",
}
"""Library that the base install leaves out → the extra that brings it."""


class LazyGroup(click.Group):
    """A group that knows its commands from COMMANDS without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the command names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import and return one command, or None."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the help lines of the table."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="neuron-ops")
def neuron_ops() -> None:
    """Answer with evidence which PyTorch operators run on AWS Trainium, which fall back and which are wrong.

    Exit codes: 0 nothing to report, 1 findings, 2 wrong usage, 3 your own code failed (its traceback is shown),
    4 our fault.
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (design.md §6)."""
    try:
        code = neuron_ops.main(args=arguments, prog_name="neuron-ops", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return 2
    except BadInput as error:
        click.echo(f"neuron-ops: {error}", err=True)
        return 2
    except InputFailed as error:
        click.echo(str(error), err=True)
        return 3
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        command = next((a for a in arguments or sys.argv[1:] if a in COMMANDS), "")
        click.echo(
            f"neuron-ops: {error.name} is not installed; `neuron-ops {command}` needs it; run pip install 'neuron-ops[{EXTRAS[error.name]}]'",
            err=True,
        )
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("neuron-ops: stopped; finished results are stored", err=True)
        return 130
    except Exception:  # noqa: BLE001 - the one broad except: whatever is left here is our fault
        traceback.print_exc()
        click.echo("neuron-ops: this is our fault, not yours; please report the lines above", err=True)
        return 4
    return code if isinstance(code, int) else 0


def main() -> NoReturn:
    """Run the command line of this process and exit."""
    sys.exit(run())
