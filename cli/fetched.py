"""Fetches a catalogue of stored results from the address that --catalogue names."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from neuron_ops.op_tests.capture.evidence import read_catalogue, read_catalogue_file
from neuron_ops.op_tests.records import BadInput

if TYPE_CHECKING:
    from neuron_ops.op_tests.capture.evidence import Catalogue

LARGEST = 32 << 20
"""Bytes that an answer may have; the shipped catalogue has 0.1 MB."""
SECONDS = 20.0
"""How long the other side may be silent."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class _SameRules(urllib.request.HTTPRedirectHandler):
    """Follows redirects to addresses that may be asked for."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        """Return the next request; raises BadInput where its address may not be asked."""
        return super().redirect_request(req, fp, code, msg, headers, _allowed(newurl))


def named_catalogue(text: str) -> Catalogue:
    """Return the catalogue at an https address or in a file; raises BadInput where it cannot be had."""
    return read_catalogue(_fetched(_allowed(text)), text) if "://" in text else read_catalogue_file(Path(text))


def _allowed(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        return url
    raise BadInput(
        f"{url} is no https address; expected one, or a file; fetch the catalogue yourself and name the file"
    )


def _fetched(url: str) -> bytes:
    try:
        with urllib.request.build_opener(_SameRules).open(url, timeout=SECONDS) as answer:
            data: bytes = answer.read(LARGEST + 1)
    except (OSError, ValueError) as error:  # URLError, timeouts and refused connections are OSErrors
        reason = getattr(error, "reason", None) or error
        raise BadInput(f"{url} cannot be fetched ({reason}); expected a catalogue; check the address") from error
    if len(data) > LARGEST:
        raise BadInput(f"{url} holds more than {LARGEST >> 20} MiB; expected a catalogue; check the address")
    return data
