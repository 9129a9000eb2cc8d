"""The stores that keep the contract. A further one needs a place here and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Protocol

import pytest

from rota.clock import FakeClock
from rota.domain.job import Job
from rota.store.base import Store
from rota.store.sqlite.store import SqliteStore
from tests.contract.factories import put_type


class Place(Protocol):
    """Where a database lies that stores can be opened on."""

    async def open(self) -> Store:
        """One more store, as another process would open it. It is closed at the end of the test."""
        ...

    def spoil(self, job: Job) -> None:
        """Put the job's next attempt straight into the database, so that counting a failure raises."""
        ...

    def hold_back(self, job: Job) -> None:
        """Let something in the database refer to the job that does not go with it: deleting it raises."""
        ...

    async def close(self) -> None: ...


class SqlitePlace:
    def __init__(self, path: Path, clock: FakeClock) -> None:
        self.path = path
        self._clock = clock
        self._opened: list[SqliteStore] = []

    async def open(self) -> SqliteStore:
        store = await SqliteStore.open(self.path, self._clock)
        self._opened.append(store)
        return store

    def spoil(self, job: Job) -> None:
        connection = sqlite3.connect(self.path, timeout=10)
        with connection:
            connection.execute(
                "INSERT INTO rota_attempts (job_id, attempt, finished_at) VALUES (?, ?, 0)",
                (job.id, job.failures + 1),
            )
        connection.close()

    def hold_back(self, job: Job) -> None:
        connection = sqlite3.connect(self.path, timeout=10)
        with connection:
            connection.execute("CREATE TABLE other (job_id INTEGER REFERENCES rota_jobs (id)) STRICT")
            connection.execute("INSERT INTO other VALUES (?)", (job.id,))
        connection.close()

    async def close(self) -> None:
        for store in self._opened:
            await store.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite"])
async def place(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Place]:
    places = {"sqlite": SqlitePlace}
    place = places[request.param](tmp_path / "rota.db", clock)
    yield place
    await place.close()


@pytest.fixture
async def store(place: Place) -> Store:
    """An open store that knows the type ``work`` (lease 30 s, back-off 2, 4, 8 … s without jitter)."""
    store = await place.open()
    await put_type(store, "work")
    return store
