"""Enqueue: what is stored, and what a key or request_uid that is known gives."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.store.base import Enqueued, JobFilter, Store
from tests.contract.factories import (
    SIXTY_FOUR_KIB,
    claim_of,
    enqueued,
    finished,
    held_up,
    new_job,
    put_type,
    running,
    stored,
)


async def count(store: Store) -> int:
    page = await store.reader.jobs(JobFilter(), EVERYTHING, limit=10_000)
    return len(page.jobs)


async def test_an_answer_shows_the_job_exactly_as_it_is_stored(store: Store, clock: FakeClock) -> None:
    asked = new_job(
        payload=b'{"id":1970670598291982290}',
        idempotency_key="k",
        run_at=clock.now() + 5,
        timeout_seconds=1.5,
        traceparent="00-1-2-01",
    )
    (verdict,) = await store.enqueue([asked])
    assert verdict.created
    assert verdict.job == await stored(store, verdict.job)
    assert verdict.job.payload == b'{"id":1970670598291982290}'


async def test_a_delay_counts_from_the_commit_and_makes_the_job_due_later(
    store: Store, clock: FakeClock
) -> None:
    (delayed,) = await enqueued(store, new_job(delay_seconds=1.5))
    assert (delayed.run_at, delayed.due_at) == (clock.now() + 1_500, clock.now() + 1_500)
    assert await store.claim(claim_of()) == []


async def test_a_run_at_that_has_passed_is_ready_at_once(store: Store, clock: FakeClock) -> None:
    (job,) = await enqueued(store, new_job(run_at=clock.now()))
    assert (job.run_at, job.due_at) == (clock.now(), None)
    assert len(await store.claim(claim_of())) == 1


async def test_fifty_enqueues_at_once_with_one_key_create_one_job(store: Store) -> None:
    verdicts = await asyncio.gather(*(store.enqueue([new_job(idempotency_key="k")]) for _ in range(50)))
    assert sum(verdict.created for (verdict,) in verdicts) == 1
    assert len({verdict.job.id for (verdict,) in verdicts}) == 1
    assert await count(store) == 1


async def test_fifty_enqueues_at_once_with_one_request_uid_create_one_job(store: Store) -> None:
    uid = uuid.uuid4().bytes
    verdicts = await asyncio.gather(*(store.enqueue([new_job(request_uid=uid)]) for _ in range(50)))
    assert sum(verdict.created for (verdict,) in verdicts) == 1
    assert await count(store) == 1


async def test_a_key_twice_in_one_batch_is_created_once_and_then_found(store: Store) -> None:
    first, other, second = await store.enqueue(
        [new_job(idempotency_key="k"), new_job(), new_job(idempotency_key="k")]
    )
    assert (first.created, other.created, second.created) == (True, True, False)
    assert second.job.id == first.job.id
    assert other.job.id != first.job.id


async def test_keys_and_uids_are_each_producers_own(store: Store) -> None:
    uid = uuid.uuid4().bytes
    mine, theirs = await store.enqueue(
        [
            new_job(idempotency_key="k", request_uid=uid, producer="t-a"),
            new_job(idempotency_key="k", request_uid=uid, producer="t-b"),
        ]
    )
    assert mine.created
    assert theirs.created


async def test_a_known_key_with_other_payload_or_type_is_told_as_a_mismatch(store: Store) -> None:
    async def again(**fields: Any) -> list[Enqueued]:
        return await store.enqueue([new_job(idempotency_key="k", **fields)])

    (first,) = await again(payload=b"1")
    verdicts = [(await again(payload=b"1"))[0], (await again(payload=b"2"))[0]]
    verdicts += await store.enqueue([new_job("other", idempotency_key="k", payload=b"1")])
    assert [verdict.mismatch for verdict in verdicts] == [False, True, True]
    assert {verdict.job.id for verdict in verdicts} == {first.job.id}
    assert [verdict.job.payload for verdict in verdicts] == [b"1"] * 3


async def test_the_request_uid_decides_before_the_key(store: Store) -> None:
    uid = uuid.uuid4().bytes
    by_uid, by_key = await enqueued(store, new_job(request_uid=uid), new_job(idempotency_key="k"))
    (verdict,) = await store.enqueue([new_job(request_uid=uid, idempotency_key="k")])
    assert verdict.job.id == by_uid.id != by_key.id


async def test_a_known_key_gives_the_job_as_it_is_by_now(store: Store) -> None:
    done = await finished(store, await running(store, idempotency_key="k"), result=b"42")
    (verdict,) = await store.enqueue([new_job(idempotency_key="k")])
    assert (verdict.created, verdict.job) == (False, done)
    assert await store.claim(claim_of()) == []


async def test_a_batch_answers_in_the_order_asked(store: Store) -> None:
    await enqueued(store, new_job(idempotency_key="7"))
    verdicts = await store.enqueue(
        [new_job(payload=str(i).encode(), idempotency_key=str(i)) for i in range(20)]
    )
    assert [verdict.created for verdict in verdicts] == [i != 7 for i in range(20)]
    assert [verdict.job.payload for verdict in verdicts if verdict.created] == [
        str(i).encode() for i in range(20) if i != 7
    ]
    created = [verdict.job.id for verdict in verdicts if verdict.created]
    assert created == sorted(created)


async def test_each_of_many_callers_gets_its_own_verdicts(store: Store) -> None:
    await enqueued(store, new_job(idempotency_key="3-1"))

    async def call(n: int) -> None:
        jobs = [new_job(payload=f'"{n}-{i}"'.encode(), idempotency_key=f"{n}-{i}") for i in range(n % 4 + 1)]
        verdicts = await store.enqueue(jobs)
        assert [verdict.job.idempotency_key for verdict in verdicts] == [job.idempotency_key for job in jobs]
        assert [verdict.created for verdict in verdicts] == [job.idempotency_key != "3-1" for job in jobs]

    async with asyncio.TaskGroup() as calls, held_up(store):
        for n in range(40):
            calls.create_task(call(n))
        await asyncio.sleep(0)


async def test_five_hundred_jobs_of_sixty_kib_and_five_thousand_small_ones_are_stored(store: Store) -> None:
    large = await store.enqueue([new_job(payload=SIXTY_FOUR_KIB) for _ in range(500)], atomic=True)
    small = await store.enqueue([new_job() for _ in range(5_000)])
    assert all(verdict.created for verdict in large + small)
    assert len({verdict.job.id for verdict in large + small}) == 5_500
    assert (await stored(store, large[-1].job)).payload == SIXTY_FOUR_KIB


async def test_nothing_asked_is_nothing_answered(store: Store) -> None:
    assert await store.enqueue([]) == []
    assert await store.enqueue([], atomic=True) == []
    assert await store.finish([]) == []
    assert await store.heartbeat([]) == []


async def test_ids_are_never_given_twice(store: Store) -> None:
    first = await enqueued(store, new_job(), new_job(idempotency_key="k"))
    again = await enqueued(store, new_job(idempotency_key="k"), new_job(idempotency_key="k"), new_job())
    assert again[0].id == again[1].id == first[1].id
    assert again[2].id not in {job.id for job in first}


async def test_a_job_for_a_paused_type_is_stored(store: Store) -> None:
    await put_type(store, "work", paused=True)
    (verdict,) = await store.enqueue([new_job()])
    assert verdict.created
