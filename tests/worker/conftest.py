"""A real server for the worker's tests, workers in the test's loop, and workers in processes of their own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Unpack

import pytest

from rota import AsyncClient, JobInfo, Task, Worker
from rota.client.calls import TypeOptions
from rota.domain.retry import Backoff
from tests.live_server import LiveServer, fresh

ROOT = Path(__file__).resolve().parents[2]
POLL_SECONDS = 0.02
SHORTEST_LEASE = 2.0
TERMINAL = {"completed", "failed", "cancelled"}


class Place:
    """What a test works with: a server, a client, and names of its own."""

    def __init__(self, url: str, client: AsyncClient, token: str | None, folder: Path) -> None:
        self.url = url
        self.client = client
        self.token = token or ""
        self.folder = folder

    async def type(self, **options: Unpack[TypeOptions]) -> str:
        """Declare a type that no other test uses, without waits between attempts unless told."""
        name = fresh("type")
        options.setdefault("backoff", Backoff(strategy="none"))
        await self.client.types.put(name, **options)
        return name

    def worker(self, *tasks: Task[..., Any], **options: Any) -> Worker:
        return Worker(self.url, self.token, tasks, **options)

    @asynccontextmanager
    async def working(self, *tasks: Task[..., Any], **options: Any) -> AsyncIterator[Worker]:
        """A worker in the test's own loop; drained at the end."""
        worker = self.worker(*tasks, **options)
        serving = asyncio.create_task(worker.serve())
        try:
            yield worker
        finally:
            await asyncio.sleep(0)
            worker.stop()
            worker.stop()
            await serving

    async def until(self, id: int, *statuses: str, seconds: float = 30) -> JobInfo:
        """The job once it has one of the statuses (by default: has ended)."""
        return await self.until_job(id, lambda job: job.status in (statuses or TERMINAL), seconds)

    async def until_job(self, id: int, met: Callable[[JobInfo], bool], seconds: float = 30) -> JobInfo:
        async with asyncio.timeout(seconds):
            while not met(job := await self.client.get(id)):  # noqa: ASYNC110  # nothing announces it
                await asyncio.sleep(POLL_SECONDS)
        return job


class WorkerProcess:
    """A worker in a process of its own, with the tasks of ``tests.worker.handlers`` under given types."""

    def __init__(self, place: Place, type: str, **options: str) -> None:
        self.notes = place.folder / "notes"
        self.notes.touch()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.process"],
            cwd=ROOT,
            env=os.environ
            | {
                "ROTA_URL": place.url,
                "ROTA_TOKEN": place.token,
                "TEST_TYPE": type,
                "TEST_NOTES": str(self.notes),
            }
            | options,
            stderr=subprocess.PIPE,
        )

    def lines(self) -> list[str]:
        """What handlers have written down so far, in order."""
        return self.notes.read_text().splitlines()

    async def until_noted(self, number: int, seconds: float = 20) -> list[str]:
        """The notes once there are so many."""
        async with asyncio.timeout(seconds):
            while len(lines := self.lines()) < number:  # noqa: ASYNC110  # another process writes it
                await asyncio.sleep(POLL_SECONDS)
        return lines

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self, seconds: float = 20) -> int:
        """Wait for the process; its exit code."""
        async with asyncio.timeout(seconds):
            return await asyncio.to_thread(self._process.wait)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()


@pytest.fixture
async def place(server: LiveServer, tmp_path: Path) -> AsyncIterator[Place]:
    async with AsyncClient(server.url, server.admin.token) as client:
        yield Place(server.url, client, server.admin.token, tmp_path)


@pytest.fixture
def worker_process(place: Place) -> Iterator[Callable[..., WorkerProcess]]:
    started: list[WorkerProcess] = []

    def start(type: str, **options: str) -> WorkerProcess:
        started.append(WorkerProcess(place, type, **options))
        return started[-1]

    yield start
    for process in started:
        process.close()
