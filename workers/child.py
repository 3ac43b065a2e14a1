"""The process that runs cases: reads chunks of them, says which one it starts, says its result.

Started by sandbox.py as ``python -m neuron_ops.workers.child``. What a case raises is the session's to judge; what
escapes it ends this process after one last event with the traceback, and the supervisor goes on with a fresh one.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from neuron_ops.op_tests.records import BadInput, Case
from neuron_ops.workers.lifeline import Lifeline, resolve

if TYPE_CHECKING:
    from types import TracebackType

    from neuron_ops.op_tests.records import Result


class Session(Protocol):
    """An opened target: what `open_session` of the runner returns."""

    def run(self, case: Case) -> Result:
        """Run one case and return its result."""


def serve(lifeline: Lifeline) -> None:
    """Open the session that the first command names, then run every chunk of cases until the supervisor hangs up."""
    config: dict[str, Any] = lifeline.receive()
    try:
        session: Session = resolve(config["session"])(config["target"], Path(config["bank_folder"]), config["plants"])
    except BadInput as error:
        lifeline.send("bad", str(error))
        return
    lifeline.send("hello")
    while (chunk := lifeline.receive()) is not None:
        for fields in chunk:
            _run_one(lifeline, session, Case(*fields))


def _run_one(lifeline: Lifeline, session: Session, case: Case) -> None:
    """Run one case between its two events; an exception that escapes is reported on the way out of the process."""
    key = case.key

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        lifeline.send("e", key, "".join(traceback.format_exception(kind, error, trace)))

    lifeline.clear_log()
    lifeline.send("s", key)
    sys.excepthook = report
    lifeline.send("r", key, session.run(case).to_json())
    sys.excepthook = sys.__excepthook__


if __name__ == "__main__":
    serve(Lifeline.from_arguments())
