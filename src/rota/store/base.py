"""The contract that every store keeps.

A store is two halves: :class:`Store` writes, :class:`Reader` reads. The hot verbs take lists; what
concurrent callers ask for is collected into one transaction (``batcher.py``), and a verb returns only
after that transaction has been committed, with one verdict per item, in the order asked.

Guarantees, whatever the database:

- Every decision is made inside the transaction, on the state at that moment. ``now`` is read from the
  clock after the write lock is held.
- A refused item (not held, unknown, ended) is a verdict, an exception object in the returned list,
  and never disturbs its neighbours. A verb raises only when the whole call failed:
  ``Unavailable`` when the store is full, closing or out of reach; nothing was stored then.
- Administrative verbs take an ``actor``: who asked for the change. They leave exactly one row in the audit,
  in the transaction of the change; a change that is refused leaves none.
- Readers get a :class:`~rota.domain.access.Visibility` and return only what it sees, masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from rota.domain.access import Actor, Grant, Visibility
from rota.domain.audit import AuditFilter, AuditPage, Refusal, Seal, Sealer
from rota.domain.job import (
    DEFAULT_LEASE_SECONDS,
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    MAX_PAYLOAD_BYTES,
    Attempt,
    Beat,
    Claim,
    Finish,
    Job,
    LogLine,
    NewJob,
)
from rota.domain.retry import Backoff
from rota.errors import RotaError
from rota.store.records import (
    Action,
    Announcement,
    Candidates,
    CataloguedHandler,
    Expired,
    Kept,
    LaneCount,
    QueueRecord,
    WorkerRecord,
)
from rota.telemetry import Telemetry


class JobType(msgspec.Struct, frozen=True, kw_only=True):
    """A type of jobs as it is stored. ``deleted`` types take no new jobs and hand none out."""

    name: str
    description: str = ""
    queue: str = DEFAULT_QUEUE
    default_priority: int = 0
    max_retries: int = DEFAULT_MAX_RETRIES
    backoff: Backoff = Backoff()
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    timeout_seconds: float | None = None
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    paused: bool = False
    payload_schema: bytes | None = None
    """JSON Schema that payloads must fit, as it was sent."""
    idempotent: bool = False
    """Whether running a job of it twice is the same as running it once."""
    deleted: bool = False
    created_at: int = 0
    updated_at: int = 0


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A token as it is stored: never the token itself, only its HMAC."""

    id: str
    """Immutable; producer and owner of jobs. Kept over rotation, as are name and key id."""
    key_id: str
    name: str
    hash: bytes
    pepper_key_id: str
    grant: Grant
    rate_limit_per_minute: int | None = None
    previous_hash: bytes | None = None
    previous_pepper_key_id: str | None = None
    previous_until: int | None = None
    """Until when the secret before the last rotation still works."""
    expires_at: int | None = None
    revoked_at: int | None = None
    suspended_at: int | None = None
    """Since when a restore keeps it from being used; unlike a revoked one it can be resumed."""
    last_used_at: int | None = None
    created_at: int = 0
    created_by: str | None = None


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """What became of one job of an enqueue."""

    job: Job
    created: bool
    """False when the producer's key or request_uid was known: ``job`` is then the stored one."""
    mismatch: bool = False
    """The known job has another type or payload than the one asked for."""


class Beaten(msgspec.Struct, frozen=True, gc=False):
    lease_expires_at: int
    cancel_requested: bool


class Swept(msgspec.Struct, frozen=True):
    """What one sweep did."""

    promoted: int = 0
    recovered: int = 0
    more: bool = False
    """Whether it stopped at its bound of rows, so that there may be more to do at once."""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """What a list of jobs is narrowed to; None does not narrow."""

    statuses: frozenset[str] | None = None
    type: str | None = None
    queue: str | None = None
    schedule_id: int | None = None
    text: str | None = None
    created_after: int | None = None
    created_before: int | None = None


class JobPage(msgspec.Struct, frozen=True):
    jobs: list[Job]
    next_before: int | None
    """Ask again with ``before`` set to this id; None at the end. A page may be short and still have one."""


Judge = Callable[[], RotaError | None]
"""Asked before a parked claim joins a transaction: is the token still good? None means yes."""


