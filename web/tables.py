"""The .csv and .ndjson of every page: the records of its .json, one a line, with where they come from."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from flask import Response, current_app, request

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_FORMATS = {".csv": "text/csv", ".ndjson": "application/x-ndjson"}
_ASKED = "neuron_ops.table"
_FOLLOWING = "neuron_ops.following"
_PROVENANCE = ("slug", "target", "evidence", "started")
# A spreadsheet would run a text that begins like this.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class TableAddresses:
    """A WSGI layer that asks the page for its .json where its .csv or .ndjson is wanted."""

    def __init__(self, wrapped: WSGIApplication) -> None:
        self.wrapped = wrapped

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Pass the request on, with the suffix of a table replaced and noted."""
        path = environ.get("PATH_INFO", "")
        suffix = next((one for one in _FORMATS if path.endswith(one)), None)
        if suffix:
            environ = {**environ, "PATH_INFO": path.removesuffix(suffix) + ".json", _ASKED: suffix}
        return self.wrapped(environ, start_response)


def table_asked() -> bool:
    """Return whether this request wants records one a line, and so all of them at once."""
    return _ASKED in request.environ or _FOLLOWING in request.environ or current_app.config["STATIC_SITE"]


def as_table(response: Response) -> Response:
    """Return a page's JSON as the table that was asked for, whole in a static copy; anything else as it is."""
    suffix = request.environ.get(_ASKED)
    if (
        not table_asked()
        or _FOLLOWING in request.environ
        or response.status_code != 200
        or not response.is_json
        or response.is_streamed
    ):
        return response
    told = _with_following_pages(response.get_json())
    if suffix is None:
        response.set_data(current_app.json.dumps(told))
        return response
    rows = list(_rows(told))
    response.set_data(_csv(rows) if suffix == ".csv" else "".join(f"{_line(row)}\n" for row in rows))
    response.mimetype = _FORMATS[suffix]
    response.headers["Access-Control-Allow-Origin"] = "*"
    return response


def records(told: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the records of a page's JSON: its first list of objects, or the page itself where it has none."""
    lists = [one for one in told.values() if isinstance(one, list) and all(isinstance(item, dict) for item in one)]
    return next((one for one in lists if one), lists[0] if lists else [{k: v for k, v in told.items() if k != "run"}])


def _with_following_pages(told: Any) -> Any:
    """Return a page's JSON with the records of all pages that follow it."""
    while isinstance(told, dict) and told.get("next"):
        with current_app.test_request_context(told["next"], environ_overrides={_FOLLOWING: True}):
            more = current_app.full_dispatch_request().get_json()
        told = {**told, "rows": [*told["rows"], *more["rows"]], "next": more["next"]}
    return told


def _rows(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the records of a page's JSON, each with its run."""
    run = told.get("run") or {}
    provenance = {f"run_{name}": run.get(name) for name in _PROVENANCE}
    yield from ({**record, **provenance} for record in records(told))


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def _csv(rows: list[dict[str, Any]]) -> str:
    """Return rows as CSV with a header; nested values become columns such as cells.float32.status."""
    flat = [dict(_flat(row)) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, columns or [f"run_{name}" for name in _PROVENANCE], lineterminator="\r\n")
    table.writeheader()
    table.writerows(flat)
    return text.getvalue()


def _flat(row: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, list):
            plain = all(isinstance(item, str) for item in value)
            yield before + name, " ".join(value) if plain else json.dumps(value, ensure_ascii=False)
        else:
            yield before + name, _harmless(value) if isinstance(value, str) else value


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA) else text
