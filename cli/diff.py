"""`neuron-ops diff`: every case that one of two runs did otherwise than the other."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from neuron_ops.coverage_db import differences
from neuron_ops.coverage_db.baselines import read_baseline
from neuron_ops.coverage_db.database import open_database, read
from neuron_ops.coverage_db.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from neuron_ops.coverage_db.verdicts import Comparison, Difference, VersionChange

SHOWN = 20  # lines of a group; --json has all


@click.command()
@click.argument("before")
@click.argument("after")
@click.option(
    "--error-factor", "factor", default=differences.FACTOR, show_default=True,
    type=click.FloatRange(min=1, min_open=True), help="By how much an error in ulp has to grow to be a difference.",
)  # fmt: skip
@click.option("--db", "database", metavar="URL", help="Database URL or SQLite file (default: from the settings).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with every case.")
def diff(before: str, after: str, factor: float, database: str | None, as_json: bool) -> int:
    """Say what the run AFTER did otherwise than BEFORE, a run or a baseline file; exit code 1 where there is anything."""
    engine = open_database(load_settings(database).database_url, create=False)
    try:
        with read(engine) as conn:
            later = differences.run_named(conn, after)
            earlier = read_baseline(Path(before)) if Path(before).is_file() else differences.run_named(conn, before)
            found = differences.compare(conn, earlier, later, factor=factor)
    finally:
        engine.dispose()
    if as_json:
        click.echo(json.dumps(_plain(asdict(found)), ensure_ascii=False, indent=2, allow_nan=False))
    else:
        click.echo("\n".join(_report(found)))
    return 1 if found.differences else 0


def _plain(value: Any) -> Any:
    """Return JSON values with infinity as text, as the database keeps it: JSON has no such number."""
    if isinstance(value, dict):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(member) for member in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _report(found: Comparison) -> Iterator[str]:
    """Yield the lines of a comparison."""
    yield (
        f"{found.before.label} → {found.after.label}: {len(found.differences)} cases differ "
        f"({found.before.measured} and {found.after.measured} measured)"
    )
    yield from version_lines(found.product, "what was measured")
    yield from version_lines(found.harness, "how it was measured (no difference says anything of the product)")
    yield from group_lines(found.differences)


def version_lines(changes: Sequence[VersionChange], title: str) -> Iterator[str]:
    """Yield a title and a line for each part of the build that differs, nothing where none does."""
    if changes:
        yield f"\n{title} differs"
    for change in changes:
        yield f"  {change.name}: {change.before or 'none'} → {change.after or 'none'}"


def group_lines(found: Sequence[Difference]) -> Iterator[str]:
    """Yield a title and lines for each group; `found` is in the order of its groups.

    Cases of one overload and dtype with the same change share a line, which names the first.
    """
    for group, members in groupby(found, key=lambda d: d.group):
        alike: dict[tuple[object, ...], list[Difference]] = {}
        for one in members:
            letters = (seen and seen.status for seen in (one.before, one.after))
            alike.setdefault((one.case.overload, one.case.dtype, *letters), []).append(one)
        yield f"\n{group} ({sum(map(len, alike.values()))})"
        for same in list(alike.values())[:SHOWN]:
            first = same[0]
            others = f", and {len(same) - 1} more like it" if len(same) > 1 else ""
            yield f"  {first.sentence}{others}"
            if first.message:
                yield f"    {first.message.partition(chr(10))[0]}"
        if len(alike) > SHOWN:
            yield f"  … and {len(alike) - SHOWN} more overloads and dtypes"
