"""Keeps in this process what was read from a database and cannot have changed since."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from sqlalchemy import Connection

_T = TypeVar("_T")


class Kept(Generic[_T]):
    """At most `most` values a database, each under a key that says from what state it was read."""

    def __init__(self, most: int) -> None:
        self._most = most
        # By the pool of connections, as databases in memory share their address.
        self._values: WeakKeyDictionary[Any, dict[Hashable, _T]] = WeakKeyDictionary()
        self._lock = Lock()

    def get(self, conn: Connection, key: Hashable, read: Callable[[], _T]) -> _T:
        """Return the value kept under `key`, or read and keep it; the oldest makes room."""
        with self._lock:
            values = self._values.setdefault(conn.engine.pool, {})
            if key in values:
                return values[key]
        found = read()
        with self._lock:
            while len(values) >= self._most:
                del values[next(iter(values))]
            values[key] = found
        return found
