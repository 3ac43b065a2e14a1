"""Lets ``python -m neuron_ops.cli`` be the command."""

from neuron_ops.cli.main import main

main()
