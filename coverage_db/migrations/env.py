"""Runs revisions on the connection that the caller put into the configuration."""

from __future__ import annotations

from alembic import context
from neuron_ops.coverage_db.models import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    compare_type=True,
    compare_server_default=True,
)
with context.begin_transaction():
    context.run_migrations()
