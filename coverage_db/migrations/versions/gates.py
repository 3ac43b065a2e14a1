"""What a gate said of a run, and what cases did when they were run again alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create gate and rerun."""
    op.create_table(
        "gate",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("baseline", sa.Text(), nullable=False),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("judged", sa.DateTime(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_gate_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_gate")),
    )
    op.create_table(
        "rerun",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("case_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("letters", sa.JSON(), nullable=False),
        sa.Column("steady", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["case.id"], name=op.f("fk_rerun_case_id_case")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_rerun_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "case_id", name=op.f("pk_rerun")),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop what `upgrade` added."""
    op.drop_table("rerun")
    op.drop_table("gate")
