"""The blocking client: the same methods as :class:`~rota.client.aio.AsyncClient`, without ``await``."""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Iterable, Iterator
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
from rota.client.transport import HttpTransport, Transport
from rota.errors import RotaError
from rota.wire import OutcomeRequest, ProgressReport

T = TypeVar("T")


class Client:
    """Speaks to a Rota server. Use it as ``with Client() as client:`` or call ``close``.

    ``url`` and ``token`` default to ``ROTA_URL`` and ``ROTA_TOKEN``. ``timeout`` (seconds) bounds each try.
    Broken connections and busy answers (429, 503) are repeated with growing pauses, up to ``tries`` times,
    where a repeat cannot do the work twice. Every method raises the RotaError that the server
    answers with, and Unavailable when no answer comes. Threads may share a client. ``transport`` carries
    the calls instead of HTTP: ``rota.Local`` brings its own.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        insecure_http: bool = False,
        tries: int = MOST_TRIES,
        transport: Transport | None = None,
    ) -> None:
        self._transport = transport or HttpTransport(url, token, timeout, insecure_http)
        self._tries = tries
        self.types = Types(self)
        self.queues = Queues(self)
        self.tokens = Tokens(self)
        self.workers = Workers(self)

    @property
    def url(self) -> str:
        """The server's address."""
        return self._transport.where

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def send(self, call: Call[T]) -> T:
        """Send one call, again where that is safe and sensible, and read its answer."""
        repeats = Repeats(call, self._tries)
        outcome = self._transport.exchange(call, repeats.body)
        while (delay := repeats.delay(outcome)) is not None:
            time.sleep(delay)
            outcome = self._transport.exchange(call, repeats.body)
        return read(call, outcome, self._transport.where)

    # Producing

    def enqueue(self, job: JobSpec | str, payload: Any = UNSET, **options: Unpack[JobOptions]) -> JobInfo:
        """Store one job: a spec (``fn.job(…)``), or a type's name with its payload and options."""
        return self.send(calls.enqueue(calls.spec_of(job, payload, options)))

    def enqueue_many(
        self, jobs: Iterable[JobSpec], *, atomic: bool = False
    ) -> builtins.list[JobInfo | RotaError]:
        """Store many jobs, in as few requests as their number and size allow.

        One entry per job in the order given: the job, or the error this one was refused with (returned, not
        raised). ``atomic`` stores all or raises; at most 5,000 jobs and 32 MiB then.
        """
        batches = calls.enqueue_batches(jobs, atomic=atomic)
        return [entry for batch in batches for entry in self.send(batch)]

    # Reading

    def get(self, id: int) -> JobInfo:
        return self.send(calls.job(id))

    def wait(self, id: int, timeout: float | None = None) -> JobInfo:
        """The job when it has ended; after ``timeout`` seconds (None: however long) as it is then."""
        until = float("inf") if timeout is None else time.monotonic() + timeout
        while True:
            left = max(0.0, min(until - time.monotonic(), management.LONGEST_WAIT_SECONDS))
            job = self.send(management.ended(id, left))
            if job.finished_at is not None or time.monotonic() >= until:
                return job

    def list(self, *, page_size: int | None = None, **filters: Unpack[calls.JobFilters]) -> Iterator[JobInfo]:
        """All matching jobs, newest first, fetched page by page (``page_size`` 1 to 200, default 50)."""
        yield from self._pages(lambda cursor: calls.jobs(dict(filters), page_size, cursor))

    def attempts(self, id: int) -> builtins.list[AttemptInfo]:
        return list(self._pages(lambda cursor: calls.attempts(id, cursor)))

    def logs(self, id: int) -> builtins.list[LogInfo]:
        return list(self._pages(lambda cursor: calls.logs(id, cursor)))

    def health(self) -> HealthInfo:
        """Whether the server is ready. Raises Unavailable when it is not."""
        return self.send(calls.health())

    # Working

    def claim(self, **options: Unpack[work.ClaimOptions]) -> ClaimedJob | None:
        """Take one job, waiting up to ``wait_seconds``; None when there was none."""
        return self.send(work.claim(options))

    def claim_many(self, limit: int, **options: Unpack[work.ClaimOptions]) -> builtins.list[ClaimedJob]:
        """Take up to ``limit`` (1 to 1,000) jobs; the wait ends as soon as there is one."""
        return self.send(work.claim_many(limit, options))

    def complete(self, held: work.Holds, result: Any = None) -> JobInfo:
        return self.send(work.complete(held, result))

    def fail(
        self,
        held: work.Holds,
        error: str,
        *,
        retryable: bool = True,
        retry_in_seconds: float | None = None,
    ) -> JobInfo:
        return self.send(work.fail(held, error, retryable, retry_in_seconds))

    def release(
        self, held: work.Holds, *, snooze_seconds: float | None = None, started: bool = True
    ) -> JobInfo:
        """Give a job back without counting the attempt."""
        return self.send(work.release(held, snooze_seconds, started))

    def heartbeat(
        self,
        held: work.Holds,
        *,
        lease_seconds: float | None = None,
        started: bool = False,
        progress: ProgressReport | None = None,
        log: str | None = None,
    ) -> HeartbeatInfo:
        """Extend the lease. Raises JobNotHeld when the job is lost: stop working on it then."""
        return self.send(
            work.heartbeat(held, lease_seconds=lease_seconds, started=started, progress=progress, log=log)
        )

    def finish_many(self, outcomes: Iterable[OutcomeRequest]) -> builtins.list[RotaError | None]:
        """End many attempts (see ``work.outcome``); per outcome None, or why it was refused."""
        return [verdict for batch in work.finish_batches(outcomes) for verdict in self.send(batch)]

    # Managing

    def cancel(self, id: int) -> JobInfo:
        """Cancel a pending job at once; ask the worker of a running one to stop."""
        return self.send(calls.cancel(id))

    def replay(self, id: int) -> JobInfo:
        """Start a failed or cancelled job over."""
        return self.send(calls.replay(id))

    def change(self, id: int, **options: Unpack[management.ChangeOptions]) -> JobInfo:
        """Give a pending job another priority, or another time (``run_at`` None: as soon as possible)."""
        return self.send(management.change(id, options))

    def act(
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
        total = self.send(management.act(action, dict(filters), dry_run=dry_run, everything=everything))
        while (cursor := total.next_cursor) is not None:
            call = management.act(
                action, dict(filters), dry_run=dry_run, everything=everything, cursor=cursor
            )
            total = total.and_then(self.send(call), dry_run=dry_run)
        return total

    def delete(self, id: int) -> None:
        """Delete a job that has ended and whose idempotency key, if it has one, is a day old."""
        self.send(calls.delete(id))

    def _pages(self, page: Callable[[str | None], Call[Page[T]]]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            got = self.send(page(cursor))
            yield from got.items
            cursor = got.next_cursor
            if cursor is None:
                return


class Types:
    """The declared types of jobs: ``client.types``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> builtins.list[TypeInfo]:
        return list(self._client._pages(calls.types))

    def put(self, name: str, **options: Unpack[calls.TypeOptions]) -> TypeInfo:
        """Declare a type, or replace its settings."""
        return self._client.send(calls.put_type(name, options))

    def delete(self, name: str) -> None:
        self._client.send(calls.delete_type(name))

    def pause(self, name: str) -> TypeInfo:
        """Hand out no more jobs of this type until it is resumed."""
        return self._client.send(calls.pause_type(name, True))

    def resume(self, name: str) -> TypeInfo:
        return self._client.send(calls.pause_type(name, False))


class Queues:
    """The queues of the server: ``client.queues``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> builtins.list[management.QueueCounts]:
        """Each with its ready, delayed and running jobs."""
        return list(self._client._pages(management.queues))

    def put(self, name: str, *, paused: bool | None = None) -> management.QueueInfo:
        """Make a queue that jobs may be enqueued to; ``paused`` None leaves that as it is."""
        return self._client.send(management.put_queue(name, paused))

    def pause(self, name: str) -> management.QueueInfo:
        """Hand out no more jobs of this queue until it is resumed."""
        return self._client.send(management.pause_queue(name, True))

    def resume(self, name: str) -> management.QueueInfo:
        return self._client.send(management.pause_queue(name, False))


class Tokens:
    """The tokens of the server: ``client.tokens``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> builtins.list[TokenInfo]:
        return list(self._client._pages(calls.tokens))

    def create(self, name: str, **options: Unpack[calls.TokenOptions]) -> NewToken:
        """Make a token; nobody can grant what they do not hold."""
        return self._client.send(calls.create_token(name, options))

    def revoke(self, key_id: str) -> TokenInfo:
        """End a token for good; the jobs it holds go back to the queue."""
        return self._client.send(calls.revoke_token(key_id))

    def rotate(self, key_id: str, *, grace_seconds: float = 0) -> NewToken:
        """Give a token a new secret; the old one works for ``grace_seconds`` more."""
        return self._client.send(calls.rotate_token(key_id, grace_seconds))


class Workers:
    """The workers that have announced themselves: ``client.workers``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> builtins.list[workers.WorkerInfo]:
        """Those of the last day, the newest first."""
        return list(self._client._pages(workers.workers))

    def drain(self, id: int) -> workers.WorkerInfo:
        """Ask a worker to end its jobs, take no more and stop; it learns of it within half a minute."""
        return self._client.send(workers.drain(id))

    def handlers(self) -> builtins.list[workers.HandlerInfo]:
        """What they run, by name."""
        return list(self._client._pages(workers.handlers))
