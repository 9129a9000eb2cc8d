"""Claim: which jobs go to whom, in which order, for how long."""

from __future__ import annotations

import asyncio
import random
import uuid

import pytest

from rota.clock import FakeClock
from rota.domain.job import Job
from rota.errors import RateLimited, Unauthenticated
from rota.store.base import Store
from tests.contract.factories import (
    ACTOR,
    SIXTY_FOUR_KIB,
    agree,
    claim_of,
    enqueued,
    finished,
    held_up,
    ids,
    new_job,
    put_type,
    running,
    settled,
    stored,
    token,
)


async def test_the_highest_priority_goes_first_then_the_lowest_id(store: Store) -> None:
    jobs = await enqueued(store, *(new_job(priority=priority) for priority in (0, 20, 10, 20, 30, 0)))
    order = [jobs[i].id for i in (4, 1, 3, 2, 0, 5)]
    assert ids(await store.claim(claim_of(4))) == order[:4]
    assert ids(await store.claim(claim_of(4))) == order[4:]


@pytest.mark.parametrize("seed", range(6))
async def test_over_many_lanes_the_order_is_that_of_one_sorted_list(store: Store, seed: int) -> None:
    chance = random.Random(seed)
    types = [f"type-{n}" for n in range(chance.randint(1, 25))]
    queues = [f"queue-{n}" for n in range(chance.randint(1, 4))]
    uneven = [chance.random() ** 3 for _ in types]

    def some(names: list[str]) -> frozenset[str] | None:
        return (
            frozenset(chance.sample(names, chance.randint(1, len(names)))) if chance.random() < 0.6 else None
        )

    ready: list[Job] = []
    for _ in range(12):
        ready += await enqueued(
            store,
            *(
                new_job(
                    chance.choices(types, uneven)[0],
                    queue=chance.choice(queues),
                    priority=chance.choice((0, 10, 10, 20, 30)),
                )
                for _ in range(chance.randint(0, 60))
            ),
        )
        for _ in range(4):
            limit, served, from_queues = chance.choice((1, 2, 5, 40, 300)), some(types), some(queues)
            expected = sorted(
                (
                    job
                    for job in ready
                    if (served is None or job.type in served)
                    and (from_queues is None or job.queue in from_queues)
                ),
                key=lambda job: (-job.priority, job.id),
            )[:limit]
            got = await store.claim(claim_of(limit, types=served, queues=from_queues))
            assert ids(got) == ids(expected)
            ready = [job for job in ready if job.id not in set(ids(got))]


async def test_claims_that_wait_together_are_served_in_order_of_arrival(store: Store) -> None:
    jobs = await enqueued(store, *(new_job() for _ in range(7)))
    async with held_up(store):
        asked = [asyncio.create_task(store.claim(claim_of(3))) for _ in range(4)]
        await asyncio.sleep(0)
    assert [ids(await each) for each in asked] == [ids(jobs[:3]), ids(jobs[3:6]), ids(jobs[6:]), []]


async def test_no_job_goes_to_two_claims(store: Store) -> None:
    jobs = await enqueued(store, *(new_job(f"type-{n % 5}") for n in range(200)))
    lane_sets = [None, frozenset({"type-1", "type-2"}), frozenset({"type-2", "type-3"})]
    answers = await asyncio.gather(
        *(store.claim(claim_of(9, owner=f"t-{n}", types=lane_sets[n % 3])) for n in range(30))
    )
    got = [job.id for answer in answers for job in answer]
    assert len(got) == len(set(got))
    rest = await store.claim(claim_of(200))
    assert sorted(got + ids(rest)) == ids(jobs)
    for answer, n in zip(answers, range(30), strict=True):
        assert {job.owner for job in answer} <= {f"t-{n}"}


async def test_a_claim_serves_only_its_types_and_queues(store: Store) -> None:
    a, b, c = await enqueued(store, new_job("a"), new_job("b", queue="q"), new_job("a", queue="q"))
    assert await store.claim(claim_of(9, types=frozenset({"unknown"}))) == []
    assert await store.claim(claim_of(9, types=frozenset())) == []
    assert ids(await store.claim(claim_of(9, types=frozenset({"a"}), queues=frozenset({"q"})))) == [c.id]
    assert ids(await store.claim(claim_of(9, queues=frozenset({"q"})))) == [b.id]
    assert ids(await store.claim(claim_of(9))) == [a.id]


