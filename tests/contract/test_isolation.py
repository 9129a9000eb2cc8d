"""Neighbours do not disturb each other; what waits is bounded; the end drains; processes share a database."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.domain.job import Job
from rota.errors import InternalError, NotFound, RotaError, Unavailable
from rota.store.base import Beaten, Store
from tests.contract.conftest import Place
from tests.contract.factories import (
    ACTOR,
    agree,
    claim_of,
    ending,
    enqueued,
    finished,
    held_up,
    ids,
    new_job,
    pass_time,
    put_type,
    running,
    settled,
    sign,
    stored,
)

UNSTORABLE: Any = {"priority": "high"}
"""No column takes it: the statement itself raises."""


async def test_only_the_caller_of_a_statement_that_raises_gets_the_error(store: Store) -> None:
    jobs = [await running(store) for _ in range(3)]
    async with held_up(store):
        good = [asyncio.create_task(store.enqueue([new_job()])) for _ in range(3)]
        bad = asyncio.create_task(store.enqueue([new_job(), new_job(**UNSTORABLE)]))
        good += [asyncio.create_task(store.enqueue([new_job()])) for _ in range(3)]
        done = asyncio.create_task(store.finish([ending(jobs[0])]))
        beat = asyncio.create_task(store.heartbeat([sign(jobs[1], log="x")]))
        gone = asyncio.create_task(store.cancel(10**17, EVERYTHING, ACTOR))
        claim = asyncio.create_task(store.claim(claim_of(100)))
        await asyncio.sleep(0)
    with pytest.raises(InternalError):
        await bad
    with pytest.raises(NotFound):
        await gone
    created = [(await task)[0].job for task in good]
    assert ids(await claim) == sorted(ids(created))
    (ended,) = await done
    assert isinstance(ended, Job)
    assert ended.status == "completed"
    assert isinstance((await beat)[0], Beaten)
    lines = await store.reader.logs(jobs[1].id, EVERYTHING, limit=9)
    assert [line.text for line in lines or []] == ["x"]


async def test_of_a_list_that_raises_nothing_is_stored(store: Store) -> None:
    with pytest.raises(InternalError):
        await store.enqueue([new_job(idempotency_key="k"), new_job(**UNSTORABLE)])
    (verdict,) = await store.enqueue([new_job(idempotency_key="k")])
    assert verdict.created


async def test_a_row_that_cannot_be_written_fails_its_caller_alone(store: Store, place: Place) -> None:
    spoiled, sound = await running(store), await running(store)
    place.spoil(spoiled)
    async with held_up(store):
        bad = asyncio.create_task(store.finish([ending(spoiled, "fail")]))
        good = asyncio.create_task(store.finish([ending(sound, "fail")]))
        await asyncio.sleep(0)
    with pytest.raises(InternalError):
        await bad
    assert isinstance((await good)[0], Job)
    assert await stored(store, spoiled) == spoiled


async def test_a_waiting_claim_that_raises_fails_no_enqueue_that_wakes_it(store: Store) -> None:
    judged = 0

    def judge() -> RotaError | None:
        nonlocal judged
        judged += 1
        if judged > 1:
            raise ZeroDivisionError
        return None

    bad = asyncio.create_task(store.claim(claim_of(), wait_seconds=50, judge=judge))
    await settled(store)
    (job,) = await enqueued(store, new_job())
    with pytest.raises(InternalError):
        await asyncio.wait_for(bad, 10)
    assert ids(await store.claim(claim_of())) == [job.id]


async def test_claims_that_wait_survive_a_neighbour_that_raises(store: Store) -> None:
    waiting = asyncio.create_task(store.claim(claim_of(), wait_seconds=50))
    await settled(store)
    async with held_up(store):
        bad = asyncio.create_task(store.enqueue([new_job(**UNSTORABLE)]))
        good = asyncio.create_task(store.enqueue([new_job()]))
        await asyncio.sleep(0)
    with pytest.raises(InternalError):
        await bad
    assert ids(await asyncio.wait_for(waiting, 10)) == [(await good)[0].job.id]


async def test_a_refused_change_leaves_nothing_of_itself(store: Store) -> None:
    def refuse(_: object) -> None:
        raise NotFound("no")

    with pytest.raises(NotFound):
        await put_and_refuse(store, refuse)
    (kind,) = await store.reader.types()
    assert kind.description == ""


async def put_and_refuse(store: Store, refuse: Any) -> None:
    (kind,) = await store.reader.types()
    await store.put_type(kind, ACTOR, refuse)


# --- what waits is bounded ------------------------------------------------------------------------


async def test_beyond_ten_thousand_waiting_callers_enqueues_are_refused_and_finishes_are_taken(
    store: Store,
) -> None:
    job = await running(store)
    async with held_up(store):
        waiting = [asyncio.create_task(store.enqueue([new_job()])) for _ in range(10_000)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as refused:
            await store.enqueue([new_job()])
        assert refused.value.retry_after == 1
        finishing = asyncio.create_task(store.finish([ending(job)]))
        beating = asyncio.create_task(store.heartbeat([sign(job)]))
        await asyncio.sleep(0)
        assert not finishing.done()
        assert not beating.done()
    assert (await finishing)[0].status == "completed"  # type: ignore[union-attr]
    verdicts = [await task for task in waiting]
    assert all(verdict.created for (verdict,) in verdicts)
    assert (await store.enqueue([new_job()]))[0].created


async def test_beyond_64_mib_waiting_enqueues_are_refused_whole_and_finishes_are_taken(store: Store) -> None:
    job = await running(store)
    megabyte = b'"' + b"x" * 1_048_574 + b'"'
    async with held_up(store):
        large = [new_job(payload=megabyte) for _ in range(63)]
        waiting = asyncio.create_task(store.enqueue(large))
        await asyncio.sleep(0)
        with pytest.raises(Unavailable):
            # 2,001 jobs are several members; the last of them alone would find room.
            await store.enqueue([new_job(idempotency_key="k", payload=megabyte), *[new_job()] * 2_000])
        finishing = asyncio.create_task(store.finish([ending(job, result=megabyte)]))
        await asyncio.sleep(0)
        assert not finishing.done()
    await finishing
    assert len(await waiting) == 63
    assert (await store.enqueue([new_job(idempotency_key="k")]))[0].created


# --- the end --------------------------------------------------------------------------------------


async def test_close_finishes_what_waits_ends_waiting_claims_and_refuses_the_rest(
    store: Store, place: Place
) -> None:
    job = await running(store)
    parked = asyncio.create_task(store.claim(claim_of(), wait_seconds=50))
    await settled(store)
    async with held_up(store):
        enqueuing = asyncio.create_task(store.enqueue([new_job()]))
        finishing = asyncio.create_task(store.finish([ending(job)], answer=False))
        late = asyncio.create_task(store.claim(claim_of(owner="t-late"), wait_seconds=50))
        await asyncio.sleep(0)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(0)
        for verb in (store.enqueue([new_job()]), store.sweep(), store.claim(claim_of())):
            with pytest.raises(Unavailable):
                await verb
    (verdict,) = await enqueuing
    assert await finishing == [None]
    assert await parked == []
    assert await late == []
    await closing
    other = await place.open()
    assert (await stored(other, verdict.job)).status == "pending"
    assert (await stored(other, job)).status == "completed"


async def test_a_closed_store_answers_no_read(store: Store) -> None:
    await store.close()
    with pytest.raises(Unavailable):
        await store.reader.types()
    await store.close()


# --- several stores on one database ---------------------------------------------------------------


async def test_a_commit_of_another_process_wakes_a_waiting_claim_soon(store: Store, place: Place) -> None:
    other = await place.open()
    loop = asyncio.get_running_loop()
    delays = []
    for _ in range(3):
        waiting = asyncio.create_task(other.claim(claim_of(), wait_seconds=50))
        await settled(other)
        (job,) = await enqueued(store, new_job())
        began = loop.time()
        (got,) = await asyncio.wait_for(waiting, 10)
        delays.append(loop.time() - began)
        assert got.id == job.id
        await finished(store, got)
    assert min(delays) < 0.5


async def test_fifty_enqueues_with_one_key_over_two_processes_create_one_job(
    store: Store, place: Place
) -> None:
    other = await place.open()
    verdicts = await asyncio.gather(
        *((store, other)[n % 2].enqueue([new_job(idempotency_key="k"), new_job()]) for n in range(50))
    )
    assert sum(keyed.created for keyed, _ in verdicts) == 1
    assert len({keyed.job.id for keyed, _ in verdicts}) == 1
    assert len({free.job.id for _, free in verdicts}) == 50


async def test_two_processes_never_hand_out_the_same_job(store: Store, place: Place) -> None:
    other = await place.open()
    jobs = [verdict.job.id for verdict in await store.enqueue([new_job() for _ in range(300)])]
    answers = await asyncio.gather(*((store, other)[n % 2].claim(claim_of(7)) for n in range(60)))
    assert sorted(job.id for answer in answers for job in answer) == jobs


async def test_types_changed_by_another_process_hold_at_once(
    store: Store, place: Place, clock: FakeClock
) -> None:
    other = await place.open()
    await enqueued(other, new_job())
    assert len(await other.claim(claim_of())) == 1
    await enqueued(other, new_job())
    await store.pause_type("work", True, ACTOR, agree)
    assert await other.claim(claim_of()) == []
    before = other.reader.types_version()
    await put_type(store, "work", lease_seconds=7)
    (job,) = await other.claim(claim_of())
    assert job.lease_seconds == 7
    assert other.reader.types_version() > before


async def test_sweeps_of_two_processes_count_a_lost_worker_once(
    store: Store, place: Place, clock: FakeClock
) -> None:
    other = await place.open()
    job = await running(store)
    recovered = await pass_time(store, clock, 29)
    for _ in range(4):
        clock.advance(1)
        recovered += sum(swept.recovered for swept in await asyncio.gather(store.sweep(), other.sweep()))
    assert recovered == 1
    assert (await stored(store, job)).failures == 1


async def test_a_lease_given_by_one_process_is_finished_through_another(store: Store, place: Place) -> None:
    other = await place.open()
    assert (await finished(other, await running(store))).status == "completed"
