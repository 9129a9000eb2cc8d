"""One attempt: the handler is called, and what it returns or raises becomes the ending that is reported."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from msgspec import Raw

from rota.client import documents, tracing
from rota.client.current import Fail, HeldJob, JobCancelled, Retry, Snooze, enter
from rota.client.outbox import NOT_STORABLE, failure, released
from rota.client.tasks import BadPayload, Task
from rota.errors import ValidationFailed
from rota.wire import OutcomeRequest

MOST_ERROR_CHARACTERS: Final = 16_384
"""More than the server keeps: it cleans the text first and cuts it then, so no secret is cut in half."""


async def called(task: Task[..., Any], job: HeldJob) -> Any:
    """Run an async handler with a job's arguments; the job becomes the current one of this context."""
    enter(job)
    with tracing.attempt(job):
        return await task.function(**task.arguments(job.payload))


def call(task: Task[..., Any], job: HeldJob) -> Any:
    """Run a sync handler with a job's arguments; the job becomes the current one of this context."""
    enter(job)
    with tracing.attempt(job):
        return task.function(**task.arguments(job.payload))


def completed(job: HeldJob, answer: Any) -> OutcomeRequest:
    """How an attempt ended whose handler has returned."""
    if answer is None:
        return OutcomeRequest(job.id, job.lease_token, "complete")
    try:
        text = documents.encode(answer, "result")
    except ValidationFailed as fault:
        return failure(job, f"{NOT_STORABLE}: {fault}", retryable=False)
    return OutcomeRequest(job.id, job.lease_token, "complete", result=Raw(text))


def failed(job: HeldJob, error: BaseException) -> OutcomeRequest:
    """How an attempt ended whose handler has raised: failed, given back or cancelled."""
    match error:
        case Snooze():
            return released(job, started=True, snooze_seconds=error.seconds)
        case Retry():
            return failure(job, f"Retry: {_said(error)}".rstrip(": "), retry_in_seconds=error.after)
        case Fail():
            return failure(job, _said(error) or "Fail", retryable=False)
        case BadPayload():
            return failure(job, f"bad-payload: {_said(error)}", retryable=False)
        case asyncio.CancelledError() | JobCancelled() if job.stop == "cancelled":
            return failure(job, "cancelled", retryable=False)
    text = f"{type(error).__name__}: {_said(error)}".rstrip(": ")
    return failure(job, text[:MOST_ERROR_CHARACTERS])


def _said(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception whose own text fails still ends the attempt
        return "(its text cannot be read)"
