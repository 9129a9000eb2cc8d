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
    over = asyncio.Event()

    def worker(instance: str, limit: int, hold_seconds: float = 0.0) -> Worker:
        return Worker(
            server.connect(),
            ledger,
            instance=instance,
            lease_seconds=LEASE_SECONDS,
            limit=limit,
            hold_seconds=hold_seconds,
        )

    for n in range(ALIVE + DEAD):
        await producer.store(f"00000000-0000-4000-8000-{n:012}")
    claim = {"limit": DEAD, "lease_seconds": LEASE_SECONDS}
    dead = (await server.ask("POST", "/jobs/batch/claim", claim))["items"]
    for job in dead:
        ledger.started(job["id"], job["retry_count"])
    alive = worker("alive", ALIVE, hold_seconds=OUTAGE_SECONDS + 3)
    holding = asyncio.create_task(alive.work(over))

    async def all_started() -> bool:
        return len([entry for entry in read_ledger(ledger.path) if entry.kind == "started"]) == ALIVE + DEAD

    await until(all_started, 10)

    server.kill()
    await asyncio.sleep(OUTAGE_SECONDS)  # the outage itself
    await server.start()
    helping = asyncio.create_task(worker("second", 50).work(over))
    await server.until_all_ended(LEASE_SECONDS * 2)
    over.set()
    await asyncio.gather(holding, helping)
    final = {job.id: job for job in await server.final_jobs()}
    producer.close()
    ledger.close()

    assert judge(read_ledger(ledger.path), final.values()) == []
    assert alive.refused == []
    assert {id for id, job in final.items() if job.lost} == {job["id"] for job in dead}
