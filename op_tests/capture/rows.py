"""The records that come back from the child of a check: one row a call site and operator (no torch)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from neuron_ops.op_tests.records import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class CallRoute(StrEnum):
    """How one call was served, worst first; METADATA changed shape, strides or names only and is not counted as work."""

    ERROR = "error"
    UNSUPPORTED = "unsupported"
    FALLBACK = "fallback"
    TRANSLATED = "translated"
    COMPOSITE = "native through composite"
    NATIVE = "native"
    METADATA = "metadata only"

    @property
    def status(self) -> Status:
        """Return the letter."""
        return _LETTERS[self]


_LETTERS = {
    CallRoute.ERROR: Status.ERROR,
    CallRoute.UNSUPPORTED: Status.UNSUPPORTED,
    CallRoute.FALLBACK: Status.FALLBACK,
    CallRoute.TRANSLATED: Status.TRANSLATED,
    CallRoute.COMPOSITE: Status.NATIVE,
    CallRoute.NATIVE: Status.NATIVE,
    CallRoute.METADATA: Status.NATIVE,
}
ORDER = tuple(CallRoute)


def worst(routes: Iterable[CallRoute]) -> CallRoute:
    """Return the worst of at least one route."""
    return min(routes, key=ORDER.index)


@dataclass(frozen=True, slots=True)
class Request:
    """What to check: the absolute path of a file or folder, the attribute in it or None, and how to run it.

    `call` says that the attribute is a function to call; `inputs` describe the arguments as --input does; `arguments`
    are what the script sees in sys.argv; `eval` trains in eval mode; `autocast` is a dtype. `lengths_on_host` leaves
    int64 inputs of one dimension on the CPU. `fake` asks for fake tensors (True), real values (False) or real values
    where they fit (None).
    `device` is neuron, or cpu to learn whether a failure is the device's; `grad` leaves gradients on in eval mode;
    `dtype` casts the model and its floating-point inputs. `export` is a folder for the calls whose signature is not in
    `known`. `target` names a device that is there, on which the model runs in step with the CPU.
    """

    file: str
    attribute: str | None = None
    device: str = "neuron"
    train: bool = False
    grad: bool = False
    dtype: str | None = None
    call: bool = False
    inputs: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    eval: bool = False
    autocast: str | None = None
    unsafe_load: bool = False
    export: str | None = None
    known: tuple[str, ...] = ()
    lengths_on_host: bool = False
    fake: bool | None = None
    target: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """What the reader must know of how the model was run, and the line that it is about or None."""

    text: str
    where: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A call whose result on the device is not the CPU's for the same inputs; `message` is one line."""

    overload: str
    message: str
    where: str | None
    module: str | None
    phase: str


@dataclass(frozen=True, slots=True)
class Compared:
    """What running a model on a device and on the CPU showed.

    `calls` were compared with the same inputs, `uncompared` have no certain values (random numbers, unwritten memory) or
    no kernel on the CPU, `differing` had other results; `first` is the first of those. `outputs` has a line for each
    output of the whole model that differs from that of its run on the CPU alone; None where such a run says nothing:
    of functions, which may change what they start from, and where the device draws random numbers of its own.
    """

    target: str
    evidence: str
    versions: Mapping[str, str]
    calls: int
    uncompared: int
    differing: int
    first: Difference | None
    outputs: tuple[str, ...] | None

    @property
    def differs(self) -> bool:
        """Return whether any call or output has other results than on the CPU."""
        return bool(self.differing or self.outputs)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Compared:
        """Return what `dataclasses.asdict` made; raises KeyError or TypeError on anything else."""
        first = None if data["first"] is None else Difference(**data["first"])
        outputs = None if data["outputs"] is None else tuple(data["outputs"])
        return cls(**{**data, "first": first, "outputs": outputs})


class WaitKind(StrEnum):
    """Why the host has to wait for the device."""

    VALUE = "value"
    COPY = "copy"
    SIZE = "size"


@dataclass(frozen=True, slots=True)
class Wait:
    """Calls on one line for which the host needs data of the device.

    A value is read (`.item()`, `bool()`), a tensor is copied to the host (`.tolist()`, `.cpu()`) or a result's size
    follows the data (`nonzero()`, masks). `steers` says that other data may lead to other operators.
    """

    kind: WaitKind
    overload: str
    where: str | None
    calls: int
    steers: bool


@dataclass(frozen=True, slots=True)
class PartOfRow:
    """An operator below a composite that is not native, how often it was called, and the bytes it read and wrote."""

    overload: str
    route: CallRoute
    calls: int
    bytes_in: int = 0
    bytes_out: int = 0


