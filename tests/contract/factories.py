"""What the contract tests ask a store for, with everything that a test does not care about filled in."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING, Actor, Grant, Scope
from rota.domain.job import Beat, Claim, Finish, Job, NewJob
from rota.domain.retry import Backoff
from rota.errors import RotaError
from rota.store.base import JobType, Store, TokenRecord

ACTOR = Actor("token", "t-admin")
WORK = JobType(name="work", backoff=Backoff(jitter=0))
SIXTY_FOUR_KIB = b'"' + b"x" * 65_534 + b'"'


def new_job(type: str = "work", **fields: Any) -> NewJob:
    given: dict[str, Any] = {
        "queue": "default",
        "priority": 10,
        "producer": "t-producer",
        "payload": b"{}",
        "max_retries": 3,
        "request_uid": uuid.uuid4().bytes,
    }
    return NewJob(type=type, **given | fields)


def claim_of(limit: int = 1, *, owner: str = "t-worker", **fields: Any) -> Claim:
    given: dict[str, Any] = {"owner": owner, "worker_id": f"{owner}/1", "limit": limit}
    return Claim(**given | fields)


def ending(job: Job, outcome: str = "complete", **fields: Any) -> Finish:
    """How the holder of ``job`` ends its attempt."""
    held = {"id": job.id, "owner": job.owner, "lease_token": job.lease_token, "outcome": outcome}
    return Finish(**held | fields)


def sign(job: Job, **fields: Any) -> Beat:
    """A sign of life from the holder of ``job``."""
    return Beat(**{"id": job.id, "owner": job.owner, "lease_token": job.lease_token} | fields)


def token(name: str = "worker", **fields: Any) -> TokenRecord:
    given: dict[str, Any] = {
        "id": f"t-{name}",
        "key_id": f"k-{name}",
        "name": name,
        "hash": b"hash",
        "pepper_key_id": "pepper",
        "grant": Grant(scopes=frozenset({Scope.JOBS_WORK})),
    }
    return TokenRecord(**given | fields)


def agree(_: object) -> None:
    """A judge with nothing to say against it."""


async def put_type(store: Store, name: str, **fields: Any) -> JobType:
    given: dict[str, Any] = {"name": name, "backoff": WORK.backoff}
    stored, _ = await store.put_type(JobType(**given | fields), ACTOR, agree)
    return stored


async def enqueued(store: Store, *jobs: NewJob) -> list[Job]:
    return [verdict.job for verdict in await store.enqueue(jobs)]


async def running(store: Store, type: str = "work", *, owner: str = "t-worker", **fields: Any) -> Job:
    """A job that was enqueued and claimed just now; the only ready one of its type."""
    await enqueued(store, new_job(type, **fields))
    (job,) = await store.claim(claim_of(owner=owner, types=frozenset({type})))
    return job


async def finished(store: Store, job: Job, outcome: str = "complete", **fields: Any) -> Job:
    """The job after its holder ended it; raises what the store refuses."""
    (verdict,) = await store.finish([ending(job, outcome, **fields)])
    if isinstance(verdict, RotaError):
        raise verdict
    assert verdict is not None
    return verdict


async def beaten(store: Store, job: Job, **fields: Any) -> Any:
    (verdict,) = await store.heartbeat([sign(job, **fields)])
    if isinstance(verdict, RotaError):
        raise verdict
    return verdict


async def stored(store: Store, job: Job) -> Job:
    """The job as the database has it now."""
    found = await store.reader.job(job.id, EVERYTHING)
    assert found is not None
    return found


async def settled(store: Store) -> None:
    """Everything that was asked of the store before is done; claims without work are parked."""
    for _ in range(3):
        await asyncio.sleep(0)
    await store.sweep()


async def at_once(task: asyncio.Task[Any]) -> Any:
    """The result of a task that the commit just answered must have resolved too."""
    for _ in range(3):
        await asyncio.sleep(0)
    assert task.done(), "it was not part of the same commit"
    return task.result()


async def pass_time(store: Store, clock: FakeClock, seconds: float) -> int:
    """Let time go by with a sweep each second, as in a server that is up; how many were recovered."""
    recovered = (await store.sweep()).recovered
    while seconds > 0:
        clock.advance(min(seconds, 1))
        seconds -= 1
        recovered += (await store.sweep()).recovered
    return recovered


@asynccontextmanager
async def held_up(store: Store) -> AsyncIterator[None]:
    """The store stands still inside a transaction, so that what is asked meanwhile waits together."""
    entered, gate = threading.Event(), threading.Event()

    def judge(_: JobType) -> None:
        entered.set()
        assert gate.wait(30), "nobody let the store go on"

    change = asyncio.create_task(store.put_type(WORK, ACTOR, judge))
    await asyncio.to_thread(entered.wait, 10)
    try:
        yield
    finally:
        gate.set()
        await change


def ids(jobs: Sequence[Job]) -> list[int]:
    return [job.id for job in jobs]
