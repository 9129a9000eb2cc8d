"""Jobs that end at the very moment their leases lapse, while sweeps run all the time."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from rota.clock import SystemClock
from tests.crash.connection import Connection
from tests.crash.judge import judge
from tests.crash.ledger import Ledger, read_ledger
from tests.crash.server_process import ServerProcess
from tests.crash.worker import Worker

TYPE = "crash.edge"
JOBS = 200
CONNECTIONS = 20
LEASE_SECONDS = 2.0
SETTLE_SECONDS = 3.0
"""A server that has just become writable lets no lease of this length lapse for so long."""
AROUND_MS = 120
"""How far from the lapse a worker may report."""

HOLD_SECONDS = 0.3
"""How long whoever gets a lapsed job keeps it: until the late report has come."""

clock = SystemClock()


async def complete_late(connection: Connection, ledger: Ledger, jobs: list[Any], dice: random.Random) -> int:
    """Complete each job within some milliseconds of its lapse; how many were accepted."""
    accepted = 0
    moments = sorted((lapse_of(job) + dice.randint(-AROUND_MS, AROUND_MS), n) for n, job in enumerate(jobs))
    for moment, n in moments:
        await asyncio.sleep(max(0, moment - clock.now()) / 1000)
        body = msgspec.json.encode({"lease_token": jobs[n]["lease_token"]})
        reply = await connection.call("POST", f"/jobs/{jobs[n]['id']}/complete", body)
        assert reply.status in (200, 409), reply
        if reply.status == 200:
            ledger.finished(jobs[n]["id"], "complete")
            accepted += 1
    connection.close()
    return accepted


def lapse_of(job: Any) -> int:
    return round(datetime.fromisoformat(job["lease_expires_at"]).timestamp() * 1000)


async def test_200_jobs_that_end_as_their_leases_lapse_end_once(tmp_path: Path) -> None:
    dice = random.Random(4)
    ledger = Ledger(tmp_path / "ledger")
    async with ServerProcess(tmp_path / "data", sweep_interval_ms="50") as server:
        await server.ask("PUT", f"/types/{TYPE}", {"lease_seconds": LEASE_SECONDS})
        uids = [str(uuid.uuid4()) for _ in range(JOBS)]
        jobs = [{"type": TYPE, "request_uid": uid, "payload": {"uid": uid}} for uid in uids]
        stored = await server.ask("POST", "/jobs/batch", {"jobs": jobs})
        for uid, item in zip(uids, stored["items"], strict=True):
            ledger.stored(item["job"]["id"], uid)
        await asyncio.sleep(SETTLE_SECONDS - LEASE_SECONDS)
        held = (await server.ask("POST", "/jobs/batch/claim", {"limit": JOBS}))["items"]
        for job in held:
            ledger.started(job["id"], job["retry_count"])

        # Under the same token, so that only the lease token tells late workers from the present one.
        over = asyncio.Event()
        rest = Worker(
            server.connect(), ledger, instance="rest", lease_seconds=20, limit=50, hold_seconds=HOLD_SECONDS
        )
        working = asyncio.create_task(rest.work(over))
        accepted = await asyncio.gather(
            *(complete_late(server.connect(), ledger, held[n::CONNECTIONS], dice) for n in range(CONNECTIONS))
        )
        await server.until_all_ended(20)
        over.set()
        await working
        final = await server.final_jobs()
    ledger.close()

    assert len(held) == JOBS
    entries = read_ledger(ledger.path)
    assert judge(entries, final) == []
    assert 0 < sum(accepted) < JOBS, "nobody raced: all came too early or too late"
    starts = Counter(entry.id for entry in entries if entry.kind == "started")
    for job in final:
        assert job.status == "completed"
        assert (starts[job.id], job.lost) == (1 + job.retry_count, job.retry_count)
    assert len([job for job in final if job.retry_count == 0]) == sum(accepted)
