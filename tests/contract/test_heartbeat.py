"""Heartbeats: leases, progress and logs."""

from __future__ import annotations

import secrets

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING
from rota.domain.job import (
    MAX_LOG_BYTES,
    MAX_LOG_BYTES_PER_ATTEMPT,
    MAX_LOG_BYTES_PER_JOB,
    Job,
    LogLine,
    Progress,
)
from rota.errors import JobNotHeld
from rota.store.base import Beaten, Store
from tests.contract.factories import (
    ACTOR,
    beaten,
    claim_of,
    enqueued,
    finished,
    new_job,
    pass_time,
    put_type,
    running,
    sign,
    stored,
)


async def lines(store: Store, job: Job) -> list[LogLine]:
    found = await store.reader.logs(job.id, EVERYTHING, limit=1_000)
    assert found is not None
    return found


async def test_a_beat_extends_the_lease_from_now(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    clock.advance(10)
    assert await beaten(store, job) == Beaten(clock.now() + 30_000, False)
    assert (await stored(store, job)).lease_expires_at == clock.now() + 30_000


async def test_a_beat_may_ask_for_a_longer_lease_up_to_ten_times_the_types(
    store: Store, clock: FakeClock
) -> None:
    job = await running(store)
    assert (await beaten(store, job, lease_seconds=100)).lease_expires_at == clock.now() + 100_000
    assert (await beaten(store, job, lease_seconds=9_999)).lease_expires_at == clock.now() + 300_000
    assert (await stored(store, job)).lease_seconds == 300


async def test_a_beat_never_shortens_a_lease(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    assert (await beaten(store, job, lease_seconds=2)).lease_expires_at == job.lease_expires_at


async def test_no_beat_extends_a_lease_beyond_timeout_and_three_leases(
    store: Store, clock: FakeClock
) -> None:
    job = await running(store, timeout_seconds=60)
    last = clock.now() + (60 + 3 * 30) * 1000
    granted = 0
    for _ in range(14):
        clock.advance(10)
        granted = (await beaten(store, job)).lease_expires_at
        assert granted == min(clock.now() + 30_000, last)
    assert granted == last
    assert await pass_time(store, clock, 13) == 1


async def test_without_a_timeout_beats_keep_a_job_as_long_as_they_come(
    store: Store, clock: FakeClock
) -> None:
    await put_type(store, "work", lease_seconds=2)
    job = await running(store)
    for _ in range(20):
        assert await pass_time(store, clock, 0.5) == 0
        await beaten(store, job)
    assert (await finished(store, job)).failures == 0


async def test_a_lapsed_lease_that_no_sweep_has_taken_can_be_extended(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    clock.advance(3_600)
    await beaten(store, job)
    assert (await store.sweep()).recovered == 0


async def test_only_the_holder_may_beat_and_a_refused_beat_changes_nothing(store: Store) -> None:
    job = await running(store)
    report = {"progress": Progress(1, 2, "x"), "log": "x", "started": True}
    verdicts = await store.heartbeat(
        [
            sign(job, owner="t-other", **report),
            sign(job, lease_token=secrets.token_bytes(16), **report),
            sign(job, id=job.id + 1_000, **report),
        ]
    )
    assert [type(verdict) for verdict in verdicts] == [JobNotHeld] * 3
    assert await stored(store, job) == job
    assert await lines(store, job) == []


@pytest.mark.parametrize("end", ["complete", "fail", "release", "lapse", "claimed again"])
async def test_a_worker_that_lost_its_job_is_told_so(store: Store, clock: FakeClock, end: str) -> None:
    job = await running(store)
    if end == "lapse":
        await pass_time(store, clock, 31)
    else:
        await finished(store, job, "release" if end == "claimed again" else end)
    if end == "claimed again":
        await store.claim(claim_of())
    before = await stored(store, job)
    with pytest.raises(JobNotHeld):
        await beaten(store, job, progress=Progress(1, 2, "late"), log="late")
    assert await stored(store, job) == before
    assert await lines(store, job) == []


async def test_beats_of_a_batch_are_judged_one_by_one_in_their_order(store: Store, clock: FakeClock) -> None:
    jobs = [await running(store) for _ in range(5)]
    await finished(store, jobs[2])
    await store.cancel(jobs[3].id, EVERYTHING, ACTOR)
    clock.advance(1)
    verdicts = await store.heartbeat([sign(job, log=str(job.id)) for job in jobs])
    assert isinstance(verdicts.pop(2), JobNotHeld)
    assert verdicts == [Beaten(clock.now() + 30_000, stop) for stop in (False, False, True, False)]
    assert [[line.text for line in await lines(store, job)] for job in jobs] == [
        [] if i == 2 else [str(job.id)] for i, job in enumerate(jobs)
    ]


async def test_two_beats_for_one_job_in_one_batch_both_count(store: Store) -> None:
    job = await running(store)
    await store.heartbeat([sign(job, log="one", started=True), sign(job, log="two", progress=Progress(1))])
    now = await stored(store, job)
    assert [line.text for line in await lines(store, job)] == ["one", "two"]
    assert (now.log_bytes, now.progress_current, now.started_at is None) == (6, 1, False)


async def test_the_first_beat_that_says_so_is_the_start(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    clock.advance(1)
    await beaten(store, job)
    assert (await stored(store, job)).started_at is None
    clock.advance(1)
    await beaten(store, job, started=True)
    clock.advance(1)
    await beaten(store, job, started=True)
    assert (await finished(store, job)).started_at == clock.now() - 1_000


async def test_progress_is_replaced_and_a_beat_without_leaves_it(store: Store) -> None:
    job = await running(store)
    await beaten(store, job, progress=Progress(1, 10, "one"))
    await beaten(store, job)
    now = await stored(store, job)
    assert (now.progress_current, now.progress_total, now.progress_message) == (1, 10, "one")
    await beaten(store, job, progress=Progress(2.5))
    now = await stored(store, job)
    assert (now.progress_current, now.progress_total, now.progress_message) == (2.5, None, None)


# --- logs -----------------------------------------------------------------------------------------


async def test_log_lines_carry_attempt_and_time_in_order(store: Store, clock: FakeClock) -> None:
    job = await running(store)
    await beaten(store, job, log="first")
    await finished(store, job, "fail", delay_seconds=0)
    (job,) = await store.claim(claim_of())
    clock.advance(1)
    await beaten(store, job, log="second")
    found = await lines(store, job)
    assert [(line.attempt, line.at, line.text) for line in found] == [
        (1, clock.now() - 1_000, "first"),
        (2, clock.now(), "second"),
    ]
    after = await store.reader.logs(job.id, EVERYTHING, limit=5, after=found[0].id)
    assert after == found[1:]
    assert await store.reader.logs(job.id, EVERYTHING, limit=1) == found[:1]


async def test_an_attempt_keeps_256_kib_of_log_and_then_one_mark(store: Store) -> None:
    job = await running(store)
    text = "x" * MAX_LOG_BYTES
    for _ in range(MAX_LOG_BYTES_PER_ATTEMPT // MAX_LOG_BYTES + 3):
        await beaten(store, job, log=text)
    await beaten(store, job, log="short")
    found = [line.text or "" for line in await lines(store, job)]
    assert sum(text in line for line in found) == MAX_LOG_BYTES_PER_ATTEMPT // MAX_LOG_BYTES
    assert len(found) == MAX_LOG_BYTES_PER_ATTEMPT // MAX_LOG_BYTES + 1
    assert "limit" in found[-1]


async def test_log_sizes_count_bytes_and_not_characters(store: Store) -> None:
    job = await running(store)
    await beaten(store, job, log="é" * 10)
    assert (await stored(store, job)).log_bytes == 20


async def test_a_job_keeps_2_mib_of_log_over_all_its_attempts(store: Store) -> None:
    job = await running(store, max_retries=20)
    text = "x" * MAX_LOG_BYTES
    for _ in range(10):
        await store.heartbeat([sign(job, log=text) for _ in range(17)])
        await finished(store, job, "fail", delay_seconds=0)
        (job,) = await store.claim(claim_of())
    await beaten(store, job, log="short")
    found = [line.text or "" for line in await lines(store, job)]
    assert sum(line == text for line in found) == MAX_LOG_BYTES_PER_JOB // MAX_LOG_BYTES
    assert sum("limit" in line for line in found) == 8  # one for each full attempt; the last is the job's too
    assert found[-1] != "short"


async def test_a_new_attempt_may_log_again_after_a_full_one(store: Store) -> None:
    job = await running(store)
    await store.heartbeat([sign(job, log="x" * MAX_LOG_BYTES) for _ in range(20)])
    await finished(store, job, "fail", delay_seconds=0)
    (job,) = await store.claim(claim_of())
    await beaten(store, job, log="again")
    assert (await lines(store, job))[-1].text == "again"


async def test_a_thousand_and_more_beats_are_taken(store: Store) -> None:
    await enqueued(store, *(new_job() for _ in range(1_500)))
    jobs = [job for _ in range(2) for job in await store.claim(claim_of(750))]
    verdicts = await store.heartbeat([sign(job) for job in jobs])
    assert len(verdicts) == 1_500
    assert all(isinstance(verdict, Beaten) for verdict in verdicts)
