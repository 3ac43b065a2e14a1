"""Answers 304 to a reader who has the present data already, before anything of the page is computed."""

from __future__ import annotations

import hashlib
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from flask import Response, g, request
from neuron_ops.coverage_db.dataset import dataset_id
from neuron_ops.web.pinned import connection

if TYPE_CHECKING:
    from flask.typing import ResponseReturnValue

# What is not made of the data alone: files, the probe, the counters of this process, and how old the data is.
_OTHER = frozenset({"static", "health.check", "metrics.page", "datasets.status", "datasets.status_twin", None})


@cache
def program_id() -> str:
    """Return 8 hex digits that change with any file of the site: the same data may look different."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*")):
        if file.is_file() and file.suffix in {".py", ".html", ".css", ".js", ".svg", ".xml"}:
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]


def answer_unchanged() -> ResponseReturnValue | None:
    """Return 304 if the reader holds this address as it is, or None."""
    if request.endpoint in _OTHER or request.method not in {"GET", "HEAD"}:
        return None
    address = zlib.crc32(request.full_path.encode())
    g.tag = f"{dataset_id(connection())}-{program_id()}-{address:08x}"
    return Response(status=304) if request.if_none_match.contains_weak(g.tag) else None


def tag(response: Response) -> None:
    """Put the entity tag of the present data on an answer; one with no data gets a tag of its content."""
    if "tag" in g:
        response.set_etag(g.tag, weak=True)
    elif response.status_code == 200:
        response.add_etag(weak=True)
        response.make_conditional(request)
