"""What readers see: by every door the same jobs, and of them only what their rights show."""

from __future__ import annotations

from typing import Any

import pytest

from rota.clock import FakeClock
from rota.domain.access import EVERYTHING, PRESETS, Grant, Principal, Scope, Visibility
from rota.domain.job import Job, Progress
from rota.errors import NotFound
from rota.store.base import JobFilter, Store
from tests.contract.factories import (
    ACTOR,
    SIXTY_FOUR_KIB,
    beaten,
    claim_of,
    enqueued,
    finished,
    ids,
    new_job,
    pass_time,
    running,
)

NOTHING = JobFilter()


def sight(*scopes: Scope, id: str = "t-me", **ranges: Any) -> Visibility:
    """What a token with these scopes and ranges sees."""
    return Visibility.of(Principal(id=id, name="me", grant=Grant(scopes=frozenset(scopes), **ranges)))


PRODUCER = sight(Scope.JOBS_ENQUEUE)
WORKER = sight(Scope.JOBS_WORK)
OBSERVER = sight(Scope.JOBS_READ)
DETAILED = sight(Scope.JOBS_READ, Scope.DETAIL_READ)
STRANGER = sight(*PRESETS["integrator"].scopes)


@pytest.fixture
async def job(store: Store) -> Job:
    """Another's job of type ``work`` in ``default``; it failed once, and ``t-other`` holds it now."""
    first = await running(
        store, owner="t-other", producer="t-other", idempotency_key="k", payload=b'{"secret":1}'
    )
    await finished(store, first, "fail", error="trouble", delay_seconds=0)
    (held,) = await store.claim(claim_of(owner="t-other"))
    await beaten(store, held, log="line", progress=Progress(1, 2, "half"))
    found = await store.reader.job(held.id, EVERYTHING)
    assert found is not None
    return found


async def doors(store: Store, id: int, visibility: Visibility) -> list[bool]:
    """Whether the job shows itself at each of the reader's doors."""
    page = await store.reader.jobs(NOTHING, visibility, limit=50)
    return [
        await store.reader.job(id, visibility) is not None,
        id in ids(page.jobs),
        await store.reader.attempts(id, visibility) is not None,
        await store.reader.logs(id, visibility, limit=5) is not None,
    ]


@pytest.mark.parametrize(
    ("visibility", "visible"),
    [
        (EVERYTHING, True),
        (OBSERVER, True),
        (DETAILED, True),
        (STRANGER, False),
        (PRODUCER, False),
        (WORKER, False),
        (sight(Scope.JOBS_ENQUEUE, id="t-other"), True),
        (sight(Scope.JOBS_WORK, id="t-other"), True),
        (
            sight(Scope.JOBS_READ, id="t-other", types=frozenset({"work"}), queues=frozenset({"default"})),
            True,
        ),
        (sight(Scope.JOBS_READ, types=frozenset({"else"})), False),
        (sight(Scope.JOBS_READ, queues=frozenset({"else"})), False),
        (sight(Scope.JOBS_READ, types=frozenset()), False),
        (sight(*Scope, id="t-other", types=frozenset({"work"}), queues=frozenset({"else"})), False),
        (sight(*Scope, id="t-other", types=frozenset({"else"}), queues=frozenset({"default"})), False),
    ],
)
async def test_a_job_is_visible_by_every_door_or_by_none(
    store: Store, job: Job, visibility: Visibility, visible: bool
) -> None:
    assert await doors(store, job.id, visibility) == [visible] * 4


async def test_a_holder_sees_its_job_only_while_it_holds_it(store: Store, job: Job) -> None:
    holder = sight(Scope.JOBS_WORK, id="t-other")
    assert await doors(store, job.id, holder) == [True] * 4
    await finished(store, job)
    assert await doors(store, job.id, holder) == [False] * 4


async def seen(store: Store, job: Job, visibility: Visibility) -> Job:
    """The job as this reader gets it, the same one by one and in a list."""
    one = await store.reader.job(job.id, visibility)
    (listed,) = (await store.reader.jobs(NOTHING, visibility, limit=50)).jobs
    assert one == listed
    assert one is not None
    return one


