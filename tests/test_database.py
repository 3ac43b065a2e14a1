"""Databases open, upgrade and refuse: settings, every bad input, drift, and who may write."""

from __future__ import annotations

import socket
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import small_run
import sqlalchemy as sa
from neuron_ops.cli.main import run as neuron_ops
from neuron_ops.coverage_db import database, models, upgrade
from neuron_ops.coverage_db.database import open_database, read, upgrade_database, write
from neuron_ops.coverage_db.settings import load_settings, normal_url
from neuron_ops.op_tests.records import BadInput
from sqlalchemy import Engine

if TYPE_CHECKING:
    from services import Postgres

pytest_plugins = ["services"]


@pytest.fixture(autouse=True)
def _nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("NEURON_OPS_DATABASE_URL", "NEURON_OPS_DATA", "NEURON_OPS_CACHE", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_settings_come_from_flag_then_variable_then_project_then_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / ".local/share/neuron-ops"
    settings = load_settings()
    assert settings.database_url == f"sqlite:///{home}/neuron-ops.sqlite"
    assert (settings.data_folder, settings.cache_folder) == (home, tmp_path / ".cache/neuron-ops")
    monkeypatch.setenv("XDG_DATA_HOME", "/xdg/data")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert load_settings().data_folder == Path("/xdg/data/neuron-ops")
    assert load_settings().cache_folder == tmp_path / ".cache/neuron-ops"
    Path("pyproject.toml").write_text('[tool.neuron-ops]\ndatabase-url = "project.sqlite"\ndata = "d"\ncache = "/c"\n')
    settings = load_settings()
    assert settings.database_url == f"sqlite:///{tmp_path}/project.sqlite"
    assert (settings.data_folder, settings.cache_folder) == (tmp_path / "d", Path("/c"))
    monkeypatch.setenv("NEURON_OPS_DATABASE_URL", "variable.sqlite")
    monkeypatch.setenv("NEURON_OPS_DATA", "/variable")
    assert load_settings().database_url == f"sqlite:///{tmp_path}/variable.sqlite"
    assert load_settings().data_folder == Path("/variable")
    assert load_settings("flag.sqlite").database_url == f"sqlite:///{tmp_path}/flag.sqlite"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.neuron-ops", "not valid TOML"),
        ('[tool]\nneuron-ops = "x"', "not a table"),
        ('[tool.neuron-ops]\ndatabase = "x"', "database = 'x'"),
        ("[tool.neuron-ops]\ncache = 3", "cache = 3"),
    ],
)
def test_a_project_file_that_cannot_be_used_is_named(text: str, message: str) -> None:
    Path("pyproject.toml").write_text(text)
    with pytest.raises(BadInput, match=message):
        load_settings()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("sqlite:////a/b.sqlite", "sqlite:////a/b.sqlite"),
        ("/a/b.sqlite", "sqlite:////a/b.sqlite"),
        ("postgres://u:p@h/d", "postgresql+psycopg://u:p@h/d"),
        ("postgresql://h/d", "postgresql+psycopg://h/d"),
        ("postgresql+psycopg://h/d", "postgresql+psycopg://h/d"),
    ],
)
def test_a_path_or_a_url_names_a_database(text: str, url: str) -> None:
    assert normal_url(text) == url


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "neither a path nor a URL"),
        ("postgresql:h/d", "neither a path nor a URL"),
        ("postgresql://h:port/d", "cannot be read"),
        ("mysql://h/d", "'mysql'; use sqlite"),
        ("postgresql+asyncpg://h/d", "driver 'postgresql\\+asyncpg'"),
        ("sqlite://", "names no plain file"),
        ("sqlite:///:memory:", "names no plain file"),
        ("sqlite:///file:x?mode=memory&uri=true", "names no plain file"),
    ],
)
def test_a_bad_url_is_refused(url: str, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        open_database(url)
    assert list(Path.cwd().iterdir()) == []


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'neuron-ops\[postgres\]'"):
        open_database("postgresql://h/d")


def _folder_under_a_file(path: Path) -> None:
    path.parent.write_text("a file, no folder")


def _a_folder(path: Path) -> None:
    path.mkdir(parents=True)


def _garbage(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database " * 1000)


def _damaged(path: Path) -> None:
    open_database(str(path)).dispose()
    data = path.read_bytes()
    path.write_bytes(data[:100] + b"\xff" * (len(data) - 100))


def _newer(path: Path) -> None:
    engine = open_database(str(path))
    with write(engine) as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()


def _another_program(path: Path) -> None:
    path.parent.mkdir()
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE invoices (id INTEGER)")
    engine.dispose()


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (_folder_under_a_file, "folder .* cannot be made"),
        (_a_folder, "cannot be opened for writing"),
        (_garbage, "damaged or no SQLite database"),
        (_damaged, "damaged or no SQLite database"),
        (_newer, "revision 9999, newer than this program"),
        (_another_program, "tables of another program"),
    ],
)
def test_an_unusable_file_is_refused_and_left_alone(prepare: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "sub/x.sqlite"
    prepare(path)  # type: ignore[operator]
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(BadInput, match=message):
        open_database(str(path))
    assert (path.read_bytes() if path.is_file() else None) == before


def test_a_folder_that_nobody_may_write_is_refused() -> None:
    # /proc takes no new folders, not even from root, who may write everywhere else
    with pytest.raises(BadInput, match="cannot be"):
        open_database("/proc/neuron-ops/x.sqlite")


def test_a_file_that_must_exist_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "none.sqlite"
    with pytest.raises(BadInput, match="no database at"):
        open_database(str(path), create=False)
    assert not path.exists()
    open_database(str(path)).dispose()
    open_database(str(path), create=False).dispose()


def test_postgresql_is_upgraded_by_command_only(postgres_url: str) -> None:
    with pytest.raises(BadInput, match=r"empty, expected revision .*run `neuron-ops db upgrade`"):
        open_database(postgres_url)
    assert upgrade_database(postgres_url) == upgrade.HEAD
    assert upgrade_database(postgres_url) == upgrade.HEAD
    engine = open_database(postgres_url)
    with write(engine) as conn:
        conn.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    for function in (open_database, upgrade_database):
        with pytest.raises(BadInput, match="newer than this program"):
            function(postgres_url)


def test_a_server_that_is_away_is_named_without_its_password() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        port = taken.getsockname()[1]
        with pytest.raises(BadInput, match="cannot be reached") as caught:
            open_database(f"postgresql://user:secret@127.0.0.1:{port}/d")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_tables_are_those_of_the_models(engine: Engine) -> None:
    with read(engine) as conn:
        assert upgrade.differences(conn) == []
    with write(engine) as conn:
        conn.exec_driver_sql("DROP INDEX ix_case_op_id_dtype")
        assert len(upgrade.differences(conn)) == 1


def test_the_revisions_listed_are_those_in_the_folder_and_go_back(engine: Engine) -> None:
    from alembic import command
    from alembic.script import ScriptDirectory

    small_run.record(engine)
    with write(database._unpooled(engine.url)) as conn:  # as an upgrade does: foreign keys off
        config = upgrade._config(conn)
        script = ScriptDirectory.from_config(config)
        assert [s.revision for s in script.walk_revisions()][::-1] == list(upgrade.REVISIONS)
        command.downgrade(config, "base")
        assert set(sa.inspect(conn).get_table_names()) == {upgrade.TABLE}
        upgrade.to_head(conn)
        assert set(sa.inspect(conn).get_table_names()) == {upgrade.TABLE, *models.metadata.tables}


def _row(table: sa.Table) -> dict[str, object]:
    """Return a row for a table as it was at some revision: ones everywhere, of the column's type."""
    values: dict[type[object], object] = {
        sa.JSON: [1], sa.Text: "1", sa.LargeBinary: b"1" * 16, sa.DateTime: datetime(2026, 1, 1), sa.Boolean: True,  # noqa: DTZ001
    }  # fmt: skip
    return {c.name: next((v for kind, v in values.items() if isinstance(c.type, kind)), 1) for c in table.columns}


@pytest.mark.parametrize("revision", upgrade.REVISIONS[:-1])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_an_older_database_is_upgraded_with_a_row_in_every_table(
    kind: str, revision: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    from alembic import command

    url = str(tmp_path / "old.sqlite") if kind == "sqlite" else request.getfixturevalue("postgres_url")
    engine = database._unpooled(database.checked_url(url))
    old = sa.MetaData()
    with write(engine) as conn:
        command.upgrade(upgrade._config(conn), revision)
        old.reflect(conn)
        for table in old.sorted_tables:
            if table.name != upgrade.TABLE:
                conn.execute(sa.insert(table).values(_row(table)))
    assert upgrade_database(url) == upgrade.HEAD
    with read(engine) as conn:
        assert upgrade.differences(conn) == []
        for table in old.sorted_tables:
            assert conn.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 1
    if kind == "sqlite":
        copy = sa.create_engine(f"sqlite:///{url}.before-{upgrade.HEAD}", poolclass=sa.NullPool)
        with copy.connect() as conn:
            assert conn.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == revision
            assert conn.exec_driver_sql("SELECT count(*) FROM result").scalar() == 1


def test_processes_that_upgrade_one_server_at_once_all_succeed(postgres_url: str) -> None:
    code = "import sys; from neuron_ops.coverage_db.database import upgrade_database; upgrade_database(sys.argv[1])"
    command = [sys.executable, "-W", "error", "-c", code, postgres_url]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [(p.communicate()[1], p.returncode) for p in processes] == [(b"", 0)] * 4


def test_a_failed_upgrade_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    whole = upgrade.to_head

    def fail(conn: sa.Connection) -> None:
        whole(conn)
        raise RuntimeError("planted")

    monkeypatch.setattr(upgrade, "to_head", fail)
    path = str(tmp_path / "x.sqlite")
    with pytest.raises(RuntimeError, match="planted"):
        open_database(path)
    monkeypatch.undo()
    with open_database(path).connect() as conn:
        assert sa.inspect(conn).has_table("result")
        conn.engine.dispose()


def test_processes_that_open_a_new_file_at_once_all_succeed(tmp_path: Path) -> None:
    code = "import sys; from neuron_ops.coverage_db.database import open_database; open_database(sys.argv[1]).dispose()"
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path / "new.sqlite")]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(4)]
    assert [(p.communicate()[1], p.returncode) for p in processes] == [(b"", 0)] * 4