Key: TypeAlias = "tuple[str, tuple[str, ...], str, str | None, str | None]"
"""Overload, dtypes, phase, where, module."""


@dataclass(frozen=True, slots=True)
class Row:
    """One overload with its dtypes, called in one phase from one line of the user's and one module of the model.

    `dtypes` are those of all tensor arguments in order (a list of tensors gives each of its dtypes once; a factory that
    of its result). `calls` counts the calls by route; `reason` is that of the first fallback; `parts` are what is not
    native below a composite. `where` is ``file:line`` in the user's code, or in a package where no frame of theirs was
    on the stack; in backward it is the line of the forward call. `module` is a path such as ``encoder.layers.0.attn``,
    None outside the model's parts. `shapes` are those of the first call's tensor arguments. `bytes_in` and `bytes_out`
    add up what the calls' tensor arguments and results hold, `flops` what matrix products, convolutions and attention
    compute. `signatures` are hashes of the distinct shapes, dtypes and static arguments: each is one compilation.
    `cuts_autograd` says that gradients stop here without an error: the device's kernel has no derivative.
    """

    overload: str
    dtypes: tuple[str, ...]
    calls: Mapping[CallRoute, int]
    reason: str | None = None
    parts: tuple[PartOfRow, ...] = ()
    where: str | None = None
    module: str | None = None
    phase: str = "forward"
    message: str | None = None
    shapes: tuple[tuple[int, ...], ...] = ()
    bytes_in: int = 0
    bytes_out: int = 0
    flops: int = 0
    signatures: tuple[str, ...] = ()
    cuts_autograd: bool = False

    @property
    def key(self) -> Key:
        """Return what no two rows of a report share."""
        return self.overload, self.dtypes, self.phase, self.where, self.module

    @property
    def dtype(self) -> str:
        """Return the dtype of the first tensor argument, or nothing."""
        return self.dtypes[0] if self.dtypes else ""

    @property
    def file(self) -> str | None:
        """Return the file of `where`."""
        return self.where.rpartition(":")[0] if self.where else None

    @property
    def line(self) -> int | None:
        """Return the line of `where`, None where it is not known."""
        return int(self.where.rpartition(":")[2]) or None if self.where else None

    @property
    def route(self) -> CallRoute:
        """Return the worst route of its calls."""
        return worst(self.calls)

    @property
    def total(self) -> int:
        """Return the number of calls."""
        return sum(self.calls.values())

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values, with its letter and route."""
        return {
            "overload": self.overload, "dtypes": list(self.dtypes), "count": self.total, "phase": self.phase,
            "route": str(self.route), "status": str(self.route.status), "reason": self.reason,
            "where": {"file": self.file, "line": self.line, "module": self.module},
            "count_by_route": {str(k): v for k, v in self.calls.items()}, "parts": [asdict(part) for part in self.parts],
            "message": self.message, "shapes": [list(shape) for shape in self.shapes], "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out, "flops": self.flops, "signatures": list(self.signatures),
            "cuts_autograd": self.cuts_autograd,
        }  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Row:
        """Return the row that `to_json` wrote; raises KeyError or ValueError on anything else."""
        where = data["where"]
        return cls(
            overload=data["overload"],
            dtypes=tuple(data["dtypes"]),
            calls={CallRoute(name): n for name, n in data["count_by_route"].items()},
            reason=data["reason"],
            parts=tuple(PartOfRow(**{**part, "route": CallRoute(part["route"])}) for part in data["parts"]),
            where=None if where["file"] is None else f"{where['file']}:{where['line'] or 0}",
            module=where["module"],
            phase=data["phase"],
            message=data["message"],
            shapes=tuple(tuple(shape) for shape in data["shapes"]),
            bytes_in=data["bytes_in"],
            bytes_out=data["bytes_out"],
            flops=data["flops"],
            signatures=tuple(data["signatures"]),
            cuts_autograd=data.get("cuts_autograd", False),
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the run did not reach its end.

    `kind` is raised, exited, timeout, memory or crash; `message` is one sentence; `traceback` holds the user's own
    frames. `device_only` says that the same run on the CPU went through, so the failure is a finding about the device.
    """

    kind: str
    phase: str
    message: str
    traceback: str = ""
    where: str | None = None
    operator: str | None = None
    device_only: bool = False


def sorted_rows(rows: Iterable[Row]) -> tuple[Row, ...]:
    """Return the rows worst route first, then most calls, then by name."""
    return tuple(sorted(rows, key=_rank))


def _rank(row: Row) -> tuple[Any, ...]:
    return (
        ORDER.index(row.route),
        -row.total,
        row.overload,
        row.dtypes,
        row.phase,
        row.file or "",
        row.line or 0,
        row.module or "",
    )
