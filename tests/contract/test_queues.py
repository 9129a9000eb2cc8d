"""Queues: made, paused, resumed, counted."""

from __future__ import annotations

import asyncio

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING, Visibility
from rota.domain.job import MAX_QUEUES
from rota.errors import Conflict, NotFound
from rota.store.base import Store
from rota.store.records import LaneCount
from tests.contract.conftest import Place
from tests.contract.factories import ACTOR, at_once, claim_of, enqueued, ids, new_job, put_type, settled


async def test_a_queue_is_made_once_and_keeps_its_pause(store: Store, clock: FakeClock) -> None:
    made, new = await store.put_queue("mail", True, ACTOR)
    assert (made.name, made.paused, made.created_at, new) == ("mail", True, clock.now(), True)
    clock.advance(5)
    assert await store.put_queue("mail", None, ACTOR) == (made, False)
    resumed, new = await store.put_queue("mail", False, ACTOR)
    assert (resumed.paused, resumed.created_at, resumed.updated_at, new) == (
        *(False, made.created_at, clock.now(), False),
    )
    assert await store.reader.queues() == [resumed]


async def test_a_paused_queue_hands_nothing_out_until_it_is_resumed(store: Store) -> None:
    mail, other = await enqueued(store, new_job(queue="mail"), new_job())
    await store.put_queue("mail", None, ACTOR)
    assert (await store.pause_queue("mail", True, ACTOR)).paused
    assert ids(await store.claim(claim_of(5))) == [other.id]
    assert not (await store.pause_queue("mail", False, ACTOR)).paused
    assert ids(await store.claim(claim_of(5))) == [mail.id]


async def test_resuming_wakes_a_waiting_claim(store: Store) -> None:
    await store.pause_queue("default", True, ACTOR)
    (job,) = await enqueued(store, new_job())
    waiting = asyncio.create_task(store.claim(claim_of(), wait_seconds=30))
    await settled(store)
    assert not waiting.done()
    await store.pause_queue("default", False, ACTOR)
    assert ids(await at_once(waiting)) == [job.id]


async def test_a_pause_holds_in_every_process(store: Store, place: Place) -> None:
    neighbour = await place.open()
    await enqueued(store, new_job(), new_job())
    assert len(await neighbour.claim(claim_of())) == 1
    await store.pause_queue("default", True, ACTOR)
    assert await neighbour.claim(claim_of()) == []


async def test_a_queue_that_nobody_names_cannot_be_paused(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.pause_queue("mail", True, ACTOR)
    await put_type(store, "send", queue="mail")
    assert (await store.pause_queue("mail", True, ACTOR)).paused
    assert (await store.pause_queue("default", True, ACTOR)).paused


async def test_queues_are_limited_in_number(store: Store) -> None:
    await asyncio.gather(*(store.put_queue(f"q{n}", None, ACTOR) for n in range(MAX_QUEUES)))
    with pytest.raises(Conflict):
        await store.put_queue("one-more", None, ACTOR)
    await store.put_queue("q0", True, ACTOR)


async def test_lanes_are_counted_within_the_readers_range(store: Store, clock: FakeClock) -> None:
    begun = clock.now()
    await enqueued(store, new_job(), new_job(priority=20))
    clock.advance(3)
    await enqueued(store, new_job(), new_job(delay_seconds=60), new_job("other", queue="mail"))
    await store.claim(claim_of(1))
    lanes = await store.reader.count_lanes(EVERYTHING)
    assert lanes == [
        LaneCount("default", "work", ready=2, ready_since=begun, delayed=1, running=1),
        LaneCount("mail", "other", ready=1, ready_since=clock.now(), delayed=0, running=0),
    ]
    for visibility in (
        Visibility(reads_all=True, types=frozenset({"other"})),
        Visibility(reads_all=True, queues=frozenset({"mail"})),
    ):
        assert await store.reader.count_lanes(visibility) == lanes[1:]


async def test_the_count_of_a_lane_stops_at_ten_thousand(store: Store) -> None:
    await enqueued(store, *(new_job() for _ in range(10_010)))
    (lane,) = await store.reader.count_lanes(EVERYTHING)
    assert lane.ready == 10_000


async def test_pending_jobs_are_counted_by_producer_once_there_are_enough(store: Store) -> None:
    await enqueued(store, new_job(producer="t-a"), new_job(producer="t-a", delay_seconds=9))
    await enqueued(store, new_job(producer="t-b"))
    assert await store.reader.pending_by_producer(4) == {}
    assert await store.reader.pending_by_producer(3) == {"t-a": 2, "t-b": 1}
    await store.claim(claim_of())
    assert await store.reader.pending_by_producer(1) == {"t-a": 1, "t-b": 1}


async def test_ended_jobs_are_told_from_those_that_go_on(store: Store) -> None:
    first, second = await enqueued(store, new_job(), new_job())
    await store.cancel(first.id, EVERYTHING, ACTOR)
    assert await store.reader.ended_of([first.id, second.id, 10**15]) == [first.id, 10**15]
