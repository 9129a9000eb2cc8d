"""What goes over the wire: request and answer structs, shared by API, client and OpenAPI document.

Requests refuse unknown and mistyped fields. Instants are RFC 3339 UTC with milliseconds; payloads and
results travel as the bytes they are. Names that belong to parts not built yet are listed in
``LATER`` and refused by that name, never ignored.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from rota.domain.job import (
    DEFAULT_LEASE_SECONDS,
    DEFAULT_MAX_RETRIES,
    DEFAULT_QUEUE,
    MAX_PAYLOAD_BYTES,
    PRIORITY_LABELS,
    Attempt,
    Job,
    LogLine,
    heartbeat_ms,
)
from rota.domain.retry import Backoff

# --- instants -------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.")


def instant(at: int) -> str:
    """Milliseconds since the epoch as ``2026-12-01T08:30:00.000Z``."""
    seconds, millis = divmod(at, 1000)
    return f"{_second(seconds)}{millis:03d}Z"


def instant_or_none(at: int | None) -> str | None:
    return None if at is None else instant(at)


def parse_instant(text: str) -> int:
    """An RFC 3339 instant with a zone (``Z`` or an offset) as milliseconds since the epoch.

    Raises ValueError for anything else, a local time without a zone included.
    """
    if len(text) < 20 or text[10] not in "Tt ":
        raise ValueError("not an RFC 3339 instant such as 2026-12-01T08:30:00.000Z")
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError("the time zone is missing; write Z for UTC")
    since = parsed - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000


_EMPTY: Final = Raw(b"{}")
_NULL: Final = Raw(b"null")
# Given by factories, because a JSON schema cannot show raw bytes as a default.


# --- requests -------------------------------------------------------------------------------------


class Request(msgspec.Struct, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A request body."""


class NoFields(Request):
    """The body of calls that take none: nothing, or an empty object."""


class EnqueueRequest(Request):
    type: str
    payload: Raw = msgspec.field(default_factory=lambda: _EMPTY)
    priority: str | None = None
    queue: str | None = None
    max_retries: int | None = None
    run_at: str | None = None
    delay_seconds: float | None = None
    idempotency_key: str | None = None
    timeout_seconds: float | None = None
    request_uid: uuid.UUID | None = None


class EnqueueBatchRequest(Request):
    jobs: list[Raw]
    """Each an EnqueueRequest; read one by one, so that a fault in one stops only that one."""


class ClaimRequest(Request):
    types: list[str] | None = None
    queues: list[str] | None = None
    wait_seconds: float = 0
    lease_seconds: float | None = None
    instance: str | None = None
    claim_id: uuid.UUID | None = None
    repeat: bool = False


class ClaimBatchRequest(ClaimRequest, kw_only=True):
    limit: int


class CompleteRequest(Request):
    lease_token: str
    result: Raw = msgspec.field(default_factory=lambda: _NULL)


class FailRequest(Request):
    lease_token: str
    error: str = ""
    retryable: bool = True
    retry_in_seconds: float | None = None


class ReleaseRequest(Request):
    lease_token: str
    snooze_seconds: float | None = None
    started: bool = True


class ProgressReport(Request):
    current: float | None = None
    total: float | None = None
    message: str | None = None


class HeartbeatRequest(Request):
    lease_token: str
    lease_seconds: float | None = None
    started: bool = False
    progress: ProgressReport | None = None
    log: str | None = None


class BeatRequest(HeartbeatRequest, kw_only=True):
    """One entry of ``/jobs/batch/heartbeat``."""

    id: int


class HeartbeatBatchRequest(Request):
    beats: list[BeatRequest]


class OutcomeRequest(Request):
    """One entry of ``/jobs/batch/finish``: the fields of complete, fail or release beside its id."""

    id: int
    lease_token: str
    outcome: Literal["complete", "fail", "release"]
    result: Raw | UnsetType = UNSET
    error: str | UnsetType = UNSET
    retryable: bool | UnsetType = UNSET
    retry_in_seconds: float | UnsetType | None = UNSET
    snooze_seconds: float | UnsetType | None = UNSET
    started: bool | UnsetType = UNSET


class FinishBatchRequest(Request):
    outcomes: list[OutcomeRequest]


class TypeRequest(Request):
    description: str = ""
    queue: str = DEFAULT_QUEUE
    default_priority: str = "low"
    max_retries: int = DEFAULT_MAX_RETRIES
    backoff: Backoff = Backoff()
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    timeout_seconds: float | None = None
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    payload_schema: Raw | UnsetType = UNSET
    idempotent: bool = False
    paused: bool | UnsetType = UNSET
    """Left out, a type stays as paused as it is; a new one is not paused."""


class TokenRequest(Request):
    name: str
    preset: str | None = None
    scopes: list[str] | None = None
    max_priority: str | None = None
    types: list[str] | None = None
    queues: list[str] | None = None
    schedules: list[str] | None = None
    groups: list[str] | None = None
    services: list[str] | None = None
    flows: list[str] | None = None
    rate_limit_per_minute: int | None = None
    expires_at: str | None = None


class RotateRequest(Request):
    grace_seconds: float = 0


LATER: Final[dict[type[Request], frozenset[str]]] = {
    EnqueueRequest: frozenset({"unique_key", "key", "depends_on", "expires_at", "tags"}),
    TypeRequest: frozenset({"concurrency_limit", "rate_limit"}),
}
"""Fields of the contract whose part is not built yet."""

# --- answers --------------------------------------------------------------------------------------


class ProgressAnswer(msgspec.Struct, gc=False):
    current: float | None
    total: float | None
    message: str | None


