"""The calls about one job, and the list of jobs."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from rota.api.call import Answer, Call, Header
from rota.api.queries import (
    JobQuery,
    JobsQuery,
    PageQuery,
    cursor_of,
    job_filter,
    position_of,
)
from rota.domain.job import Job
from rota.domain.traces import kept_traceparent
from rota.errors import RateLimited
from rota.wire import (
    ClaimRequest,
    CompleteRequest,
    EnqueueRequest,
    FailRequest,
    HeartbeatAnswer,
    HeartbeatRequest,
    NoFields,
    Page,
    ReleaseRequest,
    attempt_answer,
    claimed_answer,
    instant,
    job_answer,
    log_answer,
)

REPLAYED: Final[Header] = (b"idempotency-replayed", b"true")
MISMATCH: Final[Header] = (b"idempotency-mismatch", b"true")
NOTHING: Final = Answer(204)


async def enqueue(call: Call, asked: EnqueueRequest) -> Answer:
    key = call.headers.get(b"idempotency-key")
    verdict = await call.services.queue.enqueue(
        call.principal,
        asked,
        None if key is None else key.decode("latin-1"),
        kept_traceparent(call.headers.get(b"traceparent")),
    )
    job = verdict.job
    if verdict.created:
        return Answer(201, job_answer(job), ((b"location", b"/jobs/%d" % job.id),))
    return Answer(200, job_answer(job), (REPLAYED, MISMATCH) if verdict.mismatch else (REPLAYED,))


async def list_jobs(call: Call, _: None) -> Answer:
    query: JobsQuery = call.query
    page = await call.services.queue.page(
        call.principal,
        job_filter(query, call.principal),
        limit=query.limit,
        before=position_of("jobs", query.cursor),
    )
    cursor = None if page.next_before is None else cursor_of("jobs", page.next_before)
    return Answer(200, Page([job_answer(job) for job in page.jobs], cursor))


async def get_job(call: Call, _: None) -> Answer:
    query: JobQuery = call.query
    if query.wait_seconds > 0:
        return Answer(200, job_answer(await _ended(call, query.wait_seconds)))
    return Answer(200, job_answer(await call.services.queue.get(call.principal, call.id)))


async def _ended(call: Call, seconds: float) -> Job:
    """The job when it has ended or time is up; as it is when the server stops or the client has left."""
    waiting, queue, principal = call.services.waiting, call.services.queue, call.principal
    if not waiting.enter(principal.id):
        if waiting.over.done():
            return await queue.get(principal, call.id)
        raise RateLimited("too many requests of this token wait already: ask again later", retry_after=1)
    judge = call.services.judge(principal)
    working = asyncio.ensure_future(queue.wait(principal, call.id, seconds, judge))
    leaving = asyncio.ensure_future(call.disconnected())
    ends: set[asyncio.Future[Any]] = {working, leaving, waiting.over}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else await queue.get(principal, call.id)
    finally:
        working.cancel()
        leaving.cancel()
        waiting.leave(principal.id)


async def list_attempts(call: Call, _: None) -> Answer:
    attempts = await call.services.queue.attempts(call.principal, call.id)
    return Answer(200, Page([attempt_answer(attempt) for attempt in attempts]))


async def list_logs(call: Call, _: None) -> Answer:
    query: PageQuery = call.query
    lines = await call.services.queue.logs(
        call.principal, call.id, limit=query.limit, after=position_of("logs", query.cursor)
    )
    cursor = cursor_of("logs", lines[-1].id) if len(lines) == query.limit else None
    return Answer(200, Page([log_answer(line) for line in lines], cursor))


async def claim(call: Call, asked: ClaimRequest) -> Answer:
    jobs = await claimed(call, asked)
    return Answer(200, claimed_answer(jobs[0])) if jobs else NOTHING


async def claimed(call: Call, asked: ClaimRequest) -> list[Job]:
    """The jobs for a client that is still there; what was claimed for one that left is given back.

    A claim that may not wait (too many wait already, or the server is stopping) looks once.
    """
    waiting, queue, principal = call.services.waiting, call.services.queue, call.principal
    wait = asked.wait_seconds > 0 and waiting.enter(principal.id)
    working = asyncio.ensure_future(
        queue.claim(principal, asked, wait=wait, judge=call.services.judge(principal))
    )
    leaving = asyncio.ensure_future(call.disconnected())
    ends: set[asyncio.Future[Any]] = {working, leaving, waiting.over} if wait else {working, leaving}
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
        # A client that left in the same turn of the loop is noticed in the next one.
        await asyncio.sleep(0)
        jobs = [] if working.cancelled() else working.result()
        if jobs and leaving.done():
            await queue.give_back(principal, jobs)
            return []
        return jobs
    finally:
        working.cancel()
        leaving.cancel()
        if wait:
            waiting.leave(principal.id)


async def complete(call: Call, asked: CompleteRequest) -> Answer:
    return Answer(200, job_answer(await call.services.queue.complete(call.principal, call.id, asked)))


async def fail(call: Call, asked: FailRequest) -> Answer:
    return Answer(200, job_answer(await call.services.queue.fail(call.principal, call.id, asked)))


async def release(call: Call, asked: ReleaseRequest) -> Answer:
    return Answer(200, job_answer(await call.services.queue.release(call.principal, call.id, asked)))


async def heartbeat(call: Call, asked: HeartbeatRequest) -> Answer:
    beaten = await call.services.queue.heartbeat(call.principal, call.id, asked)
    return Answer(200, HeartbeatAnswer(instant(beaten.lease_expires_at), beaten.cancel_requested))


async def cancel(call: Call, _: NoFields) -> Answer:
    return Answer(200, job_answer(await call.services.queue.cancel(call.principal, call.id, call.actor)))


async def replay(call: Call, _: NoFields) -> Answer:
    return Answer(200, job_answer(await call.services.queue.replay(call.principal, call.id, call.actor)))
