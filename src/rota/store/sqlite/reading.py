"""The reading half of the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec import json
from msgspec.structs import replace

from rota.clock import Clock
from rota.domain.access import Visibility
from rota.domain.job import Attempt, Job, LogLine
from rota.errors import RotaError
from rota.store.base import JobFilter, JobPage, JobType, TokenRecord
from rota.store.sqlite.access import read_token, read_tokens, read_types
from rota.store.sqlite.readers import ReaderPool, interrupted
from rota.store.sqlite.transaction import QUERIES

MAX_LOOKED_AT: Final = 20_000
"""Rows that one call of a list looks at; the page may be short then, and says where to go on."""
FIRST_WINDOW: Final = 500
READ_MS: Final = 500
MAX_PAGE_BYTES: Final = 8 * 1_048_576
NEWEST: Final = 2**63 - 1
STALE_PULSE_MS: Final = 5_000
SOURCES: Final = {
    frozenset({"failed"}): "ids_of_failed",
    frozenset({"cancelled"}): "ids_of_cancelled",
    frozenset({"running"}): "ids_of_running",
}


class SqliteReader:
    """Reads on connections of its own; see :class:`rota.store.base.Reader` for the contract."""

    def __init__(
        self, lists: ReaderPool, access: ReaderPool, clock: Clock, version: Callable[[], int]
    ) -> None:
        self._pool = lists
        self._access = access
        self._clock = clock
        self._version = version

    def types_version(self) -> int:
        return self._version()

    async def job(self, id: int, visibility: Visibility) -> Job | None:
        return await self._pool.run(lambda connection: _seen(connection, id, visibility))

    async def jobs(
        self, wanted: JobFilter, visibility: Visibility, *, limit: int, before: int | None = None
    ) -> JobPage:
        start = NEWEST if before is None else before
        return await self._pool.run(
            lambda connection: _page(connection, wanted, visibility, limit, start), deadline_ms=READ_MS
        )

    async def attempts(self, id: int, visibility: Visibility) -> list[Attempt] | None:
        def read(connection: sqlite3.Connection) -> list[Attempt] | None:
            if _seen(connection, id, visibility) is None:
                return None
            rows = connection.execute(QUERIES["job_attempts"], (id,))
            attempts = [Attempt(*row) for row in rows.fetchall()]
            return attempts if visibility.detail else [replace(each, error=None) for each in attempts]

        return await self._pool.run(read)

    async def logs(
        self, id: int, visibility: Visibility, *, limit: int, after: int | None = None
    ) -> list[LogLine] | None:
        def read(connection: sqlite3.Connection) -> list[LogLine] | None:
            if _seen(connection, id, visibility) is None:
                return None
            rows = connection.execute(QUERIES["job_logs"], (id, after or 0, limit))
            lines = [LogLine(*row) for row in rows.fetchall()]
            return lines if visibility.detail else [replace(each, text=None) for each in lines]

        return await self._pool.run(read)

    async def types(self) -> list[JobType]:
        return await self._access.run(read_types)

    async def token(self, key_id: str) -> TokenRecord | None:
        return await self._access.run(lambda connection: read_token(connection, key_id))

    async def tokens(self) -> list[TokenRecord]:
        return await self._access.run(read_tokens)

    async def healthy(self) -> bool:
        def read(connection: sqlite3.Connection) -> int:
            (at,) = connection.execute(QUERIES["pulse_at"]).fetchone()
            return int(at)

        try:
            at = await self._access.run(read, deadline_ms=READ_MS)
        except (RotaError, sqlite3.Error):
            return False
        return self._clock.now() - at < STALE_PULSE_MS


def _seen(connection: sqlite3.Connection, id: int, visibility: Visibility) -> Job | None:
    row = connection.execute(QUERIES["job_by_id"], (id,)).fetchone()
    job = None if row is None else Job(*row)
    return visibility.mask(job) if job is not None and visibility.sees(job) else None


def _page(
    connection: sqlite3.Connection, wanted: JobFilter, visibility: Visibility, limit: int, before: int
) -> JobPage:
    source = QUERIES[SOURCES.get(wanted.statuses or frozenset(), "ids_of_all")]
    values: dict[str, Any] = {
        "statuses": _names(wanted.statuses),
        "type": wanted.type,
        "queue": wanted.queue,
        "schedule_id": wanted.schedule_id,
        "text": wanted.text,
        "created_after": wanted.created_after,
        "created_before": wanted.created_before,
        "types": _names(visibility.types),
        "queues": _names(visibility.queues),
        "reads_all": visibility.reads_all,
        "producer": visibility.producer,
        "holder": visibility.holder,
    }
    found: list[Job] = []
    looked_at, size, window = 0, 0, max(FIRST_WINDOW, limit)
    while looked_at < MAX_LOOKED_AT:
        most = min(window, MAX_LOOKED_AT - looked_at)
        try:
            ids = [id for (id,) in connection.execute(source, (before, most))]
            values |= {"ids": json.encode(ids).decode(), "limit": limit - len(found)}
            rows = connection.execute(QUERIES["narrow_jobs"], values).fetchall() if ids else []
        except sqlite3.OperationalError as error:
            if looked_at and interrupted(error):
                break
            raise
        if not ids:
            return JobPage(found, None)
        for row in rows:
            job = visibility.mask(Job(*row))
            found.append(job)
            size += len(job.payload or b"") + len(job.result or b"")
            if len(found) == limit or size > MAX_PAGE_BYTES:
                return JobPage(found, job.id)
        looked_at += len(ids)
        before = ids[-1]
        window *= 4
    return JobPage(found, before)


def _names(names: Iterable[str] | None) -> str | None:
    return None if names is None else json.encode(sorted(names)).decode()
