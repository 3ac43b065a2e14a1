"""Decides which (overload, dtype) the simulated device serves itself: profile.csv and rules.toml, checked."""

from __future__ import annotations

import csv
import fnmatch
import functools
import importlib.resources
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_COLUMNS = ("overload", "how", "narrows_64_bit", "limits", "source")


@dataclass(frozen=True, slots=True)
class Registration:
    """One row of the profile: `host` says that the registered kernel computes on the host CPU."""

    overload: str
    host: bool
    narrows: bool
    limits: str
    source: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A rule that keeps dtypes from the kernels whose overload matches one of the globs."""

    overloads: tuple[str, ...]
    dtypes: frozenset[torch.dtype]
    why: str


@dataclass(frozen=True, slots=True)
class Profile:
    """The support map: registrations by overload, dtype refusals, and the dtypes computed in a narrower one."""

    title: str
    registrations: Mapping[str, Registration]
    refusals: tuple[Refusal, ...]
    narrow: Mapping[torch.dtype, torch.dtype]
    _refused: dict[tuple[str, torch.dtype], str | None] = field(default_factory=dict)

    def refused(self, overload: str, dtype: torch.dtype) -> str | None:
        """Return why the registered kernel of `overload` does not take `dtype`, or None."""
        key = (overload, dtype)
        if key not in self._refused:
            self._refused[key] = next(
                (
                    rule.why
                    for rule in self.refusals
                    if dtype in rule.dtypes and any(fnmatch.fnmatchcase(overload, glob) for glob in rule.overloads)
                ),
                None,
            )
        return self._refused[key]

    def unmatched(self) -> tuple[str, ...]:
        """Return the registered names that the installed torch has no operator for (operators come and go)."""
        known = {
            f"aten.{name.removeprefix('aten::')}" + ("" if "." in name else ".default")
            for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::")
        }
        return tuple(name for name in self.registrations if name not in known)


def _dtype(name: str, path: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise BadInput(f"{path}: unknown dtype {name!r}; expected a torch dtype name such as float32; restore the file")
    return dtype


def _registrations(text: str, path: str) -> tuple[str, dict[str, Registration]]:
    title, _, body = text.partition("\n")
    if not title.startswith("# "):
        raise BadInput(
            f"{path}: no profile of the simulated device (first line {title[:40]!r}); expected '# source, date'; restore the file"
        )
    reader = csv.DictReader(body.splitlines())
    if tuple(reader.fieldnames or ()) != _COLUMNS:
        raise BadInput(
            f"{path}: columns {reader.fieldnames}, expected {', '.join(_COLUMNS)}; write it again with build_profile.py"
        )
    rows: dict[str, Registration] = {}
    for number, row in enumerate(reader, start=3):
        name = row["overload"]
        if (
            name.count(".") != 2
            or row["how"] not in ("native", "host")
            or row["narrows_64_bit"] not in ("yes", "no")
            or name in rows
        ):
            raise BadInput(
                f"{path}, line {number}: damaged or repeated row for {name!r}; expected overload, native|host, yes|no; write it again with build_profile.py"
            )
        rows[name] = Registration(
            name, row["how"] == "host", row["narrows_64_bit"] == "yes", row["limits"] or "", row["source"] or ""
        )
    if not rows:
        raise BadInput(
            f"{path}: the profile has no registrations; expected at least one row; write it again with build_profile.py"
        )
    return title[2:], rows


def read_profile(profile: Path | None = None) -> Profile:
    """Return the profile in the file, or the shipped one; raises BadInput that names file, line and remedy."""
    folder = importlib.resources.files("neuron_ops.op_tests.targets.sim")
    path = str(profile or folder.joinpath("profile.csv"))
    try:
        text = profile.read_text("utf-8") if profile else folder.joinpath("profile.csv").read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{path}: cannot read the profile ({error}); expected a CSV written by build_profile.py"
        ) from error
    title, registrations = _registrations(text, path)
    rules = tomllib.loads(folder.joinpath("rules.toml").read_text("utf-8"))
    return Profile(
        title=title,
        registrations=registrations,
        refusals=tuple(
            Refusal(tuple(r["overloads"]), frozenset(_dtype(d, "rules.toml") for d in r["dtypes"]), r["why"])
            for r in rules["refuse"]
        ),
        narrow={_dtype(wide, "rules.toml"): _dtype(thin, "rules.toml") for wide, thin in rules["narrow"].items()},
    )


@functools.cache
def shipped_profile() -> Profile:
    """Return the profile that comes with the package."""
    return read_profile()
