"""Says in words what the formats share: the price, the mode, what is known, and what the rows on the device are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from neuron_ops.op_tests.capture.assessment import folded
from neuron_ops.op_tests.capture.evidence import Closeness
from neuron_ops.op_tests.capture.report import EVIDENCE, FAKE, plural
from neuron_ops.op_tests.capture.rows import CallRoute, WaitKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from neuron_ops.op_tests.capture.assessment import Assessment, Finding, Judged
    from neuron_ops.op_tests.capture.price import Price
    from neuron_ops.op_tests.capture.report import Report
    from neuron_ops.op_tests.capture.rows import Wait


def bytes_text(number: int) -> str:
    """Return ``512 B``, ``1.5 KiB``, ``20 MiB``."""
    size, units = float(number), ("B", "KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if size < 1024 or unit == units[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"


def seconds_text(number: float) -> str:
    """Return ``90 µs``, ``1.5 ms``, ``12 s``, ``3 min``."""
    if number < 1e-3:
        return f"{number * 1e6:.0f} µs"
    if number < 1:
        return f"{number * 1e3:.2g} ms" if number < 0.1 else f"{number * 1e3:.0f} ms"
    if number < 10:
        return f"{number:.1f} s"
    return f"{number:.0f} s" if number < 120 else f"{number / 60:.0f} min"


def place_text(where: str) -> str:
    """Return ``file:line`` with what is before an installed package left out."""
    return re.sub(r"^.*/(?:site|dist)-packages/", "", where)


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole}" + (f" ({100 * part / whole:.1f} %)" if whole else "")


def price_lines(price: Price) -> list[str]:
    """Return the estimate, its constants named."""
    lines, told = [], []
    if price.trips:
        flops = f", {_share(price.host_flops, price.flops)} FLOPs" if price.host_flops else ""
        told.append(f"{_share(price.host_calls, price.calls)} calls{flops}")
        told.append(
            f"{plural(price.trips, 'round trip')} move {bytes_text(price.bytes_to_host)} to the host and "
            f"{bytes_text(price.bytes_to_device)} back"
        )
    if price.syncs:
        told.append(plural(price.syncs, "wait"))
    if told:
        lines.append(
            f"host: {'; '.join(told)}; about {seconds_text(price.seconds)} without the host's own computing "
            "(estimate: 60 µs a dispatch, 100 µs a launch, 16 GB/s each way)"
        )
    if price.compilations:
        low, high = price.compile_seconds
        lines.append(
            f"compilations: {price.compilations} distinct operators × shapes × dtypes × static arguments; {seconds_text(low)} "
            f"to {seconds_text(high)} with an empty cache, one after another (estimate: 1.4 to 5.1 s each)"
        )
    return lines


def mode_lines(report: Report) -> list[str]:
    """Return what was run, with what, and whether the list is complete."""
    done = "complete for this input" if report.failure is None else "stopped before the end, so this list is partial"
    lines = [f"model: {report.model}, {_mode(report)}", f"inputs: {report.inputs or 'none'}; {done}"]
    lines += [f"note: {note.text}{f' at {note.where}' if note.where else ''}" for note in report.notes]
    return [*([FAKE] if report.fake else []), *lines, *(_wait_text(wait) for wait in report.waits)]


def _mode(report: Report) -> str:
    request = report.request
    cast = f", cast to {request.dtype}" if request.dtype else ""
    cast += f", under autocast to {request.autocast}" if request.autocast else ""
    if report.as_is:
        return f"with the modes and gradients that it sets itself{cast}"
    if request.train:
        return f"{'eval' if request.eval else 'train'} mode with backward and one AdamW step{cast}"
    return f"eval mode, {'gradients on (forward asks for them)' if request.grad else 'no gradients'}{cast}"


def _wait_text(wait: Wait) -> str:
    """Return one place where the host waits for the device."""
    steers = "; only what this data leads to is listed" if wait.steers else ""
    return f"waits: {_WAITS[wait.kind]} at {place_text(wait.where or 'an unknown line')}, {plural(wait.calls, 'time')} ({wait.overload}){steers}"


_WAITS = {
    WaitKind.VALUE: "the host reads a value of the device",
    WaitKind.COPY: "a tensor is copied to the host",
    WaitKind.SIZE: "a size follows the data",
}


def evidence_lines(assessment: Assessment) -> list[str]:
    """Return how close the stored cases come to the calls, the sources, the versions and what simulated means."""
    counts = dict.fromkeys(Closeness, 0)
    for judged in assessment.judged:
        if judged.row.route is not CallRoute.METADATA:
            counts[judged.known.closeness] += judged.row.total
    lines = []
    if assessment.catalogues:
        told = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
        used = dict.fromkeys(j.known.source for j in assessment.judged if j.known.source is not None)
        sources = "; ".join(f"{source.title}, {source.date}, {source.evidence}" for source in used)
        lines.append(f"stored results of these calls: {told or 'none'}" + (f" (from {sources})" if sources else ""))
    lines.append("versions: " + ", ".join(f"{name} {value}" for name, value in assessment.report.versions.items()))
    lines.append(EVIDENCE)
    return lines


def finding_text(finding: Finding) -> str:
    """Return a finding's sentence with its calls, its phase and what it moves."""
    text = f"{finding.text}; {plural(finding.count, 'call')}"
    if finding.row.phase != "forward":
        text += f" in {finding.row.phase}"
    if finding.bytes_moved:
        text += f", {bytes_text(finding.bytes_moved)} over the host link, about {seconds_text(finding.seconds)}"
    return text


def on_device(judged: Sequence[Judged]) -> list[tuple[str, str, str, int, str, str]]:
    """Return letter, overload, dtypes, calls, route and first place of what runs on the device, alike rows added up.

    Most calls first within a route.
    """
    groups: dict[tuple[str, str, CallRoute], list[Judged]] = {}
    for one in judged:
        row = one.row
        groups.setdefault((row.overload, ", ".join(dict.fromkeys(row.dtypes)), row.route), []).append(one)
    order = tuple(CallRoute)
    lines = []
    for (overload, dtypes, route), rows in groups.items():
        calls, first = sum(one.row.total for one in rows), rows[0].row
        where = place_text(first.where or "") or (f"in {first.phase}" if first.phase != "forward" else "")
        if len({one.row.where for one in rows}) > 1:
            where = f"{where} and {plural(len({one.row.where for one in rows}) - 1, 'other line')}"
        module = folded(first.module)
        lines.append((str(route.status), overload, dtypes, calls, str(route), where + (f" {module}" if module else "")))
    return sorted(lines, key=lambda line: ([str(r) for r in order].index(line[4]), -line[3], line[1]))
