"""Workers that have announced themselves on SQLite, and the catalogue of their handlers."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import json
from msgspec.structs import replace

from rota.domain.access import Visibility
from rota.domain.job import MAX_WORKERS
from rota.errors import Conflict, NotFound
from rota.store.records import Announcement, CataloguedHandler, WorkerRecord
from rota.store.sqlite.transaction import QUERIES, Transaction

UNKNOWN: Final = "there is no worker with this id that the token may see; GET /workers lists them"
MAX_LOOKED_AT: Final = 100_000
"""Running jobs of all workers that are counted."""

Names = frozenset[str] | None


def announce(within: Transaction, wanted: Announcement) -> bool:
    """Keep what a worker says about itself; returns whether it is asked to drain.

    Raises Conflict when the name is another token's, and when there are too many workers.
    """
    known = within.execute("worker_by_instance", wanted.instance).fetchone()
    if known is not None and known[1] != wanted.owner:
        raise Conflict("another token's worker has announced itself under this name: choose another instance")
    row = (
        *(wanted.instance, wanted.owner, wanted.worker_id, wanted.host, wanted.pid, wanted.version),
        *(wanted.concurrency, wanted.run, wanted.digest, within.now),
    )
    if known is None:
        (number,) = within.execute("count_workers").fetchone()
        if number >= MAX_WORKERS:
            raise Conflict(
                f"{MAX_WORKERS:,} workers have announced themselves within a day; no more are listed"
            )
        (id,) = within.execute("add_worker", *row).fetchone()
        draining = False
    else:
        id = known[0]
        (draining,) = within.execute("update_worker", *row).fetchone()
    if known is None or known[3] != wanted.digest:
        within.execute("drop_handlers", id)
        within.connection.executemany(
            QUERIES["add_handler"],
            [(each.name, id, each.description, each.schema) for each in wanted.handlers],
        )
    return bool(draining)


def drain(within: Transaction, id: int, judge: Callable[[WorkerRecord], None]) -> WorkerRecord:
    """Ask a worker to drain. Raises NotFound, and what ``judge`` raises."""
    row = within.execute("worker_by_id", id).fetchone()
    if row is None:
        raise NotFound(UNKNOWN)
    judge(_with_handlers(within.connection, [row])[0])
    within.execute("drain_worker", id)
    return _with_handlers(within.connection, [within.execute("worker_by_id", id).fetchone()])[0]


def forget(within: Transaction, seen_before: int) -> int:
    """Delete those that have not been seen since; returns how many."""
    return within.execute("forget_workers", seen_before).rowcount


def page(connection: sqlite3.Connection, names: Names, limit: int, before: int) -> list[WorkerRecord]:
    """Workers with ids below ``before`` that run at least one of these types, newest first."""
    values = {"names": _listed(names), "limit": limit, "before": before}
    return _with_handlers(connection, connection.execute(QUERIES["workers_page"], values).fetchall())


def catalogue(
    connection: sqlite3.Connection, names: Names, limit: int, skipped: int
) -> list[CataloguedHandler]:
    """The handlers among these types, by name."""
    values = {"names": _listed(names), "limit": limit, "skipped": skipped}
    return [
        CataloguedHandler(name, description, schema, seen_at, number, _names(announced_by))
        for name, description, schema, seen_at, number, announced_by in connection.execute(
            QUERIES["handlers_page"], values
        )
    ]


def count_held(connection: sqlite3.Connection, visibility: Visibility) -> Counter[str]:
    """How many jobs within the reader's range each worker holds, by worker_id."""
    held: Counter[str] = Counter()
    for worker_id, queue, type, number in connection.execute(
        QUERIES["count_held_by_worker"], (MAX_LOOKED_AT,)
    ):
        if (visibility.types is None or type in visibility.types) and (
            visibility.queues is None or queue in visibility.queues
        ):
            held[worker_id] += number
    return held


def _with_handlers(connection: sqlite3.Connection, rows: Iterable[tuple[Any, ...]]) -> list[WorkerRecord]:
    found = [WorkerRecord(*row) for row in rows]
    handlers: dict[int, list[str]] = {}
    ids = json.encode([each.id for each in found]).decode()
    for worker, name in connection.execute(QUERIES["handlers_of"], (ids,)):
        handlers.setdefault(worker, []).append(name)
    return [
        replace(each, drain_requested=bool(each.drain_requested), handlers=tuple(handlers.get(each.id, ())))
        for each in found
    ]


def _names(text: str) -> tuple[str, ...]:
    return tuple(sorted(json.decode(text, type=list[str])))


def _listed(names: Names) -> str | None:
    return None if names is None else json.encode(sorted(names)).decode()
