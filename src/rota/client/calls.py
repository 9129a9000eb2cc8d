"""The calls of producers and operators: each the request and how its answer is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final, TypedDict, TypeVar
from urllib.parse import quote, urlencode

import msgspec
from msgspec import UNSET, Raw

from rota.client import documents
from rota.client.answers import Page, item_error, items_reader, reader
from rota.client.jobs import (
    AttemptInfo,
    HealthInfo,
    JobInfo,
    JobOptions,
    JobSpec,
    LogInfo,
    NewToken,
    TokenInfo,
    TypeInfo,
    known_options,
)
from rota.client.protocol import Answer, Call
from rota.client.tracing import current_traceparent
from rota.domain.retry import Backoff
from rota.errors import RotaError, ValidationFailed
from rota.wire import (
    RotateRequest,
    TokenRequest,
    TypeRequest,
)

T = TypeVar("T")

MOST_JOBS_PER_BATCH: Final = 5_000
MOST_BATCH_BYTES: Final = 32 * 1_048_576 - 4_096
"""What the items of one batch may take; the rest of the 32 MiB is left to the brackets around them."""

_encode = msgspec.json.Encoder().encode


class JobFilters(TypedDict, total=False):
    """What a list of jobs is narrowed to; ``status`` may name several, separated by commas."""

    status: str
    type: str
    queue: str
    schedule_id: int
    q: str
    created_after: datetime
    created_before: datetime


class TypeOptions(TypedDict, total=False):
    """The settings of a type; what is left out gets its default."""

    description: str
    queue: str
    default_priority: str
    max_retries: int
    backoff: Backoff
    lease_seconds: float
    timeout_seconds: float | None
    max_payload_bytes: int
    payload_schema: dict[str, Any] | None
    idempotent: bool
    paused: bool


class TokenOptions(TypedDict, total=False):
    """The rights of a token: a preset or scopes, and what narrows them."""

    preset: str
    scopes: list[str]
    max_priority: str
    types: list[str]
    queues: list[str]
    schedules: list[str]
    groups: list[str]
    services: list[str]
    flows: list[str]
    rate_limit_per_minute: int
    expires_at: datetime


class _EnqueuedItem(msgspec.Struct):
    status: int
    job: JobInfo | None = None
    idempotency_replayed: bool = False
    idempotency_mismatch: bool = False
    problem: Raw = Raw(b"")


_read_job = reader(JobInfo)
_read_enqueued = items_reader(_EnqueuedItem)
_read_jobs = reader(Page[JobInfo])
_read_attempts = reader(Page[AttemptInfo])
_read_logs = reader(Page[LogInfo])
_read_type = reader(TypeInfo)
_read_types = reader(Page[TypeInfo])
_read_token = reader(TokenInfo)
_read_new_token = reader(NewToken)
_read_tokens = reader(Page[TokenInfo])
_read_health = reader(HealthInfo)


def _nothing(_: Answer) -> None:
    return None


# --- enqueue --------------------------------------------------------------------------------------


def spec_of(job: JobSpec | str, payload: Any, options: JobOptions) -> JobSpec:
    """The job that an ``enqueue`` means; ``payload`` is UNSET when none was given."""
    if isinstance(job, str):
        return JobSpec(job, {} if payload is UNSET else payload, **known_options(options))
    if payload is not UNSET:
        raise TypeError("the spec holds the payload already")
    if options:
        given = ", ".join(f"{name}=…" for name in known_options(options))
        raise TypeError(f"options belong to the spec: fn.options({given}).job(…), or JobSpec(…, {given})")
    return job


def enqueue(spec: JobSpec) -> Call[JobInfo]:
    return Call("POST", "/jobs", _enqueued, spec.body(), traceparent=current_traceparent())


def _enqueued(answer: Answer) -> JobInfo:
    job = _read_job(answer)
    replayed = answer.headers.get("idempotency-replayed") == "true"
    mismatch = answer.headers.get("idempotency-mismatch") == "true"
    return _marked(job, replayed, mismatch)


def _marked(job: JobInfo, replayed: bool, mismatch: bool) -> JobInfo:
    if not (replayed or mismatch):
        return job
    return msgspec.structs.replace(job, idempotency_replayed=replayed, idempotency_mismatch=mismatch)


def enqueue_batches(
    specs: Iterable[JobSpec], *, atomic: bool = False
) -> Iterator[Call[list[JobInfo | RotaError]]]:
    """As many calls as the jobs need: at most 5,000 jobs and 32 MiB each.

    An answer has one entry per job, in order: the job, or the error it was refused with. ``atomic`` stores
    all or raises; then everything must fit into one call, else ValidationFailed before any is sent.
    """
    path = "/jobs/batch?atomic=true" if atomic else "/jobs/batch"
    batches = _batches(specs)
    if atomic:
        batches = iter(whole := list(batches))
        if len(whole) > 1:
            message = f"an atomic batch holds at most {MOST_JOBS_PER_BATCH:,} jobs and 32 MiB"
            raise ValidationFailed.of("jobs", "too-many", message)
    for bodies in batches:
        body = b'{"jobs":[' + b",".join(bodies) + b"]}"
        yield Call("POST", path, _batch_answer, body, traceparent=current_traceparent())


def _batches(specs: Iterable[JobSpec]) -> Iterator[list[bytes]]:
    bodies: list[bytes] = []
    size = 0
    for spec in specs:
        body = spec.body()
        if bodies and (len(bodies) == MOST_JOBS_PER_BATCH or size + len(body) + 1 > MOST_BATCH_BYTES):
            yield bodies
            bodies, size = [], 0
        bodies.append(body)
        size += len(body) + 1
    if bodies:
        yield bodies


def _batch_answer(answer: Answer) -> list[JobInfo | RotaError]:
    return [
        _marked(item.job, item.idempotency_replayed, item.idempotency_mismatch)
        if item.job is not None
        else item_error(item.status, item.problem)
        for item in _read_enqueued(answer)
    ]


# --- read -----------------------------------------------------------------------------------------


def job(id: int) -> Call[JobInfo]:
    return Call("GET", f"/jobs/{id}", _read_job)


def jobs(filters: Mapping[str, object], limit: int | None, cursor: str | None) -> Call[Page[JobInfo]]:
    return Call("GET", listing("/jobs", {**filters, "limit": limit}, cursor), _read_jobs)


def attempts(id: int, cursor: str | None) -> Call[Page[AttemptInfo]]:
    return Call("GET", listing(f"/jobs/{id}/attempts", {}, cursor), _read_attempts)


def logs(id: int, cursor: str | None) -> Call[Page[LogInfo]]:
    return Call("GET", listing(f"/jobs/{id}/logs", {}, cursor), _read_logs)


def listing(path: str, query: Mapping[str, object], cursor: str | None) -> str:
    """A path with those of its parameters that are given. Raises ValidationFailed for a local time."""
    asked: dict[str, str] = {}
    for name, value in {**query, "cursor": cursor}.items():
        if isinstance(value, datetime):
            if value.tzinfo is None:
                raise ValidationFailed.of(name, "no-zone", "needs a time zone, for example datetime.UTC")
            asked[name] = value.isoformat()
        elif value is not None:
            asked[name] = str(value)
    return f"{path}?{urlencode(asked)}" if asked else path


# --- manage ---------------------------------------------------------------------------------------
# Cancelling, replaying and deleting are refused the second time, so they are not repeatable.


def cancel(id: int) -> Call[JobInfo]:
    return Call("POST", f"/jobs/{id}/cancel", _read_job, repeatable=False)


def replay(id: int) -> Call[JobInfo]:
    return Call("POST", f"/jobs/{id}/replay", _read_job, repeatable=False)


def delete(id: int) -> Call[None]:
    return Call("DELETE", f"/jobs/{id}", _nothing, repeatable=False)


def _type_path(name: str) -> str:
    return f"/types/{quote(name, safe='')}"


def types(cursor: str | None) -> Call[Page[TypeInfo]]:
    return Call("GET", listing("/types", {}, cursor), _read_types)


def type(name: str) -> Call[TypeInfo]:
    return Call("GET", _type_path(name), _read_type)


def put_type(name: str, options: TypeOptions) -> Call[TypeInfo]:
    fields: dict[str, Any] = dict(options)
    if "payload_schema" in fields:
        fields["payload_schema"] = Raw(documents.encode(fields["payload_schema"], "payload_schema"))
    return Call("PUT", _type_path(name), _read_type, _encode(TypeRequest(**fields)))


def delete_type(name: str) -> Call[None]:
    return Call("DELETE", _type_path(name), _nothing, repeatable=False)


def pause_type(name: str, paused: bool) -> Call[TypeInfo]:
    return Call("POST", f"{_type_path(name)}/{'pause' if paused else 'resume'}", _read_type)


def _token_path(key_id: str) -> str:
    return f"/tokens/{quote(key_id, safe='')}"


def tokens(cursor: str | None) -> Call[Page[TokenInfo]]:
    return Call("GET", listing("/tokens", {}, cursor), _read_tokens)


def create_token(name: str, options: TokenOptions) -> Call[NewToken]:
    fields: dict[str, Any] = dict(options)
    expires_at = options.get("expires_at")
    if expires_at is not None:
        if expires_at.tzinfo is None:
            raise ValidationFailed.of("expires_at", "no-zone", "needs a time zone, for example datetime.UTC")
        fields["expires_at"] = expires_at.isoformat()
    request = TokenRequest(name=name, **fields)
    return Call("POST", "/tokens", _read_new_token, _encode(request), repeatable=False)


def revoke_token(key_id: str) -> Call[TokenInfo]:
    return Call("POST", f"{_token_path(key_id)}/revoke", _read_token, repeatable=False)


def resume_token(key_id: str) -> Call[TokenInfo]:
    return Call("POST", f"{_token_path(key_id)}/resume", _read_token, repeatable=True)


def rotate_token(key_id: str, grace_seconds: float) -> Call[NewToken]:
    body = _encode(RotateRequest(grace_seconds=grace_seconds))
    return Call("POST", f"{_token_path(key_id)}/rotate", _read_new_token, body, repeatable=False)


def health() -> Call[HealthInfo]:
    """Raises Unavailable at once when the server is not ready: waiting would hide what was asked."""
    return Call("GET", "/health/ready", _read_health, repeatable=False)
