"""Workers and their handlers: announced, listed, asked to drain, forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING, Visibility
from rota.domain.job import MAX_WORKERS
from rota.errors import Conflict, Forbidden, NotFound
from rota.store.base import Store
from rota.store.records import Announcement, Handler, WorkerRecord
from tests.contract.factories import ACTOR, agree, running

SEND = Handler("mail.send", "Sends a mail", '{"type":"object"}')
PRINT = Handler("print", "", None)


def about(instance: str = "one", *handlers: Handler, **fields: Any) -> Announcement:
    given: dict[str, Any] = {
        "owner": "t-worker",
        "worker_id": f"worker/{instance}",
        "host": "host",
        "pid": 7,
        "version": "1",
        "concurrency": 4,
        "run": "first",
        "digest": repr(handlers).encode(),
    }
    return Announcement(instance=instance, handlers=handlers, **given | fields)


async def listed(store: Store, names: frozenset[str] | None = None) -> list[WorkerRecord]:
    return await store.reader.workers(names, limit=50)


async def test_a_worker_is_listed_with_what_it_said_last(store: Store, clock: FakeClock) -> None:
    assert await store.announce_worker(about("one", SEND, PRINT)) is False
    clock.advance(30)
    await store.announce_worker(about("one", SEND, concurrency=9))
    (worker,) = await listed(store)
    assert (worker.concurrency, worker.handlers) == (9, ("mail.send",))
    assert worker.last_seen_at - worker.first_seen_at == 30_000


async def test_a_name_belongs_to_the_token_that_announced_it(store: Store) -> None:
    await store.announce_worker(about("one", SEND))
    with pytest.raises(Conflict):
        await store.announce_worker(about("one", PRINT, owner="t-other"))
    (worker,) = await listed(store)
    assert (worker.owner, worker.handlers) == ("t-worker", ("mail.send",))


async def test_a_worker_is_told_to_drain_until_another_process_has_its_name(store: Store) -> None:
    await store.announce_worker(about("one", SEND))
    (worker,) = await listed(store)
    drained = await store.drain_worker(worker.id, ACTOR, agree)
    assert drained.drain_requested
    assert await store.announce_worker(about("one", SEND)) is True
    assert await store.announce_worker(about("one", SEND)) is True
    assert await store.announce_worker(about("one", SEND, run="second")) is False
    assert await store.announce_worker(about("one", SEND, run="first")) is False


async def test_who_may_not_drain_leaves_no_trace(store: Store) -> None:
    await store.announce_worker(about("one", SEND))
    (worker,) = await listed(store)

    def refuse(stored: WorkerRecord) -> None:
        assert stored.handlers == ("mail.send",)
        raise Forbidden("no")

    with pytest.raises(Forbidden):
        await store.drain_worker(worker.id, ACTOR, refuse)
    with pytest.raises(NotFound):
        await store.drain_worker(worker.id + 1, ACTOR, agree)
    assert await store.announce_worker(about("one", SEND)) is False


async def test_who_has_not_been_seen_is_forgotten_with_its_handlers(store: Store, clock: FakeClock) -> None:
    await store.announce_worker(about("one", SEND))
    seen = clock.advance(60)
    await store.announce_worker(about("two", PRINT))
    assert await store.forget_workers(seen) == 1
    assert [each.instance for each in await listed(store)] == ["two"]
    assert [each.name for each in await store.reader.handlers(None, limit=50, skipped=0)] == ["print"]


async def test_lists_are_narrowed_to_types_and_come_in_pages(store: Store) -> None:
    for n, handlers in enumerate([(SEND,), (PRINT,), (SEND, PRINT)]):
        await store.announce_worker(about(f"w{n}", *handlers))
    assert [each.instance for each in await listed(store, frozenset({"mail.send"}))] == ["w2", "w0"]
    (newest,) = await store.reader.workers(None, limit=1)
    assert [each.instance for each in await store.reader.workers(None, limit=1, before=newest.id)] == ["w1"]


async def test_the_catalogue_has_one_entry_a_type_as_described_last(store: Store, clock: FakeClock) -> None:
    await store.announce_worker(about("one", Handler("mail.send", "old", None), PRINT))
    clock.advance(1)
    await store.announce_worker(about("two", SEND, owner="t-b", worker_id="other/two"))
    send, printing = await store.reader.handlers(None, limit=50, skipped=0)
    assert (send.description, send.schema, send.workers) == ("Sends a mail", '{"type":"object"}', 2)
    assert send.announced_by == ("other", "worker")
    assert printing.workers == 1
    assert await store.reader.handlers(None, limit=50, skipped=1) == [printing]
    assert await store.reader.handlers(frozenset({"print"}), limit=50, skipped=0) == [printing]


async def test_jobs_held_are_counted_for_each_worker_within_the_range(store: Store) -> None:
    job = await running(store)
    assert await store.reader.count_held(EVERYTHING) == {job.worker_id: 1}
    elsewhere = Visibility(reads_all=True, types=frozenset({"other"}))
    assert await store.reader.count_held(elsewhere) == {}


async def test_no_more_workers_are_listed_than_there_is_room_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_WORKERS == 1_000
    monkeypatch.setattr("rota.store.sqlite.workers.MAX_WORKERS", 2)
    await store.announce_worker(about("one"))
    await store.announce_worker(about("two"))
    with pytest.raises(Conflict):
        await store.announce_worker(about("three"))
    await store.announce_worker(about("one", PRINT))