class JobAnswer(msgspec.Struct, gc=False):
    id: int
    type: str
    queue: str
    payload: Raw | None
    priority: str
    status: str
    retry_count: int
    max_retries: int
    idempotency_key: str | None
    unique_key: str | None
    key: str | None
    tags: list[str]
    run_at: str | None
    expires_at: str | None
    timeout_seconds: float | None
    claimed_at: str | None
    started_at: str | None
    worker_id: str | None
    lease_expires_at: str | None
    cancel_requested: bool
    progress: ProgressAnswer | None
    result: Raw | None
    error: str | None
    has_error: bool
    created_at: str
    updated_at: str
    finished_at: str | None
    schedule_id: int | None
    trigger: str | None
    scheduled_fire_time: str | None
    process_instance_id: str | None
    depends_on: list[int]


class ClaimedJobAnswer(JobAnswer, gc=False):
    lease_token: str
    lease_seconds: float
    heartbeat_seconds: float
    traceparent: str | None


def _fields(job: Job) -> tuple[Any, ...]:
    progress = None
    if job.progress_current is not None or job.progress_total is not None or job.progress_message is not None:
        progress = ProgressAnswer(job.progress_current, job.progress_total, job.progress_message)
    return (
        job.id,
        job.type,
        job.queue,
        None if job.payload is None else Raw(job.payload),
        PRIORITY_LABELS[job.priority],
        job.status,
        job.retry_count,
        job.max_retries,
        job.idempotency_key,
        job.unique_key,
        job.key,
        [],
        instant_or_none(job.run_at if job.due_at is None else job.due_at),  # a retry waits till due_at
        instant_or_none(job.expires_at),
        job.timeout_seconds,
        instant_or_none(job.claimed_at),
        instant_or_none(job.started_at),
        job.worker_id,
        instant_or_none(job.lease_expires_at),
        bool(job.cancel_requested),
        progress,
        None if job.result is None else Raw(job.result),
        job.error,
        bool(job.has_error),
        instant(job.created_at),
        instant(job.updated_at),
        instant_or_none(job.finished_at),
        job.schedule_id,
        job.trigger,
        instant_or_none(job.scheduled_fire_time),
        None,
        [],
    )


def job_answer(job: Job) -> JobAnswer:
    """A job as readers see it; mask it first."""
    return JobAnswer(*_fields(job))


def claimed_answer(job: Job) -> ClaimedJobAnswer:
    """A job as the worker gets it that has just claimed it; the only answer that holds the lease token."""
    assert job.lease_token is not None
    assert job.lease_seconds is not None
    values: tuple[Any, ...] = (
        *_fields(job),
        job.lease_token.hex(),
        job.lease_seconds,
        heartbeat_ms(job.lease_seconds) / 1000,
        job.traceparent,
    )
    return ClaimedJobAnswer(*values)


T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], gc=False):
    items: list[T]
    next_cursor: str | None = None


class Items(msgspec.Struct, Generic[T], gc=False):
    items: list[T]


class BatchItem(msgspec.Struct, omit_defaults=True, gc=False):
    """One entry of a batch's answer: its own status, and what that status brings."""

    status: int
    job: JobAnswer | None = None
    idempotency_replayed: bool = False
    idempotency_mismatch: bool = False
    problem: Raw | None = None


class HeartbeatAnswer(msgspec.Struct, gc=False):
    lease_expires_at: str
    cancel_requested: bool


class BeatItem(msgspec.Struct, omit_defaults=True, gc=False):
    """One entry of the answer to ``/jobs/batch/heartbeat``."""

    status: int
    lease_expires_at: str | None = None
    cancel_requested: bool | None = None
    problem: Raw | None = None


class AttemptAnswer(msgspec.Struct, gc=False):
    attempt: int
    worker_id: str | None
    claimed_at: str | None
    started_at: str | None
    finished_at: str
    error: str | None


def attempt_answer(attempt: Attempt) -> AttemptAnswer:
    return AttemptAnswer(
        attempt.attempt,
        attempt.worker_id,
        instant_or_none(attempt.claimed_at),
        instant_or_none(attempt.started_at),
        instant(attempt.finished_at),
        attempt.error,
    )


class LogAnswer(msgspec.Struct, gc=False):
    id: int
    attempt: int
    at: str
    text: str | None


def log_answer(line: LogLine) -> LogAnswer:
    return LogAnswer(line.id, line.attempt, instant(line.at), line.text)


class TypeAnswer(msgspec.Struct, kw_only=True):
    name: str
    description: str
    queue: str
    default_priority: str
    max_retries: int
    backoff: Backoff
    lease_seconds: float
    timeout_seconds: float | None
    payload_schema: Raw | None
    payload_schema_disabled: bool
    max_payload_bytes: int
    concurrency_limit: None = None
    rate_limit: None = None
    idempotent: bool
    paused: bool
    created_at: str
    updated_at: str


class TokenAnswer(msgspec.Struct, kw_only=True):
    key_id: str
    name: str
    scopes: list[str]
    max_priority: str
    types: list[str] | None
    queues: list[str] | None
    schedules: list[str] | None
    groups: list[str] | None
    services: list[str] | None
    flows: list[str] | None
    open_api_only: bool
    rate_limit_per_minute: int | None
    expires_at: str | None
    revoked_at: str | None
    suspended_at: str | None
    last_used_at: str | None
    created_at: str
    created_by: str | None


class NewTokenAnswer(TokenAnswer, kw_only=True):
    token: str
    """Shown this once; only its hash is kept."""


class HealthAnswer(msgspec.Struct, omit_defaults=True):
    status: str
    checks: dict[str, str] | None = None


class Problem(msgspec.Struct, omit_defaults=True):
    """An error as the client reads it (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = ""
    request_id: str = ""
    errors: list[dict[str, str]] = []
