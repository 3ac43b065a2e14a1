"""Every page of the site by address: what the sitemap lists and where the static export begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flask import current_app
from neuron_ops.coverage_db.demand import families
from neuron_ops.coverage_db.publishing import public_run
from neuron_ops.coverage_db.queries import every_overload, runs
from neuron_ops.web.words import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sqlalchemy import Connection

_ENDINGS = (".json", ".csv", ".ndjson", ".atom", ".svg", ".xml", ".txt")
_NO_PAGES = frozenset({"/healthz", "/metrics", "/search"})
_MOST_RUNS = 1000


def page_addresses(conn: Connection) -> Iterator[str]:
    """Yield the address of every page but those of single cells, comparisons and reports: fixed ones, then by name."""
    rules = [rule for rule in current_app.url_map.iter_rules() if "GET" in (rule.methods or ())]
    for rule in rules:
        fixed = not rule.arguments - set(rule.defaults or ())
        if fixed and not rule.rule.startswith("/api/") and not rule.rule.endswith(_ENDINGS) and "<" not in rule.rule:
            yield from () if rule.rule in _NO_PAGES else (rule.rule,)
    present = {rule.rule for rule in rules}
    for before, names in _named(conn).items():
        if any(f"{before}<{argument}>" in present for argument in ("name", "slug")):
            yield from (f"{before}{name}" for name in names)


def _named(conn: Connection) -> dict[str, Iterable[str]]:
    """Return the beginning of each address that ends in a name → the names."""
    overloads = every_overload(conn)
    listed, shown = runs(conn, limit=_MOST_RUNS), public_run(conn)
    return {
        "/run/": [run.slug for run in listed],
        "/dtype/": shown.dtypes if shown else (),
        "/family/": sorted({op.family for op in overloads}),
        "/tag/": sorted({tag for op in overloads for tag in op.tags}),
        "/status/": [word.anchor for word in STATUSES.values()],
        "/model/": list(families()),
        "/op/": [op.name for op in overloads],
    }
