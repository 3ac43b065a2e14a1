"""Estimates what a model costs beyond its own work: the host's share, the host link, the waits and the compilations."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from neuron_ops.op_tests.capture.report import SYNC
from neuron_ops.op_tests.capture.rows import CallRoute
from neuron_ops.op_tests.translation import cost

if TYPE_CHECKING:
    from collections.abc import Iterable

    from neuron_ops.op_tests.capture.rows import Row, Wait

COMPILE_SECONDS = (1.4, 5.1)
"""Of one operator with its shapes, dtypes and static arguments, least and most measured (TorchNeuron, 2026)."""

CONSTANTS = {
    "dispatch_seconds": cost.DISPATCH_SECONDS,
    "launch_seconds": cost.LAUNCH_SECONDS,
    "transfer_bytes_per_second": cost.TRANSFER_BYTES_PER_SECOND,
    "compile_seconds": list(COMPILE_SECONDS),
}
_COMPILED = (CallRoute.TRANSLATED, CallRoute.COMPOSITE, CallRoute.NATIVE)


@dataclass(frozen=True, slots=True)
class Price:
    """What one run of the model costs: counts are of the simulated run, seconds are estimates from CONSTANTS.

    `trips` are fallbacks: each copies its arguments to the host (`bytes_to_host`) and its results back
    (`bytes_to_device`). `syncs` are waits for data of the device. `calls` and `flops` are all that do work, the
    `host_` ones those of fallbacks; FLOPs are of matrix products, convolutions and attention. `seconds` adds up dispatch,
    launches, copies and waits of the fallbacks, the host's computing left out. `compilations` counts the distinct
    operators × shapes × dtypes × static arguments on the device, `compile_seconds` what they take with an empty cache, one
    after another, least and most.
    """

    calls: int
    host_calls: int
    flops: int
    host_flops: int
    trips: int
    bytes_to_host: int
    bytes_to_device: int
    syncs: int
    seconds: float
    compilations: int
    compile_seconds: tuple[float, float]

    def to_json(self) -> dict[str, Any]:
        """Return the price and the constants behind its estimates."""
        return {**asdict(self), "compile_seconds": list(self.compile_seconds), "constants": CONSTANTS}


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the fallbacks of a row move: round trips, and the bytes of both ways."""

    trips: int
    bytes_to_host: int
    bytes_to_device: int

    @property
    def seconds(self) -> float:
        """Return the estimated seconds, the host's own computing left out."""
        moved = (self.bytes_to_host + self.bytes_to_device) / cost.TRANSFER_BYTES_PER_SECOND
        return self.trips * (cost.DISPATCH_SECONDS + 2 * cost.LAUNCH_SECONDS) + moved


def traffic(row: Row) -> Traffic:
    """Return what a row moves over the host link; of a composite that is what its parts on the host move."""
    fallbacks = row.calls.get(CallRoute.FALLBACK, 0)
    parts = [part for part in row.parts if part.route is CallRoute.FALLBACK]
    if parts:
        return Traffic(sum(p.calls for p in parts), sum(p.bytes_in for p in parts), sum(p.bytes_out for p in parts))
    share = fallbacks / row.total if row.total else 0
    return Traffic(fallbacks, round(row.bytes_in * share), round(row.bytes_out * share))


def price(rows: Iterable[Row], waits: Iterable[Wait] = ()) -> Price:
    """Return the price of a run that called the rows and waited so."""
    rows = [row for row in rows if row.route is not CallRoute.METADATA]
    moved = [traffic(row) for row in rows]
    host = {id(row): row.calls.get(CallRoute.FALLBACK, 0) for row in rows}
    syncs = sum(wait.calls for wait in waits)
    compiled = {
        signature for row in rows if row.route in _COMPILED and row.overload != SYNC for signature in row.signatures
    }
    low, high = COMPILE_SECONDS
    return Price(
        calls=sum(row.total for row in rows),
        host_calls=sum(host.values()),
        flops=sum(row.flops for row in rows),
        host_flops=sum(row.flops * host[id(row)] // row.total for row in rows if row.total),
        trips=sum(t.trips for t in moved),
        bytes_to_host=sum(t.bytes_to_host for t in moved),
        bytes_to_device=sum(t.bytes_to_device for t in moved),
        syncs=syncs,
        seconds=sum(t.seconds for t in moved) + syncs * cost.LAUNCH_SECONDS,
        compilations=len(compiled),
        compile_seconds=(round(len(compiled) * low, 1), round(len(compiled) * high, 1)),
    )