async def test_with_detail_everything_is_shown_but_anothers_key(store: Store, job: Job) -> None:
    found = await seen(store, job, DETAILED)
    assert (found.payload, found.error, found.progress_message) == (b'{"secret":1}', "trouble", "half")
    assert found.idempotency_key is None
    assert (await seen(store, job, EVERYTHING)).idempotency_key == "k"


async def test_without_detail_contents_are_hidden_and_that_there_is_an_error_is_not(
    store: Store, job: Job
) -> None:
    found = await seen(store, job, OBSERVER)
    assert (found.payload, found.result, found.error, found.progress_message) == (None, None, None, None)
    assert (found.idempotency_key, found.has_error, found.progress_current) == (None, 1, 1)


async def test_a_producer_sees_payload_and_key_of_its_job_and_not_the_error(store: Store, job: Job) -> None:
    found = await seen(store, job, sight(Scope.JOBS_ENQUEUE, id="t-other"))
    assert (found.payload, found.idempotency_key, found.error) == (b'{"secret":1}', "k", None)


async def test_a_holder_sees_the_payload_of_its_job_and_neither_error_nor_key(store: Store) -> None:
    held = await running(store, owner="t-me", idempotency_key="k")
    found = await seen(store, held, WORKER)
    assert (found.payload, found.idempotency_key, found.error) == (b"{}", None, None)


async def test_errors_and_log_texts_need_detail(store: Store, job: Job) -> None:
    for visibility, error, text in ((OBSERVER, None, None), (DETAILED, "trouble", "line")):
        attempts = await store.reader.attempts(job.id, visibility)
        lines = await store.reader.logs(job.id, visibility, limit=5)
        assert [(each.attempt, each.error) for each in attempts or []] == [(1, error)]
        assert [(each.attempt, each.text) for each in lines or []] == [(2, text)]


async def test_operators_cannot_change_what_they_cannot_see(store: Store, job: Job) -> None:
    blind = sight(Scope.JOBS_READ, types=frozenset({"else"}))
    for change in (store.cancel, store.replay):
        with pytest.raises(NotFound):
            await change(job.id, blind, ACTOR)


# --- lists ----------------------------------------------------------------------------------------


async def all_pages(
    store: Store, wanted: JobFilter = NOTHING, *, limit: int = 7, visibility: Visibility = EVERYTHING
) -> list[int]:
    found: list[int] = []
    before: int | None = None
    while True:
        page = await store.reader.jobs(wanted, visibility, limit=limit, before=before)
        assert len(page.jobs) <= limit
        assert before is None or all(job.id < before for job in page.jobs)
        found += ids(page.jobs)
        before = page.next_before
        if before is None:
            return found


async def test_pages_are_newest_first_and_show_each_job_once(store: Store) -> None:
    jobs = await enqueued(store, *(new_job() for _ in range(23)))
    assert await all_pages(store) == ids(jobs)[::-1]
    assert await all_pages(store, limit=23) == ids(jobs)[::-1]
    assert (await store.reader.jobs(NOTHING, EVERYTHING, limit=5, before=jobs[0].id)).jobs == []


async def test_a_job_that_comes_while_one_turns_pages_moves_none(store: Store) -> None:
    jobs = await enqueued(store, *(new_job() for _ in range(4)))
    first = await store.reader.jobs(NOTHING, EVERYTHING, limit=2)
    await enqueued(store, new_job())
    second = await store.reader.jobs(NOTHING, EVERYTHING, limit=2, before=first.next_before)
    assert ids(first.jobs + second.jobs) == ids(jobs)[::-1]


