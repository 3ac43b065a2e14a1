"""How far a value may be off: the tolerance of a dtype, its scaling, and the table of exceptions with their reasons."""

from __future__ import annotations

import math
import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

EXCEPTIONS_FILE = Path(__file__).parent / "data" / "exceptions.toml"

CPU_FACTOR = 2.0
"""How many times the CPU's own error (same dtype, against float64) a device may have: K of `comparer`.

Two correct implementations differ in the order of a sum and in fused multiply-adds, and each of the two may double the
rounding error; more than that is lost precision. FlashAttention's tests hold their kernels to the same factor against
PyTorch (tests/test_flash_attn.py, "at most twice the numerical error of a Pytorch implementation").
"""

LARGEST_SHARE = 0.1
"""Absolute tolerance is never above this share of the largest reference value: zeros cannot pass for an answer."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """A value passes where ``|device - reference| <= absolute + relative * |reference|``; both zero means bit-exact."""

    relative: float
    absolute: float


EXACT = Tolerance(0.0, 0.0)

TOLERANCES: dict[torch.dtype, Tolerance] = {
    # torch.testing.assert_close (torch 2.13, torch/testing/_comparison.py)
    torch.float16: Tolerance(1e-3, 1e-5),
    torch.bfloat16: Tolerance(1.6e-2, 1e-5),
    torch.float32: Tolerance(1.3e-6, 1e-5),
    torch.float64: Tolerance(1e-7, 1e-7),
    torch.complex32: Tolerance(1e-3, 1e-5),
    torch.complex64: Tolerance(1.3e-6, 1e-5),
    torch.complex128: Tolerance(1e-7, 1e-7),
    # torch.testing has none for float8 and so compares exactly. One rounding step: eps of the format, and its smallest
    # subnormal (torch.finfo). float8_e8m0fnu holds only powers of two, where a step is a factor 2: exact.
    torch.float8_e4m3fn: Tolerance(2.0**-3, 2.0**-9),
    torch.float8_e5m2: Tolerance(2.0**-2, 2.0**-16),
    torch.float8_e4m3fnuz: Tolerance(2.0**-3, 2.0**-10),
    torch.float8_e5m2fnuz: Tolerance(2.0**-2, 2.0**-17),
}
"""Per dtype; a dtype that is not here (integers, bool, float8_e8m0fnu, raw bits) is compared exactly."""


def computed_as(dtype: torch.dtype, compute_dtype: torch.dtype | None) -> torch.dtype:
    """Return the dtype whose tolerance holds: `compute_dtype` where it is narrower than a float or complex `dtype`."""
    if compute_dtype is None or not (dtype.is_floating_point or dtype.is_complex):
        return dtype
    narrow = compute_dtype.to_complex() if dtype.is_complex and not compute_dtype.is_complex else compute_dtype
    return narrow if narrow.itemsize < dtype.itemsize else dtype


def reduction_length(inputs: Iterable[int], output: int) -> float:
    """Return how many input elements one output element stands for, at least 1: sum(numel(inputs)) / numel(output).

    A lower bound of the true length (a matrix product of n by n reads 2n numbers per element and says 2).
    """
    return max(1.0, sum(inputs) / output) if output else 1.0


def scaled(tolerance: Tolerance, length: float, largest: float, *, narrowed: bool) -> Tolerance:
    """Return the tolerance for an output whose largest finite reference size is `largest`.

    absolute' = min(absolute * sqrt(length) * m, LARGEST_SHARE * largest) with m = min(1, largest).

    The rounding error of a sum of n terms grows with sqrt(n), with a probability close to one (Higham and Mary 2019,
    "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41(5)); the certain bound n would
    let a mean over 65,536 elements be off by half. m: torch's absolute tolerances are meant for values around 1; a
    result of size 1e-6 must not pass for anything below 1e-5. When `narrowed` (the target computes in a narrower dtype
    than the reference, so that the CPU's error says nothing) m = largest for sums: their terms cancel to small results.
    """
    if tolerance == EXACT or not math.isfinite(largest):
        return tolerance
    size = largest if narrowed and length > 1 else min(1.0, largest)
    return Tolerance(tolerance.relative, min(tolerance.absolute * math.sqrt(length) * size, LARGEST_SHARE * largest))


_WHATS = {
    "values": "the values of the outputs are undefined",
    "strides": "the strides of the outputs are undefined",
    "around": "the memory around a written view is scratch",
    "zero_sign": "the sign of a zero in the outputs is undefined",
    "tolerance": "the outputs have the tolerance `relative`, `absolute`",
    "casts": "a float outside the range of the integer output dtype gives what the platform likes",
    "writes": "the arguments of these names are written although the schema does not say so",
    "properties": "the outputs are no certain tensors: properties.py judges them `by` what must hold of them",
}
_KEYS = {"overloads", "dtype", "what", "outputs", "relative", "absolute", "derivation", "arguments", "by", "reason"}
_BY = ("picked", "sorted", "top", "qr", "svd", "old svd", "eigh", "eig", "eigvals")
_GLOB = re.compile(r"[A-Za-z_*?][\w*?]*\.[\w*?]+\.[\w*?]+")


@dataclass(frozen=True, slots=True)
class ExceptionRow:
    """One exception: for overloads and dtypes that match, `what` holds for `outputs` (None: all), for `reason`.

    `derivation` says where the numbers of a tolerance come from; `by` names the judge of properties.
    """

    overload: str
    dtype: str
    what: str
    reason: str
    outputs: tuple[int, ...] | None = None
    tolerance: Tolerance | None = None
    arguments: tuple[str, ...] = ()
    derivation: str = ""
    by: str = ""

    def covers(self, output: int) -> bool:
        """Return whether the row is about this output."""
        return self.outputs is None or output in self.outputs


def load_exceptions(text: str) -> tuple[ExceptionRow, ...]:
    """Return the rows of a TOML table, one per overload glob; raises ValueError on a row that is malformed or repeated.

    Whether a glob matches an overload of the installed torch is a test's business: the table serves several versions.
    """
    rows: list[ExceptionRow] = []
    places: set[tuple[str, str, str, int | None]] = set()
    for number, entry in enumerate(tomllib.loads(text).get("row", []), 1):
        for row in _rows(number, entry):
            for output in row.outputs or (None,):
                place = (row.overload, row.dtype, row.what, output)
                if place in places:
                    raise ValueError(
                        f"row {number} repeats {row.what} of {row.overload} for dtype {row.dtype}; keep one of them"
                    )
                places.add(place)
            rows.append(row)
    return tuple(rows)


def _rows(number: int, entry: dict[str, Any]) -> list[ExceptionRow]:
    if fault := _fault(entry):
        raise ValueError(f"row {number} {fault}")
    tolerance = Tolerance(entry["relative"], entry["absolute"]) if entry["what"] == "tolerance" else None
    return [
        ExceptionRow(
            overload=glob,
            dtype=entry.get("dtype", "*"),
            what=entry["what"],
            reason=entry["reason"],
            outputs=tuple(entry["outputs"]) if "outputs" in entry else None,
            tolerance=tolerance,
            arguments=tuple(entry.get("arguments", ())),
            derivation=entry.get("derivation", ""),
            by=entry.get("by", ""),
        )
        for glob in entry["overloads"]
    ]


def _fault(entry: dict[str, Any]) -> str | None:
    """Return what is wrong with a row and what to do, or None."""
    what, globs = entry.get("what"), entry.get("overloads", [])
    if unknown := set(entry) - _KEYS:
        return f"has the unknown key {min(unknown)!r}; the keys are {', '.join(sorted(_KEYS))}"
    if what not in _WHATS:
        return f"says what = {what!r}; it must be one of {', '.join(_WHATS)}"
    if not _sentence(entry, "reason"):
        return "has no reason; say in a sentence why the contract allows the difference"
    if (what == "tolerance") != ("relative" in entry and "absolute" in entry):
        return "must have relative and absolute with what = 'tolerance', both are needed there and nowhere else"
    if what == "tolerance" and not (0 <= entry["relative"] <= 0.5 and entry["absolute"] >= 0):
        return "is too loose: relative must be from 0 to 0.5 (more would accept zeros), absolute not below 0"
    if (what == "tolerance") != _sentence(entry, "derivation"):
        return "needs a derivation, a sentence on where its numbers come from, with what = 'tolerance' and nowhere else"
    if (what == "writes") != ("arguments" in entry):
        return "must have arguments with what = 'writes' and nowhere else"
    if (what == "properties") != (entry.get("by") in _BY):
        return f"must say by = one of {', '.join(_BY)} with what = 'properties' and nowhere else"
    if not globs or not isinstance(globs, list):
        return "has no overloads; give a list such as ['aten.empty.*']"
    bad = next((glob for glob in globs if not _GLOB.fullmatch(str(glob))), None)
    return None if bad is None else f"has the overload {bad!r}; expected three parts such as 'aten.empty.*'"


def _sentence(entry: dict[str, Any], key: str) -> bool:
    return len(str(entry.get(key, "")).split()) >= 4


EXCEPTIONS = load_exceptions(EXCEPTIONS_FILE.read_text(encoding="utf-8"))


@lru_cache(maxsize=4096)
def rows_for(overload: str, dtype: str) -> tuple[ExceptionRow, ...]:
    """Return the rows whose globs match this overload and dtype, in the order of the table."""
    return tuple(row for row in EXCEPTIONS if fnmatchcase(overload, row.overload) and fnmatchcase(dtype, row.dtype))


def tolerance_of(
    rows: Sequence[ExceptionRow], output: int, dtype: torch.dtype, compute_dtype: torch.dtype | None
) -> Tolerance:
    """Return the unscaled tolerance of one output; a documented narrower arithmetic wins over a stricter row."""
    used = computed_as(dtype, compute_dtype)
    plain = TOLERANCES.get(used, EXACT)
    given = next((row.tolerance for row in rows if row.tolerance and row.covers(output)), None)
    if given is None:
        return plain
    return (
        Tolerance(max(given.relative, plain.relative), max(given.absolute, plain.absolute))
        if used is not dtype
        else given
    )
