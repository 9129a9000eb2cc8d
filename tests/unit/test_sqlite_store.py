"""What only the SQLite store does: locks of others, reads that are cut short, durable commits."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.errors import Unavailable
from rota.store.base import JobFilter, JobPage
from rota.store.sqlite import writer
from rota.store.sqlite.connection import immediate, open_reader, open_writer
from rota.store.sqlite.reading import _page
from rota.store.sqlite.store import SqliteStore
from tests.contract.factories import claim_of, enqueued, held_up, ids, new_job, put_type, running, settled


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rota.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(path, FakeClock())
    await put_type(store, "work")
    yield store
    await store.close()


async def test_a_lock_that_never_ends_is_told_to_all_who_wait_at_once(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "immediate", partial(immediate, seconds=0.3))
    loop = asyncio.get_running_loop()
    other = open_writer(path)
    async with held_up(store):
        waiting = [asyncio.create_task(store.enqueue([new_job()])) for _ in range(50)]
        await asyncio.sleep(0)
    immediate(other)
    began = loop.time()
    answers = await asyncio.gather(*waiting, store.enqueue([new_job()]), return_exceptions=True)
    took = loop.time() - began
    other.rollback()
    other.close()
    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert {type(answer) for answer in refused} == {Unavailable}
    assert took < 5
    assert (await store.enqueue([new_job()]))[0].created


async def test_a_lock_of_another_process_is_waited_for(store: SqliteStore, path: Path) -> None:
    other = open_writer(path)
    immediate(other)
    enqueuing = asyncio.create_task(store.enqueue([new_job()]))
    await asyncio.wait([enqueuing], timeout=0.2)
    assert not enqueuing.done()
    other.rollback()
    other.close()
    assert (await enqueuing)[0].created


async def test_many_callers_share_one_commit(store: SqliteStore) -> None:
    async with held_up(store):
        waiting = [asyncio.create_task(store.enqueue([new_job()])) for _ in range(100)]
        waiting.append(asyncio.create_task(store.enqueue([new_job() for _ in range(800)])))
        await asyncio.sleep(0)
        before = store.commits
    await asyncio.gather(*waiting)
    assert store.commits == before + 2  # the one that held them up, and theirs


async def test_an_enqueue_and_the_claim_that_waits_for_it_are_one_transaction(store: SqliteStore) -> None:
    waiting = asyncio.create_task(store.claim(claim_of(), wait_seconds=50))
    await settled(store)
    before = store.commits
    (job,) = await enqueued(store, new_job())
    assert ids(await waiting) == [job.id]
    assert store.commits == before + 1


async def test_claims_for_lanes_known_to_be_dry_cost_no_transaction(store: SqliteStore) -> None:
    waiting = asyncio.create_task(store.claim(claim_of(), wait_seconds=50))
    await settled(store)
    before = store.commits
    for _ in range(20):
        assert await store.claim(claim_of()) == []
    assert store.commits <= before + 2  # the poll of those that wait
    waiting.cancel()


async def test_the_live_connection_syncs_every_commit(store: SqliteStore) -> None:
    asked = store._writer._connection
    assert asked.execute("PRAGMA synchronous").fetchone() == (2,)
    assert asked.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_ended_claims_are_not_kept_for_long(store: SqliteStore) -> None:
    for n in range(50):
        claim = claim_of(types=frozenset({f"type-{n}"}))
        assert await store.claim(claim, wait_seconds=0.001) == []
    parked = store._batcher._parked
    for _ in range(200):
        await asyncio.sleep(0.05)
        if not parked:
            break
    assert not parked


# --- reads that are cut short ---------------------------------------------------------------------


def page(connection: sqlite3.Connection, before: int = 2**62) -> JobPage:
    return _page(connection, JobFilter(text="needle"), EVERYTHING, 10, before)


def interrupt_after(connection: sqlite3.Connection, steps: int) -> Callable[[], int]:
    taken = 0

    def look() -> int:
        nonlocal taken
        taken += 1
        return taken > steps

    connection.set_progress_handler(look, 100)
    return lambda: taken


async def test_a_search_that_is_cut_short_answers_with_what_it_has_seen_and_where_to_go_on(
    store: SqliteStore, path: Path
) -> None:
    needles = [await running(store, payload=b'"needle"') for _ in range(2)]
    await store.enqueue([new_job() for _ in range(4_000)])
    connection = open_reader(path)
    whole = interrupt_after(connection, 10**9)
    assert ids(page(connection).jobs) == ids(needles)[::-1]
    half = whole() // 2
    interrupt_after(connection, half)
    first = page(connection)
    assert first.jobs == []
    assert first.next_before is not None
    interrupt_after(connection, 10**9)
    assert ids(page(connection, first.next_before).jobs) == ids(needles)[::-1]
    interrupt_after(connection, 1)
    with pytest.raises(sqlite3.OperationalError):
        page(connection)
    connection.close()
