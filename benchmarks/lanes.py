"""One lane and a thousand of them: claims of 100 and their finishes, straight on the store.

Without HTTP and handlers, which cost the same with either and would flatter the ratio.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import uvloop

from benchmarks.figures import Figure, figure
from benchmarks.scenario import Place, Scale
from rota.clock import SystemClock
from rota.domain.access import Actor
from rota.domain.job import Claim, Finish, NewJob
from rota.store.base import JobType
from rota.store.sqlite.store import SqliteStore

LANES = 1_000
JOBS = 20_000
LIMIT = 100
OWNER = "fedcba9876543210fedcba9876543210"


class Store:
    """A store whose jobs are spread over so many lanes, neighbours in different ones."""

    def __init__(self, store: SqliteStore, lanes: int) -> None:
        self._store = store
        self._lanes = lanes
        self._made = 0

    @classmethod
    async def open(cls, file: Path, lanes: int) -> Store:
        store = await SqliteStore.open(file, SystemClock())
        await asyncio.gather(
            *(
                store.put_type(JobType(name=f"bench.{i}"), Actor("token", "benchmark"), _agree)
                for i in range(lanes)
            )
        )
        return cls(store, lanes)

    async def fill(self, jobs: int) -> None:
        await self._store.enqueue([self._job() for _ in range(jobs)])

    def _job(self) -> NewJob:
        self._made += 1
        return NewJob(
            queue="default",
            type=f"bench.{self._made % self._lanes}",
            priority=0,
            producer="0123456789abcdef0123456789abcdef",
            payload=b'{"n":123456}',
            max_retries=3,
            request_uid=self._made.to_bytes(16),
        )

    async def drain(self) -> float:
        """Claim and finish until nothing is ready; jobs a second."""
        done = 0
        began = time.perf_counter()
        while jobs := await self._store.claim(Claim(OWNER, "worker/host-1", LIMIT)):
            endings = [Finish(job.id, OWNER, job.lease_token or b"", "complete", b"null") for job in jobs]
            await self._store.finish(endings, answer=False)
            done += len(jobs)
        return done / (time.perf_counter() - began)

    async def close(self) -> None:
        await self._store.close()


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """Drained jobs a second with 1 and with 1,000 lanes, in turns."""
    folder = place.sub("lanes")
    folder.mkdir()
    one, many = uvloop.run(_measure(scale, folder))
    ratios = [theirs / ours for ours, theirs in zip(one, many, strict=True)]
    yield figure("lanes.1.rate", f"Store: claims of {LIMIT} and finishes, 1 lane", median(one), "jobs/s", one)
    yield figure(f"lanes.{LANES}.rate", f"… {LANES:,} lanes", median(many), "jobs/s", many)
    yield figure(f"lanes.{LANES}.ratio", "… ratio to one lane", median(ratios), "", ratios)


async def _measure(scale: Scale, folder: Path) -> tuple[list[float], list[float]]:
    stores = [await Store.open(folder / f"{lanes}.db", lanes) for lanes in (1, LANES)]
    rates: tuple[list[float], list[float]] = ([], [])
    turns = list(zip(stores, rates, strict=True))
    for _ in range(scale.repeats):
        for store, found in turns:
            await store.fill(scale.jobs(JOBS))
            found.append(await store.drain())
        turns.reverse()
    for store in stores:
        await store.close()
    return rates


def _agree(type: JobType) -> None:
    """Judge of a change that is always allowed."""
