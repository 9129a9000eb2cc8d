"""Much at once: big jobs, many jobs, long series."""

from __future__ import annotations

import asyncio

import pytest

from rota import JobSpec, RotaError, Snooze, Task
from tests.worker.conftest import Place


async def test_500_jobs_of_60_kib_and_6000_small_ones_are_stored_and_run(place: Place) -> None:
    seen = 0

    async def handler(n: int, text: str = "") -> None:
        nonlocal seen
        assert not text or len(text) == 60_000
        seen += 1

    task = Task(handler, name=await place.type())
    big = await place.client.enqueue_many(task.job(n, text="x" * 60_000) for n in range(500))
    small = await place.client.enqueue_many(task.job(n) for n in range(6_000))
    assert not [job for job in big + small if isinstance(job, RotaError)]
    async with place.working(task, concurrency=200):
        last = small[-1]
        assert not isinstance(last, RotaError)
        assert (await place.until(last.id)).status == "completed"
        async with asyncio.timeout(20):
            while seen < 6_500:  # noqa: ASYNC110  # handlers of this test run in this loop
                await asyncio.sleep(0.05)
    assert seen == 6_500


async def test_a_digit_beyond_what_a_float_holds_survives_the_way_to_the_handler(place: Place) -> None:
    got: list[int] = []

    async def handler(id: int) -> int:
        got.append(id)
        return id

    task = Task(handler, name=await place.type())
    numbers = [1970670598291982290, 2**63, 2**200]
    jobs = [await task.enqueue(place.client, number) for number in numbers]
    async with place.working(task):
        for job, number in zip(jobs, numbers, strict=True):
            assert (await place.until(job.id)).result == number
    assert sorted(got) == sorted(numbers)


async def test_an_enqueue_repeated_by_hand_with_its_uid_gives_the_same_job(place: Place) -> None:
    type = await place.type()
    from rota.client.jobs import time_ordered_uid

    uid = time_ordered_uid()
    first = await place.client.enqueue(JobSpec(type, request_uid=uid))
    again = await place.client.enqueue(JobSpec(type, request_uid=uid))
    assert again.id == first.id
    assert again.idempotency_replayed


async def test_results_of_60_kib_from_many_handlers_fit_into_the_reports(place: Place) -> None:
    async def handler() -> str:
        return "x" * 60_000

    task = Task(handler, name=await place.type(), max_retries=0)
    jobs = await place.client.enqueue_many(task.job() for _ in range(700))
    async with place.working(task, concurrency=700):
        for job in jobs:
            assert not isinstance(job, RotaError)
            assert (await place.until(job.id)).status == "completed"


@pytest.mark.soak
async def test_snoozing_50_times_counts_nothing_and_40_000_overflow_nothing(place: Place) -> None:
    runs = 0

    async def handler(snoozes: int) -> str:
        nonlocal runs
        runs += 1
        if runs <= snoozes:
            raise Snooze(0)
        if runs == snoozes + 1:
            raise ValueError("once")
        return "done"

    task = Task(handler, name=await place.type())
    for snoozes in (50, 40_000):
        runs = 0
        job = await task.enqueue(place.client, snoozes)
        async with place.working(task):
            ended = await place.until(job.id, seconds=3600)
        assert ended.status == "completed"
        assert ended.retry_count == 1
        assert len(await place.client.attempts(job.id)) == 1
