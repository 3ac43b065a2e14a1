"""Where things are kept: flags, then NEURON_OPS_* variables, then pyproject.toml, then the XDG folders."""

from __future__ import annotations

import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neuron_ops.op_tests.records import BadInput

DATABASE_FILE = "neuron-ops.sqlite"
_BROKERS = ("redis://", "rediss://", "amqp://", "amqps://")
_KEYS = ("database-url", "broker-url", "data", "cache")
# Two letters or more, so that a drive letter stays a path.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+_.-]+:")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the database, the data and what can be built again are; the broker only where there are several machines."""

    database_url: str
    data_folder: Path
    cache_folder: Path
    broker_url: str | None = None


def load_settings(database_url: str | None = None, broker_url: str | None = None) -> Settings:
    """Return the settings in force; raises BadInput when pyproject.toml cannot be used.

    `database_url` is a flag's value: a URL, or the path of a SQLite file; `broker_url` another's.
    """
    table = _pyproject(Path("pyproject.toml"))
    data = _folder("NEURON_OPS_DATA", table.get("data"), "XDG_DATA_HOME", ".local/share")
    cache = _folder("NEURON_OPS_CACHE", table.get("cache"), "XDG_CACHE_HOME", ".cache")
    chosen = database_url or os.environ.get("NEURON_OPS_DATABASE_URL") or table.get("database-url")
    broker = broker_url or os.environ.get("NEURON_OPS_BROKER_URL") or table.get("broker-url")
    if broker and not broker.startswith(_BROKERS):
        raise BadInput(
            f"The broker {broker.partition('@')[2] or broker!r} cannot be used; give a URL that starts with "
            f"{' or '.join(_BROKERS)}."
        )
    return Settings(normal_url(chosen or str(data / DATABASE_FILE)), data, cache, broker)


def normal_url(text: str) -> str:
    """Return a database URL for a URL or a path; raises BadInput for text that is neither.

    A path becomes ``sqlite:///`` and its absolute form; PostgreSQL URLs get the driver that we use, psycopg.
    """
    scheme, found, rest = text.strip().partition("://")
    if found:
        return f"postgresql+psycopg://{rest}" if scheme in {"postgres", "postgresql"} else text.strip()
    if not text.strip() or _SCHEME.match(text.strip()):
        raise BadInput(
            f"The database {text!r} is neither a path nor a URL; give a path such as results.sqlite or a URL such as "
            "postgresql://user@host/name with --db or NEURON_OPS_DATABASE_URL."
        )
    return f"sqlite:///{Path(text.strip()).expanduser().absolute()}"


def _folder(variable: str, configured: str | None, xdg: str, fallback: str) -> Path:
    given = os.environ.get(variable) or configured
    if given:
        return Path(given).expanduser().absolute()
    # The XDG specification says to ignore relative values.
    base = Path(os.environ.get(xdg, ""))
    return (base if base.is_absolute() else Path.home() / fallback) / "neuron-ops"


def _pyproject(path: Path) -> dict[str, str]:
    """Return the table [tool.neuron-ops] of a file, empty where there is none."""
    try:
        text = path.read_bytes().decode()
    except (OSError, UnicodeDecodeError):
        return {}  # no project here, or none that is ours to judge
    try:
        table: Any = tomllib.loads(text).get("tool", {}).get("neuron-ops", {})
    except tomllib.TOMLDecodeError as error:
        raise BadInput(
            f"{path.absolute()} is not valid TOML ({error}); correct it or run from another folder."
        ) from error
    if not isinstance(table, dict):
        raise BadInput(
            f"[tool.neuron-ops] in {path.absolute()} is not a table; write it with the keys {', '.join(_KEYS)}."
        )
    for key, value in table.items():
        if key not in _KEYS or not isinstance(value, str):
            raise BadInput(
                f"[tool.neuron-ops] in {path.absolute()} has {key} = {value!r}, but takes only text for the keys "
                f"{', '.join(_KEYS)}; correct that line."
            )
    return table
