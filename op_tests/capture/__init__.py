"""Runs a user's model on the simulated device and records how each call would be served.

`rows` and `report` are what comes back (no torch). `opening` finds what a target holds: a model in a Python file (`finding`,
`importing`), a stored program (`programs`), a configuration (`hub`), a function or script (`entries`), and its arguments
(`inputs`, `guesses`). `recorder` adds up calls, `waits` and `branches` tell where data decides, `session` runs it all, in a
child process, because it runs the user's code.
"""
