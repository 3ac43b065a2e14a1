"""Verified replacements for operators that a target lacks; the registry arrives with the issue *Translators*.

Imports torch and nothing of ours. Imported by op_tests, cli and workers.
"""
