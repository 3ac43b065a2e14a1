"""What every page needs of its request: the connection, the run it shows, and the query keys it takes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from flask import current_app, g, request, url_for
from neuron_ops.coverage_db.database import read
from neuron_ops.coverage_db.publishing import public_run
from neuron_ops.coverage_db.queries import run_by_slug
from neuron_ops.op_tests.records import BadInput
from werkzeug.exceptions import NotFound

if TYPE_CHECKING:
    from neuron_ops.coverage_db.queries import RunRow
    from sqlalchemy import Connection


def connection() -> Connection:
    """Return this request's connection, opened read-only on first use and closed when the request ends."""
    if "connection" not in g:
        g.closing = ExitStack()
        g.connection = g.closing.enter_context(read(current_app.extensions["neuron_ops_engine"]))
    found: Connection = g.connection
    return found


def close_connection(_error: BaseException | None = None) -> None:
    """Close this request's connection if it was opened."""
    if "closing" in g:
        g.pop("connection", None)
        g.pop("closing").close()


def arguments(*known: str) -> dict[str, str]:
    """Return this request's query; a key given several times has its values joined by commas.

    `run` is always known. Raises BadInput for any other key that is not in `known`.
    """
    for key in request.args:
        if key not in {*known, "run"}:
            takes = ", ".join((*known, "run"))
            raise BadInput(
                f"“{key}” is no query key of {request.path}: it takes {takes}; remove the key or use one of these."
            )
    return {key: ",".join(request.args.getlist(key)) for key in request.args}


def read_pin() -> None:
    """Look up the run that `?run=` names, before anything else of a request; raises NotFound for no stored run."""
    slug = request.args.get("run")
    if slug and request.endpoint != "static":
        g.pinned = run_by_slug(connection(), slug)
        if g.pinned is None:
            raise NotFound(f"There is no run {slug} in this database: see /runs for those it holds.")


def pinned_run() -> RunRow | None:
    """Return the run that this page is pinned to, or None when it follows the latest."""
    found: RunRow | None = g.get("pinned")
    return found


def shown_run() -> RunRow | None:
    """Return the run of this page: the pinned one, else the published one, or None where there is none."""
    return pinned_run() or public_run(connection())


def link(endpoint: str, **values: str) -> str:
    """Return the address of a page of this site, pinned to the same run as the present page."""
    run = pinned_run()
    query: dict[str, Any] = {**values, "run": run.slug} if run else dict(values)
    return url_for(endpoint, **query)


def unpinned_address() -> str:
    """Return the address of the present page without its pin."""
    rest = [(key, value) for key, value in request.args.items(multi=True) if key != "run"]
    return request.path + (f"?{urlencode(rest)}" if rest else "")
