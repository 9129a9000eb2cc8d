"""The counts say what was committed, each event once, whatever way it came about."""

from __future__ import annotations

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.domain.job import Finish
from rota.errors import NotReplayable
from rota.store.base import Store
from rota.telemetry import Telemetry
from tests.contract.conftest import Place
from tests.contract.factories import (
    ACTOR,
    agree,
    claim_of,
    ending,
    enqueued,
    finished,
    new_job,
    pass_time,
    put_type,
    running,
    sign,
    token,
)


def jobs(telemetry: Telemetry) -> dict[str, int]:
    """What happened to jobs of the type ``work`` in the queue ``default``."""
    assert {(queue, type) for _, queue, type in telemetry.jobs} <= {("default", "work")}
    return {event: number for (event, _, _), number in telemetry.jobs.items()}


async def test_a_job_counts_once_for_each_thing_that_happened_to_it(store: Store) -> None:
    (job,) = await enqueued(store, new_job(max_retries=1))
    for outcome, delay in (("release", 0), ("fail", 0), ("fail", 0)):
        (held,) = await store.claim(claim_of())
        await finished(store, held, outcome, delay_seconds=delay)
    await store.replay(job.id, EVERYTHING, ACTOR)
    (held,) = await store.claim(claim_of())
    await finished(store, held)
    happened = {"enqueued": 1, "claimed": 4, "released": 1, "retried": 1, "failed": 1, "replayed": 1}
    assert jobs(store.telemetry) == {**happened, "completed": 1}


async def test_a_known_key_and_a_repeated_end_count_nothing(store: Store) -> None:
    known = new_job(idempotency_key="once")
    await store.enqueue([known, new_job(idempotency_key="once")])
    (held,) = await store.claim(claim_of())
    await finished(store, held)
    await finished(store, held)
    await store.finish([ending(held)], answer=False)
    assert jobs(store.telemetry) == {"enqueued": 1, "claimed": 1, "completed": 1}
    assert store.telemetry.reports_refused == 0


@pytest.mark.parametrize("answer", [True, False])
async def test_a_batch_counts_what_was_accepted_of_it(store: Store, answer: bool) -> None:
    await enqueued(store, *(new_job() for _ in range(300)))
    held = await store.claim(claim_of(300))
    endings = [ending(job) for job in held]
    await store.finish(
        [*endings[:200], Finish(held[299].id, "t-other", b"x" * 16, "complete")], answer=answer
    )
    assert jobs(store.telemetry) == {"enqueued": 300, "claimed": 300, "completed": 200}
    await store.finish(endings[200:], answer=answer)
    assert jobs(store.telemetry)["completed"] == 300
    assert store.telemetry.reports_refused == 1


async def test_a_lost_lease_is_counted_with_the_retry_and_the_late_reports(
    store: Store, clock: FakeClock
) -> None:
    job = await running(store)
    await pass_time(store, clock, 31)
    await store.sweep()
    await store.heartbeat([sign(job)])
    await store.finish([ending(job)])
    assert jobs(store.telemetry) == {"enqueued": 1, "claimed": 1, "retried": 1}
    assert store.telemetry.leases_lost == {("default", "work"): 1}
    assert store.telemetry.reports_refused == 2


async def test_cancelling_counts_when_the_job_ends_by_it(store: Store) -> None:
    held = await running(store)
    (waiting,) = await enqueued(store, new_job())
    for job in (held, waiting):
        await store.cancel(job.id, EVERYTHING, ACTOR)
    assert jobs(store.telemetry)["cancelled"] == 1
    await finished(store, held, "fail", retryable=False)
    assert jobs(store.telemetry)["cancelled"] == 2
    await store.act("replay", [held.id, waiting.id], frozenset({"cancelled"}), EVERYTHING, ACTOR)
    assert jobs(store.telemetry)["replayed"] == 2
    await store.act("cancel", [held.id, waiting.id], frozenset({"pending"}), EVERYTHING, ACTOR)
    assert jobs(store.telemetry)["cancelled"] == 4


async def test_a_refused_change_counts_nothing(store: Store) -> None:
    (job,) = await enqueued(store, new_job())
    with pytest.raises(NotReplayable):
        await store.replay(job.id, EVERYTHING, ACTOR)
    assert jobs(store.telemetry) == {"enqueued": 1}


async def test_what_a_revoked_token_held_is_released(store: Store) -> None:
    worker = await store.add_token(token(), ACTOR)
    await running(store, owner=worker.id)
    await store.revoke_token(worker.key_id, ACTOR, agree)
    assert jobs(store.telemetry) == {"enqueued": 1, "claimed": 1, "released": 1}


async def test_each_process_counts_what_it_committed(place: Place) -> None:
    one, other = await place.open(), await place.open()
    await put_type(one, "work")
    await enqueued(one, new_job())
    await other.claim(claim_of())
    assert (jobs(one.telemetry), jobs(other.telemetry)) == ({"enqueued": 1}, {"claimed": 1})


async def test_verbs_and_commits_are_timed(store: Store) -> None:
    before = store.telemetry.commits
    await enqueued(store, *(new_job() for _ in range(7)))
    (held,) = await store.claim(claim_of())
    await finished(store, held)
    counted = store.telemetry
    assert counted.commits == before + 3 == sum(counted.commit_seconds.counts)
    assert {verb: sum(counted.verbs[verb].counts) for verb in ("enqueue", "claim", "finish")} == {
        "enqueue": 1,
        "claim": 1,
        "finish": 1,
    }
    assert counted.commit_seconds.total > 0


async def test_waiting_for_work_is_no_slowness_of_the_store(store: Store, clock: FakeClock) -> None:
    assert await store.claim(claim_of(), wait_seconds=0.3) == []
    assert store.telemetry.verbs["claim"].total < 0.3
    assert sum(store.telemetry.verbs["claim"].counts) == 1
