"""Keeping a lease, losing it, and what is left of a worker that lost it. Leases of 2 s, the shortest."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import NamedTuple

import pytest

from rota import Task, Worker, current_job
from rota.errors import StartError, Unauthenticated
from tests.worker.conftest import SHORTEST_LEASE, Place, WorkerProcess


class ClaimedJobToken(NamedTuple):
    id: int
    lease_token: str


StartProcess = Callable[..., WorkerProcess]


async def test_a_job_of_five_leases_has_one_attempt(place: Place) -> None:
    starts: list[int] = []

    async def handler() -> None:
        starts.append(current_job().attempt)
        await asyncio.sleep(5 * SHORTEST_LEASE)

    task = Task(handler, name=await place.type(lease_seconds=SHORTEST_LEASE))
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert ended.status == "completed"
    assert starts == [1]
    assert await place.client.attempts(job.id) == []


@pytest.mark.parametrize(
    ("lease", "beat"), [(2.0, 0.7), (None, 10.5), (30.0, 0.0), (30.0, -1.0), (30.0, 30.0)]
)
async def test_a_heartbeat_that_cannot_keep_the_lease_is_refused_at_start(
    place: Place, lease: float | None, beat: float
) -> None:
    async def handler() -> None: ...

    with pytest.raises(StartError, match="heartbeat"):
        place.worker(Task(handler), lease_seconds=lease, heartbeat_seconds=beat)


async def test_a_task_with_a_lease_of_its_own_counts_for_the_heartbeat(place: Place) -> None:
    async def handler() -> None: ...

    with pytest.raises(StartError, match="heartbeat"):
        place.worker(Task(handler, lease=2), heartbeat_seconds=5)


async def test_a_blocked_loop_does_not_lose_the_lease(place: Place, worker_process: StartProcess) -> None:
    type = await place.type(lease_seconds=SHORTEST_LEASE)
    worker = worker_process(type)
    job = await place.client.enqueue(type, {"do": "block", "seconds": 3 * SHORTEST_LEASE})
    ended = await place.until(job.id)
    assert ended.status == "completed"
    assert [line.split()[0] for line in worker.lines()] == ["start", "end"]
    assert await place.client.attempts(job.id) == []


async def test_a_frozen_worker_that_wakes_is_told_and_changes_nothing(
    place: Place, worker_process: StartProcess
) -> None:
    type = await place.type(lease_seconds=SHORTEST_LEASE)
    # Its only slot is taken, so that it has no claim open which could be handed the job while it is frozen.
    frozen = worker_process(type, TEST_INSTANCE="frozen", TEST_CONCURRENCY="1", TEST_PREFETCH="0")
    job = await place.client.enqueue(type, {"do": "hang once"})
    await frozen.until_noted(1)
    frozen.signal(signal.SIGSTOP)
    other = worker_process(type, TEST_INSTANCE="other")
    ended = await place.until(job.id)
    frozen.signal(signal.SIGCONT)
    frozen.signal(signal.SIGTERM)
    assert await frozen.end() == 0
    assert await place.client.get(job.id) == ended
    assert ended.status == "completed"
    assert (ended.worker_id or "").endswith("/other")
    assert [attempt.error for attempt in await place.client.attempts(job.id)] == ["worker lost"]
    assert other.notes == frozen.notes
    assert [line.split()[0] for line in other.lines()] == ["start", "start", "end"]


async def test_a_lost_handler_is_cancelled_and_reports_nothing(place: Place) -> None:
    ends: list[str] = []

    async def handler() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("cancelled")

    task = Task(handler, name=await place.type(lease_seconds=SHORTEST_LEASE), max_retries=0)
    job = await task.enqueue(place.client)
    async with place.working(task) as worker:
        await place.until(job.id, "running")
        (held,) = worker._held.values()
        taken_away = await place.client.fail(ClaimedJobToken(held.id, held.lease_token), "by another hand")
        async with asyncio.timeout(SHORTEST_LEASE):
            while not ends:  # noqa: ASYNC110  # the handler knows by its cancellation alone
                await asyncio.sleep(0.01)
    assert await place.client.get(job.id) == taken_away


async def test_a_worker_whose_token_is_revoked_stops_and_its_job_goes_back(place: Place) -> None:
    ends: list[str] = []

    async def handler() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ends.append("cancelled")

    task = Task(handler, name=await place.type(lease_seconds=SHORTEST_LEASE), max_retries=0)
    minted = await place.client.tokens.create(f"revoked-{task.name}", preset="worker")
    job = await task.enqueue(place.client)
    serving = asyncio.create_task(Worker(place.url, minted.token, [task]).serve())
    await place.until(job.id, "running")
    await place.client.tokens.revoke(minted.key_id)
    with pytest.raises(Unauthenticated):
        await serving
    assert ends == ["cancelled"]
    given_back = await place.client.get(job.id)
    assert given_back.status == "pending"
    assert await place.client.attempts(job.id) == []


async def test_a_worker_that_comes_back_under_its_name_leaves_the_old_job_to_the_sweep(
    place: Place, worker_process: StartProcess
) -> None:
    type = await place.type(lease_seconds=SHORTEST_LEASE)
    first = worker_process(type, TEST_INSTANCE="same")
    job = await place.client.enqueue(type, {"do": "sleep", "seconds": 0.5})
    await first.until_noted(1)
    first.signal(signal.SIGKILL)
    await first.end()
    died = time.monotonic()
    second = worker_process(type, TEST_INSTANCE="same")
    await second.until_noted(2)
    assert time.monotonic() - died < SHORTEST_LEASE + 4  # its own start included
    assert (await place.until(job.id)).status == "completed"
    assert [attempt.error for attempt in await place.client.attempts(job.id)] == ["worker lost"]


async def test_a_handler_that_kills_its_process_is_started_three_times(
    place: Place, worker_process: StartProcess
) -> None:
    type = await place.type(lease_seconds=SHORTEST_LEASE)
    deadly = await place.client.enqueue(type, {"do": "kill"}, max_retries=2)
    harmless = [await place.client.enqueue(type, {"do": "return"}) for _ in range(5)]
    for start in range(1, 4):
        process = worker_process(type, TEST_CONCURRENCY="1", TEST_PREFETCH="0")
        await process.end()
        starts = [line for line in process.lines() if line.startswith(f"start {deadly.id} ")]
        assert len(starts) == start
    last = worker_process(type)
    for job in harmless:
        assert (await place.until(job.id)).status == "completed"
    ended = await place.until(deadly.id)
    assert (ended.status, ended.error) == ("failed", "worker lost")
    assert len([line for line in last.lines() if line.startswith(f"start {deadly.id} ")]) == 3


async def test_a_prefetched_job_is_beaten_and_given_back_after_one_lease(place: Place) -> None:
    free = asyncio.Event()

    async def handler(hold: bool) -> None:
        if hold:
            await free.wait()

    task = Task(handler, name=await place.type(lease_seconds=SHORTEST_LEASE))
    long, behind = [await task.enqueue(place.client, hold=hold) for hold in (True, False)]
    async with place.working(task, concurrency=1, prefetch=1):
        claimed = await place.until(behind.id, "running")
        back = await place.until_job(
            behind.id, lambda job: job.status == "pending" or job.claimed_at != claimed.claimed_at
        )
        assert back.retry_count == 0
        assert await place.client.attempts(behind.id) == []
        free.set()
        assert (await place.until(long.id)).status == "completed"
        assert (await place.until(behind.id)).status == "completed"


async def test_prefetched_jobs_of_a_blocked_loop_are_given_back_to_others(
    place: Place, worker_process: StartProcess
) -> None:
    type = await place.type(lease_seconds=SHORTEST_LEASE)
    for _ in range(2):
        await place.client.enqueue(type, {"do": "block", "seconds": 12})
    blocked = worker_process(type, TEST_CONCURRENCY="1", TEST_PREFETCH="1")
    first = (await blocked.until_noted(1))[0]
    free = worker_process(type, TEST_CONCURRENCY="1", TEST_PREFETCH="0")
    second = (await free.until_noted(2, seconds=10))[1]
    assert first.split()[1] != second.split()[1]
    assert first.split()[2] != second.split()[2]


async def test_a_timeout_fails_an_async_handler_counted(place: Place) -> None:
    async def handler() -> None:
        await asyncio.sleep(60)

    task = Task(handler, name=await place.type(), timeout=0.2, max_retries=1)
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert (ended.status, ended.error) == ("failed", "timeout")
    assert len(await place.client.attempts(job.id)) == 2


async def test_a_sync_handler_that_times_out_fails_at_once_and_keeps_its_slot(place: Place) -> None:
    runs: list[float] = []

    def handler(long: bool) -> None:
        runs.append(time.monotonic())
        while long and not current_job().cancelled:
            time.sleep(0.01)
        if long:
            time.sleep(1)  # it goes on for a while though it was told
        runs.append(time.monotonic())

    task = Task(handler, name=await place.type(), timeout=0.2, max_retries=0)
    long = await task.enqueue(place.client, long=True)
    short = await task.enqueue(place.client, long=False)
    async with place.working(task, concurrency=1, prefetch=0):
        ended = await place.until(long.id)
        assert (ended.status, ended.error) == ("failed", "timeout")
        assert len(runs) == 1
        assert (await place.until(short.id)).status == "completed"
    assert runs[2] >= runs[1]
