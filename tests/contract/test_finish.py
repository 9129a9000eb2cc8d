"""Complete, fail, release and snooze: who may, what it sets, and what a repetition is answered."""

from __future__ import annotations

import asyncio
import secrets
import uuid

import pytest
from msgspec.structs import replace

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.domain.job import MAX_DELAY_SECONDS, Finish, Job
from rota.domain.retry import Backoff
from rota.errors import JobNotHeld
from rota.store.base import Store
from tests.contract.factories import (
    ACTOR,
    claim_of,
    ending,
    enqueued,
    finished,
    held_up,
    new_job,
    pass_time,
    put_type,
    running,
    stored,
)


async def claimed_again(store: Store) -> Job:
    (job,) = await store.claim(claim_of())
    return job


async def test_complete_stores_the_result_and_ends_the_job(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    clock.advance(3)
    done = await finished(store, job, result=b'{"n":1.0}')
    assert (done.status, done.result, done.finished_at) == ("completed", b'{"n":1.0}', clock.now())
    assert (done.started_at, done.lease_expires_at, done.worker_id) == (job.claimed_at, None, "t-worker/1")
    assert done == await stored(store, job)


@pytest.mark.parametrize("outcome", ["complete", "fail", "release"])
async def test_only_the_holder_with_its_lease_token_may_finish(store: Store, outcome: str) -> None:
    job = await running(store)
    for stranger in ({"owner": "t-other"}, {"lease_token": secrets.token_bytes(16)}, {"lease_token": b""}):
        with pytest.raises(JobNotHeld):
            await finished(store, job, outcome, **stranger)
    with pytest.raises(JobNotHeld):
        await finished(store, replace(job, id=job.id + 1_000), outcome)
    assert await stored(store, job) == job


async def test_verdicts_stand_in_the_order_asked_whatever_they_are(store: Store) -> None:
    jobs = [await running(store) for _ in range(9)]
    outcomes = ["complete", "fail", "release"] * 3
    asked = [ending(job, outcome) for job, outcome in zip(jobs, outcomes, strict=True)]
    asked[4] = replace(asked[4], lease_token=secrets.token_bytes(16))
    asked[6] = replace(asked[6], owner="t-other")
    verdicts = await store.finish(asked)
    assert [i for i, verdict in enumerate(verdicts) if isinstance(verdict, JobNotHeld)] == [4, 6]
    for i, verdict in enumerate(verdicts):
        if isinstance(verdict, Job):
            expected = {"complete": "completed", "fail": "pending", "release": "pending"}[outcomes[i]]
            assert (verdict.id, verdict.status) == (jobs[i].id, expected)
            assert verdict == await stored(store, jobs[i])


async def test_one_finish_that_is_not_held_leaves_its_neighbours_completed(store: Store) -> None:
    jobs = [await running(store) for _ in range(6)]
    late = replace(ending(jobs[2]), lease_token=secrets.token_bytes(16))
    async with asyncio.TaskGroup() as calls, held_up(store):
        tasks = [
            calls.create_task(store.finish([late if i == 2 else ending(jobs[i])], answer=False))
            for i in range(6)
        ]
        await asyncio.sleep(0)
    results = [task.result()[0] for task in tasks]
    assert [isinstance(result, JobNotHeld) for result in results] == [i == 2 for i in range(6)]
    assert [result for i, result in enumerate(results) if i != 2] == [None] * 5
    assert [(await stored(store, job)).status for job in jobs].count("completed") == 5


async def test_completing_again_is_always_accepted(store: Store) -> None:
    job = await running(store)
    done = await finished(store, job, result=b"1")
    assert await finished(store, job, result=b"2") == done
    assert await store.finish([ending(job), ending(job)], answer=False) == [None, None]


async def test_completing_twice_in_one_batch_is_one_completion(store: Store) -> None:
    job = await running(store)
    first, second = await store.finish([ending(job, result=b"1"), ending(job, result=b"2")])
    assert first == second == await stored(store, job)


@pytest.mark.parametrize("outcome", ["fail", "release"])
async def test_fail_and_release_may_be_repeated_until_the_job_is_claimed_again(
    store: Store, outcome: str
) -> None:
    job = await running(store)
    ended = await finished(store, job, outcome, delay_seconds=0)
    assert await finished(store, job, outcome, delay_seconds=0) == ended
    assert (await stored(store, job)).failures == (outcome == "fail")
    await claimed_again(store)
    with pytest.raises(JobNotHeld):
        await finished(store, job, outcome, delay_seconds=0)


async def test_a_final_failure_may_be_repeated_after_a_replay_until_it_is_claimed(store: Store) -> None:
    job = await running(store)
    await finished(store, job, "fail", retryable=False)
    await store.replay(job.id, EVERYTHING, ACTOR)
    assert (await finished(store, job, "fail", retryable=False)).status == "pending"
    await claimed_again(store)
    with pytest.raises(JobNotHeld):
        await finished(store, job, "fail", retryable=False)


@pytest.mark.parametrize("first", ["complete", "fail", "release"])
async def test_another_outcome_than_the_reported_one_is_refused(store: Store, first: str) -> None:
    job = await running(store)
    ended = await finished(store, job, first)
    for other in {"complete", "fail", "release"} - {first}:
        with pytest.raises(JobNotHeld):
            await finished(store, job, other)
    assert await stored(store, job) == ended


async def test_a_lapsed_lease_that_no_sweep_has_taken_still_completes(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    clock.advance(3_600)
    assert (await finished(store, job)).status == "completed"


@pytest.mark.parametrize("outcome", ["complete", "fail", "release"])
async def test_expired_lease_cannot_finish(store: Store, clock: FakeClock, outcome: str) -> None:
    job = await running(store)
    assert await pass_time(store, clock, 31) == 1
    with pytest.raises(JobNotHeld):
        await finished(store, job, outcome)
    again = await claimed_again(store)
    with pytest.raises(JobNotHeld):
        await finished(store, job, outcome)
    assert await stored(store, job) == again


async def test_two_hundred_jobs_end_as_their_leases_lapse_and_stay_ended(
    store: Store, clock: FakeClock
) -> None:
    await enqueued(store, *(new_job() for _ in range(200)))
    jobs = await store.claim(claim_of(200))
    await pass_time(store, clock, 30)
    clock.advance(0.002)
    asked: list[asyncio.Future[object]] = []
    for n, job in enumerate(jobs):
        asked.append(asyncio.ensure_future(store.finish([ending(job)])))
        if n % 10 == 5:
            asked.append(asyncio.ensure_future(store.sweep()))
        if n % 40 == 20:
            await asyncio.sleep(0.002)
    await asyncio.gather(*asked)
    await pass_time(store, clock, 40)
    accepted = 0
    for job in jobs:
        now = await stored(store, job)
        attempts = await store.reader.attempts(job.id, EVERYTHING) or []
        assert (now.status, len(attempts)) in {("completed", 0), ("pending", 1)}
        accepted += now.status == "completed"
    assert accepted >= 1


# --- failing --------------------------------------------------------------------------------------


async def test_a_failure_waits_as_the_back_off_says_and_is_kept_in_the_history(
    store: Store, clock: FakeClock
) -> None:
    job = await running(store, max_retries=2)
    delays = []
    for n in range(2):
        failed = await finished(store, job, "fail", error=f"error {n}")
        assert (failed.status, failed.retry_count, failed.error) == ("pending", n + 1, f"error {n}")
        assert failed.due_at is not None
        delays.append(failed.due_at - clock.now())
        await pass_time(store, clock, delays[-1] / 1000)
        job = await claimed_again(store)
    last = await finished(store, job, "fail", error="the end")
    assert delays == [2_000, 4_000]
    assert (last.status, last.retry_count, last.failures) == ("failed", 2, 3)
    attempts = await store.reader.attempts(job.id, EVERYTHING)
    assert attempts is not None
    assert [(each.attempt, each.error) for each in attempts] == [
        (1, "error 0"),
        (2, "error 1"),
        (3, "the end"),
    ]
    assert attempts[-1].claimed_at == job.claimed_at
    assert attempts[-1].worker_id == "t-worker/1"


async def test_a_job_without_retries_or_an_error_that_must_not_be_retried_ends(store: Store) -> None:
    for job, retryable in ((await running(store, max_retries=0), True), (await running(store), False)):
        ended = await finished(store, job, "fail", error="e", retryable=retryable)
        assert (ended.status, ended.retry_count, ended.failures) == ("failed", 0, 1)


async def test_the_worker_may_say_when_to_retry(store: Store, clock: FakeClock) -> None:
    at_once = await finished(store, await running(store), "fail", delay_seconds=0)
    assert at_once.due_at is None
    job = await claimed_again(store)
    later = await finished(store, job, "fail", delay_seconds=99.5)
    assert later.due_at == clock.now() + 99_500


async def test_a_late_attempt_waits_no_longer_than_the_cap(store: Store, clock: FakeClock) -> None:
    await put_type(store, "work", backoff=Backoff(cap_seconds=50, jitter=0.5))
    job = await running(store, max_retries=100)
    for _ in range(79):
        await finished(store, job, "fail", delay_seconds=0)
        job = await claimed_again(store)
    failed = await finished(store, job, "fail")
    assert failed.retry_count == 80
    assert failed.due_at is not None
    assert 0 < failed.due_at - clock.now() <= 75_000


async def test_a_failed_member_of_a_batch_keeps_its_own_error(store: Store) -> None:
    jobs = [await running(store) for _ in range(5)]
    await store.finish([ending(job, "fail", error=f"error of {job.id}") for job in jobs], answer=False)
    assert [(await stored(store, job)).error for job in jobs] == [f"error of {job.id}" for job in jobs]


# --- giving back ----------------------------------------------------------------------------------


async def test_a_release_counts_nothing_and_the_job_is_ready_at_once(store: Store) -> None:
    job = await running(store)
    back = await finished(store, job, "release")
    assert (back.status, back.due_at, back.retry_count, back.failures) == ("pending", None, 0, 0)
    assert back.worker_id is None
    assert await store.reader.attempts(job.id, EVERYTHING) == []


async def test_releases_in_a_row_wait_longer_and_longer_up_to_a_minute(
    store: Store, clock: FakeClock
) -> None:
    job = await running(store)
    waits = []
    for _ in range(9):
        back = await finished(store, job, "release")
        waits.append(0 if back.due_at is None else (back.due_at - clock.now()) // 1000)
        clock.advance(waits[-1])
        await store.sweep()
        job = await claimed_again(store)
    assert waits == [0, 2, 4, 8, 16, 32, 60, 60, 60]
    await finished(store, job, "release", delay_seconds=0)
    assert (await finished(store, await claimed_again(store), "release")).due_at is None


async def test_a_snooze_waits_as_long_as_asked_and_at_most_thirty_days(
    store: Store, clock: FakeClock
) -> None:
    short = await finished(store, await running(store, "a"), "release", delay_seconds=7.5)
    long = await finished(store, await running(store, "b"), "release", delay_seconds=1e9)
    assert short.due_at == clock.now() + 7_500
    assert long.due_at == clock.now() + MAX_DELAY_SECONDS * 1000


async def test_fifty_snoozes_and_then_a_failure_count_one_failure(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    for _ in range(50):
        await finished(store, job, "release", delay_seconds=0)
        job = await claimed_again(store)
    failed = await finished(store, job, "fail")
    assert (failed.failures, failed.retry_count, failed.due_at) == (1, 1, clock.now() + 2_000)


async def test_a_retried_job_keeps_its_place_in_the_queue(store: Store) -> None:
    first = await running(store)
    await enqueued(store, new_job())
    await finished(store, first, "fail", delay_seconds=0)
    assert (await claimed_again(store)).id == first.id


async def test_a_finish_of_an_unknown_job_is_a_verdict_and_not_an_error(store: Store) -> None:
    unknown = Finish(10**17, "t-worker", uuid.uuid4().bytes, "complete")
    (verdict,) = await store.finish([unknown], answer=False)
    assert isinstance(verdict, JobNotHeld)
