"""Decides where samples are kept: one SQLite file a torch version, seed and dtype, read one overload at a time."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

import torch
from neuron_ops.op_tests.packing import Sample
from neuron_ops.op_tests.records import BANK_VERSION, BadInput, Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType

DTYPES = (
    "float32", "bfloat16", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128",
    "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
"""The dtypes that can be recorded."""

_APPLICATION_ID = 0x4E4F4253  # "NOBS": SQLite's mark for the kind of file
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sample (overload TEXT NOT NULL, label TEXT NOT NULL, variants TEXT NOT NULL, refused TEXT,
                     data BLOB NOT NULL, PRIMARY KEY (overload, label));
CREATE TABLE dropped (overload TEXT NOT NULL, label TEXT NOT NULL, reason TEXT NOT NULL,
                      PRIMARY KEY (overload, label)) WITHOUT ROWID;
"""


def bank_file(folder: Path, dtype: str, seed: int) -> Path:
    """Return the path of the bank of the installed torch for one dtype and seed."""
    version = torch.__version__.partition("+")[0]
    return folder / "bank" / f"torch-{version}" / f"seed-{seed}" / f"{dtype}-v{BANK_VERSION}.sqlite"


class BankWriter:
    """Writes a bank file: everything or nothing, by renaming a finished file into place."""

    def __init__(self, path: str | Path, dtype: str, seed: int, *, axes: bool = False) -> None:
        self._path = Path(path)
        self._temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        self._temporary.unlink(missing_ok=True)
        self._connection = sqlite3.connect(self._temporary)
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {BANK_VERSION}")
        meta = {"torch": torch.__version__.partition("+")[0], "dtype": dtype, "seed": str(seed), "axes": str(axes)}
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))

    def add(
        self, overload: str, label: str, sample: Sample, variants: Sequence[str], refused: str | None = None
    ) -> None:
        """Store a sample with its variants; `refused` is the reference's refusal of it, where it refuses."""
        row = (overload, label, json.dumps(list(variants)), refused, sample.to_bytes())
        self._connection.execute("INSERT INTO sample VALUES (?, ?, ?, ?, ?)", row)

    def drop(self, overload: str, label: str, reason: str) -> None:
        """Note why a proposed sample was dropped; an empty label speaks of all that the overload was tried with."""
        self._connection.execute("INSERT INTO dropped VALUES (?, ?, ?)", (overload, label, reason))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.commit()
        self._connection.close()
        if kind is None:
            self._temporary.replace(self._path)
        else:
            self._temporary.unlink()


class Row(NamedTuple):
    """A sample without its arguments; `refused` is the reference's refusal, None where it computes the call."""

    overload: str
    label: str
    variants: tuple[str, ...]
    refused: str | None


