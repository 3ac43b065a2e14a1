"""Finds the overloads that a text names in full, in any usual spelling, or nearly."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.queries import search
from neuron_ops.coverage_db.spelling import EXACT, rank, read_spelling

if TYPE_CHECKING:
    from neuron_ops.coverage_db.queries import OpRow
    from sqlalchemy import Connection

_MOST_OVERLOADS = 100
"""More than any operator of torch has."""
_NEAR = 8
_WIDE = 400
_PIECE = 3


def exact_hits(conn: Connection, text: str) -> tuple[OpRow, ...]:
    """Return the overload of this very name, or all overloads of the operator of this name, or nothing."""
    asked = read_spelling(text)
    ranked = [(rank(op.name, asked), op) for op in search(conn, text, limit=_MOST_OVERLOADS)]
    return tuple(op for fit, op in ranked if fit is not None and fit <= EXACT)


def nearest(conn: Connection, text: str) -> tuple[OpRow, ...]:
    """Return at most eight overloads whose names come closest to a name that does not exist, closest first.

    Two at most are of one operator: its page leads to the others.
    """
    name = "_".join(read_spelling(text).words).removeprefix("aten.").partition(".")[0]
    # A typo spares the beginning or the end.
    found = search(conn, name[:_PIECE], limit=_WIDE) + search(conn, name[-_PIECE:], limit=_WIDE)
    by_packet: dict[str, list[OpRow]] = {}
    for op in dict.fromkeys(found):
        by_packet.setdefault(op.packet, []).append(op)

    def distance(packet: str) -> float:
        return -SequenceMatcher(None, packet.removeprefix("aten."), name).ratio()

    return tuple(op for packet in sorted(by_packet, key=distance) for op in by_packet[packet][:2])[:_NEAR]
