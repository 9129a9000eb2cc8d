"""The law of a job's life: which event leads from which state to which, and what it sets.

``TRANSITIONS`` names every state and every event. The functions below apply one event to one job
and return the changed job; they are what a store writes back. Where a store uses set-based SQL
instead (claim, complete, promote), a property test drives it and this module side by side.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec.structs import replace

from rota.domain.job import (
    MAX_DELAY_SECONDS,
    WORKER_LOST,
    Beat,
    Finish,
    Job,
    Status,
    heartbeat_ms,
)
from rota.errors import Conflict, JobEnded, JobNotHeld, JobRunning, NotReplayable

MAX_RELEASE_WAIT_SECONDS: Final = 60


class Event(StrEnum):
    """What can happen to a job."""

    PROMOTE = "promote"
    """A delayed job's time has come."""
    CLAIM = "claim"
    BEAT = "beat"
    COMPLETE = "complete"
    RETRY = "retry"
    """A failure with retries left."""
    FAIL = "fail"
    """A failure without retries left, or one that must not be retried."""
    STOP = "stop"
    """A failure, release or lapse of a job that was asked to stop."""
    RELEASE = "release"
    CANCEL = "cancel"
    CHANGE = "change"
    """Another priority or time, before anybody has the job."""
    REPLAY = "replay"


TRANSITIONS: Final[dict[tuple[Status, Event], Status]] = {
    ("pending", Event.PROMOTE): "pending",
    ("pending", Event.CLAIM): "running",
    ("pending", Event.CANCEL): "cancelled",
    ("pending", Event.CHANGE): "pending",
    ("blocked", Event.CANCEL): "cancelled",
    ("running", Event.BEAT): "running",
    ("running", Event.COMPLETE): "completed",
    ("running", Event.RETRY): "pending",
    ("running", Event.FAIL): "failed",
    ("running", Event.STOP): "cancelled",
    ("running", Event.RELEASE): "pending",
    ("running", Event.CANCEL): "running",
    ("failed", Event.REPLAY): "pending",
    ("cancelled", Event.REPLAY): "pending",
}
"""Every allowed step. A pair that is not here is refused with :func:`refusal`."""


def refusal(status: Status, event: Event) -> Conflict | None:
    """Why ``event`` may not happen in ``status``; None where it may."""
    if (status, event) in TRANSITIONS:
        return None
    if event is Event.REPLAY:
        return NotReplayable(f"the job is {status}; only failed and cancelled jobs can be replayed")
    if event is Event.CANCEL:
        return JobEnded(f"the job is already {status}, there is nothing to cancel")
    if event is Event.CHANGE:
        if status == "running":
            return JobRunning("the job is running: only pending jobs can be changed")
        kind = Conflict if status == "blocked" else JobEnded
        return kind(f"the job is {status}: only pending jobs can be changed")
    if event in (Event.CLAIM, Event.PROMOTE):
        return Conflict(f"a job that is {status} cannot be handed out")
    return JobNotHeld(NOT_HELD)


NOT_HELD: Final = (
    "the job is not running under this lease token: the lease was lost, the job ended or was never "
    "claimed with it; drop the work and claim again"
)


def _step(job: Job, event: Event) -> Status:
    refused = refusal(job.status, event)
    if refused is not None:
        raise refused
    return TRANSITIONS[job.status, event]


def failure_event(job: Job, *, retryable: bool = True) -> Event:
    """Which event a failed attempt of ``job`` is."""
    if job.cancel_requested:
        return Event.STOP
    return Event.RETRY if retryable and job.retry_count < job.max_retries else Event.FAIL


def promote(job: Job, now: int) -> Job:
    return replace(job, status=_step(job, Event.PROMOTE), due_at=None, updated_at=now)


def claim(
    job: Job,
    *,
    owner: str,
    worker_id: str,
    lease_token: bytes,
    lease_seconds: float,
    claim_id: bytes | None,
    now: int,
) -> Job:
    """The job handed to a worker. ``error`` keeps the last failure until the job completes."""
    return replace(
        job,
        status=_step(job, Event.CLAIM),
        claimed_at=now,
        started_at=None,
        worker_id=worker_id,
        owner=owner,
        lease_token=lease_token,
        lease_seconds=lease_seconds,
        lease_expires_at=now + int(lease_seconds * 1000),
        claim_id=claim_id,
        last_outcome=None,
        progress_current=None,
        progress_total=None,
        progress_message=None,
        log_bytes_attempt=0,
        updated_at=now,
    )


def lease_limit(job: Job) -> int | None:
    """Beyond this instant no beat extends the lease: claim + timeout + 3 leases. None without a timeout."""
    if job.timeout_seconds is None or job.claimed_at is None or job.lease_seconds is None:
        return None
    return job.claimed_at + int((job.timeout_seconds + 3 * job.lease_seconds) * 1000)


def beat(job: Job, sign: Beat, lease_seconds: float, now: int) -> Job:
    """The lease extended from ``now``: never shortened, never beyond :func:`lease_limit`."""
    expires = now + int(lease_seconds * 1000)
    limit = lease_limit(job)
    if limit is not None:
        expires = min(expires, limit)
    changed = replace(
        job,
        status=_step(job, Event.BEAT),
        lease_seconds=lease_seconds,
        lease_expires_at=max(expires, job.lease_expires_at or 0),
        updated_at=now,
    )
    if sign.started and changed.started_at is None:
        changed.started_at = now
    if sign.progress is not None:
        changed.progress_current = sign.progress.current
        changed.progress_total = sign.progress.total
        changed.progress_message = sign.progress.message
    return changed


