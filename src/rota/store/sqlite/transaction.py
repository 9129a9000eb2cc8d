"""What the statements of one write transaction share."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from rota.domain.job import Job
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
        paused_queues: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        self.connection = connection
        self.now = now
        self.random = random
        self.announced: set[Lane] = set()
        self.announced_all = False
        self.happened: Counter[tuple[str, str, str]] = Counter()
        """(event, queue, type) of jobs, counted when this transaction has been committed."""
        self.leases_lost: Counter[Lane] = Counter()
        self.reports_refused = 0
        self._types = types
        self._paused_queues = paused_queues

    @property
    def types(self) -> dict[str, JobType]:
        """Every type by name, deleted ones included, as this transaction sees them."""
        return self._types()

    @property
    def paused_queues(self) -> frozenset[str]:
        return self._paused_queues()

    def backoff(self, type: str) -> Backoff:
        known = self.types.get(type)
        return Backoff() if known is None else known.backoff

    def count(self, event: str, job: Job) -> None:
        self.happened[event, job.queue, job.type] += 1

    def count_lanes(self, event: str, lanes: Iterable[Lane]) -> None:
        """Count an event of many jobs, each given by its lane."""
        for (queue, type), number in Counter(lanes).items():
            self.happened[event, queue, type] += number

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
