"""The calls about many jobs at once."""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Raw

from rota.api.bodies import body_reader
from rota.api.call import Answer, Call
from rota.api.jobs import claimed
from rota.api.queries import EnqueueBatchQuery
from rota.domain.traces import kept_traceparent
from rota.errors import RotaError
from rota.problems import problem_body
from rota.store.base import Enqueued
from rota.wire import (
    BatchItem,
    BeatItem,
    ClaimBatchRequest,
    EnqueueBatchRequest,
    EnqueueRequest,
    FinishBatchRequest,
    HeartbeatBatchRequest,
    Items,
    claimed_answer,
    instant,
    job_answer,
)

BREATH: Final = 500
"""After so many items other requests get their turn."""

_read_job = body_reader(EnqueueRequest)
_ACCEPTED: Final = BatchItem(200)


async def enqueue_batch(call: Call, asked: EnqueueBatchRequest) -> Answer:
    query: EnqueueBatchQuery = call.query
    await _charge(call, len(asked.jobs))
    jobs: list[EnqueueRequest | RotaError] = []
    for index, text in enumerate(asked.jobs):
        if index % BREATH == BREATH - 1:
            await asyncio.sleep(0)
        jobs.append(_job(bytes(text)))
    traceparent = kept_traceparent(call.headers.get(b"traceparent"))
    if query.atomic:
        stored = await call.services.queue.enqueue_together(call.principal, jobs, traceparent)
        return Answer(201, Items([_stored(call, verdict) for verdict in stored]))
    verdicts = await call.services.queue.enqueue_many(call.principal, jobs, traceparent)
    return Answer(200, Items([_stored(call, verdict) for verdict in verdicts]))


def _job(text: bytes) -> EnqueueRequest | RotaError:
    try:
        return _read_job(text)
    except RotaError as fault:
        return fault


def _stored(call: Call, verdict: Enqueued | RotaError) -> BatchItem:
    if isinstance(verdict, RotaError):
        return BatchItem(verdict.status, problem=_problem(call, verdict))
    if verdict.created:
        return BatchItem(201, job_answer(verdict.job))
    return BatchItem(200, job_answer(verdict.job), True, verdict.mismatch)


async def claim_batch(call: Call, asked: ClaimBatchRequest) -> Answer:
    return Answer(200, Items([claimed_answer(job) for job in await claimed(call, asked)]))


async def finish_batch(call: Call, asked: FinishBatchRequest) -> Answer:
    await _charge(call, len(asked.outcomes))
    verdicts = await call.services.queue.finish_many(call.principal, asked.outcomes)
    return Answer(
        200,
        Items(
            [
                _ACCEPTED if fault is None else BatchItem(fault.status, problem=_problem(call, fault))
                for fault in verdicts
            ]
        ),
    )


async def heartbeat_batch(call: Call, asked: HeartbeatBatchRequest) -> Answer:
    await _charge(call, len(asked.beats))
    verdicts = await call.services.queue.heartbeat_many(call.principal, asked.beats)
    return Answer(
        200,
        Items(
            [
                BeatItem(verdict.status, problem=_problem(call, verdict))
                if isinstance(verdict, RotaError)
                else BeatItem(200, instant(verdict.lease_expires_at), verdict.cancel_requested)
                for verdict in verdicts
            ]
        ),
    )


async def _charge(call: Call, items: int) -> None:
    """Charge the items of a batch beyond the first, all together."""
    if items > 1:
        charged = call.services.limits.charge(call.principal, items - 1)
        if charged is not None:
            await charged


def _problem(call: Call, fault: RotaError) -> Raw:
    return Raw(problem_body(fault, call.request_id))
