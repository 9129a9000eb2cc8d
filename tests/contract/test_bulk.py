"""Delete, change and actions on many jobs: what operators do to jobs that nobody holds."""

from __future__ import annotations

from typing import Any

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING, Visibility
from rota.errors import Conflict, Forbidden, JobEnded, JobRunning, NotFound
from rota.store.base import JobFilter, Store
from rota.store.records import Action, Candidates
from tests.contract.conftest import Place
from tests.contract.factories import (
    ACTOR,
    claim_of,
    enqueued,
    finished,
    ids,
    new_job,
    put_type,
    running,
    stored,
)

DAY = 86_400
ENDED = frozenset({"completed", "failed", "cancelled", "skipped"})
DEAD = frozenset({"failed", "cancelled"})
ALIVE = frozenset({"pending", "blocked", "running"})
ELSEWHERE = Visibility(reads_all=True, types=frozenset({"other"}))


async def failed(store: Store, **fields: Any) -> Any:
    return await finished(store, await running(store, **fields), "fail", error="broken", retryable=False)


async def matching(
    store: Store, action: Action, statuses: frozenset[str], visibility: Visibility = EVERYTHING, **fields: Any
) -> Candidates:
    wanted = JobFilter(statuses=statuses, **fields)
    return await store.reader.candidates(action, wanted, visibility, scheduled=True)


# --- delete ---------------------------------------------------------------------------------------


async def test_a_deleted_job_is_gone_with_its_attempts_and_log(store: Store) -> None:
    job = await failed(store)
    await store.delete(job.id, EVERYTHING, ACTOR)
    assert await store.reader.job(job.id, EVERYTHING) is None
    assert await store.reader.attempts(job.id, EVERYTHING) is None
    assert await store.reader.logs(job.id, EVERYTHING, limit=1) is None
    (later,) = await enqueued(store, new_job())
    assert later.id > job.id


async def test_only_what_has_ended_is_deleted(store: Store) -> None:
    held = await running(store)
    with pytest.raises(JobRunning):
        await store.delete(held.id, EVERYTHING, ACTOR)
    (ready,) = await enqueued(store, new_job())
    with pytest.raises(Conflict):
        await store.delete(ready.id, EVERYTHING, ACTOR)
    assert (await stored(store, held)).status == "running"
    assert (await stored(store, ready)).status == "pending"


async def test_an_idempotency_key_guards_its_job_for_a_day(store: Store, clock: FakeClock) -> None:
    job = await failed(store, idempotency_key="order-17")
    clock.advance(DAY - 1)
    with pytest.raises(Conflict):
        await store.delete(job.id, EVERYTHING, ACTOR)
    assert await store.act("delete", [job.id], ENDED, EVERYTHING, ACTOR) == []
    assert await store.purge([job.id], clock.now()) == 0
    clock.advance(1)
    await store.delete(job.id, EVERYTHING, ACTOR)
    (again,) = await store.enqueue([new_job(idempotency_key="order-17")])
    assert again.created


async def test_what_is_out_of_range_is_neither_deleted_nor_changed(store: Store) -> None:
    job = await failed(store)
    (ready,) = await enqueued(store, new_job())
    for missing in (job.id, 10**15):
        with pytest.raises(NotFound):
            await store.delete(missing, ELSEWHERE, ACTOR)
    with pytest.raises(NotFound):
        await store.change(ready.id, ELSEWHERE, ACTOR, priority=0)
    assert await store.act("delete", [job.id], ENDED, ELSEWHERE, ACTOR) == []
    assert (await matching(store, "delete", ENDED, ELSEWHERE)).matched == 0


async def test_the_judge_of_a_deletion_sees_the_stored_job(store: Store) -> None:
    job = await failed(store)

    def refuse(seen: Any) -> None:
        assert seen.id == job.id
        raise Forbidden("no")

    with pytest.raises(Forbidden):
        await store.delete(job.id, EVERYTHING, ACTOR, refuse)
    with pytest.raises(Forbidden):
        await store.replay(job.id, EVERYTHING, ACTOR, refuse)
    assert (await stored(store, job)).status == "failed"


# --- change ---------------------------------------------------------------------------------------


async def test_a_changed_priority_counts_at_the_next_claim(store: Store) -> None:
    first, second = await enqueued(store, new_job(), new_job())
    changed = await store.change(second.id, EVERYTHING, ACTOR, priority=20)
    assert (changed.priority, changed) == (20, await stored(store, second))
    assert ids(await store.claim(claim_of(2))) == [second.id, first.id]


