"""Verified replacements for operators that a target lacks: a registry, one file an operator family, and what installs them.

Imports torch and nothing of ours. Imported by op_tests, cli and workers.
"""
