"""Writes the whole site as files with the same addresses, for any host that serves files, and checks every link."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from html import unescape
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urldefrag, urlsplit

from flask import render_template
from neuron_ops.coverage_db.database import read
from neuron_ops.coverage_db.numbers import numbers
from neuron_ops.coverage_db.packed import packed
from neuron_ops.web.addresses import page_addresses
from neuron_ops.web.app import create_app
from neuron_ops.web.words import STATUSES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from flask import Flask

_AS_THEY_ARE = (".json", ".csv", ".ndjson", ".atom", ".svg", ".xml", ".txt", ".css", ".js")
_TABLES = ("index", "ops", "runs")
"""Pages whose .csv and .ndjson are written: of every page they would be ten thousand files."""
_LINK = re.compile(r'\b(?:href|src)="([^"]*)"')
_PINNED = re.compile(r'<a [^>]*href="[^"]*[?&;]run=[^"]*"[^>]*>(.*?)</a>', re.DOTALL)
_AT_A_TIME = 40


@dataclass(slots=True)
class Exported:
    """What was written, and the links that lead nowhere as (page, address)."""

    files: int = 0
    size: int = 0
    broken: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Written:
    """One address: the bytes written (None where the site does not have it), and where its links lead."""

    address: str
    size: int | None
    links: tuple[str, ...]


def export(
    database: str, folder: Path, url: str, jobs: int, progress: Callable[[int, int], None] = lambda _done, _known: None
) -> Exported:
    """Write the site over `database` into `folder`, to be served under `url` (https://host or https://host/base).

    Every page is found from the fixed addresses, the operators and the links of what was found. `progress` is told how
    many addresses are done, of how many known by then.
    """
    told = Exported()
    app = _static_app(database)
    _beside(app, folder, url, told)
    with ProcessPoolExecutor(jobs, get_context("spawn"), _begin, (database, folder, url)) as pool:
        wanted, from_page = list(_seeds(app)), {}
        done: dict[str, _Written] = {}
        known = set(wanted)
        while wanted:
            groups = [wanted[first : first + _AT_A_TIME] for first in range(0, len(wanted), _AT_A_TIME)]
            wanted = []
            for written in (one for group in pool.map(_write, groups) for one in group):
                done[written.address] = written
                new = [link for link in written.links if link not in known]
                known.update(new)
                from_page.update(dict.fromkeys(new, written.address))
                wanted += new
                progress(len(done), len(known))
    told.files += sum(written.size is not None for written in done.values())
    told.size += sum(written.size or 0 for written in done.values())
    told.broken = [
        (from_page.get(one.address, "the site's list"), one.address) for one in done.values() if one.size is None
    ]
    app.extensions["neuron_ops_engine"].dispose()
    return told


def _static_app(database: str) -> Flask:
    return create_app(database, {"STATIC_SITE": True})


def _seeds(app: Flask) -> Iterator[str]:
    with app.app_context(), read(app.extensions["neuron_ops_engine"]) as conn:
        yield from page_addresses(conn)
        yield from (f"/badge/{one.id}.{form}" for one in numbers(conn, None) for form in ("json", "svg"))
    yield from (f"/{table}{ending}" for table in _TABLES for ending in (".json", ".csv", ".ndjson"))
    yield from ("/search", "/sitemap.xml", "/robots.txt", "/opensearch.xml", "/changes.atom", "/regressions.atom")


def _beside(app: Flask, folder: Path, url: str, told: Exported) -> None:
    """Write what is no page: the files of the site, the data of its search, and the page for a missing address."""
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(Path(app.static_folder or ""), folder / "static", dirs_exist_ok=True)
    with read(app.extensions["neuron_ops_engine"]) as conn:
        cells: dict[str, Any] = packed(conn)
    words = STATUSES.values()
    cells |= {
        "labels": {word.value: word.label for word in words}, "css": {word.value: word.css for word in words},
        "statuses": {name.lower(): word.value for word in words for name in (word.anchor, word.label, word.value)},
    }  # fmt: skip
    (folder / "packed.json").write_text(json.dumps(cells, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
    with app.test_request_context(base_url=url):
        page = render_template(
            "error.html",
            heading="Not found",
            sentence="There is no such page here: search the operators.",
            missing=True,
        )
    (folder / "404.html").write_text(page, encoding="utf-8")
    (folder / ".nojekyll").write_bytes(b"")  # GitHub Pages would leave out what begins with an underscore
    present = [file for file in folder.rglob("*") if file.is_file()]
    told.files, told.size = len(present), sum(file.stat().st_size for file in present)


class _Place:
    """What a process of the pool writes from and to."""

    app: Flask
    folder: Path
    url: str


def _begin(database: str, folder: Path, url: str) -> None:
    _Place.app, _Place.folder, _Place.url = _static_app(database), folder, url


def _write(addresses: Sequence[str]) -> list[_Written]:
    """Write these addresses and return what came of each."""
    client = _Place.app.test_client()
    return [_write_one(client, address) for address in addresses]


def _write_one(client: Any, address: str) -> _Written:
    base = urlsplit(_Place.url).path.rstrip("/")
    with client.get(address, base_url=_Place.url) as response:
        data: bytes = response.get_data()
        status, location = response.status_code, response.headers.get("Location", "")
        is_page = response.mimetype == "text/html"
    if status in {301, 302, 308}:
        data, is_page = f'<!doctype html><meta http-equiv="refresh" content="0;url={location}">'.encode(), False
    elif status != 200:
        return _Written(address, None, ())
    links: tuple[str, ...] = ()
    if is_page:
        text = _PINNED.sub(r"\1", data.decode())
        links, data = tuple(_leads(text, base)), text.encode()
    place = _Place.folder / unquote(address).lstrip("/")
    if not address.endswith(_AS_THEY_ARE):
        place /= "index.html"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return _Written(address, len(data), links)


def _leads(text: str, base: str) -> Iterable[str]:
    """Return the addresses of this site that a page links to, without query and fragment; the script answers queries."""
    found: dict[str, None] = {}
    for href in _LINK.findall(text):
        address = urldefrag(unescape(href)).url.partition("?")[0]
        if address.startswith(f"{base}/") and not address.startswith(("//", f"{base}/static/")):
            found[address.removeprefix(base)] = None
    return found