class Store(Protocol):
    """The writing half."""

    async def enqueue(self, jobs: Sequence[NewJob], *, atomic: bool = False) -> list[Enqueued]:
        """Insert jobs. A known (producer, request_uid) or (producer, idempotency key) gives the stored job.

        ``atomic``: all in one transaction (at most 5,000); otherwise long lists may be cut. They are taken
        or turned away as a whole; when the database then fails at one part, others may have been stored.
        """
        ...

    async def claim(self, claim: Claim, *, wait_seconds: float = 0, judge: Judge | None = None) -> list[Job]:
        """Hand out up to ``claim.limit`` ready jobs: highest priority first, then lowest id.

        With ``wait_seconds`` the claim parks until a lane it may serve has work; cancelling the call takes
        it out again (jobs claimed by then must be released by the caller). Raises what ``judge`` returns.
        """
        ...

    async def finish(self, endings: Sequence[Finish], *, answer: bool = True) -> list[Job | RotaError | None]:
        """End attempts: complete, fail or release. ``answer=False`` spares the jobs: None means accepted."""
        ...

    async def heartbeat(self, beats: Sequence[Beat]) -> list[Beaten | RotaError]:
        """Extend leases; store progress and log lines."""
        ...

    async def cancel(self, id: int, visibility: Visibility, actor: Actor) -> Job:
        """Cancel a pending job, ask a running one to stop. Raises NotFound, JobEnded."""
        ...

    async def replay(
        self, id: int, visibility: Visibility, actor: Actor, judge: JobJudge | None = None
    ) -> Job:
        """Start a failed or cancelled job over. Raises NotFound, NotReplayable, and what ``judge`` raises."""
        ...

    async def delete(
        self, id: int, visibility: Visibility, actor: Actor, judge: JobJudge | None = None
    ) -> None:
        """Delete a job that has ended and whose idempotency key has expired.

        ``judge`` sees the stored job inside the transaction and may raise. Raises NotFound, JobRunning,
        Conflict.
        """
        ...

    async def change(
        self,
        id: int,
        visibility: Visibility,
        actor: Actor,
        *,
        priority: int | None = None,
        run_at: int | None = None,
        reschedule: bool = False,
    ) -> Job:
        """Change the priority of a pending job, or with ``reschedule`` its time (None: at once).

        Raises NotFound, JobRunning, JobEnded.
        """
        ...

    async def act(
        self,
        action: Action,
        ids: Sequence[int],
        statuses: frozenset[str],
        visibility: Visibility,
        actor: Actor,
        asked: Mapping[str, object] | None = None,
    ) -> list[int]:
        """Do ``action`` to those of these jobs (at most 1,000) that still have one of ``statuses``.

        ``asked`` is the filter that found them, for the audit.

        One transaction; returns the ids of those it was done to. A row that cannot be written stops only
        itself.
        """
        ...

    async def purge(self, ids: Sequence[int], finished_before: int) -> int:
        """Delete those of these jobs (at most 1,000) that ended by then and are guarded by nothing."""
        ...

    async def put_queue(self, name: str, paused: bool | None, actor: Actor) -> tuple[QueueRecord, bool]:
        """Make a queue or change it; ``paused`` None keeps that. The flag tells whether it is new.

        Raises Conflict when there are too many queues.
        """
        ...

    async def pause_queue(self, name: str, paused: bool, actor: Actor) -> QueueRecord:
        """Pause or resume. Raises NotFound unless it was made, a type names it, or it is ``default``."""
        ...

    async def announce_worker(self, wanted: Announcement) -> bool:
        """Keep what a worker says about itself; returns whether it is asked to drain.

        Raises Conflict when another token's worker has the name, and when there are too many.
        """
        ...

    async def drain_worker(self, id: int, actor: Actor, judge: WorkerJudge) -> WorkerRecord:
        """Ask a worker to drain. Raises NotFound, and what ``judge`` raises."""
        ...

    async def forget_workers(self, seen_before: int) -> int:
        """Delete the workers that were last seen before; returns how many."""
        ...

    async def sweep(self) -> Swept:
        """Promote delayed jobs whose time has come and recover lapsed leases. Repeating changes nothing."""
        ...

    async def put_type(
        self, wanted: JobType, actor: Actor, judge: TypeJudge, *, keep_pause: bool = False
    ) -> tuple[JobType, bool]:
        """Create or replace a type; the flag tells whether it is new (or was deleted).

        ``keep_pause`` leaves a type that is there as paused as it is. ``judge`` sees the type that is
        replaced, inside the transaction, and may raise. Raises Conflict when
        there are too many types.
        """
        ...

    async def delete_type(self, name: str, actor: Actor, judge: TypeJudge) -> None:
        """Mark a type deleted. Raises NotFound, and what ``judge`` raises."""
        ...

    async def pause_type(self, name: str, paused: bool, actor: Actor, judge: TypeJudge) -> JobType:
        """Pause or resume. Raises NotFound, and what ``judge`` raises."""
        ...

    async def add_token(self, record: TokenRecord, actor: Actor) -> TokenRecord:
        """Raises NameTaken: names are unique for ever."""
        ...

    async def rotate_token(
        self,
        key_id: str,
        secret_hash: bytes,
        pepper_key_id: str,
        grace_seconds: float,
        actor: Actor,
        judge: TokenJudge,
    ) -> TokenRecord:
        """Give a token a new secret. ``judge`` sees the stored record in the transaction and may raise."""
        ...

    async def revoke_token(self, key_id: str, actor: Actor, judge: TokenJudge) -> TokenRecord:
        """Revoke at once and take the token's leases back in the same transaction (uncounted)."""
        ...

    async def resume_token(self, key_id: str, actor: Actor, judge: TokenJudge) -> TokenRecord:
        """Let a suspended token be used again. Raises NotFound, Conflict for a revoked one."""
        ...

    async def reset_token(self, record: TokenRecord, actor: Actor) -> TokenRecord:
        """Give the token of this name a new key id, secret and grant, whatever became of it; or add it.

        Its id stays, and so do the jobs that it owns. A revoked, suspended or expired one is valid again.
        """
        ...

    async def touch_tokens(self, used: Mapping[str, int]) -> None:
        """Record last uses: token id to instant."""
        ...

    async def reserve_calls(self, token_id: str, minute: int, units: int, limit: int) -> int:
        """Take up to ``units`` calls out of the token's budget for that minute; returns how many it got."""
        ...

    async def keep_fingerprint(self, fingerprint: str, previous: str | None) -> None:
        """Store the secret key's fingerprint at first start. StartError when another key wrote the data."""
        ...

    async def record_refusals(self, refusals: Sequence[Refusal]) -> None:
        """Add a row to the audit for each."""
        ...

    async def seal_audit(self, sealer: Sealer) -> Seal | None:
        """Seal the rows that are not yet, at most 10,000 a call; None when there were none."""
        ...

    async def close(self) -> None:
        """Finish what is waiting, then close. Calls made afterwards raise Unavailable."""
        ...

    @property
    def telemetry(self) -> Telemetry: ...

    def writes(self) -> bool:
        """Whether this process's writing half works: it is there, and not stuck in one transaction."""

    @property
    def reader(self) -> Reader: ...