def test_a_reader_sees_one_state_and_cannot_write(engine: Engine) -> None:
    count = sa.select(sa.func.count()).select_from(models.target)
    with read(engine) as reader:
        assert reader.execute(count).scalar() == 0
        with write(engine) as writer:
            writer.execute(sa.insert(models.target).values(name="sim"))
        assert reader.execute(count).scalar() == 0
    with read(engine) as reader:
        assert reader.execute(count).scalar() == 1
        with pytest.raises(sa.exc.DBAPIError, match=r"readonly|read-only"):
            reader.execute(sa.delete(models.target))
    with pytest.raises(ZeroDivisionError), write(engine) as writer:
        assert writer.execute(sa.delete(models.target)).rowcount / 0
    with read(engine) as reader:
        assert reader.execute(count).scalar() == 1


def test_sqlite_is_opened_with_its_settings(tmp_path: Path) -> None:
    engine = open_database(str(tmp_path / "x.sqlite"))
    with read(engine) as conn:
        found = {name: conn.exec_driver_sql(f"PRAGMA {name}").scalar() for name in
                 ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")}  # fmt: skip
    assert found == {"journal_mode": "wal", "synchronous": 1, "busy_timeout": 30000, "foreign_keys": 1}
    with pytest.raises(sa.exc.IntegrityError), write(engine) as conn:
        conn.execute(sa.insert(models.run_case).values(run_id=1, case_id=1))
    engine.dispose()


def test_the_command_upgrades_and_checks(
    postgres: Postgres, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for url in (postgres.create(), str(tmp_path / "x.sqlite")):
        assert neuron_ops(["db", "check", "--db", url]) in {1, 2}  # an empty server, or no file
        assert neuron_ops(["db", "upgrade", "--db", url]) == 0
        assert f"is at revision {upgrade.HEAD}" in capsys.readouterr().out
        assert neuron_ops(["db", "check", "--db", url]) == 0
        engine = open_database(url)
        with write(engine) as conn:
            conn.exec_driver_sql("DROP INDEX ix_case_op_id_dtype")
        engine.dispose()
        assert neuron_ops(["db", "check", "--db", url]) == 1
        assert "differs: add_index" in capsys.readouterr().out
