"""The asynchronous client: a thin transport under the calls of :mod:`rota.client.calls`."""

from __future__ import annotations

import asyncio
import builtins
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Self, TypeVar, Unpack

import httpx2
from msgspec import UNSET

from rota import __version__
from rota.client import calls, work
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
from rota.client.protocol import (
    MOST_TRIES,
    Answer,
    Call,
    Repeats,
    Trouble,
    bearer,
    read,
    server_url,
    unanswered,
)
from rota.errors import RotaError
from rota.wire import OutcomeRequest, ProgressReport

T = TypeVar("T")


class AsyncClient:
    """Speaks to a Rota server. Use it as ``async with AsyncClient() as client:`` or call ``close``.

    ``url`` and ``token`` default to ``ROTA_URL`` and ``ROTA_TOKEN``. ``timeout`` (seconds) bounds each try.
    Broken connections and busy answers (429, 503) are repeated with growing pauses, up to ``tries`` times,
    where a repeat cannot do the work twice. Every method raises the RotaError that the server
    answers with, and Unavailable when no answer comes.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        insecure_http: bool = False,
        tries: int = MOST_TRIES,
    ) -> None:
        self.url = server_url(url, insecure_http=insecure_http)
        self._timeout = timeout
        self._tries = tries
        self._http = httpx2.AsyncClient(
            headers={
                "Authorization": bearer(token),
                "Accept": "application/json",
                "Accept-Encoding": "identity",
                "User-Agent": f"rota-python/{__version__}",
            },
            # Loading the system's certificates takes longer than a call; plain HTTP needs none.
            verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if self.url.startswith("http:") else True,
            trust_env=False,
            follow_redirects=False,
            timeout=timeout,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=20.0),
        )
        self.types = Types(self)
        self.tokens = Tokens(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send one call, again where that is safe and sensible, and read its answer."""
        repeats = Repeats(call, self._tries)
        while True:
            outcome = await self._exchange(call, repeats.body)
            if isinstance(outcome, Answer) and outcome.status < 400:
                return read(call, outcome)
            delay = repeats.delay(outcome)
            if delay is None:
                if isinstance(outcome, Trouble):
                    raise unanswered(outcome, self.url)
                return read(call, outcome)
            await asyncio.sleep(delay)

    async def _exchange(self, call: Call[Any], body: bytes | None) -> Answer | Trouble:
        try:
            response = await self._http.request(
                call.method,
                self.url + call.path,
                content=body,
                headers={"Content-Type": "application/json"} if body is not None else None,
                timeout=self._timeout + call.wait_seconds,
            )
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            return Trouble.NOT_SENT
        except httpx2.TimeoutException:
            return Trouble.SILENT
        except httpx2.TransportError:
            return Trouble.BROKEN
        return Answer(response.status_code, response.headers, response.content)

    # Producing

    async def enqueue(
        self, job: JobSpec | str, payload: Any = UNSET, **options: Unpack[JobOptions]
    ) -> JobInfo:
        """Store one job: a spec (``fn.job(…)``), or a type's name with its payload and options."""
        if isinstance(job, str):
            job = JobSpec(job, {} if payload is UNSET else payload, **options)
        elif payload is not UNSET or options:
            raise TypeError("payload and options belong to the spec when a spec is given")
        return await self.send(calls.enqueue(job))

    async def enqueue_many(
        self, jobs: Iterable[JobSpec], *, atomic: bool = False
    ) -> builtins.list[JobInfo | RotaError]:
        """Store many jobs, in as few requests as their number and size allow.

        One entry per job in the order given: the job, or the error this one was refused with (returned, not
        raised). ``atomic`` stores all or raises; at most 5,000 jobs and 32 MiB then.
        """
        batches = calls.enqueue_batches(jobs, atomic=atomic)
        if atomic:
            batches = iter(list(batches))  # all are built, so a list too long is refused before any is sent
        return [entry for batch in batches for entry in await self.send(batch)]

    # Reading

    async def get(self, id: int) -> JobInfo:
        return await self.send(calls.job(id))

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

    async def delete(self, id: int) -> None:
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
