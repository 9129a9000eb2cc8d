"""Workers die and freeze with jobs in hand; each job goes on with another one, and is counted."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.crash.deadline import until
from tests.crash.handlers import LEASE_SECONDS
from tests.crash.ledger import Entry, Ledger, read_ledger
from tests.crash.server_process import ServerProcess
from tests.crash.worker_process import WorkerProcess

START_SECONDS = 20.0


@dataclass
class Scene:
    """A server with the types of the handlers, a worker's token and a ledger."""

    server: ServerProcess
    token: str
    ledger: Path

    def worker(self, instance: str, concurrency: int = 4) -> WorkerProcess:
        return WorkerProcess(self.server, self.token, self.ledger, instance, concurrency)

    async def enqueue(self, type: str) -> int:
        stored = await self.server.ask("POST", "/jobs", {"type": type, "payload": {"uid": str(uuid.uuid4())}})
        return int(stored["id"])

    async def job(self, id: int) -> Any:
        return await self.server.ask("GET", f"/jobs/{id}")

    async def attempts(self, id: int) -> list[Any]:
        return list((await self.server.ask("GET", f"/jobs/{id}/attempts"))["items"])

    def starts(self, id: int) -> list[Entry]:
        return [entry for entry in read_ledger(self.ledger) if entry.kind == "started" and entry.id == id]

    async def until_started(self, id: int, times: int, seconds: float = START_SECONDS) -> None:
        async def started() -> bool:
            return len(self.starts(id)) >= times

        await until(started, seconds)

    async def until_status(self, id: int, status: str, seconds: float = START_SECONDS) -> None:
        async def reached() -> bool:
            return bool((await self.job(id))["status"] == status)

        await until(reached, seconds)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    ledger = tmp_path / "ledger"
    Ledger(ledger).close()
    async with ServerProcess(tmp_path / "data") as server:
        for type in ("crash.steady", "crash.lingering"):
            await server.ask("PUT", f"/types/{type}", {"lease_seconds": LEASE_SECONDS, "max_retries": 10})
        deadly = {"lease_seconds": LEASE_SECONDS, "max_retries": 2}
        await server.ask("PUT", "/types/crash.deadly", deadly)
        yield Scene(server, await server.token("workers", "worker"), ledger)


async def test_the_job_of_a_killed_worker_runs_again_within_lease_and_2_seconds_counted(scene: Scene) -> None:
    id = await scene.enqueue("crash.lingering")
    with scene.worker("first") as first:
        await scene.until_started(id, 1)
        with scene.worker("second"):
            first.kill()
            killed = time.monotonic()
            await scene.until_started(id, 2)
            waited = time.monotonic() - killed
            await scene.until_status(id, "completed")

    assert waited <= LEASE_SECONDS + 2
    assert (await scene.job(id))["retry_count"] == 1
    assert [each["error"] for each in await scene.attempts(id)] == ["worker lost"]
    assert len(scene.starts(id)) == 2


async def test_a_worker_killed_and_started_under_the_same_name_gets_its_old_job_back(scene: Scene) -> None:
    id = await scene.enqueue("crash.lingering")
    with scene.worker("same") as worker:
        await scene.until_started(id, 1)
        worker.kill()
        worker.start()
        await scene.until_status(id, "completed")

    assert (await scene.job(id))["retry_count"] == 1
    assert len(scene.starts(id)) == 2


async def test_a_handler_that_kills_its_process_starts_3_times_and_others_keep_flowing(scene: Scene) -> None:
    over = asyncio.Event()
    deadly = await scene.enqueue("crash.deadly")
    others: list[int] = []
    async with asyncio.TaskGroup() as group:
        for instance in ("one", "two"):
            group.create_task(scene.worker(instance).keep_alive(over))

        async def failed() -> bool:
            others.append(await scene.enqueue("crash.steady"))
            return bool((await scene.job(deadly))["status"] == "failed")

        await until(failed, 40)
        await scene.server.until_all_ended(20)
        over.set()

    job = await scene.job(deadly)
    assert len(scene.starts(deadly)) == 3
    assert job["error"] == "worker lost"
    assert [each["error"] for each in await scene.attempts(deadly)] == ["worker lost"] * 3
    assert {(await scene.job(id))["status"] for id in others} == {"completed"}
    order = [entry.id for entry in read_ledger(scene.ledger) if entry.kind == "started"]
    first, last = order.index(deadly), len(order) - 1 - order[::-1].index(deadly)
    assert set(order[first:last]) & set(others), "nothing else ran between the first and the last death"


async def test_a_worker_frozen_for_3_leases_is_told_that_its_job_is_lost(scene: Scene) -> None:
    id = await scene.enqueue("crash.lingering")
    # With one slot it does not wait for more work, or the lapsed job could go to its own frozen claim.
    with scene.worker("frozen", concurrency=1) as frozen:
        await scene.until_started(id, 1)
        frozen.freeze()
        froze = time.monotonic()
        with scene.worker("other") as other:
            await scene.until_status(id, "completed")
            ended = await scene.job(id)
            await asyncio.sleep(max(0.0, froze + 3 * LEASE_SECONDS - time.monotonic()))
            frozen.thaw()

            stopped = scene.ledger.with_name(f"stopped-{id}")

            async def told() -> bool:
                return stopped.exists()

            await until(told, START_SECONDS)
            later = await scene.enqueue("crash.steady")
            await scene.until_status(later, "completed")

            assert await scene.job(id) == ended
            assert ended["result"] == other.pid
    assert ended["retry_count"] == 1
    assert len(scene.starts(id)) == 2


async def test_a_late_worker_changes_nothing_with_its_old_lease_token(scene: Scene) -> None:
    id = await scene.enqueue("crash.steady")
    claim = {"types": ["crash.steady"], "instance": "late"}
    late = await scene.server.ask("POST", "/jobs/claim", claim)
    await scene.until_status(id, "pending")
    holder = await scene.server.ask("POST", "/jobs/claim", claim | {"instance": "holder"})
    assert (late["id"], holder["id"]) == (id, id)
    before = await scene.job(id)

    token = {"lease_token": late["lease_token"]}
    connection = scene.server.connect()
    said = {"progress": {"current": 1, "total": 2, "message": "late"}, "log": "late"}
    for verb, more in (
        ("complete", {"result": "late"}),
        ("fail", {"error": "late"}),
        ("release", {}),
        ("heartbeat", said),
    ):
        answer = await connection.call("POST", f"/jobs/{id}/{verb}", msgspec.json.encode(token | more))
        assert answer.status == 409, verb
        assert answer.json()["type"] == "/problems/job-not-held"
    connection.close()

    assert await scene.job(id) == before
    assert (await scene.server.ask("GET", f"/jobs/{id}/logs"))["items"] == []
