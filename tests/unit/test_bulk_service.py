"""Actions on many jobs: one at a time, judged all along, and apart from schedules' jobs without the right."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING, Actor, Grant, Principal, Scope
from rota.domain.job import Job
from rota.errors import Forbidden, RateLimited, RotaError, Unauthenticated
from rota.services import bulk
from rota.services.backlog import Backlog
from rota.services.bulk import Bulk, Outcome
from rota.services.disk import Disk
from rota.services.endings import Endings
from rota.services.queue import Queue
from rota.services.types import Types
from rota.store.base import JobFilter
from rota.store.sqlite.store import SqliteStore
from tests.contract.factories import enqueued, new_job, put_type

ACTOR = Actor("token", "t-operator")


def principal(*scopes: Scope) -> Principal:
    return Principal(
        id="t-operator", name="operator", grant=Grant(scopes=frozenset({Scope.JOBS_MANAGE, *scopes}))
    )


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(tmp_path / "rota.db", FakeClock())
    await put_type(store, "work")
    yield store
    await store.close()


@pytest.fixture
def bulk_of(store: SqliteStore) -> Bulk:
    return Bulk(store, Endings(store.reader))


async def act(bulk: Bulk, action: Any, *scopes: Scope, judge: Any = None, **fields: Any) -> Outcome:
    given = {"dry_run": False, **fields}
    return await bulk.act(principal(*scopes), action, JobFilter(), ACTOR, judge, **given)


async def of_a_schedule(store: SqliteStore, path: Path) -> Job:
    (job,) = await enqueued(store, new_job())
    await store.cancel(job.id, EVERYTHING, ACTOR)
    connection = sqlite3.connect(path / "rota.db", timeout=10)
    with connection:
        connection.execute("UPDATE rota_jobs SET schedule_id = 4 WHERE id = ?", (job.id,))
    connection.close()
    return job


async def test_one_token_does_one_action_at_a_time(store: SqliteStore, bulk_of: Bulk) -> None:
    await enqueued(store, *(new_job() for _ in range(1_200)))
    first = asyncio.create_task(act(bulk_of, "cancel"))
    await asyncio.sleep(0)
    with pytest.raises(RateLimited):
        await act(bulk_of, "cancel")
    assert (await first).done == 1_200
    assert (await act(bulk_of, "cancel")).done == 0


async def test_a_token_that_ends_stops_its_action_between_two_chunks(
    store: SqliteStore, bulk_of: Bulk
) -> None:
    await enqueued(store, *(new_job() for _ in range(1_200)))
    verdicts: list[RotaError | None] = [None, None, Unauthenticated("revoked")]
    with pytest.raises(Unauthenticated):
        await act(bulk_of, "cancel", judge=lambda: verdicts.pop(0))
    assert (await act(bulk_of, "cancel", dry_run=True)).remaining == 200


async def test_a_call_that_has_seen_enough_rows_says_where_to_go_on(
    store: SqliteStore, bulk_of: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await enqueued(store, *(new_job() for _ in range(20_010)))
    monkeypatch.setattr(bulk, "MAX_LOOKED_AT", 20_000)
    counted = await act(bulk_of, "cancel", dry_run=True)
    assert (counted.matched, counted.next_before) == (20_000, jobs[10].id)
    rest = await act(bulk_of, "cancel", dry_run=True, before=counted.next_before)
    assert (rest.matched, rest.next_before) == (10, None)


async def test_jobs_of_schedules_need_more_than_jobs_manage(
    store: SqliteStore, bulk_of: Bulk, tmp_path: Path
) -> None:
    await of_a_schedule(store, tmp_path)
    assert (await act(bulk_of, "replay")).matched == 0
    assert (await act(bulk_of, "delete")).matched == 0
    assert (await act(bulk_of, "replay", Scope.SCHEDULES_TRIGGER)).done == 1
    assert (await act(bulk_of, "cancel")).done == 1
    assert (await act(bulk_of, "delete", Scope.EXECUTIONS_PURGE)).done == 1


async def test_a_single_job_of_a_schedule_needs_it_too(store: SqliteStore, tmp_path: Path) -> None:
    job = await of_a_schedule(store, tmp_path)
    clock = FakeClock()
    queue = Queue(
        *(store, Types(store, clock), clock, Disk(tmp_path, 0)),
        *(Endings(store.reader), Backlog(store.reader, 1_000)),
    )
    with pytest.raises(Forbidden):
        await queue.replay(principal(), job.id, ACTOR)
    with pytest.raises(Forbidden):
        await queue.delete(principal(), job.id, ACTOR)
    assert (await queue.replay(principal(Scope.SCHEDULES_TRIGGER), job.id, ACTOR)).status == "pending"
    await queue.cancel(principal(), job.id, ACTOR)
    await queue.delete(principal(Scope.EXECUTIONS_PURGE), job.id, ACTOR)


async def test_what_remains_is_counted_a_little_way_ahead(
    store: SqliteStore, bulk_of: Bulk, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = await enqueued(store, *(new_job() for _ in range(41_000)))
    monkeypatch.setattr(bulk, "MAX_DONE", 1_000)
    monkeypatch.setattr(bulk, "MAX_LOOKED_AHEAD", 1)
    done = await act(bulk_of, "cancel")
    assert (done.done, done.remaining, done.next_before) == (1_000, 39_000, jobs[40_000].id)
    counted = await act(bulk_of, "cancel", dry_run=True, before=done.next_before)
    assert (counted.matched, counted.next_before) == (40_000, None)
