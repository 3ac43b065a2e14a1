"""Why a run changes no public number, and the reports of `check` that people keep on the site."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add quarantine and released to run, none of whose rows is quarantined; create report."""
    with op.batch_alter_table("run") as run:
        run.add_column(sa.Column("quarantine", sa.Text(), nullable=True))
        run.add_column(sa.Column("released", sa.DateTime(), nullable=True))
    op.create_table(
        "report",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("stored", sa.DateTime(), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_report")),
    )


def downgrade() -> None:
    """Drop what `upgrade` added."""
    op.drop_table("report")
    with op.batch_alter_table("run") as run:
        run.drop_column("released")
        run.drop_column("quarantine")
