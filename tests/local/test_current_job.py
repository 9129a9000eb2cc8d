"""What ``current_job()`` offers a handler, from wherever the handler calls it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, assert_type

import pytest

from rota import AsyncClient, Client, CurrentJob, JobInfo, Local, Task, current_job, task
from rota.testing import Queue


@task(max_retries=7)
def tell(words: list[str]) -> dict[str, Any]:
    job = current_job()
    return {
        "payload": job.payload,
        "queue": job.queue,
        "attempt": job.attempt,
        "max_retries": job.max_retries,
        "cancelled": job.cancelled,
    }


@task
def threaded() -> int:
    job, done = current_job(), []

    def help_out() -> None:
        job.progress(1, 1, "by a thread")
        job.log("from a thread")
        done.append(job.id)

    helper = threading.Thread(target=help_out)
    helper.start()
    helper.join()
    return done[0]


@task
async def elsewhere() -> list[int]:
    async def child() -> int:
        return current_job().id

    return [await asyncio.create_task(child()), await asyncio.to_thread(lambda: current_job().id)]


@task
def not_now() -> None:
    current_job().snooze(90)


@pytest.fixture
def rota_tasks() -> list[Task[..., Any]]:
    return [tell, threaded, elsewhere, not_now]


def test_the_job_is_known(rota_queue: Queue) -> None:
    tell.enqueue(rota_queue.client, words=["a"])
    (job,) = rota_queue.drain()
    assert job.result == {
        "payload": {"words": ["a"]},
        "queue": "default",
        "attempt": 1,
        "max_retries": 7,
        "cancelled": False,
    }


def test_threads_of_a_handler_may_report(rota_queue: Queue) -> None:
    threaded.enqueue(rota_queue.client)
    (job,) = rota_queue.drain()
    assert job.result == job.id
    assert job.progress is not None
    assert job.progress.message == "by a thread"
    assert [line.text for line in rota_queue.client.logs(job.id)] == ["from a thread"]


def test_it_is_found_in_tasks_and_threads_that_asyncio_starts(rota_queue: Queue) -> None:
    elsewhere.enqueue(rota_queue.client)
    (job,) = rota_queue.drain()
    assert job.result == [job.id, job.id]


def test_a_handler_can_snooze_by_its_job(rota_queue: Queue) -> None:
    not_now.enqueue(rota_queue.client)
    (job,) = rota_queue.run_pending()
    assert (job.status, job.retry_count) == ("pending", 0)
    rota_queue.advance(89)
    assert rota_queue.run_pending() == []
    rota_queue.advance(2)
    assert len(rota_queue.run_pending()) == 1


def test_outside_of_a_handler_there_is_none() -> None:
    with pytest.raises(LookupError, match="only inside a handler"):
        current_job()


async def test_a_sync_handler_sees_that_it_is_cancelled(tmp_path: Path) -> None:
    started = threading.Event()
    jobs: list[CurrentJob] = []

    @task
    def patient() -> None:
        jobs.append(current_job())
        started.set()
        while True:
            current_job().raise_if_cancelled()
            threading.Event().wait(0.01)

    local = Local(tmp_path / "data")
    async with local as client:
        await client.types.put("patient", lease_seconds=2)
        worker = local.worker([patient])
        serving = asyncio.create_task(worker.serve())
        job = await patient.enqueue(client)
        await asyncio.to_thread(started.wait)
        await client.cancel(job.id)
        ended = await client.wait(job.id, timeout=20)
        worker.stop()
        await serving
    assert ended.status == "cancelled"
    assert jobs[0].cancelled


async def test_an_enqueue_answers_as_its_client_does(rota_queue: Queue) -> None:
    blocking: Client = rota_queue.client
    awaiting: AsyncClient = rota_queue.async_client
    assert_type(tell.enqueue(blocking, words=[]), JobInfo)
    assert_type(await tell.enqueue(awaiting, words=[]), JobInfo)
    assert len(rota_queue.enqueued(tell)) == 2