async def test_paused_and_deleted_types_hand_nothing_out(store: Store) -> None:
    await put_type(store, "paused")
    await put_type(store, "deleted")
    jobs = await enqueued(store, new_job("paused"), new_job("deleted"))
    await store.pause_type("paused", True, ACTOR, agree)
    await store.delete_type("deleted", ACTOR, agree)
    assert await store.claim(claim_of(9)) == []
    await store.pause_type("paused", False, ACTOR, agree)
    assert ids(await store.claim(claim_of(9))) == [jobs[0].id]
    await put_type(store, "deleted")
    assert ids(await store.claim(claim_of(9))) == [jobs[1].id]


async def test_types_of_the_server_are_never_handed_out(store: Store) -> None:
    await enqueued(store, new_job("rota.rpc"))
    assert await store.claim(claim_of(9)) == []
    assert await store.claim(claim_of(9, types=frozenset({"rota.rpc"}))) == []


async def test_a_claimed_job_is_held_by_who_asked_under_a_fresh_lease_token(
    store: Store, clock: FakeClock
) -> None:
    await enqueued(store, new_job(), new_job())
    one, two = await store.claim(claim_of(2, worker_id="worker/a"))
    assert (one.status, one.owner, one.worker_id) == ("running", "t-worker", "worker/a")
    assert (one.claimed_at, one.started_at) == (clock.now(), None)
    assert one.lease_token is not None
    assert len(one.lease_token) == 16
    assert one.lease_token != two.lease_token
    assert one == await stored(store, one)


@pytest.mark.parametrize(
    ("of_type", "asked", "granted"), [(60, None, 60), (60, 5, 5), (60, 599.5, 599.5), (60, 5_000, 600)]
)
async def test_a_lease_is_as_long_as_asked_up_to_ten_times_the_types(
    store: Store, clock: FakeClock, of_type: float, asked: float | None, granted: float
) -> None:
    await put_type(store, "work", lease_seconds=of_type)
    await enqueued(store, new_job())
    (job,) = await store.claim(claim_of(lease_seconds=asked))
    assert (job.lease_seconds, job.lease_expires_at) == (granted, clock.now() + int(granted * 1000))


async def test_a_type_that_nobody_put_has_a_lease_of_thirty_seconds(store: Store) -> None:
    await enqueued(store, new_job("stray"), new_job("stray"))
    short, long = [
        (await store.claim(claim_of(lease_seconds=asked)))[0].lease_seconds for asked in (None, 9_999)
    ]
    assert (short, long) == (30, 300)


async def test_a_new_attempt_begins_with_clean_progress_and_keeps_the_last_error(store: Store) -> None:
    job = await running(store)
    await finished(store, job, "fail", error="broken", delay_seconds=0)
    (again,) = await store.claim(claim_of())
    assert (again.error, again.progress_message, again.log_bytes_attempt) == ("broken", None, 0)
    assert again.lease_token != job.lease_token


# --- repeating a claim whose answer was lost ------------------------------------------------------


async def test_a_repeated_claim_gets_what_it_still_holds(store: Store) -> None:
    claim_id = uuid.uuid4().bytes
    await enqueued(store, *(new_job(priority=priority) for priority in (0, 20, 10)), new_job())
    first = await store.claim(claim_of(3, claim_id=claim_id))
    await finished(store, first[0])
    again = await store.claim(claim_of(3, claim_id=claim_id, repeat=True))
    assert again == first[1:]


async def test_a_repeated_claim_that_never_arrived_gets_new_jobs(store: Store) -> None:
    (job,) = await enqueued(store, new_job())
    assert ids(await store.claim(claim_of(claim_id=uuid.uuid4().bytes, repeat=True))) == [job.id]


async def test_a_claim_is_repeated_only_by_its_owner(store: Store) -> None:
    claim_id = uuid.uuid4().bytes
    await enqueued(store, new_job())
    await store.claim(claim_of(claim_id=claim_id))
    assert await store.claim(claim_of(owner="t-other", claim_id=claim_id, repeat=True)) == []


