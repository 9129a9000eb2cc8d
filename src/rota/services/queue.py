"""The verbs of the queue: everything that can be done with a job."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from rota.auth.authenticate import RecordOverdue
from rota.clock import Clock
from rota.domain.access import Actor, Principal, Visibility
from rota.domain.job import Attempt, Beat, Finish, Job, LogLine, NewJob
from rota.errors import FieldError, NotFound, RotaError
from rota.services import leases
from rota.services.disk import Disk
from rota.services.intake import Intake
from rota.services.types import Types
from rota.store.base import Beaten, Enqueued, JobFilter, JobPage, Judge, Store
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

NO_SUCH_JOB = "there is no such job, or the token does not see it"


class Queue:
    """Takes jobs from producers and hands them to workers; decides, and lets the store keep.

    Every job that is returned is masked for the principal that asked.
    """

    def __init__(self, store: Store, types: Types, clock: Clock, disk: Disk) -> None:
        self._store = store
        self._reader = store.reader
        self._types = types
        self._intake = Intake(types, clock)
        self._disk = disk

    # Producers

    async def enqueue(self, principal: Principal, asked: EnqueueRequest, key: str | None = None) -> Enqueued:
        """Store one job, or find the one that the same key or request_uid has stored.

        Raises Forbidden, ValidationFailed, Unavailable (nothing was stored).
        """
        self._disk.require_space()
        if self._types.get(asked.type) is None:
            await self._types.refresh()  # another process may have put it just now
        (verdict,) = await self._store.enqueue([self._intake.admit(principal, asked, key)])
        return verdict if verdict.created else _masked(principal, verdict)

    async def enqueue_many(
        self, principal: Principal, asked: Sequence[EnqueueRequest | RotaError]
    ) -> list[Enqueued | RotaError]:
        """Store what can be stored; one verdict each, in the order asked. Errors in ``asked`` stay."""
        self._disk.require_space()
        judged = [self._judge(principal, one) for one in asked]
        stored = iter(await self._store.enqueue([job for job in judged if isinstance(job, NewJob)]))
        return [one if isinstance(one, RotaError) else _masked(principal, next(stored)) for one in judged]

    async def enqueue_together(
        self, principal: Principal, asked: Sequence[EnqueueRequest | RotaError]
    ) -> list[Enqueued]:
        """Store all or nothing. Raises the first fault, its fields named as ``jobs[3].type``."""
        self._disk.require_space()
        jobs = []
        for index, one in enumerate(asked):
            job = self._judge(principal, one)
            if isinstance(job, RotaError):
                raise _at(index, job)
            jobs.append(job)
        return [_masked(principal, verdict) for verdict in await self._store.enqueue(jobs, atomic=True)]

    def _judge(self, principal: Principal, asked: EnqueueRequest | RotaError) -> NewJob | RotaError:
        if isinstance(asked, RotaError):
            return asked
        try:
            return self._intake.admit(principal, asked)
        except RotaError as fault:
            return fault

    # Readers

    async def get(self, principal: Principal, id: int) -> Job:
        """Raises NotFound for unknown and invisible jobs alike."""
        job = await self._reader.job(id, Visibility.of(principal))
        if job is None:
            raise NotFound(NO_SUCH_JOB)
        return job

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
        (verdict,) = await self._store.finish([ending])
        if isinstance(verdict, RotaError):
            raise verdict
        assert verdict is not None
        return Visibility.of(principal).mask(verdict, just_held=True)

    async def finish_many(
        self, principal: Principal, asked: Sequence[OutcomeRequest]
    ) -> list[RotaError | None]:
        """End many attempts; one verdict each in the order asked, None where it was accepted."""
        verdicts: list[RotaError | None] = [None] * len(asked)
        endings: list[Finish] = []
        places: list[int] = []
        for place, outcome in enumerate(asked):
            try:
                endings.append(leases.ending_of(principal, outcome))
                places.append(place)
            except RotaError as fault:
                verdicts[place] = fault
        for place, verdict in zip(places, await self._store.finish(endings, answer=False), strict=True):
            if isinstance(verdict, RotaError):
                verdicts[place] = verdict
        return verdicts

    async def heartbeat(self, principal: Principal, id: int, asked: HeartbeatRequest) -> Beaten:
        """Extend the lease and keep what the handler reports. Raises JobNotHeld, ValidationFailed."""
        (verdict,) = await self._store.heartbeat([leases.beat_of(principal, id, asked)])
        if isinstance(verdict, RotaError):
            raise verdict
        return verdict

    async def heartbeat_many(
        self, principal: Principal, asked: Sequence[BeatRequest]
    ) -> list[Beaten | RotaError]:
        """Extend many leases; one verdict each, in the order asked."""
        judged = [_beat(principal, one) for one in asked]
        kept = iter(await self._store.heartbeat([one for one in judged if isinstance(one, Beat)]))
        return [next(kept) if isinstance(one, Beat) else one for one in judged]

    # Operators

    async def cancel(self, principal: Principal, id: int, actor: Actor) -> Job:
        """Cancel a waiting job, ask a running one to stop. Raises NotFound, JobEnded."""
        visibility = _managed(principal)
        return visibility.mask(await self._store.cancel(id, visibility, actor))

    async def replay(self, principal: Principal, id: int, actor: Actor) -> Job:
        """Start a failed or cancelled job over. Raises NotFound, NotReplayable."""
        visibility = _managed(principal)
        return visibility.mask(await self._store.replay(id, visibility, actor))


def _masked(principal: Principal, verdict: Enqueued) -> Enqueued:
    """A stored job that was found again may hold more than its producer may see; a new one does not."""
    if verdict.created:
        return verdict
    return replace(verdict, job=Visibility.of(principal).mask(verdict.job))


def _managed(principal: Principal) -> Visibility:
    """Whoever manages jobs reaches every one in range; what is shown of it follows the other scopes."""
    return replace(Visibility.of(principal), reads_all=True)


def _beat(principal: Principal, asked: BeatRequest) -> Beat | RotaError:
    try:
        return leases.beat_of(principal, asked.id, asked)
    except RotaError as fault:
        return fault


def _at(index: int, fault: RotaError) -> RotaError:
    """The fault of one job of a batch that is stored together, its place in front of each field."""
    where = f"jobs[{index}]"
    errors = [FieldError(f"{where}.{field}", code, message) for field, code, message in fault.errors]
    return type(fault)(
        f"{where}: {fault.detail}", errors=errors or [FieldError(where, fault.code, fault.detail)]
    )
