"""The asynchronous client: a thin transport under the calls of :mod:`rota.client.calls`."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self, TypeVar, Unpack

from msgspec import UNSET

from rota.client import calls, management, work, workers
from rota.client.answers import Page
from rota.client.jobs import (
    AttemptInfo,
    ClaimedJob,
    HealthInfo,
    HeartbeatInfo,
    JobInfo,
    JobOptions,
    JobSpec,
    LogInfo,
    NewToken,
    TokenInfo,
    TypeInfo,
)
from rota.client.protocol import MOST_TRIES, Call, Repeats, read
from rota.client.transport import AsyncHttpTransport, AsyncTransport
from rota.errors import RotaError
from rota.wire import OutcomeRequest, ProgressReport

T = TypeVar("T")


class AsyncClient:
    """Speaks to a Rota server. Use it as ``async with AsyncClient() as client:`` or call ``close``.

    ``url`` and ``token`` default to ``ROTA_URL`` and ``ROTA_TOKEN``. ``timeout`` (seconds) bounds each try.
    Broken connections and busy answers (429, 503) are repeated with growing pauses, up to ``tries`` times,
    where a repeat cannot do the work twice. Every method raises the RotaError that the server
    answers with, and Unavailable when no answer comes. ``transport`` carries the calls instead of HTTP:
    ``rota.Local`` brings its own.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        insecure_http: bool = False,
        tries: int = MOST_TRIES,
        transport: AsyncTransport | None = None,
    ) -> None:
        self._transport = transport or AsyncHttpTransport(url, token, timeout, insecure_http)
        self._tries = tries
        self.types = Types(self)
        self.queues = Queues(self)
        self.tokens = Tokens(self)
        self.workers = Workers(self)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._transport.where

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    async def send(self, call: Call[T]) -> T:
        """Send one call, again where that is safe and sensible, and read its answer."""
        repeats = Repeats(call, self._tries)
        outcome = await self._transport.exchange(call, repeats.body)
        while (delay := repeats.delay(outcome)) is not None:
            await asyncio.sleep(delay)
            outcome = await self._transport.exchange(call, repeats.body)
        return read(call, outcome, self._transport.where)

    # Producing

    async def enqueue(
        self, job: JobSpec | str, payload: Any = UNSET, **options: Unpack[JobOptions]
    ) -> JobInfo:
        """Store one job: a spec (``fn.job(…)``), or a type's name with its payload and options."""
        return await self.send(calls.enqueue(calls.spec_of(job, payload, options)))

    async def enqueue_many(
        self, jobs: Iterable[JobSpec], *, atomic: bool = False
    ) -> builtins.list[JobInfo | RotaError]:
        """Store many jobs, in as few requests as their number and size allow.

        One entry per job in the order given: the job, or the error this one was refused with (returned, not
        raised). ``atomic`` stores all or raises; at most 5,000 jobs and 32 MiB then.
        """
        batches = calls.enqueue_batches(jobs, atomic=atomic)
        return [entry for batch in batches for entry in await self.send(batch)]

    # Reading

    async def get(self, id: int) -> JobInfo:
        return await self.send(calls.job(id))

    async def wait(self, id: int, timeout: float | None = None) -> JobInfo:
        """The job when it has ended; after ``timeout`` seconds (None: however long) as it is then."""
        until = float("inf") if timeout is None else asyncio.get_running_loop().time() + timeout
        while True:
            left = max(0.0, min(until - asyncio.get_running_loop().time(), management.LONGEST_WAIT_SECONDS))
            job = await self.send(management.ended(id, left))
            if job.finished_at is not None or asyncio.get_running_loop().time() >= until:
                return job

    async def list(
        self, *, page_size: int | None = None, **filters: Unpack[calls.JobFilters]
    ) -> AsyncIterator[JobInfo]:
        """All matching jobs, newest first, fetched page by page (``page_size`` 1 to 200, default 50)."""
        async for job in self._pages(lambda cursor: calls.jobs(dict(filters), page_size, cursor)):
            yield job

    async def attempts(self, id: int) -> builtins.list[AttemptInfo]:
        return [one async for one in self._pages(lambda cursor: calls.attempts(id, cursor))]

    async def logs(self, id: int) -> builtins.list[LogInfo]:
        return [one async for one in self._pages(lambda cursor: calls.logs(id, cursor))]

    async def health(self) -> HealthInfo:
        """Whether the server is ready. Raises Unavailable when it is not."""
        return await self.send(calls.health())

    # Working

    async def claim(self, **options: Unpack[work.ClaimOptions]) -> ClaimedJob | None:
        """Take one job, waiting up to ``wait_seconds``; None when there was none."""
        return await self.send(work.claim(options))

    async def claim_many(self, limit: int, **options: Unpack[work.ClaimOptions]) -> builtins.list[ClaimedJob]:
        """Take up to ``limit`` (1 to 1,000) jobs; the wait ends as soon as there is one."""
        return await self.send(work.claim_many(limit, options))

    async def complete(self, held: work.Holds, result: Any = None) -> JobInfo:
        return await self.send(work.complete(held, result))

    async def fail(
        self,
        held: work.Holds,
        error: str,
        *,
        retryable: bool = True,
        retry_in_seconds: float | None = None,
    ) -> JobInfo:
        return await self.send(work.fail(held, error, retryable, retry_in_seconds))

    async def release(
        self, held: work.Holds, *, snooze_seconds: float | None = None, started: bool = True
    ) -> JobInfo:
        """Give a job back without counting the attempt."""
        return await self.send(work.release(held, snooze_seconds, started))

    async def heartbeat(
        self,
        held: work.Holds,
        *,
        lease_seconds: float | None = None,
        started: bool = False,
        progress: ProgressReport | None = None,
        log: str | None = None,
    ) -> HeartbeatInfo:
        """Extend the lease. Raises JobNotHeld when the job is lost: stop working on it then."""
        return await self.send(
            work.heartbeat(held, lease_seconds=lease_seconds, started=started, progress=progress, log=log)
        )

    async def finish_many(self, outcomes: Iterable[OutcomeRequest]) -> builtins.list[RotaError | None]:
        """End many attempts (see ``work.outcome``); per outcome None, or why it was refused."""
        return [verdict for batch in work.finish_batches(outcomes) for verdict in await self.send(batch)]

    # Managing

    async def cancel(self, id: int) -> JobInfo:
        """Cancel a pending job at once; ask the worker of a running one to stop."""
        return await self.send(calls.cancel(id))

    async def replay(self, id: int) -> JobInfo:
        """Start a failed or cancelled job over."""
        return await self.send(calls.replay(id))

    async def change(self, id: int, **options: Unpack[management.ChangeOptions]) -> JobInfo:
        """Give a pending job another priority, or another time (``run_at`` None: as soon as possible)."""
        return await self.send(management.change(id, options))

    async def act(
        self,
        action: management.Action,
        *,
        dry_run: bool,
        everything: bool = False,
        **filters: Unpack[calls.JobFilters],
    ) -> management.ActionInfo:
        """Replay, cancel or delete all jobs that match, in as many requests as it takes; or count them.

        Without filters ``everything`` must be true: it is about all jobs that the token sees.
        """
        total = await self.send(management.act(action, dict(filters), dry_run=dry_run, everything=everything))
        while (cursor := total.next_cursor) is not None:
            call = management.act(
                action, dict(filters), dry_run=dry_run, everything=everything, cursor=cursor
            )
            total = total.and_then(await self.send(call), dry_run=dry_run)
        return total

    async def delete(self, id: int) -> None:
        """Delete a job that has ended and whose idempotency key, if it has one, is a day old."""
        await self.send(calls.delete(id))

    async def _pages(self, page: Callable[[str | None], Call[Page[T]]]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            got = await self.send(page(cursor))
            for item in got.items:
                yield item
            cursor = got.next_cursor
            if cursor is None:
                return


class Types:
    """The declared types of jobs: ``client.types``."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> builtins.list[TypeInfo]:
        return [one async for one in self._client._pages(calls.types)]

    async def put(self, name: str, **options: Unpack[calls.TypeOptions]) -> TypeInfo:
        """Declare a type, or replace its settings."""
        return await self._client.send(calls.put_type(name, options))

    async def delete(self, name: str) -> None:
        await self._client.send(calls.delete_type(name))

    async def pause(self, name: str) -> TypeInfo:
        """Hand out no more jobs of this type until it is resumed."""
        return await self._client.send(calls.pause_type(name, True))

    async def resume(self, name: str) -> TypeInfo:
        return await self._client.send(calls.pause_type(name, False))


class Queues:
    """The queues of the server: ``client.queues``."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> builtins.list[management.QueueCounts]:
        """Each with its ready, delayed and running jobs."""
        return [one async for one in self._client._pages(management.queues)]

    async def put(self, name: str, *, paused: bool | None = None) -> management.QueueInfo:
        """Make a queue that jobs may be enqueued to; ``paused`` None leaves that as it is."""
        return await self._client.send(management.put_queue(name, paused))

    async def pause(self, name: str) -> management.QueueInfo:
        """Hand out no more jobs of this queue until it is resumed."""
        return await self._client.send(management.pause_queue(name, True))

    async def resume(self, name: str) -> management.QueueInfo:
        return await self._client.send(management.pause_queue(name, False))


class Tokens:
    """The tokens of the server: ``client.tokens``."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> builtins.list[TokenInfo]:
        return [one async for one in self._client._pages(calls.tokens)]

    async def create(self, name: str, **options: Unpack[calls.TokenOptions]) -> NewToken:
        """Make a token; nobody can grant what they do not hold."""
        return await self._client.send(calls.create_token(name, options))

    async def revoke(self, key_id: str) -> TokenInfo:
        """End a token for good; the jobs it holds go back to the queue."""
        return await self._client.send(calls.revoke_token(key_id))

    async def rotate(self, key_id: str, *, grace_seconds: float = 0) -> NewToken:
        """Give a token a new secret; the old one works for ``grace_seconds`` more."""
        return await self._client.send(calls.rotate_token(key_id, grace_seconds))


class Workers:
    """The workers that have announced themselves: ``client.workers``."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    async def list(self) -> builtins.list[workers.WorkerInfo]:
        """Those of the last day, the newest first."""
        return [one async for one in self._client._pages(workers.workers)]

    async def drain(self, id: int) -> workers.WorkerInfo:
        """Ask a worker to end its jobs, take no more and stop; it learns of it within half a minute."""
        return await self._client.send(workers.drain(id))

    async def handlers(self) -> builtins.list[workers.HandlerInfo]:
        """What they run, by name."""
        return [one async for one in self._client._pages(workers.handlers)]