async def test_a_repeat_that_meets_its_original_takes_nothing_twice(store: Store) -> None:
    claim_id = uuid.uuid4().bytes
    await enqueued(store, new_job(), new_job())
    async with held_up(store):
        original = asyncio.create_task(store.claim(claim_of(claim_id=claim_id)))
        repeat = asyncio.create_task(store.claim(claim_of(claim_id=claim_id, repeat=True)))
        await asyncio.sleep(0)
    assert [len(await original), len(await repeat)] == [0, 1]


async def test_a_repeat_ends_its_original_that_still_waits(store: Store) -> None:
    claim_id = uuid.uuid4().bytes
    original = asyncio.create_task(store.claim(claim_of(claim_id=claim_id), wait_seconds=50))
    await settled(store)
    repeat = asyncio.create_task(store.claim(claim_of(claim_id=claim_id, repeat=True), wait_seconds=50))
    assert await asyncio.wait_for(original, 10) == []
    jobs = await enqueued(store, new_job(), new_job())
    assert ids(await asyncio.wait_for(repeat, 10)) == [jobs[0].id]


async def test_a_repeat_in_other_lanes_ends_its_original_for_good(store: Store) -> None:
    claim_id = uuid.uuid4().bytes
    await put_type(store, "other")
    other = frozenset({"other"})
    original = asyncio.create_task(store.claim(claim_of(claim_id=claim_id, types=other), wait_seconds=50))
    await settled(store)
    (job,) = await enqueued(store, new_job())
    assert ids(await store.claim(claim_of(claim_id=claim_id, repeat=True))) == [job.id]
    (left,) = await enqueued(store, new_job("other"))
    assert await asyncio.wait_for(original, 10) == []
    assert (await stored(store, left)).status == "pending"


# --- limits ---------------------------------------------------------------------------------------


async def test_a_token_holds_at_most_five_thousand_jobs(store: Store) -> None:
    await store.enqueue([new_job() for _ in range(5_003)])
    for _ in range(4):
        assert len(await store.claim(claim_of(1_000))) == 1_000
    assert len(await store.claim(claim_of(998))) == 998
    held = await store.claim(claim_of(1_000))
    assert len(held) == 2
    with pytest.raises(RateLimited):
        await store.claim(claim_of())
    with pytest.raises(RateLimited):
        await store.claim(claim_of(), wait_seconds=10)
    assert len(await store.claim(claim_of(owner="t-other"))) == 1
    await finished(store, held[0])
    assert len(await store.claim(claim_of(5))) == 1


async def test_claims_together_do_not_pass_the_limit_of_their_token(store: Store) -> None:
    await store.enqueue([new_job() for _ in range(5_100)])
    for _ in range(4):
        await store.claim(claim_of(1_000))
    async with held_up(store):
        asked = [asyncio.create_task(store.claim(claim_of(400))) for _ in range(4)]
        await asyncio.sleep(0)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [len(answer) if isinstance(answer, list) else type(answer) for answer in answers] == [
        400,
        400,
        200,
        RateLimited,
    ]


async def test_an_answer_stops_after_the_job_that_passes_eight_mib(store: Store) -> None:
    jobs = await enqueued(store, *(new_job(payload=SIXTY_FOUR_KIB) for _ in range(140)))
    async with held_up(store):
        asked = [asyncio.create_task(store.claim(claim_of(200))) for _ in range(2)]
        await asyncio.sleep(0)
    first, second = [ids(await each) for each in asked]
    assert len(first) == 129
    assert first + second == ids(jobs)


async def test_a_revoked_token_claims_nothing(store: Store) -> None:
    await store.add_token(token("worker"), ACTOR)
    (job,) = await enqueued(store, new_job())
    async with held_up(store):
        revoking = asyncio.create_task(store.revoke_token("k-worker", ACTOR, agree))
        asked = asyncio.create_task(store.claim(claim_of()))
        await asyncio.sleep(0)
    await revoking
    with pytest.raises(Unauthenticated):
        await asked
    assert ids(await store.claim(claim_of(owner="t-other"))) == [job.id]
