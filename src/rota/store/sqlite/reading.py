"""The reading half of the SQLite store."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import json
from msgspec.structs import replace

from rota.clock import Clock
from rota.domain.access import Visibility
from rota.domain.audit import AuditFilter, AuditPage
from rota.domain.job import Attempt, Job, LogLine
from rota.errors import RotaError
from rota.store.base import JobFilter, JobPage, JobType, TokenRecord
from rota.store.records import (
    Action,
    Candidates,
    CataloguedHandler,
    Expired,
    Kept,
    LaneCount,
    QueueRecord,
    WorkerRecord,
)
from rota.store.sqlite import audit, workers
from rota.store.sqlite.access import read_token, read_tokens, read_types
from rota.store.sqlite.bulk import candidates
from rota.store.sqlite.queues import count_lanes, ended_of, pending_by_producer, read_queues
from rota.store.sqlite.readers import ReaderPool, interrupted
from rota.store.sqlite.retention import expired
from rota.store.sqlite.transaction import QUERIES

MAX_LOOKED_AT: Final = 20_000
"""Rows that one call of a list looks at; the page may be short then, and says where to go on."""
FIRST_WINDOW: Final = 500
READ_MS: Final = 500
COUNT_MS: Final = 10_000
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
        self,
        lists: ReaderPool,
        access: ReaderPool,
        walks: ReaderPool,
        clock: Clock,
        version: Callable[[], int],
    ) -> None:
        self._pool = lists
        self._access = access
        self._walks = walks
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

    async def candidates(
        self,
        action: Action,
        wanted: JobFilter,
        visibility: Visibility,
        *,
        scheduled: bool,
        before: int | None = None,
    ) -> Candidates:
        start, now = NEWEST if before is None else before, self._clock.now()
        return await self._walks.run(
            lambda connection: candidates(
                connection, action, wanted, visibility, scheduled=scheduled, before=start, now=now
            ),
            deadline_ms=READ_MS,
        )

    async def expired(self, kept: Kept, finished_before: int, *, after: int, limit: int) -> Expired:
        return await self._walks.run(
            lambda connection: expired(connection, kept, finished_before, after, limit)
        )

    async def ended_of(self, ids: Sequence[int]) -> list[int]:
        return await self._pool.run(lambda connection: ended_of(connection, list(ids)))

    async def held(self, leases: Sequence[tuple[int, str, bytes]]) -> list[bool]:
        asked = [(id, owner, lease_token.hex()) for id, owner, lease_token in leases]

        def read(connection: sqlite3.Connection) -> list[bool]:
            rows = connection.execute(QUERIES["held_leases"], (json.encode(asked).decode(),))
            places = {place for (place,) in rows}
            return [place in places for place in range(len(asked))]

        return await self._pool.run(read)

    async def queues(self) -> list[QueueRecord]:
        return await self._access.run(read_queues)

    async def count_lanes(self, visibility: Visibility) -> list[LaneCount]:
        return await self._walks.run(
            lambda connection: count_lanes(connection, visibility), deadline_ms=READ_MS
        )

    async def workers(
        self, names: frozenset[str] | None, *, limit: int, before: int | None = None
    ) -> list[WorkerRecord]:
        start = NEWEST if before is None else before
        return await self._pool.run(lambda connection: workers.page(connection, names, limit, start))

    async def handlers(
        self, names: frozenset[str] | None, *, limit: int, skipped: int
    ) -> list[CataloguedHandler]:
        return await self._pool.run(lambda connection: workers.catalogue(connection, names, limit, skipped))

    async def count_held(self, visibility: Visibility) -> Mapping[str, int]:
        return await self._walks.run(
            lambda connection: workers.count_held(connection, visibility), deadline_ms=READ_MS
        )

    async def pending_by_producer(self, at_least: int) -> dict[str, int]:
        return await self._walks.run(
            lambda connection: pending_by_producer(connection, at_least), deadline_ms=COUNT_MS
        )

    async def types(self) -> list[JobType]:
        return await self._access.run(read_types)

    async def token(self, key_id: str) -> TokenRecord | None:
        return await self._access.run(lambda connection: read_token(connection, key_id))

    async def tokens(self) -> list[TokenRecord]:
        return await self._access.run(read_tokens)

    async def audit(self, wanted: AuditFilter, *, limit: int, before: int | None = None) -> AuditPage:
        return await self._pool.run(
            lambda connection: audit.page(connection, wanted, limit, before), deadline_ms=READ_MS
        )

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
