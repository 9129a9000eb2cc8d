"""Enqueue, finish, heartbeat, cancel and replay on SQLite, inside a transaction that the writer opened."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import json

from rota.domain import transitions
from rota.domain.access import Visibility
from rota.domain.job import (
    MAX_LOG_BYTES_PER_ATTEMPT,
    MAX_LOG_BYTES_PER_JOB,
    Beat,
    Finish,
    Job,
    NewJob,
    granted_lease,
)
from rota.domain.retry import delay_ms
from rota.errors import JobNotHeld, NotFound, RotaError
from rota.store.base import Beaten, Enqueued, JobJudge
from rota.store.sqlite.transaction import Transaction

LOG_CUT = "[log limit reached: further lines are dropped]"


def load_jobs(within: Transaction, ids: Sequence[int]) -> dict[int, Job]:
    """The jobs with these ids, as they are now; unknown ids are left out."""
    rows = within.execute("jobs_by_ids", json.encode(ids).decode())
    return {row[0]: Job(*row) for row in rows}


def load_job(within: Transaction, id: int) -> Job | None:
    row = within.execute("job_by_id", id).fetchone()
    return None if row is None else Job(*row)


def save_job(within: Transaction, job: Job) -> None:
    """Write back what a transition changed, and announce the lane when the job became ready by it."""
    within.execute(
        "save_job",
        *(job.status, job.priority, job.result, job.retry_count, job.due_at, job.cancel_requested),
        *(job.claimed_at, job.started_at, job.worker_id, job.owner, job.lease_token, job.lease_seconds),
        *(job.lease_expires_at, job.claim_id, job.last_outcome, job.releases, job.failures),
        *(job.progress_current, job.progress_total, job.progress_message, job.error, job.log_bytes),
        *(job.log_bytes_attempt, job.updated_at, job.finished_at),
        job.id,
    )
    if job.status == "pending" and job.due_at is None:
        within.announced.add((job.queue, job.type))


def record_failure(within: Transaction, before: Job, after: Job) -> None:
    """Keep the attempt that just failed in the job's history."""
    within.execute(
        "insert_attempt",
        *(after.id, after.failures, before.worker_id, before.claimed_at),
        *(before.started_at or before.claimed_at, within.now, after.error),
    )


# --- enqueue --------------------------------------------------------------------------------------


