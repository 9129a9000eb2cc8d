"""Eight server processes and a slow writer share one SQLite file."""

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path

import pytest

from tests.crash.judge import judge
from tests.crash.ledger import Ledger, read_ledger
from tests.crash.load import Seen, run_load
from tests.crash.server_process import ServerProcess

SERVERS = 8


@contextmanager
def slow_writer(database: Path) -> Iterator[list[float]]:
    """Holds the write lock for 1 to 2 s now and then; yields how long each time."""
    over = threading.Event()
    held: list[float] = []

    def write() -> None:
        connection = sqlite3.connect(database, isolation_level=None, timeout=30)
        try:
            while not over.wait(random.uniform(0.5, 1.5)):
                seconds = random.uniform(1.0, 2.0)
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("UPDATE rota_facts SET value = value")
                over.wait(seconds)
                connection.execute("COMMIT")
                held.append(seconds)
        finally:
            connection.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield held
    finally:
        over.set()
        thread.join()


async def shared(folder: Path, seconds: float) -> Seen:
    data = folder / "data"
    ledger = Ledger(folder / "ledger")
    async with AsyncExitStack() as running:
        servers = [ServerProcess(data) for _ in range(SERVERS)]
        # All at once on a folder that is not there yet: one of them makes it.
        await asyncio.gather(*(running.enter_async_context(server) for server in servers))
        with slow_writer(data / "rota.db") as held:
            seen = await run_load(servers, ledger, producers=16, workers=16, seconds=seconds)
        final = await servers[-1].final_jobs()
    ledger.close()
    assert held, "the slow writer never held the lock"
    assert seen.stored > 0
    assert seen.server_errors == []
    assert judge(read_ledger(ledger.path), final) == []
    assert [job for job in final if job.lost] == []
    assert seen.refused == []
    for server in servers:
        assert "locked" not in server.log.read_text()
    return seen


@pytest.mark.alone
async def test_8_servers_and_a_slow_writer_on_one_file_meet_no_error_and_no_false_reclaim(
    tmp_path: Path,
) -> None:
    await shared(tmp_path, 9)


@pytest.mark.soak
async def test_8_servers_and_a_slow_writer_on_one_file_for_a_minute(tmp_path: Path) -> None:
    print(f"\n8 servers on one file: {await shared(tmp_path, 60)}")  # noqa: T201 - the soak's output
