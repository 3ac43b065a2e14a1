"""Batches with leases, streams of runs, and spans: what a case did over the runs of a stream."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create run_batch, stream and span; run and cell get columns that are empty for what is there."""
    op.create_table(
        "stream",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("suite", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["target_id"], ["target.id"], name=op.f("fk_stream_target_id_target")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stream")),
        sa.UniqueConstraint("target_id", "suite", "channel", name=op.f("uq_stream_target_id_suite_channel")),
    )
    with op.batch_alter_table("run") as run:
        run.add_column(sa.Column("stream_id", sa.Integer(), nullable=True))
        run.add_column(sa.Column("seq", sa.Integer(), nullable=True))
        run.add_column(sa.Column("learned_from", sa.Integer(), nullable=True))
        run.add_column(sa.Column("options", sa.JSON(), nullable=True))
        run.add_column(sa.Column("n_recorded", sa.Integer(), nullable=True))
        run.add_column(sa.Column("pruned", sa.DateTime(), nullable=True))
        run.create_foreign_key(op.f("fk_run_stream_id_stream"), "stream", ["stream_id"], ["id"])
        run.create_index(op.f("ix_run_stream_id_seq"), ["stream_id", "seq"], unique=True)
    op.add_column("cell", sa.Column("ms", sa.Float(), nullable=True))
    op.add_column("cell", sa.Column("ms_max", sa.Float(), nullable=True))
    _create_batches()
    _create_spans()


def downgrade() -> None:
    """Drop what `upgrade` added."""
    op.drop_table("span")
    op.drop_table("run_batch")
    with op.batch_alter_table("cell", table_kwargs={"sqlite_with_rowid": False}) as cell:
        cell.drop_column("ms_max")
        cell.drop_column("ms")
    with op.batch_alter_table("run") as run:
        run.drop_index(op.f("ix_run_stream_id_seq"))
        run.drop_constraint(op.f("fk_run_stream_id_stream"), type_="foreignkey")
        for name in ("pruned", "n_recorded", "options", "learned_from", "seq", "stream_id"):
            run.drop_column(name)
    op.drop_table("stream")


def _create_batches() -> None:
    op.create_table(
        "run_batch",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("no", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("case_ids", sa.JSON(), nullable=False),
        sa.Column("est_ms", sa.Float(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.Float(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("published", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_batch_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "no", name=op.f("pk_run_batch")),
    )


def _create_spans() -> None:
    op.create_table(
        "span",
        sa.Column("stream_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("case_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("first_seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=True),
        sa.Column("signature_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["case_id"], ["case.id"], name=op.f("fk_span_case_id_case")),
        sa.ForeignKeyConstraint(
            ["signature_id"], ["error_signature.id"], name=op.f("fk_span_signature_id_error_signature")
        ),
        sa.ForeignKeyConstraint(["stream_id"], ["stream.id"], name=op.f("fk_span_stream_id_stream")),
        sa.PrimaryKeyConstraint("stream_id", "case_id", "first_seq", name=op.f("pk_span")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_span_stream_id_first_seq"), "span", ["stream_id", "first_seq"], unique=False)
