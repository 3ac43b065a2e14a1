"""Decides which translation serves an overload that a device lacks: trials on real cases, the choice, what it costs.

Needs torch. Imports op_tests and translators; imported by cli.
"""
