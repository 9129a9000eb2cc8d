"""Several real processes and a slow writer on one database: nobody is told of locks, no lease is lost."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from rota.clock import SystemClock
from rota.domain.access import EVERYTHING
from rota.errors import RotaError
from rota.store.base import JobFilter
from rota.store.sqlite.connection import immediate, open_writer
from rota.store.sqlite.store import SqliteStore
from tests.contract.factories import claim_of, ending, enqueued, new_job, put_type, sign


async def _work(path: Path, name: str, seconds: float) -> tuple[int, list[int], list[str]]:
    """Enqueue, claim, beat, sweep and complete; how many were enqueued, which were done, what went wrong."""
    store = await SqliteStore.open(path, SystemClock())
    await put_type(store, "work", lease_seconds=7)
    stored, done, wrong = 0, [], []
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            stored += len(await enqueued(store, new_job(), new_job()))
            jobs = await store.claim(claim_of(3, owner=name), wait_seconds=0.2)
            verdicts = [*await store.heartbeat([sign(job) for job in jobs])]
            await store.sweep()
            endings = await store.finish([ending(job) for job in jobs], answer=False)
            done += [job.id for job, verdict in zip(jobs, endings, strict=True) if verdict is None]
            wrong += [str(each) for each in (*verdicts, *endings) if isinstance(each, RotaError)]
    except Exception as error:
        wrong.append(repr(error))
    await store.close()
    return stored, done, wrong


def work(path: Path, name: str, seconds: float) -> tuple[int, list[int], list[str]]:
    return asyncio.run(_work(path, name, seconds))


def hold_the_lock(path: Path, seconds: float) -> None:
    """A writer of another program that keeps its transactions open for long."""
    connection = open_writer(path)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        immediate(connection)
        time.sleep(0.4)  # the case: the lock is held for so long
        connection.rollback()
        time.sleep(0.05)  # and free for so long
    connection.close()


@pytest.mark.parametrize(("processes", "seconds"), [(3, 2), pytest.param(8, 60, marks=pytest.mark.soak)])
async def test_processes_and_a_slow_writer_share_a_database_without_loss(
    tmp_path: Path, processes: int, seconds: float
) -> None:
    path = tmp_path / "rota.db"
    store = await SqliteStore.open(path, SystemClock())
    await put_type(store, "work", lease_seconds=7)
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(processes + 1, multiprocessing.get_context("spawn")) as pool:
        slow = loop.run_in_executor(pool, hold_the_lock, path, seconds)
        workers = [loop.run_in_executor(pool, work, path, f"t-{n}", seconds) for n in range(processes)]
        answers = await asyncio.gather(*workers)
        await slow
    assert [wrong for _, _, wrong in answers] == [[]] * processes
    done = [id for _, ended, _ in answers for id in ended]
    assert len(done) == len(set(done)) > 0
    left = 0
    while jobs := await store.claim(claim_of(1_000)):
        left += len(jobs)
        await store.finish([ending(job) for job in jobs], answer=False)
    assert sum(stored for stored, _, _ in answers) == len(done) + left
    running = await store.reader.jobs(JobFilter(statuses=frozenset({"running"})), EVERYTHING, limit=10)
    assert running.jobs == []
    tried = [await store.reader.attempts(id, EVERYTHING) for id in done[:200]]
    assert [attempts for attempts in tried if attempts] == []  # no lease was taken from a living worker
    await store.close()
