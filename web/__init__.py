"""The read-only site: pages and their JSON twins over coverage_db.queries.

Imports coverage_db and op_tests.records, never torch, never workers. Imported by cli.
"""
