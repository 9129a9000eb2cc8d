"""A backup that is taken under load, restored elsewhere and worked to its end, breaks no promise."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
from pathlib import Path

import pytest

from tests.crash.deadline import until
from tests.crash.judge import judge
from tests.crash.ledger import Entry, Ledger, read_ledger
from tests.crash.load import DRAIN_SECONDS, LEASE_SECONDS, run_load
from tests.crash.server_process import ROTA, ServerProcess, clean_environment
from tests.crash.worker import Worker


async def rota(*arguments: str | Path) -> str:
    """A command that has to succeed; what it said."""
    done = await asyncio.to_thread(
        subprocess.run,
        [ROTA, *arguments],
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def states(database: Path) -> dict[int, tuple[str, int]]:
    """Each job's status and counted retries as the file has them."""
    connection = sqlite3.connect(database)
    rows = connection.execute("SELECT id, status, retry_count FROM rota_jobs").fetchall()
    connection.close()
    return {id: (status, retries) for id, status, retries in rows}


def remembered(ledger: list[Entry], restored: dict[int, tuple[str, int]]) -> list[Entry]:
    """Of what happened before the restore, that which the backup knows of.

    What was stored, run or finished after the snapshot is undone by the restore: it runs again. For a job
    that had not ended in the snapshot, only its counted failures are still true.
    """
    kept: list[Entry] = []
    failures: dict[int, int] = {}
    for entry in ledger:
        if entry.id not in restored:
            continue
        status, retries = restored[entry.id]
        if entry.kind == "stored" or status == "completed":
            kept.append(entry)
        elif entry.kind == "finished" and entry.outcome == "fail":
            failures[entry.id] = failures.get(entry.id, 0) + 1
            if failures[entry.id] <= retries:
                kept.append(entry)
    return kept


async def backed_up(folder: Path, *, producers: int, workers: int, seconds: float) -> None:
    ledger = Ledger(folder / "ledger")
    backup = folder / "backup.db"
    async with ServerProcess(folder / "data") as server:
        load = asyncio.create_task(
            run_load([server], ledger, producers=producers, workers=workers, seconds=seconds)
        )
        await asyncio.sleep(seconds / 2)
        acknowledged = {entry.id for entry in read_ledger(ledger.path) if entry.kind == "stored"}
        await rota("backup", backup, "--data", server.data)
        assert not load.done(), "the load ended before the backup"
        seen = await load
    assert acknowledged
    assert seen.server_errors == []
    ledger.close()

    restored = states(backup)
    assert acknowledged - restored.keys() == set(), "acknowledged before the backup began, and not in it"
    await rota("restore", backup, "--data", folder / "restored")
    after = Ledger(folder / "ledger-after")
    async with ServerProcess(folder / "restored") as server:
        await rota("admin", "reset-token", "--data", server.data)

        async def let_in() -> bool:
            connection = server.connect()
            reply = await connection.call("GET", "/types")
            connection.close()
            return reply.status == 200

        await until(let_in, 10)
        token = await server.token("workers-after", "worker")
        empty = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for n in range(4):
                hand = Worker(
                    server.connect(token), after, instance=f"a{n}", lease_seconds=LEASE_SECONDS, limit=50
                )
                group.create_task(hand.work(empty))
            await server.until_all_ended(DRAIN_SECONDS)
            empty.set()
        final = await server.final_jobs()
    after.close()
    assert {job.id for job in final} == restored.keys()
    history = remembered(read_ledger(ledger.path), restored) + read_ledger(after.path)
    assert judge(history, final) == []
    assert any(status == "completed" for status, _ in restored.values()), "nothing had been worked on yet"


@pytest.mark.alone
async def test_a_backup_under_load_has_every_acknowledged_job_and_breaks_no_promise(tmp_path: Path) -> None:
    await backed_up(tmp_path, producers=16, workers=8, seconds=6)


@pytest.mark.soak
async def test_a_backup_under_the_load_of_64_producers_and_16_workers(tmp_path: Path) -> None:
    await backed_up(tmp_path, producers=64, workers=16, seconds=30)
