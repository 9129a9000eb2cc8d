"""The verbs of the queue: everything that can be done with a job."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar, TypeVarTuple

from msgspec.structs import replace

from rota.auth.authenticate import RecordOverdue
from rota.clock import Clock
from rota.domain.access import Actor, Principal, Scope, Visibility
from rota.domain.job import Attempt, Beat, Finish, Job, LogLine, NewJob
from rota.errors import FieldError, Forbidden, NotFound, RotaError
from rota.services import leases
from rota.services.backlog import Backlog
from rota.services.cleaning import Cleaner
from rota.services.disk import Disk
from rota.services.endings import Endings
from rota.services.intake import Intake
from rota.services.types import Types
from rota.store.base import Beaten, Enqueued, JobFilter, JobJudge, JobPage, Judge, Store
from rota.wire import (
    BeatRequest,
    ClaimRequest,
    CompleteRequest,
    EnqueueRequest,
    FailRequest,
    HeartbeatRequest,
    OutcomeRequest,
    ReleaseRequest,
)
from rota.wire_admin import ChangeRequest

T = TypeVar("T")
Asked = TypeVarTuple("Asked")

BREATH_SECONDS: Final = 0.02
"""After judging jobs for so long other requests get their turn."""

NO_SUCH_JOB = "there is no such job, or the token does not see it"


class Queue:
    """Takes jobs from producers and hands them to workers; decides, and lets the store keep.

    Every job that is returned is masked for the principal that asked.
    """

    def __init__(
        self, store: Store, types: Types, clock: Clock, disk: Disk, endings: Endings, backlog: Backlog
    ) -> None:
        self._store = store
        self._reader = store.reader
        self._types = types
        self._intake = Intake(types, clock)
        self._disk = disk
        self._cleaner = Cleaner(store.reader)
        self._endings = endings
        self._backlog = backlog

    # Producers

    async def enqueue(
        self,
        principal: Principal,
        asked: EnqueueRequest,
        key: str | None = None,
        traceparent: str | None = None,
    ) -> Enqueued:
        """Store one job, or find the one that the same key or request_uid has stored.

        Raises Forbidden, ValidationFailed, Unavailable (nothing was stored).
        """
        self._disk.require_space()
        await self._types.expect([asked.type], [asked.queue])
        job = self._intake.admit(principal, asked, key, traceparent)
        await self._backlog.require_room(principal.id, 1)
        (verdict,) = await self._store.enqueue([job])
        return _masked(principal, verdict)

    async def enqueue_many(
        self,
        principal: Principal,
        asked: Sequence[EnqueueRequest | RotaError],
        traceparent: str | None = None,
    ) -> list[Enqueued | RotaError]:
        """Store what can be stored; one verdict each, in the order asked. Errors in ``asked`` stay."""
        judged = await self._judged(principal, asked, traceparent)
        stored = iter(await self._store.enqueue([job for job in judged if isinstance(job, NewJob)]))
        return [one if isinstance(one, RotaError) else _masked(principal, next(stored)) for one in judged]

    async def enqueue_together(
        self,
        principal: Principal,
        asked: Sequence[EnqueueRequest | RotaError],
        traceparent: str | None = None,
    ) -> list[Enqueued]:
        """Store all or nothing. Raises the first fault, its fields named as ``jobs[3].type``."""
        jobs = []
        for index, job in enumerate(await self._judged(principal, asked, traceparent)):
            if isinstance(job, RotaError):
                raise _at(index, job)
            jobs.append(job)
        return [_masked(principal, verdict) for verdict in await self._store.enqueue(jobs, atomic=True)]

    async def _judged(
        self, principal: Principal, asked: Sequence[EnqueueRequest | RotaError], traceparent: str | None
    ) -> list[NewJob | RotaError]:
        self._disk.require_space()
        requests = [one for one in asked if isinstance(one, EnqueueRequest)]
        await self._types.expect((one.type for one in requests), (one.queue for one in requests))
        judged: list[NewJob | RotaError] = []
        breath = time.monotonic()
        for one in asked:
            judged.append(
                one
                if isinstance(one, RotaError)
                else _verdict(self._intake.admit, principal, one, None, traceparent)
            )
            if time.monotonic() - breath > BREATH_SECONDS:
                await asyncio.sleep(0)
                breath = time.monotonic()
        await self._backlog.require_room(principal.id, sum(isinstance(one, NewJob) for one in judged))
        return judged

    # Readers

    async def get(self, principal: Principal, id: int) -> Job:
        """Raises NotFound for unknown and invisible jobs alike."""
        job = await self._reader.job(id, Visibility.of(principal))
        if job is None:
            raise NotFound(NO_SUCH_JOB)
        return job

    async def wait(self, principal: Principal, id: int, seconds: float, judge: Judge | None) -> Job:
        """The job as soon as it has ended, or as it is after ``seconds``.

        Raises NotFound, and what ``judge`` returns while it waits.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            with self._endings.watch(id, judge) as ending:
                job = await self.get(principal, id)
                left = until - loop.time()
                if job.terminal or left <= 0:
                    return job
                await asyncio.wait({ending}, timeout=left)
                if ending.done():
                    ending.result()

    async def page(
        self, principal: Principal, wanted: JobFilter, *, limit: int, before: int | None = None
    ) -> JobPage:
        """Newest first, ids below ``before``."""
        return await self._reader.jobs(wanted, Visibility.of(principal), limit=limit, before=before)

    async def attempts(self, principal: Principal, id: int) -> list[Attempt]:
        """The counted failures, oldest first. Raises NotFound."""
        found = await self._reader.attempts(id, Visibility.of(principal))
        if found is None:
            raise NotFound(NO_SUCH_JOB)
        return found

    async def logs(
        self, principal: Principal, id: int, *, limit: int, after: int | None = None
    ) -> list[LogLine]:
        """Log lines with ids above ``after``, oldest first. Raises NotFound."""
        found = await self._reader.logs(id, Visibility.of(principal), limit=limit, after=after)
        if found is None:
            raise NotFound(NO_SUCH_JOB)
        return found

    # Workers

    async def claim(
        self, principal: Principal, asked: ClaimRequest, *, wait: bool = True, judge: Judge | None = None
    ) -> list[Job]:
        """Jobs for a worker, at most ``limit`` of a ClaimBatchRequest, else one; none when time is up.

        ``wait=False`` ignores ``wait_seconds``. ``judge`` is asked again about the principal while the
        claim waits. A caller that is cancelled, or cannot hand the jobs on, gives them back.
        Raises Forbidden, ValidationFailed, what ``judge`` returns, Unavailable.
        """
        await self._types.expect(asked.types or ())
        claim = leases.claim_of(self._types, principal, asked)
        try:
            jobs = await self._store.claim(claim, wait_seconds=asked.wait_seconds if wait else 0, judge=judge)
        except RecordOverdue:
            return []  # the worker's next claim reads the token, or is told why that cannot be
        visibility = Visibility.of(principal)
        return [visibility.mask(job, just_held=True) for job in jobs]

    async def give_back(self, principal: Principal, jobs: Sequence[Job]) -> None:
        """Release jobs that never reached their worker: uncounted and ready at once."""
        endings = [
            Finish(job.id, principal.id, job.lease_token, "release", delay_seconds=0)
            for job in jobs
            if job.lease_token is not None
        ]
        await self._store.finish(endings, answer=False)

    async def complete(self, principal: Principal, id: int, asked: CompleteRequest) -> Job:
        """Raises JobNotHeld; ValidationFailed for a result that cannot be stored: the job keeps running."""
        return await self._finish(principal, leases.completion_of(principal, id, asked))

    async def fail(self, principal: Principal, id: int, asked: FailRequest) -> Job:
        """Raises JobNotHeld, ValidationFailed."""
        return await self._finish(principal, leases.failure_of(principal, id, asked))

    async def release(self, principal: Principal, id: int, asked: ReleaseRequest) -> Job:
        """Raises JobNotHeld, ValidationFailed."""
        return await self._finish(principal, leases.release_of(principal, id, asked))

    async def _finish(self, principal: Principal, ending: Finish) -> Job:
        await self._cleaner.clean([ending])
        (verdict,) = await self._store.finish([ending])
        self._endings.announce((ending.id,))
        if isinstance(verdict, RotaError):
            raise verdict
        assert verdict is not None
        return Visibility.of(principal).mask(verdict, just_held=True)

    async def finish_many(
        self, principal: Principal, asked: Sequence[OutcomeRequest]
    ) -> list[RotaError | None]:
        """End many attempts; one verdict each in the order asked, None where it was accepted."""
        judged = [_verdict(leases.ending_of, principal, one) for one in asked]
        endings = [one for one in judged if isinstance(one, Finish)]
        await self._cleaner.clean(endings)
        ended = iter(await self._store.finish(endings, answer=False))
        self._endings.announce(one.id for one in endings)
        verdicts = [next(ended) if isinstance(one, Finish) else one for one in judged]
        return [one if isinstance(one, RotaError) else None for one in verdicts]

    async def heartbeat(self, principal: Principal, id: int, asked: HeartbeatRequest) -> Beaten:
        """Extend the lease and keep what the handler reports. Raises JobNotHeld, ValidationFailed."""
        beat = leases.beat_of(principal, id, asked)
        await self._cleaner.clean([beat])
        (verdict,) = await self._store.heartbeat([beat])
        if isinstance(verdict, RotaError):
            raise verdict
        return verdict

    async def heartbeat_many(
        self, principal: Principal, asked: Sequence[BeatRequest]
    ) -> list[Beaten | RotaError]:
        """Extend many leases; one verdict each, in the order asked."""
        judged = [_verdict(leases.beat_of, principal, one.id, one) for one in asked]
        beats = [one for one in judged if isinstance(one, Beat)]
        await self._cleaner.clean(beats)
        kept = iter(await self._store.heartbeat(beats))
        return [next(kept) if isinstance(one, Beat) else one for one in judged]

    # Operators

    async def cancel(self, principal: Principal, id: int, actor: Actor) -> Job:
        """Cancel a waiting job, ask a running one to stop. Raises NotFound, JobEnded."""
        visibility = managed_by(principal)
        cancelled = await self._store.cancel(id, visibility, actor)
        self._endings.announce((id,))
        return visibility.mask(cancelled)

    async def replay(self, principal: Principal, id: int, actor: Actor) -> Job:
        """Start a failed or cancelled job over.

        Raises NotFound, NotReplayable; Forbidden for a schedule's job.
        """
        visibility = managed_by(principal)
        judge = _judge_scheduled(principal, Scope.SCHEDULES_TRIGGER)
        return visibility.mask(await self._store.replay(id, visibility, actor, judge))

    async def delete(self, principal: Principal, id: int, actor: Actor) -> None:
        """Delete a job that has ended and whose key has expired.

        Raises NotFound, JobRunning, Conflict; Forbidden for a schedule's job.
        """
        judge = _judge_scheduled(principal, Scope.EXECUTIONS_PURGE)
        await self._store.delete(id, managed_by(principal), actor, judge)
        self._endings.announce((id,))

    async def change(self, principal: Principal, id: int, asked: ChangeRequest, actor: Actor) -> Job:
        """Give a pending job another priority or time.

        Raises ValidationFailed; Forbidden for a priority above the principal's ceiling; NotFound, JobRunning,
        JobEnded.
        """
        change = self._intake.change_of(principal, asked)
        visibility = managed_by(principal)
        return visibility.mask(await self._store.change(id, visibility, actor, **change))