class Bank:
    """Reads the samples of one torch version and seed from a folder."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.seed = folder, seed
        self._open: dict[str, sqlite3.Connection] = {}

    def cases(self, overload: str, dtype: str) -> list[Case]:
        """Return the cases of one overload and dtype in a stable order; none where no sample was recorded."""
        rows = self._query(dtype, "SELECT label, variants FROM sample WHERE overload = ? ORDER BY label", overload)
        return [
            Case(overload, dtype, label, variant, self.seed)
            for label, variants in rows
            for variant in json.loads(variants)
        ]

    def overloads(self, dtype: str) -> frozenset[str]:
        """Return the overloads that have samples in a dtype, those that the reference refuses too."""
        return frozenset(name for (name,) in self._query(dtype, "SELECT DISTINCT overload FROM sample"))

    def rows(self, dtype: str) -> list[Row]:
        """Return what there is of all samples in a dtype except the arguments, sorted by overload and label."""
        query = "SELECT overload, label, variants, refused FROM sample ORDER BY overload, label"
        return [
            Row(overload, label, tuple(json.loads(variants)), refused)
            for overload, label, variants, refused in self._query(dtype, query)
        ]

    def dropped(self, overload: str, dtype: str) -> list[tuple[str, str]]:
        """Return (label, reason) of the proposed samples of an overload that were dropped; '' labels the last refusal."""
        query = "SELECT label, reason FROM dropped WHERE overload = ? ORDER BY label"
        return [(label, reason) for label, reason in self._query(dtype, query, overload)]

    def find(self, case: Case) -> Sample | None:
        """Return the recorded arguments of a case, None where the bank has no such sample."""
        query = "SELECT data FROM sample WHERE overload = ? AND label = ?"
        row = next(iter(self._query(case.dtype, query, case.overload, case.sample)), None)
        return None if row is None else Sample.from_bytes(row[0])

    def sample(self, case: Case) -> Sample:
        """Return the recorded arguments of a case; raises BadInput where the bank has no such sample."""
        found = self.find(case)
        if found is None:
            raise BadInput(
                f"no sample {case.sample!r} of {case.overload} in {case.dtype} for torch {torch.__version__}, seed {case.seed}; "
                "expected one that the bank recorded; run `neuron-ops bank build` with the torch that the run used"
            )
        return found

    def missing(self, dtypes: Sequence[str], *, axes: bool = False) -> list[str]:
        """Return the dtypes that have no bank file yet; with `axes` also those whose file has no variants of the axes."""
        return [dtype for dtype in dtypes if not self._has(dtype, axes)]

    def _has(self, dtype: str, axes: bool) -> bool:
        if not bank_file(self.folder, dtype, self.seed).exists():
            return False
        return not axes or next(self._query(dtype, "SELECT value FROM meta WHERE key = 'axes'"), None) == ("True",)

    def build(
        self, dtypes: Sequence[str], progress: Callable[[int, int, str], None], *, jobs: int = 2, axes: bool = True
    ) -> None:
        """Record the dtypes that are missing, `jobs` at a time, in a process of their own; without `axes` plain calls alone.

        `progress` gets done, total and what is in work. Raises BadInput where the folder cannot be written, RuntimeError
        with the recorder's last words where it failed; dtypes that were finished before stay.
        """
        missing = self.missing(dtypes, axes=axes)
        if not missing:
            return
        self._check_writable()
        for dtype in missing:
            self._open.pop(dtype, None)  # what is open is about to be replaced
        with tempfile.TemporaryFile() as log, self._recording(missing, jobs, axes, log) as child:
            _follow(child, len(missing) + 1, progress)
            if child.wait() != 0:
                log.seek(0)
                words = log.read()[-2000:].decode(errors="replace")
                raise RuntimeError(f"recording samples ended with exit code {child.returncode}:\n{words}")

    def _check_writable(self) -> None:
        folder = bank_file(self.folder, DTYPES[0], self.seed).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise BadInput(
                f"cannot write the sample bank into {folder} ({error.strerror}); expected a writable folder; set NEURON_OPS_CACHE"
            ) from error

    def _recording(self, dtypes: Sequence[str], jobs: int, axes: bool, log: IO[bytes]) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "neuron_ops.op_tests.recording", str(self.folder), str(self.seed)]
        # Iteration orders of sets and the random state are part of what is recorded. No accelerator: the recorder
        # forks after it has run autograd, which torch allows only where autograd has no device threads.
        environment = {
            **os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ZE_AFFINITY_MASK": "",
        }  # fmt: skip
        return subprocess.Popen(
            [*command, str(jobs), "axes" if axes else "plain", *dtypes],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
        )

    def _query(self, dtype: str, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        if dtype not in self._open:
            self._open[dtype] = _connect(bank_file(self.folder, dtype, self.seed), dtype)
        return iter(self._open[dtype].execute(query, values).fetchall())


def _follow(child: subprocess.Popen[bytes], parts: int, progress: Callable[[int, int, str], None]) -> None:
    """Report the summed progress of the recorder's `parts` until it has closed its output."""
    counts: dict[str, int] = {}
    assert child.stdout is not None
    for line in child.stdout:
        with contextlib.suppress(ValueError):  # anything else is chatter of a library
            _, part, done, total, text = json.loads(line)
            counts[part] = done
            progress(sum(counts.values()), parts * total, f"{part} {text}")


def _connect(path: Path, dtype: str) -> sqlite3.Connection:
    """Return a read-only connection; raises BadInput for a missing, damaged or foreign file."""
    remedy = "delete it and run `neuron-ops bank build`"
    if not path.exists():
        raise BadInput(
            f"no sample bank at {path}; expected one for {dtype}; run `neuron-ops bank build --dtypes {dtype}`"
        )
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (check,) = ("ok",) if _identity(path) in _CHECKED else connection.execute("PRAGMA quick_check(1)").fetchone()
        meta = (
            dict(connection.execute("SELECT key, value FROM meta").fetchall()) if application == _APPLICATION_ID else {}
        )
    except sqlite3.DatabaseError as error:
        raise BadInput(f"{path} is damaged ({error}); expected a sample bank; {remedy}") from error
    if application != _APPLICATION_ID or version != BANK_VERSION or check != "ok":
        raise BadInput(
            f"{path} is no sample bank of version {BANK_VERSION} (version {version}, check {check}); {remedy}"
        )
    if meta.get("torch") != torch.__version__.partition("+")[0] or meta.get("dtype") != dtype:
        raise BadInput(
            f"{path} was recorded with torch {meta.get('torch')} for {meta.get('dtype')}, expected {torch.__version__}, {dtype}; {remedy}"
        )
    _CHECKED.add(_identity(path))
    return connection


_CHECKED: set[tuple[str, int, int]] = (
    set()
)  # files that were read from end to end (25 ms) in this process or its parent


def _identity(path: Path) -> tuple[str, int, int]:
    """Return what changes when a file is written or replaced."""
    stat = path.stat()
    return str(path), stat.st_ino, stat.st_mtime_ns


def check_ahead(folder: Path) -> None:
    """Check all banks of the installed torch now, so that processes forked from this one need not."""
    for path in sorted(bank_file(folder, "*", 0).parent.parent.glob(f"seed-*/*-v{BANK_VERSION}.sqlite")):
        with contextlib.suppress(BadInput):  # whoever needs it says so
            _connect(path, path.name.partition("-v")[0]).close()
