"""Finds the overloads that a text names in full, in any usual spelling, or nearly."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from neuron_ops.coverage_db.queries import packets_like, search
from neuron_ops.coverage_db.spelling import EXACT, rank, read_spelling

if TYPE_CHECKING:
    from neuron_ops.coverage_db.queries import OpRow
    from sqlalchemy import Connection

_MOST_OVERLOADS = 100
"""More than any operator of torch has."""
_NEAR = 8
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
    ends = {name[:_PIECE], name[-_PIECE:]} - {""}

    def nearness(packet: str) -> float:
        base = packet.removeprefix("aten.").lower()
        # A typo spares the beginning or the end; comparing every name in full would take ten times as long.
        return SequenceMatcher(None, base, name).ratio() if any(piece in base for piece in ends) else 0.0

    return packets_like(conn, nearness, _NEAR)
