"""What is kept: settings, models, migrations, recorder, queries and the numbers.

Imports op_tests.records and never torch. Imported by cli, web and workers.
"""
