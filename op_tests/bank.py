"""Decides where samples are kept: one SQLite file a torch version, seed and dtype, read one overload at a time."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

import torch
from neuron_ops.op_tests.packing import Sample
from neuron_ops.op_tests.records import BANK_VERSION, BadInput, Case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

DTYPES = (
    "float32", "bfloat16", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128",
)  # fmt: skip
"""The dtypes that can be recorded."""

_APPLICATION_ID = 0x4E4F4253  # "NOBS": SQLite's mark for the kind of file
_SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE sample (overload TEXT NOT NULL, label TEXT NOT NULL, variants TEXT NOT NULL, data BLOB NOT NULL,
                     PRIMARY KEY (overload, label)) WITHOUT ROWID;
CREATE TABLE dropped (overload TEXT NOT NULL, label TEXT NOT NULL, PRIMARY KEY (overload, label)) WITHOUT ROWID;
"""


def bank_file(folder: Path, dtype: str, seed: int) -> Path:
    """Return the path of the bank of the installed torch for one dtype and seed."""
    version = torch.__version__.partition("+")[0]
    return folder / "bank" / f"torch-{version}" / f"seed-{seed}" / f"{dtype}-v{BANK_VERSION}.sqlite"


class BankWriter:
    """Writes a bank file: everything or nothing, by renaming a finished file into place."""

    def __init__(self, path: str | Path, dtype: str, seed: int) -> None:
        self._path = Path(path)
        self._temporary = self._path.with_name(f"{self._path.name}.{os.getpid()}.tmp")
        self._temporary.unlink(missing_ok=True)
        self._connection = sqlite3.connect(self._temporary)
        self._connection.executescript(_SCHEMA)
        self._connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {BANK_VERSION}")
        meta = {"torch": torch.__version__.partition("+")[0], "dtype": dtype, "seed": str(seed)}
        self._connection.executemany("INSERT INTO meta VALUES (?, ?)", list(meta.items()))

    def add(self, overload: str, label: str, sample: Sample, variants: Sequence[str]) -> None:
        """Store a sample; one without variants is only named, as dropped."""
        if variants:
            row = (overload, label, json.dumps(list(variants)), sample.to_bytes())
            self._connection.execute("INSERT INTO sample VALUES (?, ?, ?, ?)", row)
        else:
            self._connection.execute("INSERT INTO dropped VALUES (?, ?)", (overload, label))

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
        """Return the overloads that have samples in a dtype."""
        return frozenset(name for (name,) in self._query(dtype, "SELECT DISTINCT overload FROM sample"))

    def sample(self, case: Case) -> Sample:
        """Return the recorded arguments of a case; raises BadInput where the bank has no such sample."""
        query = "SELECT data FROM sample WHERE overload = ? AND label = ?"
        row = next(iter(self._query(case.dtype, query, case.overload, case.sample)), None)
        if row is None:
            raise BadInput(
                f"no sample {case.sample!r} of {case.overload} in {case.dtype} for torch {torch.__version__}, seed {case.seed}; "
                "expected one that the bank recorded; run `neuron-ops bank build` with the torch that the run used"
            )
        return Sample.from_bytes(row[0])

    def missing(self, dtypes: Sequence[str]) -> list[str]:
        """Return the dtypes that have no bank file yet."""
        return [dtype for dtype in dtypes if not bank_file(self.folder, dtype, self.seed).exists()]

    def build(self, dtypes: Sequence[str], progress: Callable[[int, int, str], None], *, jobs: int = 2) -> None:
        """Record the dtypes that are missing, `jobs` at a time, each in a process of its own."""
        missing = self.missing(dtypes)
        for start in range(0, len(missing), jobs):
            self._build_some(missing[start : start + jobs], progress)

    def _build_some(self, dtypes: Sequence[str], progress: Callable[[int, int, str], None]) -> None:
        with contextlib.ExitStack() as stack:
            log = stack.enter_context(tempfile.TemporaryFile())
            children = {dtype: stack.enter_context(self._recording(dtype, log)) for dtype in dtypes}
            _follow(children, progress)
            for dtype, child in children.items():
                if child.wait() != 0:
                    log.seek(0)
                    words = log.read()[-2000:].decode(errors="replace")
                    raise RuntimeError(
                        f"recording samples of {dtype} ended with exit code {child.returncode}:\n{words}"
                    )

    def _recording(self, dtype: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
        path = bank_file(self.folder, dtype, self.seed)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise BadInput(
                f"cannot write the sample bank into {path.parent} ({error.strerror}); expected a writable folder; set NEURON_OPS_CACHE"
            ) from error
        command = [sys.executable, "-P", "-m", "neuron_ops.op_tests.recording", str(path), dtype, str(self.seed)]
        # Iteration orders of sets and the random state are part of what is recorded.
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)

    def _query(self, dtype: str, query: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        if dtype not in self._open:
            self._open[dtype] = _connect(bank_file(self.folder, dtype, self.seed), dtype)
        return iter(self._open[dtype].execute(query, values).fetchall())


def _follow(children: Mapping[str, subprocess.Popen[bytes]], progress: Callable[[int, int, str], None]) -> None:
    """Report the summed progress of all children until each has closed its output."""
    parts: dict[str, bytes] = dict.fromkeys(children, b"")
    counts: dict[str, tuple[int, int]] = dict.fromkeys(children, (0, 0))
    with selectors.DefaultSelector() as selector:
        for dtype, child in children.items():
            assert child.stdout is not None
            selector.register(child.stdout, selectors.EVENT_READ, dtype)
        while selector.get_map():
            for key, _ in selector.select():
                dtype, chunk = key.data, os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fileobj)
                *lines, parts[dtype] = (parts[dtype] + chunk).split(b"\n")
                for line in lines:
                    with contextlib.suppress(ValueError):  # anything else is chatter of a library
                        _, done, total, text = json.loads(line)
                        counts[dtype] = (done, total)
                        progress(
                            sum(d for d, _ in counts.values()), sum(t for _, t in counts.values()), f"{dtype} {text}"
                        )


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
        (check,) = connection.execute("PRAGMA quick_check(1)").fetchone()
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
    return connection
