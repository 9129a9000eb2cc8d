"""The sweep: delayed jobs become ready, lapsed leases are counted and given to others."""

from __future__ import annotations

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.domain.job import WORKER_LOST
from rota.store.base import Store, Swept
from tests.contract.conftest import Place
from tests.contract.factories import (
    ACTOR,
    beaten,
    claim_of,
    enqueued,
    finished,
    ids,
    new_job,
    pass_time,
    put_type,
    running,
    stored,
)


async def test_delayed_jobs_become_ready_when_their_time_has_come_and_not_before(
    store: Store, clock: FakeClock
) -> None:
    later, soon = await enqueued(store, new_job(delay_seconds=9), new_job(delay_seconds=5))
    clock.advance(4.999)
    assert await store.sweep() == Swept()
    clock.advance(0.001)
    assert await store.sweep() == Swept(promoted=1)
    assert await store.sweep() == Swept()
    clock.advance(4)
    assert await store.sweep() == Swept(promoted=1)
    assert ids(await store.claim(claim_of(5))) == [later.id, soon.id]  # a promoted job keeps its place


async def test_a_lapsed_lease_is_a_counted_attempt_and_ready_at_once(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    assert await pass_time(store, clock, 30) == 0
    assert await pass_time(store, clock, 1) == 1
    back = await stored(store, job)
    assert (back.status, back.due_at, back.retry_count, back.failures) == ("pending", None, 1, 1)
    assert (back.error, back.owner, back.lease_token) == (WORKER_LOST, None, None)
    attempts = await store.reader.attempts(job.id, EVERYTHING)
    assert attempts is not None
    assert [(each.attempt, each.error, each.worker_id) for each in attempts] == [
        (1, WORKER_LOST, "t-worker/1")
    ]
    assert (await store.sweep()).recovered == 0


async def test_a_job_that_loses_every_worker_starts_once_more_than_it_has_retries(
    store: Store, clock: FakeClock
) -> None:
    await put_type(store, "work", lease_seconds=2)
    await enqueued(store, new_job(max_retries=2))
    starts = 0
    while jobs := await store.claim(claim_of()):
        starts += 1
        await pass_time(store, clock, 4)
    ended = await stored(store, (await enqueued(store, new_job()))[0])
    lost = await store.reader.job(ended.id - 1, EVERYTHING)
    assert lost is not None
    assert (starts, jobs, lost.status, lost.error) == (3, [], "failed", WORKER_LOST)


async def test_the_lease_of_a_worker_that_beats_is_left_alone(store: Store, clock: FakeClock) -> None:
    alive, dead = await running(store), await running(store, owner="t-dead")
    for _ in range(5):
        await beaten(store, alive)
        await pass_time(store, clock, 10)
    assert (await stored(store, alive)).status == "running"
    assert (await stored(store, dead)).status == "pending"


async def test_the_same_owner_under_the_same_name_does_not_keep_a_dead_job(
    store: Store, clock: FakeClock
) -> None:
    old, new = await running(store), await running(store)
    for _ in range(4):
        await beaten(store, new)
        await pass_time(store, clock, 10)
    assert (await stored(store, old)).failures == 1
    assert (await stored(store, new)).failures == 0


@pytest.mark.parametrize("outage", [3, 60, 86_400])
async def test_an_outage_does_not_count_against_living_workers(
    store: Store, clock: FakeClock, outage: float
) -> None:
    job = await running(store)
    await pass_time(store, clock, 5)
    clock.advance(outage)
    assert (await store.sweep()).recovered == 0
    assert await pass_time(store, clock, 12) == 0  # a heartbeat and two seconds
    await beaten(store, job)
    assert await pass_time(store, clock, 25) == 0
    assert (await finished(store, job)).failures == 0


async def test_after_an_outage_dead_workers_are_found_one_heartbeat_and_two_seconds_later(
    store: Store, clock: FakeClock
) -> None:
    await running(store)
    await pass_time(store, clock, 5)
    clock.advance(60)
    await store.sweep()
    assert await pass_time(store, clock, 12) == 0
    assert await pass_time(store, clock, 1) == 1


async def test_a_pause_of_two_seconds_is_no_outage(store: Store, clock: FakeClock) -> None:
    await running(store)
    await store.sweep()
    for _ in range(15):
        clock.advance(2)
        assert (await store.sweep()).recovered == 0
    clock.advance(2)
    assert (await store.sweep()).recovered == 1


async def test_jobs_spared_after_an_outage_keep_nobody_else_from_recovery(
    store: Store, clock: FakeClock
) -> None:
    await put_type(store, "long", lease_seconds=3_600)
    await store.enqueue([new_job("long") for _ in range(1_100)])
    for _ in range(2):
        await store.claim(claim_of(550, owner="t-a", types=frozenset({"long"})))
    await store.sweep()
    clock.advance(4_000)
    await running(store, owner="t-b")
    assert await pass_time(store, clock, 40) == 1


async def test_a_lapsed_job_that_was_asked_to_stop_is_cancelled(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    await store.cancel(job.id, EVERYTHING, ACTOR)
    await pass_time(store, clock, 31)
    assert (await stored(store, job)).status == "cancelled"


async def test_a_row_that_cannot_be_recovered_is_left_and_stops_no_other(
    store: Store, clock: FakeClock, place: Place
) -> None:
    spoiled, sound = await running(store), await running(store)
    place.spoil(spoiled)
    assert await pass_time(store, clock, 31) == 1
    assert (await stored(store, spoiled)).status == "running"
    assert (await stored(store, sound)).status == "pending"


async def test_more_than_a_thousand_are_taken_over_several_sweeps(store: Store, clock: FakeClock) -> None:
    await store.enqueue([new_job(delay_seconds=1) for _ in range(1_200)])
    clock.advance(1)
    assert [(await store.sweep()).promoted for _ in range(3)] == [1_000, 200, 0]
