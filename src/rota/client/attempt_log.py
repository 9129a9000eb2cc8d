"""What a worker's own log says about attempts: one line for each that fails, two for each with --verbose."""

from __future__ import annotations

import logging
import traceback
from typing import Final

from rota.client import documents
from rota.client.current import Fail, HeldJob, Retry
from rota.client.tasks import BadPayload
from rota.wire import OutcomeRequest

log = logging.getLogger("rota.worker")

_OWN_FRAMES: Final = "rota.client."
_SAID_BY_THE_HANDLER: Final = (Retry, Fail, BadPayload)
"""These say all there is to say; where they were raised does not help."""


def started(job: HeldJob) -> None:
    log.debug("job %d (%s) attempt %s begins", job.id, job.type, _attempt(job))


def ended(job: HeldJob, outcome: OutcomeRequest, cause: BaseException | None) -> None:
    """Tell how an attempt ended, with the stack trace of what its handler has raised."""
    if outcome.outcome != "fail":
        how = "is complete" if outcome.outcome == "complete" else "was given back"
        log.debug("job %d (%s) attempt %s %s", job.id, job.type, _attempt(job), how)
        return
    if job.stop == "cancelled" and not outcome.retryable:
        log.info("job %d (%s) attempt %s was cancelled", job.id, job.type, _attempt(job))
        return
    again = outcome.retryable and job.retry_count < job.max_retries
    after = "" if outcome.retry_in_seconds is None else f" in {outcome.retry_in_seconds:g} s"
    log.log(
        logging.WARNING if again else logging.ERROR,
        "job %d (%s) attempt %s failed, %s: %s%s",
        job.id,
        job.type,
        _attempt(job),
        f"it will be tried again{after}" if again else "for good",
        outcome.error,
        _trace(cause),
    )


def _attempt(job: HeldJob) -> str:
    return f"{job.retry_count + 1} of {job.max_retries + 1}"


def _trace(error: BaseException | None) -> str:
    """The stack from the handler on, on lines of its own; the worker's frames above it tell nothing."""
    if error is None or isinstance(error, _SAID_BY_THE_HANDLER):
        return ""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_globals.get("__name__", "").startswith(_OWN_FRAMES):
        frame = frame.tb_next
    if frame is None:
        return ""
    try:
        text = "".join(traceback.format_exception(type(error), error, frame)).rstrip()
        return "\n" + documents.plain(text)
    except Exception:  # a log line is not worth a slot
        return ""
