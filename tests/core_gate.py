"""The gate that our own CI runs: the core operators on the simulated device, float32, plain calls, against the committed baseline.

``python core_gate.py [--write] [options of sweep]`` exits as `neuron-ops gate` does; with --write it makes the baseline anew. Its
reports are in build/gate.
"""

import os
import subprocess
import sys

from conftest import ROOT, bank_cache

BASELINE = "tests/data/core_sim.baseline.gz"
FOLDER = ROOT / "build" / "gate"
ERROR_FACTOR = "64"
"""The simulated device's errors are those of this machine's CPU kernels, whose last bits differ between instruction sets."""


def neuron_ops(*arguments):
    """Run a command with the samples of the tests and return its exit code."""
    variables = {**os.environ, "NEURON_OPS_CACHE": str(bank_cache())}
    return subprocess.run(
        [sys.executable, "-m", "neuron_ops.cli", *arguments], check=False, env=variables, cwd=ROOT
    ).returncode


def main(options):
    FOLDER.mkdir(parents=True, exist_ok=True)
    database = FOLDER / "runs.sqlite"
    for old in FOLDER.iterdir():
        old.unlink()
    write, options = "--write" in options, [option for option in options if option != "--write"]
    steps = [
        ["bank", "build", "--plain", "--dtypes", "float32"],
        ["sweep", "--db", str(database), "--target", "sim", "--ops", "core", "--dtypes", "float32", *options],
    ]
    for step in steps:
        if code := neuron_ops(*step):
            return code
    if write:
        return neuron_ops("gate", "--db", str(database), "--write-baseline", BASELINE)
    reports = ("junit=gate.xml", "sarif=gate.sarif", "markdown=gate.md", "json=gate.json")
    kinds = [f"{kind}={FOLDER / name}" for kind, _, name in (report.partition("=") for report in reports)]
    asked = [word for report in kinds for word in ("--report", report)]
    return neuron_ops("gate", "--db", str(database), "--baseline", BASELINE, "--error-factor", ERROR_FACTOR, *asked)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