def enqueue(within: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Insert jobs; what the unique indexes refuse is answered with the job that they protect."""
    if not jobs:
        return []
    (last,) = within.execute("last_job_id").fetchone()
    new = [_stored(job, last + 1 + i, within.now) for i, job in enumerate(jobs)]
    before = within.connection.total_changes
    for _ in within.execute_rows("insert_jobs", [_row(job) for job in new]):
        pass
    if within.connection.total_changes - before == len(new):
        within.announced.update((job.queue, job.type) for job in new if job.due_at is None)
        within.count_lanes("enqueued", [(job.queue, job.type) for job in new])
        return [Enqueued(job, True) for job in new]
    inserted = {id for (id,) in within.execute("job_ids_between", last + 1, last + len(new))}
    within.announced.update((job.queue, job.type) for job in new if job.id in inserted and job.due_at is None)
    within.count_lanes("enqueued", [(job.queue, job.type) for job in new if job.id in inserted])
    return [Enqueued(job, True) if job.id in inserted else _known(within, job) for job in new]


def _stored(asked: NewJob, id: int, now: int) -> Job:
    run_at = asked.run_at
    if asked.delay_seconds is not None:
        run_at = now + round(asked.delay_seconds * 1000)
    return Job(
        id=id,
        queue=asked.queue,
        type=asked.type,
        status="pending",
        priority=asked.priority,
        producer=asked.producer,
        payload=asked.payload,
        max_retries=asked.max_retries,
        idempotency_key=asked.idempotency_key,
        request_uid=asked.request_uid,
        run_at=run_at,
        due_at=run_at if run_at is not None and run_at > now else None,
        timeout_seconds=asked.timeout_seconds,
        traceparent=asked.traceparent,
        created_at=now,
        updated_at=now,
    )


def _row(job: Job) -> tuple[object, ...]:
    return (
        *(job.id, job.queue, job.type, job.priority, job.producer, job.payload, job.max_retries),
        *(job.idempotency_key, job.request_uid, job.run_at, job.due_at, job.timeout_seconds),
        *(job.traceparent, job.created_at, job.updated_at),
    )


def _known(within: Transaction, asked: Job) -> Enqueued:
    """The stored job whose request_uid, or else whose idempotency key, is the one asked for."""
    found = within.execute("job_by_request", asked.producer, asked.request_uid).fetchone()
    if found is None:
        found = within.execute("job_by_key", asked.producer, asked.idempotency_key).fetchone()
    stored = load_job(within, found[0])
    assert stored is not None
    return Enqueued(stored, False, stored.type != asked.type or stored.payload != asked.payload)


# --- finish ---------------------------------------------------------------------------------------


def finish(within: Transaction, endings: Sequence[Finish], *, answer: bool) -> list[Job | RotaError | None]:
    """End attempts. The many that complete take one statement; all others are judged one by one."""
    verdicts: list[Job | RotaError | None] = [None] * len(endings)
    completes = [i for i, ending in enumerate(endings) if ending.outcome == "complete"]
    others = [i for i, ending in enumerate(endings) if ending.outcome != "complete"]
    if completes and not _complete_all(within, [endings[i] for i in completes]):
        others = list(range(len(endings)))
        completes = []
    jobs = load_jobs(within, [endings[i].id for i in (*others, *(completes if answer else ()))])
    for i in others:
        ending = endings[i]
        job = jobs.get(ending.id)
        try:
            verdicts[i] = jobs[ending.id] = _end(within, job, ending)
        except RotaError as refused:
            verdicts[i] = refused
            within.reports_refused += 1
    for i in completes if answer else ():
        verdicts[i] = jobs[endings[i].id]
    return verdicts if answer else [each if isinstance(each, RotaError) else None for each in verdicts]


def _complete_all(within: Transaction, endings: Sequence[Finish]) -> bool:
    """Complete all of these, or none of them when one does not match exactly."""
    rows: list[tuple[object, ...]] = [
        (each.id, each.owner, each.lease_token, each.result, within.now) for each in endings
    ]
    within.connection.execute("SAVEPOINT completes")
    lanes = [lane for cursor in within.execute_rows("complete_jobs", rows) for lane in cursor]
    matched = len(lanes) == len(rows)
    if matched:
        within.count_lanes("completed", lanes)
    else:
        within.connection.execute("ROLLBACK TO completes")
    within.connection.execute("RELEASE completes")
    return matched


def _end(within: Transaction, job: Job | None, ending: Finish) -> Job:
    if job is None:
        raise JobNotHeld(transitions.NOT_HELD)
    if transitions.repeated(job, ending):
        return job
    if not transitions.held(job, ending.owner, ending.lease_token):
        raise JobNotHeld(transitions.NOT_HELD)
    if ending.outcome == "complete":
        changed = transitions.complete(job, ending.result, within.now)
    elif ending.outcome == "release":
        changed = transitions.release(job, ending.delay_seconds, within.now)
    else:
        delay = delay_ms(within.backoff(job.type), job.retry_count, within.random())
        changed = transitions.fail(job, ending, delay, within.now)
        record_failure(within, job, changed)
    save_job(within, changed)
    within.count(_event(changed, ending.outcome), changed)
    return changed


def _event(ended: Job, outcome: str) -> str:
    """What happened to a job whose attempt ended; one that was asked to stop ends as cancelled."""
    if ended.status != "pending":
        return ended.status
    return "released" if outcome == "release" else "retried"


def release_held(within: Transaction, owner: str) -> None:
    """Take every job back that this token holds, uncounted and ready at once."""
    ids = [id for (id,) in within.execute("held_by_owner", owner)]
    for job in load_jobs(within, ids).values():
        freed = transitions.release(job, 0, within.now)
        freed.owner = freed.lease_token = freed.last_outcome = None
        save_job(within, freed)
        within.count(_event(freed, "release"), freed)


# --- heartbeat ------------------------------------------------------------------------------------


def beat(within: Transaction, beats: Sequence[Beat]) -> list[Beaten | RotaError]:
    """Extend leases and store what handlers report; a job that is not held any more changes nothing."""
    jobs = load_jobs(within, [sign.id for sign in beats])
    verdicts: list[Beaten | RotaError] = []
    for sign in beats:
        job = jobs.get(sign.id)
        if job is None or not transitions.held(job, sign.owner, sign.lease_token):
            verdicts.append(JobNotHeld(transitions.NOT_HELD))
            within.reports_refused += 1
            continue
        changed = transitions.beat(job, sign, _beat_lease(within, job, sign), within.now)
        if sign.log:
            _append_log(within, changed, sign.log)
        save_job(within, changed)
        jobs[sign.id] = changed
        assert changed.lease_expires_at is not None
        verdicts.append(Beaten(changed.lease_expires_at, bool(changed.cancel_requested)))
    return verdicts


def _beat_lease(within: Transaction, job: Job, sign: Beat) -> float:
    known = within.types.get(job.type)
    asked = sign.lease_seconds if sign.lease_seconds is not None else job.lease_seconds
    return granted_lease(asked, None if known is None else known.lease_seconds)


def _append_log(within: Transaction, job: Job, text: str) -> None:
    """Store a log text while the attempt and the job have room; the first that does not fit leaves a mark."""
    size = len(text.encode())
    attempt_full = job.log_bytes_attempt + size > MAX_LOG_BYTES_PER_ATTEMPT
    job_full = job.log_bytes + size > MAX_LOG_BYTES_PER_JOB
    if attempt_full or job_full:
        if job.log_bytes_attempt > MAX_LOG_BYTES_PER_ATTEMPT or job.log_bytes > MAX_LOG_BYTES_PER_JOB:
            return
        text = LOG_CUT
        # One more than there may be: the mark has been left.
        job.log_bytes_attempt = MAX_LOG_BYTES_PER_ATTEMPT + 1
        job.log_bytes = MAX_LOG_BYTES_PER_JOB + 1 if job_full else job.log_bytes
    else:
        job.log_bytes_attempt += size
        job.log_bytes += size
    within.execute("insert_log", job.id, job.failures + 1, within.now, text)


# --- administration -------------------------------------------------------------------------------


def cancel(within: Transaction, id: int, visibility: Visibility) -> Job:
    changed = transitions.cancel(_visible(within, id, visibility), within.now)
    save_job(within, changed)
    if changed.status == "cancelled":
        within.count("cancelled", changed)
    return changed


def replay(within: Transaction, id: int, visibility: Visibility, judge: JobJudge | None = None) -> Job:
    job = _visible(within, id, visibility)
    if judge is not None:
        judge(job)
    changed = transitions.replay(job, within.now)
    save_job(within, changed)
    within.count("replayed", changed)
    return changed


def _visible(within: Transaction, id: int, visibility: Visibility) -> Job:
    job = load_job(within, id)
    if job is None or not visibility.sees(job):
        raise NotFound("there is no job with this id that this token may see")
    return job