async def test_a_filter_narrows_to_exactly_what_it_names(store: Store, clock: FakeClock) -> None:
    start = clock.now()
    completed = await finished(store, await running(store, "a"))
    failed = await finished(store, await running(store, "a", queue="q"), "fail", retryable=False)
    clock.advance(1)
    held = await running(store, "b", queue="q", payload=b'{"word":"needle"}')
    (pending,) = await enqueued(store, new_job("c", payload=b'"a needle too"'))
    (cancelled,) = await enqueued(store, new_job("c"))
    await store.cancel(cancelled.id, EVERYTHING, ACTOR)

    async def narrowed(**fields: Any) -> list[int]:
        return await all_pages(store, JobFilter(**fields), limit=1)

    for status, job in {
        "completed": completed,
        "failed": failed,
        "running": held,
        "pending": pending,
        "cancelled": cancelled,
    }.items():
        assert await narrowed(statuses=frozenset({status})) == [job.id]
    assert await narrowed(statuses=frozenset({"failed", "running"})) == [held.id, failed.id]
    assert await narrowed(statuses=frozenset()) == []
    assert await narrowed(type="a") == [failed.id, completed.id]
    assert await narrowed(queue="q") == [held.id, failed.id]
    assert await narrowed(type="a", queue="q") == [failed.id]
    assert await narrowed(text="needle") == [pending.id, held.id]
    assert await narrowed(text="' OR 1=1 --") == []
    assert await narrowed(schedule_id=1) == []
    assert await narrowed(created_after=start) == [cancelled.id, pending.id, held.id]
    assert await narrowed(created_before=start + 1) == [failed.id, completed.id]


async def test_a_list_over_ranges_shows_only_what_lies_within_all_of_them(store: Store) -> None:
    a, b, _, _ = await enqueued(
        store, new_job("a", queue="q"), new_job("a", queue="q"), new_job("a"), new_job("b", queue="q")
    )
    own = await enqueued(store, new_job("a", queue="q", producer="t-me"))
    both: dict[str, Any] = {"types": frozenset({"a"}), "queues": frozenset({"q"})}
    assert await all_pages(store, visibility=sight(Scope.JOBS_READ, **both)) == [own[0].id, b.id, a.id]
    assert await all_pages(store, visibility=sight(Scope.JOBS_ENQUEUE, **both)) == ids(own)


async def test_a_search_looks_at_twenty_thousand_rows_a_call_and_says_where_to_go_on(store: Store) -> None:
    (needle,) = await enqueued(store, new_job(payload=b'"needle"'))
    for _ in range(5):
        await store.enqueue([new_job() for _ in range(5_000)])
    first = await store.reader.jobs(JobFilter(text="needle"), EVERYTHING, limit=10)
    assert first.jobs == []
    assert first.next_before is not None
    assert first.next_before >= needle.id + 5_000
    assert await all_pages(store, JobFilter(text="needle")) == [needle.id]


async def test_a_page_ends_when_it_has_passed_eight_mib(store: Store) -> None:
    await store.enqueue([new_job(payload=SIXTY_FOUR_KIB) for _ in range(140)])
    page = await store.reader.jobs(NOTHING, EVERYTHING, limit=500)
    assert len(page.jobs) == 129
    assert page.next_before == page.jobs[-1].id
    hidden = await store.reader.jobs(NOTHING, OBSERVER, limit=500)
    assert len(hidden.jobs) == 140


async def test_a_reader_sees_a_commit_as_soon_as_the_verb_has_returned(store: Store) -> None:
    for _ in range(20):
        (job,) = await enqueued(store, new_job())
        assert await store.reader.job(job.id, EVERYTHING) == job


async def test_a_store_is_healthy_while_it_was_writable_within_seconds(
    store: Store, clock: FakeClock
) -> None:
    assert not await store.reader.healthy()
    await pass_time(store, clock, 1)
    assert await store.reader.healthy()
    clock.advance(60)
    assert not await store.reader.healthy()


async def test_a_lease_is_held_by_its_owner_under_its_token_until_it_ends(store: Store) -> None:
    first, second = await running(store), await running(store)
    assert first.owner == second.owner
    assert first.lease_token is not None
    assert second.lease_token is not None
    owner = first.owner or ""
    leases = [
        (first.id, owner, first.lease_token),
        (first.id, owner, second.lease_token),
        (first.id, "t-somebody-else", first.lease_token),
        (2**63 - 1, owner, first.lease_token),
        (second.id, owner, second.lease_token),
        (first.id, owner, first.lease_token),
    ]
    assert await store.reader.held(leases) == [True, False, False, False, True, True]
    await finished(store, first)
    assert await store.reader.held(leases) == [False, False, False, False, True, False]
    assert await store.reader.held([]) == []