def _given_back(job: Job, status: Status, now: int) -> Job:
    """Common to every way back to pending: nobody holds the job any more."""
    return replace(
        job,
        status=status,
        due_at=None,
        claimed_at=None,
        started_at=None,
        worker_id=None,
        lease_seconds=None,
        lease_expires_at=None,
        claim_id=None,
        cancel_requested=0,
        updated_at=now,
    )


def _ended(job: Job, status: Status, now: int) -> Job:
    """Common to every end: the lease is over, the worker's name stays for the record."""
    return replace(
        job,
        status=status,
        due_at=None,
        started_at=job.started_at or job.claimed_at,
        lease_expires_at=None,
        claim_id=None,
        updated_at=now,
        finished_at=now,
    )


def complete(job: Job, result: bytes | None, now: int) -> Job:
    ended = _ended(job, _step(job, Event.COMPLETE), now)
    return replace(
        ended, result=result, error=None, has_error=0, cancel_requested=0, last_outcome="complete", releases=0
    )


def fail(job: Job, ending: Finish, retry_delay_ms: int, now: int) -> Job:
    """A reported failure: pending again while retries are left, else failed; cancelled if asked to stop.

    ``retry_delay_ms`` is the policy's back-off; ``retry_in_seconds`` of the worker takes its place.
    """
    if ending.delay_seconds is not None:
        retry_delay_ms = int(min(ending.delay_seconds, MAX_DELAY_SECONDS) * 1000)
    changed = _failed(job, failure_event(job, retryable=ending.retryable), ending.error, retry_delay_ms, now)
    return replace(changed, last_outcome="fail")


def lapse(job: Job, now: int) -> Job:
    """The lease ran out: a counted attempt "worker lost", ready again at once. The lease token dies."""
    changed = _failed(job, failure_event(job), WORKER_LOST, 0, now)
    return replace(changed, owner=None, lease_token=None, last_outcome=None)


def _failed(job: Job, event: Event, error: str | None, retry_delay_ms: int, now: int) -> Job:
    status = _step(job, event)
    counted = replace(
        job, error=error, has_error=int(error is not None), failures=job.failures + 1, releases=0
    )
    if event is not Event.RETRY:
        return _ended(counted, status, now)
    pending = _given_back(counted, status, now)
    pending.retry_count += 1
    pending.due_at = now + retry_delay_ms if retry_delay_ms > 0 else None
    return pending


def release(job: Job, snooze_seconds: float | None, now: int) -> Job:
    """The job given back without counting an attempt.

    From the second release in a row without a snooze the job waits min(2^k, 60) s, so that a worker
    that cannot run it does not spin.
    """
    if job.cancel_requested:
        return replace(_ended(job, _step(job, Event.STOP), now), last_outcome="release")
    pending = _given_back(job, _step(job, Event.RELEASE), now)
    pending.last_outcome = "release"
    if snooze_seconds is not None:
        pending.releases = 0
        wait = min(snooze_seconds, MAX_DELAY_SECONDS)
    else:
        pending.releases = min(job.releases + 1, 16)
        wait = min(2 ** (pending.releases - 1), MAX_RELEASE_WAIT_SECONDS) if pending.releases > 1 else 0
    pending.due_at = now + int(wait * 1000) if wait > 0 else None
    return pending


def cancel(job: Job, now: int) -> Job:
    """Pending and blocked jobs end at once; a running one is asked to stop and keeps running."""
    status = _step(job, Event.CANCEL)
    if status == "running":
        return replace(job, cancel_requested=1, updated_at=now)
    return replace(_ended(job, status, now), started_at=job.started_at)


def change(job: Job, *, priority: int | None, run_at: int | None, reschedule: bool, now: int) -> Job:
    """A pending job with another priority, or (``reschedule``) another time; ``run_at`` None is at once.

    A priority alone leaves a back-off or snooze as it is.
    """
    changed = replace(job, status=_step(job, Event.CHANGE), updated_at=now)
    if priority is not None:
        changed.priority = priority
    if reschedule:
        changed.run_at = run_at
        changed.due_at = run_at if run_at is not None and run_at > now else None
    return changed


def replay(job: Job, now: int) -> Job:
    """A failed or cancelled job starts over: retry_count 0, max_retries, id and place kept.

    Until it is claimed again, whoever failed it may repeat that (see :func:`repeated`).
    """
    pending = _given_back(job, _step(job, Event.REPLAY), now)
    return replace(pending, retry_count=0, releases=0, finished_at=None, result=None)


def repeated(job: Job, ending: Finish) -> bool:
    """Whether ``ending`` repeats what the same lease token has already reported (then it is 200 again)."""
    return (
        job.status != "running"
        and job.lease_token == ending.lease_token
        and job.owner == ending.owner
        and job.last_outcome == ending.outcome
    )


def held(job: Job, owner: str, lease_token: bytes) -> bool:
    """Whether the job runs under exactly this owner and lease token."""
    return job.status == "running" and job.owner == owner and job.lease_token == lease_token


def lapsed(job: Job, writable_since: int, now: int) -> bool:
    """Whether nobody can be alive behind the lease; time during which no node could write does not count."""
    if job.status != "running" or job.lease_expires_at is None or job.lease_seconds is None:
        return False
    return now > max(job.lease_expires_at, writable_since + heartbeat_ms(job.lease_seconds) + 2_000)
