"""Compares `neuron-ops check` with what no check can do without: ``python tests/bench_check.py``.

For a language model of 8B parameters that is the import of torch and transformers and building the model on the meta
device; for a small CNN it is the import of torch and of the simulated device. Processes in turns, the fastest of each; wall
seconds suffer from what else the machine does, processor seconds less.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 3
LLAMA, CNN = Path("tests/data/families/llama3_8b.json"), Path("tests/models/cnn.py")
_META = f"""
import json, torch, transformers
config = transformers.LlamaConfig.from_dict(json.load(open({str(LLAMA)!r})))
with torch.device("meta"):
    transformers.LlamaForCausalLM(config)
"""
_IMPORT = "import neuron_ops.op_tests.targets.sim"
CASES = (
    ("8B configuration", LLAMA, _META, "import torch and transformers, build on meta", 1.5),
    ("small CNN", CNN, _IMPORT, "import torch and the simulated device", 1.3),
)


def run(arguments: list[str]) -> tuple[float, float, int]:
    """Return wall seconds, processor seconds and the peak resident bytes of the process and its children."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def main() -> None:
    """Print each case's seconds and the floor's, their ratio with its target, and the peak memory."""
    for name, model, floor, words, target in CASES:
        checks, floors = [], []
        for _ in range(ROUNDS):
            checks.append(run(["-m", "neuron_ops.cli", "check", str(model)]))
            floors.append(run(["-c", floor]))
        (wall, cpu, _), (wall_floor, cpu_floor, _) = (
            tuple(map(min, zip(*runs, strict=True))) for runs in (checks, floors)
        )
        print(
            f"{name}: {wall:.2f} s of {wall_floor:.2f} s ({words}): {wall / wall_floor:.2f} × (target {target} ×); of the "
            f"processor {cpu:.2f} s of {cpu_floor:.2f} s: {cpu / cpu_floor:.2f} ×; peak memory "
            f"{max(memory for _, _, memory in checks) / (1 << 20):.0f} MiB",
            flush=True,
        )


if __name__ == "__main__":
    main()
