"""Runs a user's model on the simulated device and records how each call would be served.

`report` is what comes back (no torch), `loading` finds model and inputs in a file, `recorder` adds up calls, `session`
runs it all. Everything but `report` runs in a child process, because it runs the user's code.
"""
