"""Claims that wait: who wakes them, who ends them, and that nothing is lost on the way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.domain.job import Job
from rota.errors import RotaError, Unauthenticated
from rota.store.base import Store
from tests.contract.factories import (
    ACTOR,
    agree,
    at_once,
    claim_of,
    enqueued,
    finished,
    ids,
    new_job,
    pass_time,
    put_type,
    running,
    settled,
    stored,
    token,
)


@pytest.fixture
async def waiting(store: Store) -> AsyncIterator[Callable[..., Awaitable[asyncio.Task[list[Job]]]]]:
    """Starts a claim and returns once it is parked."""
    tasks: list[asyncio.Task[list[Job]]] = []

    async def start(**fields: object) -> asyncio.Task[list[Job]]:
        task = asyncio.create_task(store.claim(claim_of(**fields), wait_seconds=50))  # type: ignore[arg-type]
        tasks.append(task)
        await settled(store)
        assert not task.done()
        return task

    yield start
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


Waiting = Callable[..., Awaitable[asyncio.Task[list[Job]]]]


async def test_an_enqueue_and_the_claim_that_waits_for_it_share_a_commit(
    store: Store, waiting: Waiting
) -> None:
    claim = await waiting()
    (job,) = await enqueued(store, new_job())
    assert ids(await at_once(claim)) == [job.id]


async def test_one_job_wakes_one_of_many_waiting_claims_and_the_first(store: Store, waiting: Waiting) -> None:
    claims = [await waiting() for _ in range(5)]
    for claim in claims:
        (job,) = await enqueued(store, new_job())
        assert ids(await at_once(claim)) == [job.id]
    assert await store.claim(claim_of()) == []


async def test_only_claims_that_may_serve_the_lane_are_woken(store: Store, waiting: Waiting) -> None:
    other_type = await waiting(types=frozenset({"other"}))
    other_queue = await waiting(queues=frozenset({"other"}))
    right = await waiting(types=frozenset({"work"}), queues=frozenset({"default"}))
    await enqueued(store, new_job())
    await at_once(right)
    assert not other_type.done()
    assert not other_queue.done()
    await enqueued(store, new_job("other", queue="other"))
    assert await at_once(other_type)
    await enqueued(store, new_job(queue="other"))
    assert await at_once(other_queue)


async def test_a_failure_that_is_retried_at_once_wakes(store: Store, waiting: Waiting) -> None:
    job = await running(store)
    claim = await waiting()
    await finished(store, job, "fail", error="e", delay_seconds=0)
    assert ids(await at_once(claim)) == [job.id]


async def test_a_release_wakes(store: Store, waiting: Waiting) -> None:
    job = await running(store)
    claim = await waiting()
    await finished(store, job, "release")
    assert ids(await at_once(claim)) == [job.id]


async def test_a_promotion_wakes(store: Store, clock: FakeClock, waiting: Waiting) -> None:
    (job,) = await enqueued(store, new_job(delay_seconds=5))
    claim = await waiting()
    clock.advance(5)
    assert (await store.sweep()).promoted == 1
    assert ids(await at_once(claim)) == [job.id]


async def test_a_recovered_lease_wakes(store: Store, clock: FakeClock, waiting: Waiting) -> None:
    job = await running(store)
    claim = await waiting()
    assert await pass_time(store, clock, 31) == 1
    assert ids(await at_once(claim)) == [job.id]


async def test_a_replay_wakes(store: Store, waiting: Waiting) -> None:
    job = await finished(store, await running(store), "fail", error="e", retryable=False)
    claim = await waiting()
    await store.replay(job.id, EVERYTHING, ACTOR)
    assert ids(await at_once(claim)) == [job.id]


async def test_resuming_a_type_wakes(store: Store, waiting: Waiting) -> None:
    await put_type(store, "work", paused=True)
    (job,) = await enqueued(store, new_job())
    claim = await waiting()
    await store.pause_type("work", False, ACTOR, agree)
    assert ids(await at_once(claim)) == [job.id]


async def test_putting_a_deleted_type_again_wakes(store: Store, waiting: Waiting) -> None:
    (job,) = await enqueued(store, new_job())
    await store.delete_type("work", ACTOR, agree)
    claim = await waiting()
    await put_type(store, "work")
    assert ids(await at_once(claim)) == [job.id]


async def test_revoking_the_holder_wakes(store: Store, waiting: Waiting) -> None:
    await store.add_token(token("holder"), ACTOR)
    job = await running(store, owner="t-holder")
    claim = await waiting()
    await store.revoke_token("k-holder", ACTOR, agree)
    assert ids(await at_once(claim)) == [job.id]


# --- how waiting ends -----------------------------------------------------------------------------


async def test_waiting_ends_empty_when_the_time_is_over(store: Store) -> None:
    assert await store.claim(claim_of(), wait_seconds=0.05) == []
    (job,) = await enqueued(store, new_job())
    assert ids(await store.claim(claim_of())) == [job.id]


async def test_a_claim_that_does_not_wait_is_answered_while_others_wait(
    store: Store, waiting: Waiting
) -> None:
    await waiting()
    assert await store.claim(claim_of()) == []


async def test_a_token_that_is_no_longer_good_gets_nothing_when_its_claim_is_woken(store: Store) -> None:
    verdict: list[RotaError | None] = [None]
    claim = asyncio.create_task(store.claim(claim_of(), wait_seconds=50, judge=lambda: verdict[0]))
    await settled(store)
    verdict[0] = Unauthenticated("revoked")
    (job,) = await enqueued(store, new_job())
    for _ in range(3):
        await asyncio.sleep(0)
    assert isinstance(claim.exception(), Unauthenticated)
    assert (await stored(store, job)).status == "pending"


async def test_a_refused_claim_leaves_the_job_to_the_next_that_waits(store: Store, waiting: Waiting) -> None:
    bad = asyncio.create_task(
        store.claim(claim_of(), wait_seconds=50, judge=iter([None, Unauthenticated("revoked")]).__next__)
    )
    await settled(store)
    good = await waiting()
    (job,) = await enqueued(store, new_job())
    assert ids(await at_once(good)) == [job.id]
    with pytest.raises(Unauthenticated):
        await bad


async def test_a_token_that_is_no_longer_good_is_told_within_a_second_without_any_work(store: Store) -> None:
    verdict: list[RotaError | None] = [None]
    claim = asyncio.create_task(store.claim(claim_of(), wait_seconds=50, judge=lambda: verdict[0]))
    await settled(store)
    verdict[0] = Unauthenticated("revoked")
    with pytest.raises(Unauthenticated):
        await asyncio.wait_for(claim, 5)


async def test_a_cancelled_claim_takes_no_job(store: Store, waiting: Waiting) -> None:
    claim = await waiting()
    claim.cancel()
    await asyncio.gather(claim, return_exceptions=True)
    (job,) = await enqueued(store, new_job())
    assert (await stored(store, job)).status == "pending"


@pytest.mark.parametrize("turns", range(12))
async def test_a_claim_cancelled_while_it_is_served_gives_its_job_back_uncounted(
    store: Store, waiting: Waiting, turns: int
) -> None:
    for _ in range(10):
        claim = await waiting()
        enqueuing = asyncio.create_task(enqueued(store, new_job()))
        for _ in range(turns):
            await asyncio.sleep(0.0001)
        claim.cancel()
        (got,) = await asyncio.gather(claim, return_exceptions=True)
        (job,) = await enqueuing
        if isinstance(got, list):
            (again,) = got  # the answer was faster than the cancelling
        else:
            (again,) = await store.claim(claim_of(), wait_seconds=10)
        assert (again.id, again.failures, again.retry_count) == (job.id, 0, 0)
        await finished(store, again)


async def test_a_claim_cancelled_with_its_answer_already_there_gives_its_job_back(
    store: Store, waiting: Waiting
) -> None:
    claim = await waiting()
    (job,) = await enqueued(store, new_job())
    assert not claim.done()  # the same commit has answered it, but it has not run since
    claim.cancel()
    with pytest.raises(asyncio.CancelledError):
        await claim
    (again,) = await store.claim(claim_of(), wait_seconds=10)
    assert (again.id, again.failures) == (job.id, 0)


async def test_a_claim_whose_time_is_over_while_it_is_served_gives_its_job_back(store: Store) -> None:
    for n in range(20):
        claim = asyncio.create_task(store.claim(claim_of(), wait_seconds=0.001 * (n % 5 + 1)))
        await asyncio.sleep(0.001)
        (job,) = await enqueued(store, new_job())
        got = await claim or await store.claim(claim_of(), wait_seconds=10)
        assert ids(got) == [job.id]
        await finished(store, got[0])