JobJudge = Callable[[Job], None]
TypeJudge = Callable[[JobType], None]
WorkerJudge = Callable[[WorkerRecord], None]
TokenJudge = Callable[[TokenRecord], None]
"""Sees a stored row inside the transaction that is to change it, and raises where that may not be."""


class Reader(Protocol):
    """The reading half. Lists are newest first."""

    async def job(self, id: int, visibility: Visibility) -> Job | None: ...

    async def jobs(
        self, wanted: JobFilter, visibility: Visibility, *, limit: int, before: int | None = None
    ) -> JobPage:
        """A page of jobs with ids below ``before``; looks at no more than 20,000 rows a call."""
        ...

    async def attempts(self, id: int, visibility: Visibility) -> list[Attempt] | None:
        """The counted failures of a job, oldest first; None when the job is not visible."""
        ...

    async def logs(
        self, id: int, visibility: Visibility, *, limit: int, after: int | None = None
    ) -> list[LogLine] | None: ...

    async def candidates(
        self,
        action: Action,
        wanted: JobFilter,
        visibility: Visibility,
        *,
        scheduled: bool,
        before: int | None = None,
    ) -> Candidates:
        """The jobs to act on among the next 20,000 with ids below ``before``.

        ``wanted.statuses`` must be set. Without ``scheduled`` jobs of schedules are left out.
        """
        ...

    async def expired(self, kept: Kept, finished_before: int, *, after: int, limit: int) -> Expired:
        """Of the next ``limit`` jobs above ``after``, oldest first, those that ended by then."""
        ...

    async def ended_of(self, ids: Sequence[int]) -> list[int]:
        """Those of these jobs that have ended or are no longer there."""
        ...

    async def queues(self) -> list[QueueRecord]:
        """The queues that were made or paused, by name."""
        ...

    async def count_lanes(self, visibility: Visibility) -> list[LaneCount]:
        """Lanes with pending or running jobs, by name. Raises Unavailable when counting takes over 500 ms."""
        ...

    async def workers(
        self, names: frozenset[str] | None, *, limit: int, before: int | None = None
    ) -> list[WorkerRecord]:
        """Workers with ids below ``before`` that run one of these types (None: whatever they run)."""
        ...

    async def handlers(
        self, names: frozenset[str] | None, *, limit: int, skipped: int
    ) -> list[CataloguedHandler]:
        """What workers run, one entry a type, by name; ``skipped`` entries are left out first."""
        ...

    async def count_held(self, visibility: Visibility) -> Mapping[str, int]:
        """How many jobs within the reader's range each worker holds, by its ``worker_id``."""
        ...

    async def pending_by_producer(self, at_least: int) -> dict[str, int]:
        """Pending jobs of each producer; empty while all together have fewer than ``at_least``."""
        ...

    async def held(self, leases: Sequence[tuple[int, str, bytes]]) -> list[bool]:
        """Whether each (job id, owner, lease token) runs now; what does not never will again."""
        ...

    async def types(self) -> list[JobType]:
        """Every type by name, deleted ones left out."""
        ...

    async def token(self, key_id: str) -> TokenRecord | None: ...

    async def tokens(self) -> list[TokenRecord]: ...

    async def audit(self, wanted: AuditFilter, *, limit: int, before: int | None = None) -> AuditPage:
        """A page of the audit with ids below ``before``; looks at no more than 20,000 rows a call."""
        ...

    async def healthy(self) -> bool:
        """Whether the database answers and was writable within the last seconds."""
        ...

    def types_version(self) -> int:
        """Rises whenever types or tokens may have changed, in this process or another; cheap."""
        ...
