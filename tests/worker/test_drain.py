"""How a worker stops, and how it lives through a server that is away."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rota import AsyncClient, Task, Worker
from rota.errors import Unauthenticated, ValidationFailed
from tests.live_server import LiveServer
from tests.worker.conftest import SHORTEST_LEASE, Place, WorkerProcess

StartProcess = Callable[..., WorkerProcess]


async def test_sigterm_lets_a_job_end_within_the_grace_and_takes_no_other(
    place: Place, worker_process: StartProcess
) -> None:
    type = await place.type(lease_seconds=SHORTEST_LEASE)
    worker = worker_process(type, TEST_CONCURRENCY="1", TEST_PREFETCH="1", TEST_GRACE="30")
    long = await place.client.enqueue(type, {"do": "sleep", "seconds": 2 * SHORTEST_LEASE})
    prefetched = await place.client.enqueue(type)
    await worker.until_noted(1)
    await place.until(prefetched.id, "running")
    worker.signal(signal.SIGTERM)
    given_back = await place.until(prefetched.id, "pending", seconds=2)
    assert given_back.retry_count == 0
    later = await place.client.enqueue(type)
    assert await worker.end() == 0
    ended = await place.client.get(long.id)
    assert ended.status == "completed"  # two leases long: the beats went on
    assert await place.client.attempts(long.id) == []
    assert (await place.client.get(later.id)).status == "pending"
    assert len(worker.lines()) == 2


async def test_a_job_that_outlives_the_grace_fails_with_a_reason_counted(
    place: Place, worker_process: StartProcess
) -> None:
    type = await place.type()
    worker = worker_process(type, TEST_GRACE="0.3")
    job = await place.client.enqueue(type, {"do": "sleep", "seconds": 60})
    await worker.until_noted(1)
    worker.signal(signal.SIGTERM)
    assert await worker.end() == 0
    back = await place.client.get(job.id)
    assert (back.status, back.retry_count, back.error) == ("pending", 1, "worker stopped")


async def test_a_second_signal_does_not_wait_for_the_grace(
    place: Place, worker_process: StartProcess
) -> None:
    type = await place.type()
    worker = worker_process(type, TEST_GRACE="600", TEST_CONCURRENCY="1", TEST_PREFETCH="1")
    job = await place.client.enqueue(type, {"do": "sleep", "seconds": 600})
    prefetched = await place.client.enqueue(type)
    await worker.until_noted(1)
    await place.until(prefetched.id, "running")
    worker.signal(signal.SIGTERM)
    await place.until(prefetched.id, "pending", seconds=5)
    worker.signal(signal.SIGINT)
    assert await worker.end() == 0
    assert (await place.client.get(job.id)).error == "worker stopped"


async def test_a_sync_handler_that_never_returns_does_not_hold_up_the_end(place: Place) -> None:
    began, never = threading.Event(), threading.Event()

    def handler() -> None:
        began.set()
        never.wait()

    task = Task(handler, name=await place.type(), max_retries=0)
    job = await task.enqueue(place.client)
    async with asyncio.timeout(10):
        async with place.working(task):
            await asyncio.to_thread(began.wait)
        never.set()
    assert (await place.client.get(job.id)).error == "worker stopped"


async def test_jobs_that_come_one_by_one_fill_all_slots(place: Place) -> None:
    free = asyncio.Event()
    inside = 0

    async def handler() -> None:
        nonlocal inside
        inside += 1
        await free.wait()

    task = Task(handler, name=await place.type())
    async with place.working(task, concurrency=3, prefetch=0):
        jobs = []
        for _ in range(4):
            jobs.append(await task.enqueue(place.client))
            if len(jobs) < 4:
                await place.until(jobs[-1].id, "running", seconds=5)
        await asyncio.sleep(0.1)
        assert inside == 3
        assert (await place.client.get(jobs[3].id)).status == "pending"
        free.set()
        for job in jobs:
            assert (await place.until(job.id)).status == "completed"


async def test_prefetch_is_at_most_what_was_asked_for(place: Place) -> None:
    free = asyncio.Event()

    async def handler() -> None:
        await free.wait()

    task = Task(handler, name=await place.type())
    jobs = [await task.enqueue(place.client) for _ in range(6)]
    async with place.working(task, concurrency=2, prefetch=2):
        await place.until(jobs[3].id, "running", seconds=5)
        await asyncio.sleep(0.2)
        statuses = [(await place.client.get(job.id)).status for job in jobs]
        assert statuses == ["running"] * 4 + ["pending"] * 2
        free.set()
        for job in jobs:
            await place.until(job.id)


async def test_a_running_async_handler_is_cancelled_on_request(place: Place) -> None:
    cleaned = asyncio.Event()

    async def handler() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            cleaned.set()

    task = Task(handler, name=await place.type(lease_seconds=SHORTEST_LEASE))
    job = await task.enqueue(place.client)
    async with place.working(task):
        await place.until(job.id, "running")
        await place.client.cancel(job.id)
        ended = await place.until(job.id, seconds=5)
    assert ended.status == "cancelled"
    assert cleaned.is_set()


async def test_a_running_sync_handler_can_ask_whether_it_is_cancelled(place: Place) -> None:
    from rota import current_job

    def handler() -> None:
        while True:
            current_job().raise_if_cancelled()
            time.sleep(0.01)

    task = Task(handler, name=await place.type(lease_seconds=SHORTEST_LEASE))
    job = await task.enqueue(place.client)
    async with place.working(task):
        await place.until(job.id, "running")
        await place.client.cancel(job.id)
        assert (await place.until(job.id, seconds=5)).status == "cancelled"


async def test_a_handler_that_ends_although_cancelled_completes(place: Place) -> None:
    async def handler() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done all the same"
        return ""

    task = Task(handler, name=await place.type(lease_seconds=SHORTEST_LEASE))
    job = await task.enqueue(place.client)
    async with place.working(task):
        await place.until(job.id, "running")
        await place.client.cancel(job.id)
        ended = await place.until(job.id, seconds=5)
    assert (ended.status, ended.result) == ("completed", "done all the same")


async def test_a_worker_with_a_wrong_token_or_an_unknown_type_ends_with_the_reason(place: Place) -> None:
    async def handler() -> None: ...

    with pytest.raises(ValidationFailed, match="no-such-type"):
        await place.worker(Task(handler, name="no-such-type")).serve()
    with pytest.raises(Unauthenticated):
        await Worker(place.url, "rota_wrong", [Task(handler, name=await place.type())]).serve()


async def test_a_server_that_goes_and_comes_back_costs_no_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rota.worker")
    with LiveServer(tmp_path) as first:
        url, port, token = first.url, first.port, first.admin.token
        name = first.type(lease_seconds=10)
        seen: list[int] = []

        async def handler(n: int) -> int:
            await asyncio.sleep(0.05)
            seen.append(n)
            return n

        task = Task(handler, name=name, max_retries=0)
        async with AsyncClient(url, token, tries=30) as client:
            place = Place(url, client, token, tmp_path)
            jobs = await client.enqueue_many(task.job(n) for n in range(200))
            async with place.working(task, concurrency=10):
                while len(seen) < 50:  # noqa: ASYNC110  # its handlers run in this loop
                    await asyncio.sleep(0.01)
                first.process.kill()
                first.process.wait()
                await asyncio.sleep(1.5)  # an outage long enough for several tries
                with LiveServer(tmp_path, port=port):
                    for job in jobs:
                        assert not isinstance(job, Exception)
                        assert (await place.until(job.id)).status == "completed"
    assert sorted(set(seen)) == list(range(200))
    said = [record.message for record in caplog.records if "answer" in record.message]
    assert said == ["the server does not answer; trying on", "the server answers again"]
