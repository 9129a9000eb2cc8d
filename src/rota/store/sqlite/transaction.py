"""What the statements of one write transaction share."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Final

from rota.domain.retry import Backoff
from rota.store.base import JobType
from rota.store.batcher import Lane
from rota.store.sql import load

QUERIES: Final = load("rota.store.sqlite")
ROWS_AT_ONCE: Final = (256, 64, 16, 4, 1)
"""Row templates are used in these sizes only, so that few statements stay prepared."""


class Transaction:
    """An open transaction: its connection and time, the types, and the lanes in which work became ready."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        now: int,
        types: Callable[[], dict[str, JobType]],
        random: Callable[[], float],
    ) -> None:
        self.connection = connection
        self.now = now
        self.random = random
        self.announced: set[Lane] = set()
        self.announced_all = False
        self._types = types

    @property
    def types(self) -> dict[str, JobType]:
        """Every type by name, deleted ones included, as this transaction sees them."""
        return self._types()

    def backoff(self, type: str) -> Backoff:
        known = self.types.get(type)
        return Backoff() if known is None else known.backoff

    def execute(self, name: str, *values: Any) -> sqlite3.Cursor:
        """Run a named query with positional values."""
        return self.connection.execute(QUERIES[name], values)

    def execute_rows(self, name: str, rows: list[tuple[Any, ...]]) -> Iterable[sqlite3.Cursor]:
        """Run a query with a row template over all rows, in few statements of fixed sizes.

        Yields one cursor a statement; fetch from it before asking for the next.
        """
        at = 0
        for size in ROWS_AT_ONCE:
            while len(rows) - at >= size:
                values = [value for row in rows[at : at + size] for value in row]
                yield self.connection.execute(QUERIES.rows(name, size), values)
                at += size
