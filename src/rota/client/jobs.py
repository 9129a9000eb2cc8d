"""Jobs as a caller makes them and as the server tells of them."""

from __future__ import annotations

import math
import os
import uuid
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Raw

from rota.client import documents
from rota.clock import SystemClock
from rota.domain.retry import Backoff
from rota.errors import ValidationFailed

NULL: Final = Raw(b"null")

_clock = SystemClock()


def time_ordered_uid() -> uuid.UUID:
    """A fresh UUID (version 7) that begins with the time, so that the server's index grows at its end."""
    number = int.from_bytes(_clock.now().to_bytes(6, "big") + os.urandom(10), "big")
    return uuid.UUID(int=number & ~(0xF000 << 64) & ~(0xC000 << 48) | (0x7000 << 64) | (0x8000 << 48))


class JobOptions(TypedDict, total=False):
    """What an enqueue may say beside type and payload; what is left out follows the type."""

    queue: str
    priority: str
    max_retries: int
    run_at: datetime
    delay_seconds: float
    idempotency_key: str
    timeout_seconds: float
    request_uid: uuid.UUID


def known_options(options: JobOptions) -> JobOptions:
    """The options, or a TypeError that says which name was meant."""
    known = tuple(JobOptions.__annotations__)
    for name in options:
        if name not in known:
            longer = [one for one in known if len(name) > 2 and name in one]
            near = longer or get_close_matches(name, known, 1, 0.5)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise TypeError(f"a job has no option {name!r}: {meant}")
    return options


class JobSpec(msgspec.Struct, omit_defaults=True, gc=False):
    """A job to be enqueued. None leaves a value to the job's type.

    ``priority`` is low, medium, high or critical; ``run_at`` needs a time zone; ``payload`` is any value
    that JSON can write in 65,536 bytes. ``request_uid`` makes sending it again safe; the client gives one.
    """

    type: str
    payload: Any = {}
    queue: str | None = None
    priority: str | None = None
    max_retries: int | None = None
    run_at: datetime | None = None
    delay_seconds: float | None = None
    idempotency_key: str | None = None
    timeout_seconds: float | None = None
    request_uid: uuid.UUID | None = None

    def body(self) -> bytes:
        """The request's JSON. Raises ValidationFailed naming the field that cannot be sent."""
        if self.run_at is not None and self.run_at.tzinfo is None:
            raise ValidationFailed.of("run_at", "no-zone", "needs a time zone, for example datetime.UTC")
        for field in ("delay_seconds", "timeout_seconds"):
            seconds = getattr(self, field)
            if seconds is not None and not math.isfinite(seconds):
                raise ValidationFailed.of(field, "not-finite", "must be a number of seconds")
        return msgspec.json.encode(
            JobSpec(
                self.type,
                self.payload if type(self.payload) is Raw else Raw(documents.encode(self.payload, "payload")),
                self.queue,
                self.priority,
                self.max_retries,
                self.run_at,
                self.delay_seconds,
                self.idempotency_key,
                self.timeout_seconds,
                self.request_uid or time_ordered_uid(),
            )
        )


class ProgressInfo(msgspec.Struct, frozen=True):
    current: float | None = None
    total: float | None = None
    message: str | None = None


class JobInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A job as the server tells of it. Instants are datetimes in UTC.

    ``payload_json`` and ``result_json`` are the stored bytes; ``payload`` and ``result`` decode them on
    each access. What the token may not see is None (``null``).
    """

    id: int
    type: str
    queue: str
    status: str
    priority: str
    payload_json: Raw = msgspec.field(default=NULL, name="payload")
    result_json: Raw = msgspec.field(default=NULL, name="result")
    retry_count: int = 0
    max_retries: int = 0
    idempotency_key: str | None = None
    run_at: datetime | None = None
    timeout_seconds: float | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    worker_id: str | None = None
    lease_expires_at: datetime | None = None
    cancel_requested: bool = False
    progress: ProgressInfo | None = None
    error: str | None = None
    has_error: bool = False
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None = None
    idempotency_replayed: bool = False
    """In the answer to an enqueue: the key or uid was known, this is the job stored earlier."""
    idempotency_mismatch: bool = False
    """In the answer to an enqueue: the job stored earlier has another type or payload."""

    def __repr__(self) -> str:
        return f"<job {self.id} {self.type} {self.status}>"

    @property
    def payload(self) -> Any:
        return msgspec.json.decode(self.payload_json)

    @property
    def result(self) -> Any:
        return msgspec.json.decode(self.result_json)


class ClaimedJob(JobInfo, frozen=True, kw_only=True):
    """A job that the caller holds until its lease runs out."""

    lease_token: str
    lease_seconds: float
    heartbeat_seconds: float
    """How often to send a heartbeat: a third of the lease."""
    traceparent: str | None = None
    """The span in which it was enqueued, as W3C Trace Context writes it."""


class HeartbeatInfo(msgspec.Struct, frozen=True):
    lease_expires_at: datetime
    cancel_requested: bool


class AttemptInfo(msgspec.Struct, frozen=True):
    """One counted attempt that failed."""

    attempt: int
    finished_at: datetime
    worker_id: str | None = None
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    error: str | None = None


class LogInfo(msgspec.Struct, frozen=True):
    id: int
    attempt: int
    at: datetime
    text: str | None = None


class TypeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A declared type of jobs."""

    name: str
    description: str
    queue: str
    default_priority: str
    max_retries: int
    backoff: Backoff
    lease_seconds: float
    timeout_seconds: float | None
    max_payload_bytes: int
    payload_schema: dict[str, Any] | None = None
    payload_schema_disabled: bool = False
    """A check took over 10 ms: payloads are taken unchecked until the type is changed."""
    idempotent: bool = False
    paused: bool
    created_at: datetime
    updated_at: datetime


class TokenInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret; None in a range means all."""

    key_id: str
    name: str
    scopes: list[str]
    max_priority: str
    types: list[str] | None = None
    queues: list[str] | None = None
    schedules: list[str] | None = None
    groups: list[str] | None = None
    services: list[str] | None = None
    flows: list[str] | None = None
    open_api_only: bool = False
    rate_limit_per_minute: int | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    suspended_at: datetime | None = None
    last_used_at: datetime | None = None
    created_at: datetime
    created_by: str | None = None


class NewToken(TokenInfo, frozen=True, kw_only=True):
    token: str
    """The secret: shown this once, never again."""


class HealthInfo(msgspec.Struct, frozen=True):
    status: str
    checks: dict[str, str] | None = None
