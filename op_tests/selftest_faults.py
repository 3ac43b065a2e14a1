"""What a fault list holds and what is said of it: standard library only, so that the command line needs no torch for it."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.records import BadInput, Case, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from neuron_ops.op_tests.records import Result

ENTRIES_FILE = "entries.json"
PARTS = ("want", "repro", "fault")
"""What is tried of each entry: its wanted result against the CPU's, its repro on the target, its fault."""

_NAMES = {
    "repro": ("repro", "code", "snippet"),
    "want": ("want", "wanted", "expected", "expect"),
    "fault": ("fault", "bad", "faulty", "wrong"),
}
"""Field → the keys under which lists have it, the first one first."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a fault list. `want` and `fault` may be None; where `repro` is, `reason` says why it cannot run.

    `operators` are the names that it is about, such as ``aten.topk``.
    """

    id: str
    kind: str
    repro: str | None
    want: Any
    fault: Any
    detect_by: tuple[str, ...]
    operators: tuple[str, ...]
    reason: str | None = None

    @classmethod
    def read(cls, data: object, number: int) -> Entry:
        """Return the entry; one that cannot run, whatever is wrong with it, says so in its reason."""
        if not isinstance(data, dict):
            return cls(f"#{number}", "", None, None, None, (), (), _malformed(f"it is a {type(data).__name__}"))
        fields = {
            field: next((data[k] for k in keys if data.get(k) is not None), None) for field, keys in _NAMES.items()
        }
        name, marks = str(data.get("id") or data.get("name") or f"#{number}"), data.get("detect_by") or ()
        marks = (marks,) if isinstance(marks, str) else marks
        detect_by = tuple(str(mark).lower() for mark in marks) if isinstance(marks, list | tuple) else ()
        repro, reason = _source(fields["repro"]), None
        if data.get("runnable") is False:
            reason = f"the list says that it cannot run{_because(data)}"
        elif fields["repro"] is None:
            reason = _malformed("it has no repro")
        elif repro is None:
            reason = _malformed(f"its repro is a {type(fields['repro']).__name__}")
        operators = re.findall(r"aten(?:::|\.)(\w+)", str(data.get("aten_op") or ""))
        return cls(
            name, str(data.get("kind", "")), None if reason else repro, fields["want"], fields["fault"], detect_by,
            tuple(f"aten.{operator}" for operator in operators), reason,
        )  # fmt: skip


def _source(value: Any) -> str | None:
    """Return Python source given as a string or as a list of lines, or None."""
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "\n".join(value)
    return value if isinstance(value, str) and value.strip() else None


def _because(data: Mapping[str, Any]) -> str:
    note = str(data.get("note") or "").strip().rstrip(".")
    return f": {note}" if note else ""


def _malformed(what: str) -> str:
    return f"malformed: {what}; expected an object with a repro that sets `got`; correct the list"


@dataclass(frozen=True, slots=True)
class Row:
    """What was found of one entry; None where a question does not arise or could not be answered, as `note` says.

    `open` says that an entry which should have been answered in full was not: malformed, or a part that cannot run.
    """

    id: str
    repro_passes: bool | None
    want_accepted: bool | None
    fault_flagged: bool | None
    note: str
    open: bool = False

    @property
    def complete(self) -> bool:
        """Return whether every question that arises was answered with yes."""
        return not self.open and False not in (self.repro_passes, self.want_accepted, self.fault_flagged)

    def to_json(self) -> dict[str, Any]:
        """Return the object that stands in the table."""
        return {name: value for name, value in asdict(self).items() if name != "open"}


def read_list(path: Path) -> list[Any]:
    """Return the objects of a fault list; raises BadInput for a file that is none."""
    remedy = "give a JSON list of objects with id, repro, want and fault"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        words = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
        raise BadInput(f"cannot read {path} ({words}); expected a list of faults; {remedy}") from error
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is no JSON ({error}); expected a list of faults; {remedy}") from error
    if isinstance(data, dict):  # {"faults": [...]}
        data = next((value for value in data.values() if isinstance(value, list)), data)
    if not isinstance(data, list) or not data:
        what = "an empty list" if data == [] else f"a {type(data).__name__}"
        raise BadInput(f"{path} holds {what}; expected a list of faults; {remedy}")
    return data


def cases(entries: Sequence[Entry]) -> list[Case]:
    """Return a case for each part of each entry that can run; the sample is its number in the list."""
    return [case for number, entry in enumerate(entries) if entry.repro for case in _cases_of(number)]


def totals(rows: Sequence[Row]) -> dict[str, int]:
    """Return how many entries there are, how many ran, and how many answers of each kind were yes."""
    ran = [row for row in rows if row.open or row.repro_passes is not None]
    return {
        "entries": len(rows),
        "ran": len(ran),
        "repro_passes": sum(row.repro_passes is True for row in rows),
        "want_accepted": sum(row.want_accepted is True for row in rows),
        "fault_flagged": sum(row.fault_flagged is True for row in rows),
        "complete": sum(row.complete for row in ran),
    }


def row_of(number: int, entry: Entry, results: Mapping[str, Result]) -> Row:
    """Return the row of an entry from the results of its parts (`cases`), keyed by case."""
    if entry.repro is None:
        reason = entry.reason or ""
        return Row(entry.id, None, None, None, reason, open=reason.startswith("malformed"))
    want, repro, fault = (_answer(results.get(case.key)) for case in _cases_of(number))
    notes = []
    accepted, passes, flagged = want["yes"], repro["yes"], fault["yes"]
    if repro["death"]:
        passes = False
        notes.append(f"the repro {repro['death']}")
    elif repro["note"]:
        notes.append(repro["note"])
    if want["death"]:
        notes.append(f"on torch's CPU the repro {want['death']}")
    elif want["note"]:
        notes.append(want["note"])
    if fault["death"]:
        flagged = True
        notes.append(f"the fault {fault['death']}")
    elif fault["note"]:
        notes.append(f"fault: {fault['note']}" if flagged else fault["note"])
    missing = (
        passes is None or (entry.want is not None and accepted is None) or (entry.fault is not None and flagged is None)
    )
    return Row(entry.id, passes, accepted, flagged, "; ".join(dict.fromkeys(notes)), open=missing)


def _cases_of(number: int) -> list[Case]:
    return [Case("selftest.entry.default", "", str(number), part) for part in PARTS]


def _answer(result: Result | None) -> dict[str, Any]:
    """Return the fields of an answer; a part that took the whole session with it died."""
    if result is None:
        return {"yes": None, "note": "no answer", "death": None}
    if result.outcome is not Outcome.PASS:
        words = (result.message or "").partition("\n")[0]
        return {"yes": None, "note": "", "death": f"ended the whole process ({result.outcome}: {words})"}
    answer: dict[str, Any] = json.loads(result.message or "{}")
    return answer
