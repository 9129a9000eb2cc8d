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
- Administrative verbs take an ``actor``: who asked for the change.
- Readers get a :class:`~rota.domain.access.Visibility` and return only what it sees, masked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from rota.domain.access import Actor, Grant, Visibility
from rota.domain.job import Attempt, Beat, Claim, Finish, Job, LogLine, NewJob
from rota.domain.retry import Backoff
from rota.errors import RotaError


class JobType(msgspec.Struct, frozen=True, kw_only=True):
    """A type of jobs as it is stored. ``deleted`` types take no new jobs and hand none out."""

    name: str
    description: str = ""
    queue: str = "default"
    default_priority: int = 0
    max_retries: int = 3
    backoff: Backoff = Backoff()
    lease_seconds: float = 30
    timeout_seconds: float | None = None
    max_payload_bytes: int = 65_536
    paused: bool = False
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

    async def replay(self, id: int, visibility: Visibility, actor: Actor) -> Job:
        """Start a failed or cancelled job over. Raises NotFound, NotReplayable."""
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

    async def touch_tokens(self, used: Mapping[str, int]) -> None:
        """Record last uses: token id to instant."""
        ...

    async def reserve_calls(self, token_id: str, minute: int, units: int, limit: int) -> int:
        """Take up to ``units`` calls out of the token's budget for that minute; returns how many it got."""
        ...

    async def keep_fingerprint(self, fingerprint: str, previous: str | None) -> None:
        """Store the secret key's fingerprint at first start. StartError when another key wrote the data."""
        ...

    async def close(self) -> None:
        """Finish what is waiting, then close. Calls made afterwards raise Unavailable."""
        ...

    @property
    def reader(self) -> Reader: ...


TypeJudge = Callable[[JobType], None]
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

    async def types(self) -> list[JobType]:
        """Every type by name, deleted ones left out."""
        ...

    async def token(self, key_id: str) -> TokenRecord | None: ...

    async def tokens(self) -> list[TokenRecord]: ...

    async def healthy(self) -> bool:
        """Whether the database answers and was writable within the last seconds."""
        ...

    def types_version(self) -> int:
        """Rises whenever types or tokens may have changed, in this process or another; cheap."""
        ...
