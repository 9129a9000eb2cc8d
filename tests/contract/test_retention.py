"""Retention: what ended long ago goes, little by little, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.domain.job import Job
from rota.services.retention import Retention
from rota.store.base import Store
from rota.store.records import Kept
from tests.contract.factories import ACTOR, enqueued, finished, new_job, running

DAY = 86_400
DAYS: Mapping[Kept, int] = {"completed": 7, "failed": 90, "cancelled": 30}


def sweep_of(store: Store, clock: FakeClock, days: Mapping[Kept, int] = DAYS) -> Retention:
    return Retention(store, clock, days, pause_seconds=0)


async def ended(store: Store, **fields: Any) -> dict[str, Job]:
    failed = await running(store, **fields)
    completed = await running(store, **fields)
    (cancelled,) = await enqueued(store, new_job(**fields))
    return {
        "failed": await finished(store, failed, "fail", error="e", retryable=False),
        "completed": await finished(store, completed),
        "cancelled": await store.cancel(cancelled.id, EVERYTHING, ACTOR),
    }


async def left(store: Store, jobs: Mapping[str, Job]) -> set[str]:
    return {name for name, job in jobs.items() if await store.reader.job(job.id, EVERYTHING) is not None}


async def test_each_status_is_kept_for_its_days(store: Store, clock: FakeClock) -> None:
    jobs = await ended(store)
    sweep = sweep_of(store, clock)
    for days, expected in (
        (7 - 0.001, {"completed", "failed", "cancelled"}),
        (0.001, {"failed", "cancelled"}),
        (23, {"failed"}),
        (59, {"failed"}),
        (1, set()),
    ):
        clock.advance(days * DAY)
        await sweep.run_once()
        assert await left(store, jobs) == expected


async def test_zero_days_keep_for_ever(store: Store, clock: FakeClock) -> None:
    jobs = await ended(store)
    clock.advance(3_000 * DAY)
    assert await sweep_of(store, clock, {"completed": 0, "failed": 0, "cancelled": 0}).run_once() == 0
    assert await left(store, jobs) == set(jobs)


async def test_what_has_not_ended_stays_however_old_it_is(store: Store, clock: FakeClock) -> None:
    held = await running(store)
    ready, delayed = await enqueued(store, new_job(), new_job(delay_seconds=300 * DAY))
    jobs = {"held": held, "ready": ready, "delayed": delayed}
    clock.advance(200 * DAY)
    assert await sweep_of(store, clock).run_once() == 0
    assert await left(store, jobs) == set(jobs)


async def test_a_job_that_took_long_to_end_goes_with_the_next_full_round(
    store: Store, clock: FakeClock
) -> None:
    slow = await running(store)
    for _ in range(1_005):
        await enqueued(store, new_job())
    jobs = await enqueued(store, *(new_job() for _ in range(2)))
    for job in jobs:
        await store.cancel(job.id, EVERYTHING, ACTOR)
    clock.advance(20 * DAY)
    sweep = sweep_of(store, clock)
    assert await sweep.run_once() == 0  # the round is behind the slow job now
    await finished(store, slow)
    clock.advance(8 * DAY)
    assert await sweep.run_once() == 1
    assert await store.reader.job(slow.id, EVERYTHING) is None


@pytest.mark.parametrize("number", [1_000, 2_300])
async def test_many_go_in_one_round(store: Store, clock: FakeClock, number: int) -> None:
    jobs = await enqueued(store, *(new_job() for _ in range(number)))
    for at in range(0, number, 1_000):
        chunk = [job.id for job in jobs[at : at + 1_000]]
        await store.act("cancel", chunk, frozenset({"pending"}), EVERYTHING, ACTOR)
    clock.advance(31 * DAY)
    assert await sweep_of(store, clock).run_once() == number
    assert await sweep_of(store, clock).run_once() == 0


async def test_a_purge_spares_what_finished_later_than_the_walk_saw(store: Store, clock: FakeClock) -> None:
    jobs = await ended(store)
    assert await store.purge([job.id for job in jobs.values()], clock.now() - 1) == 0
    assert await store.purge([job.id for job in jobs.values()], clock.now()) == 3
