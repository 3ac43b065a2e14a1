"""What each run ran in: packages, torch's configuration, facts of the device, switches, versions of the harness."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create environment; the runs that are there know none."""
    op.create_table(
        "environment",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.LargeBinary(16), nullable=False),
        sa.Column("facts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_environment")),
        sa.UniqueConstraint("hash", name=op.f("uq_environment_hash")),
    )
    with op.batch_alter_table("run") as run:
        run.add_column(sa.Column("environment_id", sa.Integer(), nullable=True))
        run.create_foreign_key(op.f("fk_run_environment_id_environment"), "environment", ["environment_id"], ["id"])


def downgrade() -> None:
    """Drop what `upgrade` added."""
    with op.batch_alter_table("run") as run:
        run.drop_constraint(op.f("fk_run_environment_id_environment"), type_="foreignkey")
        run.drop_column("environment_id")
    op.drop_table("environment")
