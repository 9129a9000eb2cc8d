"""What a job is: its states, priorities and fields, and the values that change it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

Status = Literal["pending", "blocked", "running", "completed", "failed", "cancelled", "skipped"]
STATUSES: Final[tuple[Status, ...]] = (
    "pending",
    "blocked",
    "running",
    "completed",
    "failed",
    "cancelled",
    "skipped",
)
TERMINAL: Final[frozenset[Status]] = frozenset({"completed", "failed", "cancelled", "skipped"})

PRIORITIES: Final[dict[str, int]] = {"low": 0, "medium": 10, "high": 20, "critical": 30}
"""Label on the wire to number in the store; the gaps leave room between them."""
PRIORITY_LABELS: Final[dict[int, str]] = {number: label for label, number in PRIORITIES.items()}

DEFAULT_QUEUE: Final = "default"
MAX_TYPES: Final = 1_000
"""Each declares a lane."""
MAX_QUEUES: Final = 1_000
MAX_WORKERS: Final = 1_000
"""Workers that may have announced themselves within a day."""
"""Queues that are made beside those that types name."""
KEY_LIFE_MS: Final = 86_400_000
"""An idempotency key holds its job back from deletion for a day after the job's creation."""
DEFAULT_MAX_RETRIES: Final = 3
DEFAULT_LEASE_SECONDS: Final = 30
MIN_LEASE_SECONDS: Final = 2
MAX_LEASE_SECONDS: Final = 86_400
LEASE_TYPE_FACTOR: Final = 10
"""A claim may ask for at most this many times the lease of the job's type."""
MAX_RETRIES: Final = 10_000
MAX_DELAY_SECONDS: Final = 30 * 86_400
"""Longest snooze and longest delay a worker may ask for before a retry."""
MAX_PAYLOAD_BYTES: Final = 65_536
MAX_NESTING: Final = 100
MAX_ERROR_BYTES: Final = 8_192
MAX_LOG_BYTES: Final = 16_384
MAX_LOG_BYTES_PER_ATTEMPT: Final = 262_144
MAX_LOG_BYTES_PER_JOB: Final = 2_097_152
MAX_HELD_PER_TOKEN: Final = 5_000
MAX_BATCH_PAYLOAD_BYTES: Final = 8 * 1_048_576
"""A batch claim stops after the job that passes this many bytes of payload."""

WORKER_LOST: Final = "worker lost"
"""The error of an attempt whose lease lapsed."""

Outcome = Literal["complete", "fail", "release"]


class Job(msgspec.Struct, kw_only=False, gc=False):
    """One row of ``rota_jobs``, in the order of its columns, so that a row becomes a job by position.

    Instants are milliseconds since the epoch. ``payload`` and ``result`` are JSON text as bytes,
    exactly as they came in.
    """

    id: int
    queue: str
    type: str
    status: Status
    priority: int
    key: str | None = None
    producer: str = ""
    retry_count: int = 0
    max_retries: int = 0
    idempotency_key: str | None = None
    unique_key: str | None = None
    request_uid: bytes | None = None
    run_at: int | None = None
    due_at: int | None = None
    """When a delayed job becomes ready; None while it is ready (pending) or not pending."""
    expires_at: int | None = None
    timeout_seconds: float | None = None
    cancel_requested: int = 0
    claimed_at: int | None = None
    started_at: int | None = None
    worker_id: str | None = None
    owner: str | None = None
    """The immutable id of the token that holds, or last held, the job."""
    lease_token: bytes | None = None
    lease_seconds: float | None = None
    lease_expires_at: int | None = None
    claim_id: bytes | None = None
    last_outcome: Outcome | None = None
    """How the holder of ``lease_token`` ended its attempt; makes finishing repeatable."""
    releases: int = 0
    """Releases in a row without a snooze."""
    failures: int = 0
    """Counted attempts over the whole life of the job; the present attempt is number failures + 1."""
    progress_current: float | None = None
    progress_total: float | None = None
    progress_message: str | None = None
    error: str | None = None
    log_bytes: int = 0
    log_bytes_attempt: int = 0
    schedule_id: int | None = None
    trigger: str | None = None
    scheduled_fire_time: int | None = None
    traceparent: str | None = None
    created_at: int = 0
    updated_at: int = 0
    finished_at: int | None = None
    payload_key_id: int = 0
    result: bytes | None = None
    payload: bytes | None = None
    has_error: int = 0

    @property
    def terminal(self) -> bool:
        return self.status in TERMINAL


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job to be inserted; its type, range, priority and sizes have been judged already."""

    queue: str
    type: str
    priority: int
    producer: str
    payload: bytes
    max_retries: int
    request_uid: bytes
    run_at: int | None = None
    delay_seconds: float | None = None
    idempotency_key: str | None = None
    timeout_seconds: float | None = None
    traceparent: str | None = None


class Claim(msgspec.Struct, gc=False):
    """A worker asks for jobs of the lanes it may serve; None means every queue or type."""

    owner: str
    worker_id: str
    limit: int
    types: frozenset[str] | None = None
    queues: frozenset[str] | None = None
    lease_seconds: float | None = None
    claim_id: bytes | None = None
    repeat: bool = False


class Finish(msgspec.Struct, gc=False):
    """How a worker ends its attempt. ``error`` has been cleaned and cut already."""

    id: int
    owner: str
    lease_token: bytes
    outcome: Outcome
    result: bytes | None = None
    error: str | None = None
    retryable: bool = True
    delay_seconds: float | None = None
    """``retry_in_seconds`` of a failure, ``snooze_seconds`` of a release."""


class Progress(msgspec.Struct, frozen=True, gc=False):
    current: float | None = None
    total: float | None = None
    message: str | None = None


class Beat(msgspec.Struct, gc=False):
    """A sign of life for a held job, with what its handler reports. Texts are cleaned already."""

    id: int
    owner: str
    lease_token: bytes
    lease_seconds: float | None = None
    started: bool = False
    progress: Progress | None = None
    log: str | None = None


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One counted attempt that failed."""

    attempt: int
    worker_id: str | None
    claimed_at: int | None
    started_at: int | None
    finished_at: int
    error: str | None


class LogLine(msgspec.Struct, frozen=True, gc=False):
    id: int
    attempt: int
    at: int
    text: str | None


def heartbeat_ms(lease_seconds: float) -> int:
    """A worker beats three times in a lease."""
    return int(lease_seconds * 1000 / 3)


def granted_lease(asked: float | None, type_lease: float | None) -> float:
    """The lease a claim gets: what it asks for, at most ten times the type's, else the type's, else 30 s."""
    base = DEFAULT_LEASE_SECONDS if type_lease is None else type_lease
    if asked is None:
        return base
    return min(asked, base * LEASE_TYPE_FACTOR)
