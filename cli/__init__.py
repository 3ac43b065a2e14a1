"""The command line: one thin function a command.

May import every other package; nothing imports it. Heavy imports live inside the commands.
"""
