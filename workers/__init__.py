"""What runs cases: the sandboxed child, its supervisor, the local runner.

The supervising side never imports torch; only the child does. Imports coverage_db and op_tests, never web. Imported by cli.
"""
