"""Queues on SQLite: made, paused, and counted."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any, Final

from msgspec import json

from rota.domain.access import Visibility
from rota.domain.job import DEFAULT_QUEUE, MAX_QUEUES, PRIORITY_LABELS
from rota.errors import Conflict, NotFound
from rota.store.batcher import Lane
from rota.store.records import LaneCount, QueueRecord
from rota.store.sqlite.transaction import QUERIES, Transaction

MAX_COUNTED: Final = 10_000
"""Ready jobs counted in one lane; fewer where there are many lanes."""
MAX_READY_LOOKED_AT: Final = 500_000
MAX_LOOKED_AT: Final = 100_000
"""Delayed jobs, soonest first, and running ones are counted among so many of all queues."""

_LEVELS: Final = json.encode(sorted(PRIORITY_LABELS)).decode()


def read_queues(connection: sqlite3.Connection) -> list[QueueRecord]:
    """The queues that were made or paused, by name."""
    return [_record(row) for row in connection.execute(QUERIES["read_queues"])]


def paused_queues(connection: sqlite3.Connection) -> frozenset[str]:
    return frozenset(name for (name,) in connection.execute(QUERIES["paused_queues"]))


def put_queue(within: Transaction, name: str, paused: bool | None) -> tuple[QueueRecord, bool]:
    """Make a queue, or change it; ``paused`` None leaves that as it is. The flag tells whether it is new.

    Raises Conflict when there are too many.
    """
    stored = _stored(within, name)
    if stored is None:
        (number,) = within.execute("count_queues").fetchone()
        if number >= MAX_QUEUES:
            raise Conflict(f"there are {MAX_QUEUES:,} queues already: use one of them")
    wanted = (stored is not None and stored.paused) if paused is None else paused
    within.execute("put_queue", name, wanted, within.now)
    if not wanted:
        within.announced_all = True
    kept = _stored(within, name)
    assert kept is not None
    return kept, stored is None


def pause_queue(within: Transaction, name: str, paused: bool) -> QueueRecord:
    """Pause or resume a queue. Raises NotFound unless it was made, a type names it, or it is default."""
    if name != DEFAULT_QUEUE and _stored(within, name) is None:
        (named,) = within.execute("queue_is_named", name).fetchone()
        if not named:
            raise NotFound("there is no queue of this name that this token may see; GET /queues lists them")
    return put_queue(within, name, paused)[0]


def _stored(within: Transaction, name: str) -> QueueRecord | None:
    row = within.execute("read_queue", name).fetchone()
    return None if row is None else _record(row)


def _record(row: tuple[Any, ...]) -> QueueRecord:
    return QueueRecord(row[0], bool(row[1]), row[2], row[3])


# --- counts ---------------------------------------------------------------------------------------


def count_lanes(connection: sqlite3.Connection, visibility: Visibility) -> list[LaneCount]:
    """The lanes with waiting or running jobs within the reader's range."""
    heads = connection.execute(QUERIES["lane_heads"]).fetchall()
    lanes = [(queue, type) for queue, type, _, _ in heads if _in_range(visibility, queue, type)]
    most = min(MAX_COUNTED, MAX_READY_LOOKED_AT // max(len(lanes), 1))
    ready: dict[Lane, tuple[int, int | None]] = {}
    for lane in lanes:
        (number,) = connection.execute(QUERIES["count_ready"], (*lane, most)).fetchone()
        (since,) = connection.execute(QUERIES["ready_since"], (*lane, _LEVELS)).fetchone()
        ready[lane] = (number, since)
    delayed = _grouped(connection, "count_delayed", MAX_LOOKED_AT, visibility)
    running = _grouped(connection, "count_running", MAX_LOOKED_AT, visibility)
    return [
        LaneCount(*lane, *ready.get(lane, (0, None)), delayed[lane], running[lane])
        for lane in sorted({*ready, *delayed, *running})
    ]


def _grouped(connection: sqlite3.Connection, query: str, most: int, visibility: Visibility) -> Counter[Lane]:
    rows = connection.execute(QUERIES[query], (most,))
    return Counter({(queue, type): n for queue, type, n in rows if _in_range(visibility, queue, type)})


def _in_range(visibility: Visibility, queue: str, type: str) -> bool:
    return (visibility.types is None or type in visibility.types) and (
        visibility.queues is None or queue in visibility.queues
    )


def pending_by_producer(connection: sqlite3.Connection, at_least: int) -> dict[str, int]:
    """How many pending jobs each producer has; nothing while all together have fewer than ``at_least``."""
    (together,) = connection.execute(QUERIES["count_pending"], (at_least,)).fetchone()
    if together < at_least:
        return {}
    return dict(connection.execute(QUERIES["pending_by_producer"]).fetchall())


def ended_of(connection: sqlite3.Connection, ids: list[int]) -> list[int]:
    """Those of these jobs that have ended, or that are no longer there."""
    going_on = {id for (id,) in connection.execute(QUERIES["unfinished_of"], (json.encode(ids).decode(),))}
    return [id for id in ids if id not in going_on]
