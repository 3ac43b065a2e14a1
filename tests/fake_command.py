"""The command line with a fake planner and a fake session, for a process of its own; fails when torch got imported."""

import functools
import sys

import neuron_ops.cli.sweep as command
from neuron_ops.cli.main import run
from neuron_ops.workers import batch

batch.FLUSH_SECONDS = 0.2
command.request_plan = functools.partial(command.request_plan, plan="fake_sessions:make_plan")
command.RunOptions = functools.partial(batch.RunOptions, session="fake_sessions:open_session")

if __name__ == "__main__":
    code = run(sys.argv[1:])
    assert "torch" not in sys.modules
    sys.exit(code)
