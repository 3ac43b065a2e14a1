"""Reads which translation was chosen and verified for each overload: the table data/choices.csv, written by the planner.

Imported by translators.installation and translators.tables.
"""

from __future__ import annotations

import csv
import functools
import importlib.resources
from dataclasses import dataclass

COLUMNS = ("overload", "source", "dtypes", "needs", "launches", "bytes", "note", "axes")


class BadChoices(ValueError):  # noqa: N818 - it names the file
    """The table of choices cannot be used; the sentence says which line and why."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The translation of one overload.

    `source` as in sources.py; `dtypes` in which every case of it passed with no work on the host; `needs`: the overloads
    of the device that the calls reach; `launches`: the median number of device calls of a sample; `bytes`: the median
    bytes of a sample's tensors that a CPU fallback would move; `note`: what is partial, and why; `axes`: what the cases
    varied (op_tests.axes), empty in tables that were written before it was noted.
    """

    overload: str
    source: str
    dtypes: tuple[str, ...]
    needs: tuple[str, ...]
    launches: int
    bytes: int
    note: str
    axes: tuple[str, ...] = ()


def read_choices(text: str) -> dict[str, Choice]:
    """Return overload → choice of a table's text; raises BadChoices for a line that is double or does not parse."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    rows = csv.DictReader(lines)
    if tuple(rows.fieldnames or ()) not in (COLUMNS, COLUMNS[:-1]):
        raise BadChoices(f"the table of choices has columns {rows.fieldnames}; expected {', '.join(COLUMNS)}")
    found: dict[str, Choice] = {}
    for row in rows:
        name = row["overload"]
        if name in found:
            raise BadChoices(
                f"the table of choices names {name} twice; expected once; write it with `neuron-ops translators plan`"
            )
        try:
            found[name] = Choice(
                name, row["source"], tuple(row["dtypes"].split()), tuple(row["needs"].split()), int(row["launches"]),
                int(row["bytes"]), row["note"], tuple((row.get("axes") or "").split()),
            )  # fmt: skip
        except (ValueError, AttributeError) as error:
            raise BadChoices(
                f"the table of choices is damaged at {name}: {error}; write it with `neuron-ops translators plan`"
            ) from error
    return found


def write_choices(choices: dict[str, Choice], about: str) -> str:
    """Return the table as text: a comment with what it was made with, then one line an overload, sorted."""
    lines = [f"# {about}", ",".join(COLUMNS)]
    for name in sorted(choices):
        c = choices[name]
        note = '"' + c.note.replace('"', "'") + '"' if c.note else ""
        source = f'"{c.source}"' if "," in c.source else c.source
        lines.append(
            f"{name},{source},{' '.join(c.dtypes)},{' '.join(c.needs)},{c.launches},{c.bytes},{note},{' '.join(c.axes)}"
        )
    return "\n".join(lines) + "\n"


TABLES = {"neuron": "choices.csv", "core": "choices_core.csv"}
"""Device → the table of choices that was planned for it: the vendor's registrations, or torch's core tag."""


def planned(device: str) -> bool:
    """Return whether the package has a table for a device of TABLES."""
    return importlib.resources.files("neuron_ops.translators").joinpath(f"data/{TABLES[device]}").is_file()


@functools.cache
def shipped_choices(device: str = "neuron") -> dict[str, Choice]:
    """Return the choices that come with the package for a device of TABLES; raises BadChoices where none were planned."""
    if not planned(device):
        raise BadChoices(
            f"no translations were planned for the device {device!r} yet; expected data/{TABLES[device]}; write it with "
            f"`neuron-ops translators plan --device {device} --write`"
        )
    path = importlib.resources.files("neuron_ops.translators").joinpath(f"data/{TABLES[device]}")
    return read_choices(path.read_text("utf-8"))
