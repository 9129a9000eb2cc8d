"""Which finished jobs have been kept long enough: a walk over the oldest ids, window by window."""

from __future__ import annotations

import sqlite3
from typing import Final

from rota.store.records import Expired, Kept
from rota.store.sqlite.transaction import QUERIES

SOURCES: Final[dict[Kept, str]] = {
    "completed": "oldest_jobs",
    "failed": "oldest_failed",
    "cancelled": "oldest_cancelled",
}


def expired(
    connection: sqlite3.Connection, kept: Kept, finished_before: int, after: int, limit: int
) -> Expired:
    """Those of the next ``limit`` jobs with ids above ``after`` that ended by then."""
    rows = connection.execute(QUERIES[SOURCES[kept]], (after, finished_before, limit)).fetchall()
    over = len(rows) < limit or bool(rows[-1][2])
    return Expired([id for id, old, _ in rows if old], rows[-1][0] if rows else after, over)
