"""Both clients wait for jobs, change them and act on many, against a live server."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from rota.client.aio import AsyncClient
from rota.client.client import Client
from rota.errors import Conflict, ValidationFailed
from tests.live_server import LiveServer, fresh


@pytest.fixture
def token(server: LiveServer) -> str:
    return str(server.admin.token)


async def test_the_client_waits_until_a_job_has_ended(server: LiveServer, token: str) -> None:
    name = server.type()
    async with AsyncClient(server.url, token) as client:
        job = await client.enqueue(name)
        waiting = asyncio.create_task(client.wait(job.id))
        held = None
        while held is None:
            held = await client.claim(types=[name])
        assert not waiting.done()
        await client.complete(held, {"sent": 1})
        ended = await asyncio.wait_for(waiting, 10)
        assert (ended.status, ended.result) == ("completed", {"sent": 1})
        other = await client.enqueue(name)
        assert (await client.wait(other.id, timeout=0.2)).status == "pending"


async def test_jobs_are_changed_and_deleted(server: LiveServer, token: str) -> None:
    async with AsyncClient(server.url, token) as client:
        job = await client.enqueue(server.type())
        soon = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
        changed = await client.change(job.id, priority="high", run_at=soon)
        assert (changed.priority, changed.run_at) == ("high", soon)
        assert (await client.change(job.id, run_at=None)).run_at is None
        with pytest.raises(ValidationFailed):
            await client.change(job.id, run_at=datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point
        with pytest.raises(Conflict):
            await client.delete(job.id)
        await client.cancel(job.id)
        await client.delete(job.id)


def test_a_large_action_takes_as_many_calls_as_it_needs(server: LiveServer, token: str) -> None:
    name = server.type()
    for _ in range(3):
        assert server.admin.post("/jobs/batch", {"jobs": [{"type": name}] * 4_000}).status_code == 200
    with Client(server.url, token) as client:
        with pytest.raises(ValidationFailed):
            client.act("cancel", dry_run=True)
        counted = client.act("cancel", dry_run=True, type=name)
        assert (counted.matched, counted.done, counted.remaining) == (12_000, 0, 12_000)
        done = client.act("cancel", dry_run=False, type=name)
        assert (done.matched, done.done, done.remaining, done.next_cursor) == (12_000, 12_000, 0, None)


def test_queues_are_managed(server: LiveServer, token: str) -> None:
    name = fresh("queue")
    with Client(server.url, token) as client:
        assert not client.queues.put(name).paused
        assert client.queues.pause(name).paused
        assert client.queues.put(name).paused
        listed = {queue.name: queue for queue in client.queues.list()}
        assert (listed[name].paused, listed[name].ready) == (True, 0)
        assert not client.queues.resume(name).paused
        job = client.enqueue(server.type(), queue=name)
        assert client.wait(job.id, timeout=0).queue == name
