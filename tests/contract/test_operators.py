"""Cancel, replay and revoke: what operators change."""

from __future__ import annotations

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING, Visibility
from rota.errors import JobEnded, JobNotHeld, NotFound, NotReplayable
from rota.store.base import Store
from tests.contract.factories import (
    ACTOR,
    agree,
    beaten,
    claim_of,
    enqueued,
    finished,
    ids,
    new_job,
    running,
    stored,
    token,
)

OPERATOR = Visibility(reads_all=True, types=frozenset({"work"}))


async def test_a_pending_job_is_cancelled_at_once_and_never_handed_out(
    store: Store, clock: FakeClock
) -> None:
    ready, delayed = await enqueued(store, new_job(), new_job(delay_seconds=1))
    for job in (ready, delayed):
        cancelled = await store.cancel(job.id, EVERYTHING, ACTOR)
        assert (cancelled.status, cancelled.finished_at) == ("cancelled", clock.now())
        assert cancelled == await stored(store, job)
    clock.advance(2)
    assert (await store.sweep()).promoted == 0
    assert await store.claim(claim_of(2)) == []


async def test_a_running_job_is_asked_to_stop_and_its_worker_is_told(store: Store) -> None:
    job = await running(store)
    asked = await store.cancel(job.id, EVERYTHING, ACTOR)
    assert (asked.status, asked.cancel_requested) == ("running", 1)
    assert (await beaten(store, job)).cancel_requested
    assert (await store.cancel(job.id, EVERYTHING, ACTOR)).status == "running"


@pytest.mark.parametrize(
    ("outcome", "status"), [("complete", "completed"), ("fail", "cancelled"), ("release", "cancelled")]
)
async def test_a_job_that_was_asked_to_stop_ends_with_its_attempt(
    store: Store, outcome: str, status: str
) -> None:
    job = await running(store)
    await store.cancel(job.id, EVERYTHING, ACTOR)
    ended = await finished(store, job, outcome)
    assert ended.status == status
    assert await finished(store, job, outcome) == ended
    assert await store.claim(claim_of()) == []


async def test_a_job_that_has_ended_cannot_be_cancelled(store: Store) -> None:
    completed = await finished(store, await running(store))
    failed = await finished(store, await running(store), "fail", retryable=False)
    cancelled = await store.cancel((await enqueued(store, new_job()))[0].id, EVERYTHING, ACTOR)
    for job in (completed, failed, cancelled):
        with pytest.raises(JobEnded):
            await store.cancel(job.id, EVERYTHING, ACTOR)
        assert await stored(store, job) == job


async def test_a_failed_or_cancelled_job_can_be_replayed_and_starts_over(
    store: Store, clock: FakeClock
) -> None:
    failed = await finished(store, await running(store, max_retries=1), "fail", error="e", retryable=False)
    cancelled = await store.cancel((await enqueued(store, new_job()))[0].id, EVERYTHING, ACTOR)
    clock.advance(1)
    for job in (failed, cancelled):
        again = await store.replay(job.id, EVERYTHING, ACTOR)
        assert (again.id, again.status, again.retry_count, again.due_at) == (job.id, "pending", 0, None)
        assert (again.finished_at, again.cancel_requested, again.max_retries) == (None, 0, job.max_retries)
        assert again == await stored(store, job)
    assert ids(await store.claim(claim_of(2))) == [failed.id, cancelled.id]


async def test_attempts_after_a_replay_carry_on_counting_in_the_history(store: Store) -> None:
    job = await running(store, max_retries=0)
    await finished(store, job, "fail", error="one")
    await store.replay(job.id, EVERYTHING, ACTOR)
    (job,) = await store.claim(claim_of())
    await finished(store, job, "fail", error="two")
    attempts = await store.reader.attempts(job.id, EVERYTHING)
    assert attempts is not None
    assert [(each.attempt, each.error) for each in attempts] == [(1, "one"), (2, "two")]


async def test_pending_running_and_completed_jobs_cannot_be_replayed(store: Store) -> None:
    held = await running(store)
    completed = await finished(store, await running(store))
    (pending,) = await enqueued(store, new_job())
    for job in (held, completed, pending):
        with pytest.raises(NotReplayable):
            await store.replay(job.id, EVERYTHING, ACTOR)
        assert await stored(store, job) == job


async def test_jobs_out_of_range_are_as_unknown_as_those_that_do_not_exist(store: Store) -> None:
    foreign, own = await enqueued(store, new_job("other"), new_job())
    for id in (foreign.id, 10**17):
        with pytest.raises(NotFound):
            await store.cancel(id, OPERATOR, ACTOR)
        with pytest.raises(NotFound):
            await store.replay(id, OPERATOR, ACTOR)
    assert (await store.cancel(own.id, OPERATOR, ACTOR)).status == "cancelled"


async def test_revoking_a_token_takes_its_leases_back_uncounted(store: Store) -> None:
    await store.add_token(token("gone"), ACTOR)
    jobs = [await running(store, owner="t-gone") for _ in range(3)]
    other = await running(store, owner="t-other")
    await store.cancel(jobs[2].id, EVERYTHING, ACTOR)
    await store.revoke_token("k-gone", ACTOR, agree)
    back = [await stored(store, job) for job in jobs]
    assert [(job.status, job.failures, job.due_at) for job in back] == [
        ("pending", 0, None),
        ("pending", 0, None),
        ("cancelled", 0, None),
    ]
    assert await stored(store, other) == other
    for outcome in ("complete", "fail", "release"):
        with pytest.raises(JobNotHeld):
            await finished(store, jobs[0], outcome)
    assert ids(await store.claim(claim_of(5))) == ids(jobs[:2])


async def test_a_judge_that_refuses_a_revocation_keeps_everything_as_it_was(store: Store) -> None:
    await store.add_token(token("kept"), ACTOR)
    job = await running(store, owner="t-kept")

    def refuse(_: object) -> None:
        raise NotFound("not yours")

    with pytest.raises(NotFound):
        await store.revoke_token("k-kept", ACTOR, refuse)
    assert (await finished(store, job)).status == "completed"
    (record,) = await store.reader.tokens()
    assert record.revoked_at is None