def _masked(principal: Principal, verdict: Enqueued) -> Enqueued:
    """A stored job that was found again may hold more than its producer may see; a new one does not."""
    if verdict.created:
        return verdict
    return replace(verdict, job=Visibility.of(principal).mask(verdict.job))


def _judge_scheduled(principal: Principal, needed: Scope) -> JobJudge:
    """What a job of a schedule needs beside jobs:manage."""

    def judge(stored: Job) -> None:
        if stored.schedule_id is not None and not principal.may(needed):
            raise Forbidden(f"the job belongs to a schedule: this needs the scope {needed} too")

    return judge


def managed_by(principal: Principal) -> Visibility:
    """Whoever manages jobs reaches every one in range; what is shown of it follows the other scopes."""
    return replace(Visibility.of(principal), reads_all=True)


def _verdict(judge: Callable[[*Asked], T], *asked: *Asked) -> T | RotaError:
    """What one entry of a batch comes to, or why it is refused."""
    try:
        return judge(*asked)
    except RotaError as fault:
        return fault


def _at(index: int, fault: RotaError) -> RotaError:
    """The fault of one job of a batch that is stored together, its place in front of each field."""
    where = f"jobs[{index}]"
    errors = [FieldError(f"{where}.{field}", code, message) for field, code, message in fault.errors]
    return type(fault)(
        f"{where}: {fault.detail}", errors=errors or [FieldError(where, fault.code, fault.detail)]
    )
