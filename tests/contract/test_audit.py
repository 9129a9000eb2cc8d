"""The audit: one row for each change, in its transaction; nothing confidential; sealed; never deleted."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from msgspec import json
from msgspec.structs import replace

from rota.auth.seals import AuditSealer
from rota.clock import FakeClock
from rota.domain.access import EVERYTHING, Actor
from rota.domain.audit import AuditFilter, AuditRecord, Refusal
from rota.errors import NotFound, RotaError
from rota.store.base import JobType, Store
from rota.store.records import Announcement
from tests.contract.conftest import SqlitePlace
from tests.contract.factories import WORK, agree, enqueued, finished, new_job, running, token

WHO = Actor("token", "t-ann", "192.0.2.7", "req-1", "ann")
MARKER = "m4rk3r"
SEALER = AuditSealer(b"0123456789abcdefghijklmnopqrstuv" * 2)

Change = Callable[[Store], Awaitable[Any]]


async def rows(store: Store, **wanted: Any) -> list[AuditRecord]:
    return (await store.reader.audit(AuditFilter(**wanted), limit=200)).records


async def pending(store: Store) -> int:
    (job,) = await enqueued(store, new_job(payload=json.encode(MARKER), idempotency_key=None))
    return job.id


async def ended(store: Store) -> int:
    job = await finished(store, await running(store), "fail", error=MARKER, retryable=False)
    return job.id


def wanted_type(**fields: Any) -> JobType:
    return replace(WORK, **{"name": "audited", "description": MARKER, **fields})


async def cancel(store: Store) -> None:
    await store.cancel(await pending(store), EVERYTHING, WHO)


async def replay(store: Store) -> None:
    await store.replay(await ended(store), EVERYTHING, WHO)


async def delete(store: Store) -> None:
    await store.delete(await ended(store), EVERYTHING, WHO)


async def change(store: Store) -> None:
    await store.change(await pending(store), EVERYTHING, WHO, priority=20)


async def act(store: Store) -> None:
    id = await ended(store)
    await store.act("replay", [id], frozenset({"failed"}), EVERYTHING, WHO, {"type": "work", "text": MARKER})


async def put_queue(store: Store) -> None:
    await store.put_queue("slow", True, WHO)


async def pause_queue(store: Store) -> None:
    await store.pause_queue("default", True, WHO)


async def put_type(store: Store) -> None:
    await store.put_type(wanted_type(), WHO, agree)


async def delete_type(store: Store) -> None:
    await store.delete_type("work", WHO, agree)


async def pause_type(store: Store) -> None:
    await store.pause_type("work", True, WHO, agree)


async def add_token(store: Store) -> None:
    await store.add_token(token("new", hash=MARKER.encode()), WHO)


async def rotate_token(store: Store) -> None:
    await store.rotate_token("k-there", MARKER.encode(), "pepper", 60, WHO, agree)


async def revoke_token(store: Store) -> None:
    await store.revoke_token("k-there", WHO, agree)


async def resume_token(store: Store) -> None:
    await store.resume_token("k-there", WHO, agree)


async def reset_token(store: Store) -> None:
    await store.reset_token(replace(token("there"), key_id="k-else", hash=MARKER.encode()), WHO)


async def drain_worker(store: Store) -> None:
    seen = Announcement(
        instance="w1",
        owner="t-worker",
        worker_id="worker/w1",
        host=MARKER,
        pid=1,
        version="1",
        concurrency=1,
        run="r",
        handlers=(),
        digest=b"d",
    )
    await store.announce_worker(seen)
    (worker,) = await store.reader.workers(None, limit=1)
    await store.drain_worker(worker.id, WHO, agree)


VERBS: dict[Change, tuple[str, str, str | None]] = {
    cancel: ("job.cancel", "job", "1"),
    replay: ("job.replay", "job", "1"),
    delete: ("job.delete", "job", "1"),
    change: ("job.change", "job", "1"),
    act: ("jobs.replay", "job", None),
    put_queue: ("queue.put", "queue", "slow"),
    pause_queue: ("queue.pause", "queue", "default"),
    drain_worker: ("worker.drain", "worker", "1"),
    put_type: ("type.create", "type", "audited"),
    delete_type: ("type.delete", "type", "work"),
    pause_type: ("type.pause", "type", "work"),
    add_token: ("token.create", "token", "k-new"),
    rotate_token: ("token.rotate", "token", "k-there"),
    revoke_token: ("token.revoke", "token", "k-there"),
    resume_token: ("token.resume", "token", "k-there"),
    reset_token: ("token.reset", "token", "k-else"),
}


def test_every_administrative_verb_of_the_contract_is_played_here() -> None:
    administrative = {
        name
        for name, member in inspect.getmembers(Store, inspect.isfunction)
        if "actor" in inspect.signature(member).parameters
    }
    assert administrative == {verb.__name__ for verb in VERBS}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_each_change_leaves_one_row_that_says_who_where_and_what(
    store: Store, clock: FakeClock, verb: Change
) -> None:
    await store.add_token(token("there"), Actor("token", "t-other"))
    before = len(await rows(store))
    await verb(store)
    found = await rows(store)
    assert len(found) == before + 1
    row = found[0]
    assert (row.action, row.object_kind, row.object_id) == VERBS[verb]
    assert (row.actor_kind, row.actor_id, row.actor_name) == ("token", "t-ann", "ann")
    assert (row.address, row.request_id, row.at) == ("192.0.2.7", "req-1", clock.now())
    assert (row.outcome, row.times) == ("done", 1)


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_the_row_is_written_in_the_transaction_of_the_change(
    place: SqlitePlace, store: Store, verb: Change
) -> None:
    """Where the row cannot be written, the change has not happened either."""
    await store.add_token(token("there"), Actor("token", "t-other"))
    connection = sqlite3.connect(place.path, timeout=10)
    connection.execute(
        "CREATE TRIGGER no_audit BEFORE INSERT ON rota_audit WHEN new.actor_id = 't-ann' "
        "BEGIN SELECT raise(ABORT, 'full'); END"
    )
    connection.commit()
    with pytest.raises(RotaError):
        await verb(store)
    state = [
        connection.execute("SELECT status, priority FROM rota_jobs WHERE status <> 'failed'").fetchall(),
        connection.execute("SELECT name, paused FROM rota_queues").fetchall(),
        connection.execute("SELECT name, paused, deleted FROM rota_types").fetchall(),
        connection.execute("SELECT key_id, hash, revoked_at FROM rota_tokens").fetchall(),
    ]
    connection.close()
    jobs = [] if verb in (replay, delete, act) else state[0]
    assert state[0] == jobs
    assert all(row == ("pending", 10) for row in jobs)
    assert state[1:] == [[], [("work", 0, 0)], [("k-there", b"hash", None)]]


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
async def test_no_payload_error_search_text_or_secret_comes_into_it(
    place: SqlitePlace, store: Store, verb: Change
) -> None:
    await store.add_token(token("there"), Actor("token", "t-other"))
    await verb(store)
    connection = sqlite3.connect(place.path)
    told = repr(connection.execute("SELECT * FROM rota_audit").fetchall())
    connection.close()
    assert "t-ann" in told
    assert MARKER not in told


async def test_names_of_fields_are_always_kept_and_values_only_of_those_that_are_listed(store: Store) -> None:
    await store.put_type(wanted_type(max_retries=9), WHO, agree)
    await store.put_type(wanted_type(description="other", max_retries=4, queue="slow"), WHO, agree)
    replaced = (await rows(store))[0]
    assert replaced.action == "type.replace"
    assert replaced.fields == ["description", "max_retries", "queue"]
    assert replaced.values == {"max_retries": 4, "queue": "slow"}


async def test_a_bulk_action_tells_its_filter_and_how_many(store: Store) -> None:
    await act(store)
    (row,) = await rows(store, action="jobs.replay")
    assert row.values == {"filter.type": "work", "done": 1, "lowest_id": 1, "highest_id": 1}
    assert "filter.text" in row.fields


async def test_a_refused_change_leaves_no_row(store: Store) -> None:
    def refuse(_: object) -> None:
        raise NotFound("not yours")

    before = await rows(store)
    with pytest.raises(NotFound):
        await store.delete_type("work", WHO, refuse)
    with pytest.raises(NotFound):
        await store.cancel(10**17, EVERYTHING, WHO)
    assert await rows(store) == before


async def test_it_can_be_narrowed_and_read_page_by_page(store: Store, clock: FakeClock) -> None:
    start = clock.now()
    for n in range(5):
        clock.advance(1)
        await store.put_queue(f"q{n}", None, WHO if n % 2 else Actor("token", "t-bob", name="bob"))
    assert [row.object_id for row in await rows(store, object_kind="queue")] == ["q4", "q3", "q2", "q1", "q0"]
    assert [row.object_id for row in await rows(store, actor="ann")] == ["q3", "q1"]
    assert [row.object_id for row in await rows(store, actor="t-bob")] == ["q4", "q2", "q0"]
    assert [row.object_id for row in await rows(store, object_kind="queue", object_id="q2")] == ["q2"]
    between = await rows(store, since=start + 2000, until=start + 4000)
    assert [row.object_id for row in between] == ["q2", "q1"]
    seen: list[str | None] = []
    before: int | None = None
    while True:
        page = await store.reader.audit(AuditFilter(object_kind="queue"), limit=2, before=before)
        seen += [row.object_id for row in page.records]
        if page.next_before is None:
            break
        before = page.next_before
    assert seen == ["q4", "q3", "q2", "q1", "q0"]


async def test_refusals_are_counted_together(store: Store) -> None:
    refusal = Refusal(
        actor_id="t-eve",
        actor_name="eve",
        address="192.0.2.9",
        request_id="r",
        route="POST /tokens",
        times=7,
    )
    await store.record_refusals([refusal])
    (row,) = await rows(store, action="request")
    assert (row.object_kind, row.object_id, row.outcome, row.times) == ("route", "POST /tokens", "refused", 7)


async def test_the_database_itself_refuses_to_change_or_delete_a_row(
    place: SqlitePlace, store: Store
) -> None:
    await put_queue(store)
    connection = sqlite3.connect(place.path)
    for statement in ("DELETE FROM rota_audit", "UPDATE rota_audit SET actor_id = 'nobody'"):
        with pytest.raises(sqlite3.IntegrityError, match="only added to"):
            connection.execute(statement)
    connection.close()


async def test_each_seal_covers_what_came_since_the_last_one(place: SqlitePlace, store: Store) -> None:
    first = await store.seal_audit(SEALER)
    assert first is not None
    assert await store.seal_audit(SEALER) is None
    await put_queue(store)
    await pause_type(store)
    second = await store.seal_audit(SEALER)
    assert second is not None
    assert (second.records, second.last_id) == (2, first.last_id + 2)
