"""The server is killed again and again under load; everything it answered stays true."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.crash.judge import judge
from tests.crash.ledger import Ledger, Outcome, read_ledger
from tests.crash.producer import Producer
from tests.crash.server_process import ServerProcess
from tests.crash.worker import Worker

TYPE = "crash.killed"
PRODUCERS = 8
SAFE_LEASE_SECONDS = 7.0
SHORT_LEASE_SECONDS = 2.0
DRAIN_SECONDS = 60.0


def wayward(dice: random.Random) -> Callable[[Any], Outcome | None]:
    """Mostly completes; fails, releases, and sometimes dies with the job in hand."""

    def decide(job: Any) -> Outcome | None:
        outcomes: list[Outcome | None] = ["complete", "fail", "release", None]
        return dice.choices(outcomes, (80, 10, 8, 2))[0]

    return decide


async def killed_in_a_loop(folder: Path, rounds: int) -> None:
    dice = random.Random(rounds)
    ledger = Ledger(folder / "ledger")
    server = ServerProcess(folder / "data")
    await server.start()
    await server.ask("PUT", f"/types/{TYPE}", {"lease_seconds": SAFE_LEASE_SECONDS, "max_retries": 5})
    producing = await server.token("producers", "producer")
    working = await server.token("workers", "worker")
    producers = [Producer(server.connect(producing), ledger, TYPE) for _ in range(PRODUCERS)]
    careful = [
        Worker(
            server.connect(working),
            ledger,
            instance=f"careful-{limit}",
            lease_seconds=SAFE_LEASE_SECONDS,
            limit=limit,
        )
        for limit in (1, 1, 20)
    ]
    careless = [
        Worker(
            server.connect(working),
            ledger,
            instance=f"careless-{limit}",
            lease_seconds=SHORT_LEASE_SECONDS,
            limit=limit,
            decide=wayward(dice),
        )
        for limit in (1, 1, 20)
    ]
    enough, empty = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for worker in (*careful, *careless):
            group.create_task(worker.work(empty))
        producing_tasks = [
            group.create_task(producer.produce(enough, pause_seconds=0.01)) for producer in producers
        ]
        for _ in range(rounds):
            await asyncio.sleep(dice.uniform(0.2, 1.0))  # the moment of death is left to chance
            server.kill()
            await server.start()
        enough.set()
        await asyncio.wait(producing_tasks)
        await server.until_all_ended(DRAIN_SECONDS)
        empty.set()
    final = await server.final_jobs()
    await server.stop()
    ledger.close()

    entries = read_ledger(ledger.path)
    assert len([entry for entry in entries if entry.kind == "stored"]) > 20 * rounds
    assert judge(entries, final) == []
    assert [id for worker in careful for id in worker.refused] == []


async def test_a_server_killed_6_times_under_load_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    await killed_in_a_loop(tmp_path, 6)


@pytest.mark.soak
async def test_a_server_killed_50_times_under_load_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    await killed_in_a_loop(tmp_path, 50)
