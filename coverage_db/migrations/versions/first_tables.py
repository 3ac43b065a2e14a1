"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create all tables."""
    _create_words()
    _create_runs_and_cases()
    _create_results()


def downgrade() -> None:
    """Drop all tables."""
    op.drop_table("run_case")
    op.drop_table("result")
    op.drop_table("cell")
    op.drop_index(op.f("ix_run_target_id_id"), table_name="run")
    op.drop_table("run")
    op.drop_index(op.f("ix_case_op_id_dtype"), table_name="case")
    op.drop_table("case")
    op.drop_table("target")
    op.drop_table("software")
    op.drop_table("parts")
    op.drop_index(op.f("ix_op_packet"), table_name="op")
    op.drop_table("op")
    op.drop_table("error_signature")


def _create_words() -> None:
    op.create_table(
        "error_signature",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.LargeBinary(length=16), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_error_signature")),
        sa.UniqueConstraint("hash", name=op.f("uq_error_signature_hash")),
    )
    op.create_table(
        "op",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("packet", sa.Text(), nullable=False),
        sa.Column("schema", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=False),
        sa.Column("excluded", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_op")),
        sa.UniqueConstraint("name", name=op.f("uq_op_name")),
    )
    op.create_index(op.f("ix_op_packet"), "op", ["packet"], unique=False)
    op.create_table(
        "parts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("hash", sa.LargeBinary(length=16), nullable=False),
        sa.Column("parts", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_parts")),
        sa.UniqueConstraint("hash", name=op.f("uq_parts_hash")),
    )
    op.create_table(
        "software",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_software")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_software_fingerprint")),
    )
    op.create_table(
        "target",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_target")),
        sa.UniqueConstraint("name", name=op.f("uq_target_name")),
    )


def _create_runs_and_cases() -> None:
    op.create_table(
        "case",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("key", sa.LargeBinary(length=16), nullable=False),
        sa.Column("op_id", sa.Integer(), nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("sample", sa.Text(), nullable=False),
        sa.Column("variant", sa.Text(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["op_id"], ["op.id"], name=op.f("fk_case_op_id_op")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_case")),
        sa.UniqueConstraint("key", name=op.f("uq_case_key")),
    )
    op.create_index(op.f("ix_case_op_id_dtype"), "case", ["op_id", "dtype"], unique=False)
    op.create_table(
        "run",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("slug", sa.Text(), nullable=False),
        sa.Column("target_id", sa.Integer(), nullable=False),
        sa.Column("software_id", sa.Integer(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("started", sa.DateTime(), nullable=False),
        sa.Column("finished", sa.DateTime(), nullable=True),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("n_planned", sa.Integer(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("denominators", sa.JSON(), nullable=False),
        sa.Column("dtypes", sa.JSON(), nullable=False),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["software_id"], ["software.id"], name=op.f("fk_run_software_id_software")),
        sa.ForeignKeyConstraint(["target_id"], ["target.id"], name=op.f("fk_run_target_id_target")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint("slug", name=op.f("uq_run_slug")),
    )
    op.create_index(op.f("ix_run_target_id_id"), "run", ["target_id", "id"], unique=False)


def _create_results() -> None:
    op.create_table(
        "cell",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("op_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("dtype", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("n", sa.Integer(), nullable=False),
        sa.Column("k", sa.Integer(), nullable=False),
        sa.Column("counts", sa.JSON(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("composite", sa.Boolean(), nullable=False),
        sa.Column("parts_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["op_id"], ["op.id"], name=op.f("fk_cell_op_id_op")),
        sa.ForeignKeyConstraint(["parts_id"], ["parts.id"], name=op.f("fk_cell_parts_id_parts")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_cell_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "op_id", "dtype", name=op.f("pk_cell")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "result",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("case_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("composite", sa.Boolean(), nullable=False),
        sa.Column("received", sa.Text(), nullable=True),
        sa.Column("ms_device", sa.Float(), nullable=True),
        sa.Column("ms_reference", sa.Float(), nullable=True),
        sa.Column("figures", sa.JSON(), nullable=True),
        sa.Column("signature_id", sa.Integer(), nullable=True),
        sa.Column("parts_id", sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(["case_id"], ["case.id"], name=op.f("fk_result_case_id_case")),
        sa.ForeignKeyConstraint(["parts_id"], ["parts.id"], name=op.f("fk_result_parts_id_parts")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_result_run_id_run")),
        sa.ForeignKeyConstraint(
            ["signature_id"], ["error_signature.id"], name=op.f("fk_result_signature_id_error_signature")
        ),
        sa.PrimaryKeyConstraint("run_id", "case_id", name=op.f("pk_result")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_case",
        sa.Column("run_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("case_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(["case_id"], ["case.id"], name=op.f("fk_run_case_case_id_case")),
        sa.ForeignKeyConstraint(["run_id"], ["run.id"], name=op.f("fk_run_case_run_id_run")),
        sa.PrimaryKeyConstraint("run_id", "case_id", name=op.f("pk_run_case")),
        sqlite_with_rowid=False,
    )