async def test_a_job_is_put_off_and_called_back(store: Store, clock: FakeClock) -> None:
    (job,) = await enqueued(store, new_job())
    later = clock.now() + 60_000
    delayed = await store.change(job.id, EVERYTHING, ACTOR, run_at=later, reschedule=True)
    assert (delayed.run_at, delayed.due_at) == (later, later)
    assert await store.claim(claim_of()) == []
    at_once = await store.change(job.id, EVERYTHING, ACTOR, reschedule=True)
    assert (at_once.run_at, at_once.due_at) == (None, None)
    assert ids(await store.claim(claim_of())) == [job.id]


async def test_only_pending_jobs_are_changed(store: Store) -> None:
    held = await running(store)
    with pytest.raises(JobRunning):
        await store.change(held.id, EVERYTHING, ACTOR, priority=0)
    await finished(store, held)
    with pytest.raises(JobEnded):
        await store.change(held.id, EVERYTHING, ACTOR, priority=0)
    assert (await stored(store, held)).priority == held.priority


# --- many -----------------------------------------------------------------------------------------


async def test_an_action_is_done_to_those_whose_status_still_fits(store: Store) -> None:
    dead = [await failed(store) for _ in range(3)]
    (ready,) = await enqueued(store, new_job())
    asked = [*ids(dead), ready.id, 10**15]
    assert sorted(await store.act("replay", asked, DEAD, EVERYTHING, ACTOR)) == ids(dead)
    assert await store.act("replay", asked, DEAD, EVERYTHING, ACTOR) == []
    for job in dead:
        again = await stored(store, job)
        assert (again.status, again.retry_count, again.max_retries, again.payload) == (
            *("pending", 0, job.max_retries, job.payload),
        )
    assert sorted(ids(await store.claim(claim_of(10)))) == sorted([*ids(dead), ready.id])


async def test_cancelling_many_ends_what_waits_and_asks_what_runs(store: Store) -> None:
    held = await running(store)
    ready, delayed = await enqueued(store, new_job(), new_job(delay_seconds=60))
    done = await store.act("cancel", [held.id, ready.id, delayed.id], ALIVE, EVERYTHING, ACTOR)
    assert sorted(done) == [held.id, ready.id, delayed.id]
    assert [(await stored(store, job)).status for job in (held, ready, delayed)] == [
        *("running", "cancelled", "cancelled"),
    ]
    assert (await stored(store, held)).cancel_requested


async def test_a_row_that_cannot_be_deleted_stops_only_itself(store: Store, place: Place) -> None:
    first, guilty, last = [await failed(store) for _ in range(3)]
    place.hold_back(guilty)
    assert sorted(await store.act("delete", ids([first, guilty, last]), ENDED, EVERYTHING, ACTOR)) == [
        *(first.id, last.id),
    ]
    assert (await stored(store, guilty)).status == "failed"


async def test_candidates_obey_every_filter(store: Store, clock: FakeClock) -> None:
    await put_type(store, "other")
    old = await failed(store, payload=b'{"to":"ann"}')
    clock.advance(10)
    new = await failed(store, queue="mail", payload=b'{"to":"bob"}')
    other = await failed(store, type="other")
    everything = await matching(store, "replay", DEAD)
    assert everything.ids == [other.id, new.id, old.id]
    assert (everything.matched, everything.next_before) == (3, None)
    for fields, expected in (
        ({"type": "work"}, [new.id, old.id]),
        ({"queue": "mail"}, [new.id]),
        ({"text": '"ann"'}, [old.id]),
        ({"created_before": clock.now()}, [old.id]),
        ({"created_after": old.created_at}, [other.id, new.id]),
        ({"schedule_id": 4}, []),
    ):
        assert (await matching(store, "replay", DEAD, **fields)).ids == expected
    assert (await matching(store, "replay", frozenset({"cancelled"}))).ids == []


async def test_candidates_that_nothing_can_be_done_to_match_without_being_named(
    store: Store, clock: FakeClock
) -> None:
    keyed = await failed(store, idempotency_key="k")
    held = await running(store)
    await store.cancel(held.id, EVERYTHING, ACTOR)
    (deletable, stoppable) = (await matching(store, "delete", ENDED), await matching(store, "cancel", ALIVE))
    assert (deletable.matched, deletable.ids) == (1, [])
    assert (stoppable.matched, stoppable.ids) == (1, [])
    clock.advance(DAY)
    assert (await matching(store, "delete", ENDED)).ids == [keyed.id]


async def test_a_walk_over_candidates_goes_on_where_it_ended(store: Store) -> None:
    jobs = await enqueued(store, *(new_job() for _ in range(20_600)))
    first = await matching(store, "cancel", ALIVE)
    assert (len(first.ids), first.looked_at, first.next_before) == (20_000, 20_000, jobs[600].id)
    wanted = JobFilter(statuses=ALIVE)
    rest = await store.reader.candidates(
        "cancel", wanted, EVERYTHING, scheduled=True, before=first.next_before
    )
    assert rest.ids == ids(jobs[:600])[::-1]
    assert rest.next_before is None
