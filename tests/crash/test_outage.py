"""No server answers for longer than a lease: living workers keep their jobs, dead ones lose them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.crash.deadline import until
from tests.crash.judge import judge
from tests.crash.ledger import Ledger, read_ledger
from tests.crash.producer import Producer
from tests.crash.server_process import ServerProcess
from tests.crash.worker import Worker

TYPE = "crash.outage"
LEASE_SECONDS = 7.0
"""The shortest lease against which no outage counts."""
OUTAGE_SECONDS = 8.0
HOLD_SECONDS = 60.0
ALIVE, DEAD = 5, 3


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[ServerProcess]:
    async with ServerProcess(tmp_path / "data") as server:
        await server.ask("PUT", f"/types/{TYPE}", {"lease_seconds": LEASE_SECONDS})
        yield server


async def test_an_outage_longer_than_the_lease_takes_no_job_from_a_living_worker(
    tmp_path: Path, server: ServerProcess
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    producer = Producer(server.connect(), ledger, TYPE)
    for n in range(ALIVE + DEAD):
        await producer.store(f"00000000-0000-4000-8000-{n:012}")
    producer.close()
    claim = {"limit": DEAD, "lease_seconds": LEASE_SECONDS}
    dead = (await server.ask("POST", "/jobs/batch/claim", claim))["items"]
    for job in dead:
        ledger.started(job["id"], job["retry_count"])
    alive = Worker(
        server.connect(),
        ledger,
        instance="alive",
        lease_seconds=LEASE_SECONDS,
        limit=ALIVE,
        hold_seconds=HOLD_SECONDS,
    )
    other = Worker(server.connect(), ledger, instance="other", lease_seconds=LEASE_SECONDS, limit=50)

    async def all_started() -> bool:
        return len([entry for entry in read_ledger(ledger.path) if entry.kind == "started"]) == ALIVE + DEAD

    async def has_beaten_twice() -> bool:
        return alive.statuses[200] >= beaten + 2

    enough, over = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        holding = group.create_task(alive.work(enough))
        await until(all_started, LEASE_SECONDS)
        server.kill()
        await asyncio.sleep(OUTAGE_SECONDS)  # the outage itself
        beaten = alive.statuses[200]
        await server.start()
        group.create_task(other.work(over))
        await until(has_beaten_twice, LEASE_SECONDS)
        enough.set()
        await holding
        await server.until_all_ended(LEASE_SECONDS * 2)
        over.set()
    final = {job.id: job for job in await server.final_jobs()}
    ledger.close()

    assert judge(read_ledger(ledger.path), final.values()) == []
    assert alive.refused == []
    assert {id for id, job in final.items() if job.lost} == {job["id"] for job in dead}
