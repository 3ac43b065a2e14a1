"""Decides what a user can do about an operator: a translator, a dtype, another operator, a change of the source."""

from __future__ import annotations

import fnmatch
import functools
import importlib.resources
import tomllib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.capture.price import traffic
from neuron_ops.op_tests.capture.rows import CallRoute
from neuron_ops.op_tests.records import Evidence, Status
from neuron_ops.op_tests.translation import cost
from neuron_ops.translators.choices import shipped_choices

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from neuron_ops.op_tests.capture.evidence import Catalogue
    from neuron_ops.op_tests.capture.rows import Row

INSTALL = "neuron_ops.translators.install()"
_LOST = (CallRoute.ERROR, CallRoute.UNSUPPORTED, CallRoute.FALLBACK)
_FLOATS = ("bfloat16", "float32", "float16")


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do: `kind` is translator, dtype, operator or source; `evidence` says how it is known to help."""

    kind: str
    text: str
    evidence: str

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Rule:
    """A row of advice.toml: which calls it is about, and what it says of them."""

    overloads: tuple[str, ...]
    kind: str
    advice: str
    evidence: str
    dtypes: tuple[str, ...] = ()
    when: str = "findings"
    mode: str | None = None
    before: str | None = None
    after: str | None = None

    def fits(self, row: Row, *, train: bool) -> bool:
        """Return whether the rule is about this row."""
        if self.when == "findings" and row.route not in _LOST:
            return False
        if self.mode is not None and (self.mode == "train") != train:
            return False
        if self.dtypes and not set(self.dtypes) & set(row.dtypes):
            return False
        names = (row.overload, *(part.overload for part in row.parts))
        return any(fnmatch.fnmatchcase(name, glob) for name in names for glob in self.overloads)


@functools.cache
def shipped_rules() -> tuple[Rule, ...]:
    """Return the rules of advice.toml; raises TypeError for a row with an unknown key."""
    text = importlib.resources.files("neuron_ops.op_tests.capture").joinpath("advice.toml").read_text("utf-8")
    return tuple(Rule(**_tuples(row)) for row in tomllib.loads(text)["rule"])


def _tuples(row: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}


def advise(row: Row, catalogues: Iterable[Catalogue], *, train: bool) -> tuple[Advice, ...]:
    """Return what can be done about a row, what needs no change of the model first."""
    found = [*_translators(row)] if row.route in _LOST else []
    rules = (rule for rule in shipped_rules() if rule.fits(row, train=train))
    found.extend(Advice(rule.kind, rule.advice, rule.evidence) for rule in rules)
    if row.route is CallRoute.FALLBACK:
        found.extend(_dtypes(row, catalogues))
    return tuple(found)


def _translators(row: Row) -> Iterator[Advice]:
    """Yield the translations that take what is not native off the host."""
    choices = shipped_choices("neuron")
    lost = [part.overload for part in row.parts if part.route in _LOST] or [row.overload]
    for name in lost:
        choice = choices.get(name)
        if choice is None:
            continue
        if row.dtype not in choice.dtypes:
            dtypes = ", ".join(choice.dtypes)
            text = f"{INSTALL} translates {name} in {dtypes}, not in {row.dtype or 'this dtype'}"
        else:
            text = f"{INSTALL} translates {name}{_compared(row, choice.launches)}"
        verified = "verified against the CPU" if not choice.note.startswith("no case") else choice.note
        yield Advice("translator", text, f"{verified}; {choice.launches} device calls for a median sample, simulated")


def _compared(row: Row, launches: int) -> str:
    """Return in words whether the translation is estimated to be quicker than the trips to the host that it saves."""
    moved = traffic(row)
    if not moved.trips:
        return ""
    host, device = moved.seconds / moved.trips, cost.translated_seconds(launches)
    if device <= host:
        return f": about {_short(device)} a call in place of {_short(host)}"
    return f", estimated slower for tensors this small: {_short(device)} a call, the host {_short(host)}"


def _short(seconds: float) -> str:
    return f"{seconds * 1e3:.2g} ms"


def _dtypes(row: Row, catalogues: Iterable[Catalogue]) -> Iterator[Advice]:
    """Yield the floating-point dtypes in which every stored plain case ran natively."""
    for catalogue in catalogues:
        dtypes = [d for d in catalogue.dtypes(row.overload, Status.NATIVE) if d in _FLOATS and d != row.dtype]
        if dtypes:
            how = "measured" if catalogue.source.evidence is Evidence.HARDWARE else str(catalogue.source.evidence)
            text = f"{row.overload} runs natively in {' and '.join(dtypes)}"
            yield Advice("dtype", text, f"every plain case of {catalogue.source.title}, {how}")
            return
