"""Makes the plan of a sweep in a child process: the plan needs torch, and the process that supervises must not have it.

The supervisor calls `request_plan`; this file is also what the child runs, ``python -m neuron_ops.workers.planner``.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from neuron_ops.op_tests.records import BadInput, Build, Case, Denominators, Environment, Evidence, Operator
from neuron_ops.workers.lifeline import Lifeline, resolve
from neuron_ops.workers.process import ChildProcess, Garbled, Gone, how_it_ended

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MAKE_PLAN = "neuron_ops.op_tests.plan:make_plan"
_BATCH = 500  # records a line
_PATIENCE = 60.0  # seconds a wait; there is no deadline, since building the sample bank takes minutes


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What the user chose: `ops` are globs, ``core`` or ``all``; `limit` bounds an overload and dtype's samples."""

    target: str
    ops: tuple[str, ...]
    dtypes: tuple[str, ...]
    limit: int | None
    seed: int
    bank_folder: Path

    @property
    def selection(self) -> str:
        """Return the choice as text, for the run's row: ``core, float32 bfloat16, at most 3 samples``."""
        limit = f", at most {self.limit} samples" if self.limit is not None else ""
        return f"{' '.join(self.ops)}, {' '.join(self.dtypes)}{limit}"


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """The cases of a sweep with the build that will run them and the operators of the installed torch."""

    build: Build
    operators: tuple[Operator, ...]
    denominators: Denominators
    cases: tuple[Case, ...]
    seed: int = 0
    selection: str = ""
    environment: Environment | None = None


class _Plan(Protocol):
    """What `make_plan` returns."""

    build: Build
    operators: Sequence[Operator]
    denominators: Denominators
    cases: Sequence[Case]
    environment: Environment


def request_plan(
    request: PlanRequest, *, progress: Callable[[int, int, str], None], plan: str = MAKE_PLAN
) -> SweepPlan:
    """Return the plan that a child makes; `progress` gets done, total and a text while the sample bank is built.

    Raises BadInput when the child says that the request cannot be met, RuntimeError with its last words when it died.
    `plan` names the function that the child calls; tests put a fake there.
    """
    child = ChildProcess("neuron_ops.workers.planner")
    received = _Received()
    try:
        child.send({**asdict(request), "bank_folder": str(request.bank_folder), "plan": plan})
        while not received.complete:
            received.add(_next_event(child), progress)
        return received.plan(request)
    except Gone:
        child.wait(1.0)
        status, words = child.end()
        raise RuntimeError(f"the planner ended too early ({how_it_ended(status)}):\n{words}") from None
    finally:
        child.end()


def _next_event(child: ChildProcess) -> list[Any]:
    """Return the next event, however long it takes; what libraries print between events is passed over."""
    while True:
        try:
            event = child.receive(_PATIENCE)
        except Garbled:
            continue
        if event:
            return event


class _Received:
    """The parts of a plan that have arrived."""

    def __init__(self) -> None:
        self.complete = False
        self._build: dict[str, Any] = {}
        self._denominators: dict[str, Any] = {}
        self._environment: dict[str, Any] = {}
        self._operators: list[Operator] = []
        self._cases: list[Case] = []

    def add(self, event: list[Any], progress: Callable[[int, int, str], None]) -> None:
        """Take one event; raises BadInput when it is the child's refusal."""
        match event:
            case ["p", int(done), int(total), str(text)]:
                progress(done, total, text)
            case ["bad", str(sentence)]:
                raise BadInput(sentence)
            case ["plan", dict(build), dict(denominators), dict(environment)]:
                self._build, self._denominators, self._environment = build, denominators, environment
            case ["operators", list(rows)]:
                for name, schema, tags, *rest in rows:
                    self._operators.append(Operator(name, schema, tuple(tags), *rest))
            case ["cases", list(rows)]:
                self._cases.extend(Case(*row) for row in rows)
            case ["end"]:
                self.complete = True

    def plan(self, request: PlanRequest) -> SweepPlan:
        """Return the whole plan."""
        build = Build(self._build["target"], Evidence(self._build["evidence"]), self._build["versions"])
        return SweepPlan(
            build,
            tuple(self._operators),
            Denominators(**self._denominators),
            tuple(self._cases),
            request.seed,
            request.selection,
            Environment(**self._environment),
        )


def serve(lifeline: Lifeline) -> None:
    """Make the plan that the one command asks for and send it in parts."""
    request = lifeline.receive()
    lifeline.take_standard_output()  # make_plan prints its progress as event lines
    try:
        plan: _Plan = resolve(request["plan"])(
            request["target"], request["ops"], request["dtypes"], request["limit"], request["seed"],
            Path(request["bank_folder"]),
        )  # fmt: skip
    except BadInput as error:
        lifeline.send("bad", str(error))
        return
    build = {"target": plan.build.target, "evidence": plan.build.evidence, "versions": dict(plan.build.versions)}
    lifeline.send("plan", build, asdict(plan.denominators), asdict(plan.environment))
    _send_rows(lifeline, "operators", plan.operators)
    _send_rows(lifeline, "cases", plan.cases)
    lifeline.send("end")


def _send_rows(lifeline: Lifeline, kind: str, records: Iterable[Operator] | Iterable[Case]) -> None:
    """Send records as tuples of their fields, some hundred a line."""
    rows = (astuple(record) for record in records)
    while batch := list(itertools.islice(rows, _BATCH)):
        lifeline.send(kind, batch)


if __name__ == "__main__":
    serve(Lifeline.from_arguments())
