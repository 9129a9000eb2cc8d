"""What handlers get, what they may do, and what becomes of it."""

from __future__ import annotations

import asyncio
import contextvars
import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
import pytest

from rota import Fail, Retry, Snooze, Task, current_job
from tests.worker.conftest import Place


async def test_async_and_sync_handlers_get_typed_arguments_and_store_their_results(place: Place) -> None:
    async def later(day: datetime, tags: list[str], factor: float = 2) -> dict[str, Any]:
        assert isinstance(day, datetime)
        return {"year": day.year, "tags": tags, "factor": factor}

    def doubled(n: int) -> int:
        assert threading.current_thread() is not threading.main_thread()
        return n * 2

    on_loop = Task(later, name=await place.type())
    in_thread = Task(doubled, name=await place.type())
    first = await on_loop.enqueue(place.client, day=datetime(2026, 12, 1, tzinfo=UTC), tags=["a"])
    second = await in_thread.enqueue(place.client, 21)
    async with place.working(on_loop, in_thread):
        assert (await place.until(first.id)).result == {"year": 2026, "tags": ["a"], "factor": 2}
        assert (await place.until(second.id)).result == 42


@pytest.mark.parametrize(
    ("payload", "says"),
    [
        ({"n": "one"}, "argument `n`"),
        ({}, "`n`"),
        ({"n": 1, "m": 2}, "`m`"),
        ([1], "object"),
    ],
)
async def test_a_payload_that_does_not_fit_fails_for_good_and_names_the_argument(
    place: Place, payload: Any, says: str
) -> None:
    called = False

    async def handler(n: int) -> None:
        nonlocal called
        called = True

    task = Task(handler, name=await place.type())
    job = await place.client.enqueue(task.name, payload)
    async with place.working(task):
        ended = await place.until(job.id)
    assert ended.status == "failed"
    assert says in (ended.error or "")
    assert not called


async def test_an_exception_is_retried_until_retries_run_out(place: Place) -> None:
    attempts: list[int] = []

    async def handler() -> None:
        attempts.append(current_job().attempt)
        raise ValueError(f"attempt {len(attempts)}")

    task = Task(handler, name=await place.type(), max_retries=2)
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert attempts == [1, 2, 3]
    assert ended.status == "failed"
    assert ended.error == "ValueError: attempt 3"
    assert len(await place.client.attempts(job.id)) == 3


async def test_fail_ends_the_job_without_another_attempt(place: Place) -> None:
    async def handler() -> None:
        raise Fail("no such customer")

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert (ended.status, ended.error) == ("failed", "no such customer")
    assert len(await place.client.attempts(job.id)) == 1


async def test_retry_says_when(place: Place) -> None:
    async def handler() -> None:
        raise Retry("busy", after=3600)

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        waiting = await place.until_job(job.id, lambda job: job.retry_count == 1)
    assert waiting.status == "pending"
    assert waiting.run_at == waiting.updated_at + timedelta(seconds=3600)
    assert waiting.error == "Retry: busy"


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), 31 * 86_400])
def test_a_delay_that_cannot_be_is_refused_where_it_is_made(seconds: float) -> None:
    with pytest.raises(ValueError, match="delay"):
        Snooze(seconds)
    with pytest.raises(ValueError, match="delay"):
        Retry(after=seconds)


async def test_snoozing_often_and_failing_once_counts_one_failure(place: Place) -> None:
    runs = 0

    async def handler() -> str:
        nonlocal runs
        runs += 1
        if runs <= 10:
            raise Snooze(0)
        if runs == 11:
            raise ValueError("once")
        return "done"

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert ended.status == "completed"
    assert ended.retry_count == 1
    assert len(await place.client.attempts(job.id)) == 1


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [1, {"x": float("inf")}],
        "a\x00b",
        "\ud800",
        "x" * 65_536,
        json.loads("[" * 101 + "]" * 101),
        object(),
    ],
)
async def test_a_result_that_cannot_be_stored_fails_the_job_for_good(place: Place, value: Any) -> None:
    async def handler() -> Any:
        return value

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert ended.status == "failed"
    assert len(await place.client.attempts(job.id)) == 1
    assert (ended.error or "").startswith("result-not-storable")
    raw = httpx2.get(
        f"{place.url}/jobs/{job.id}",
        headers={"Authorization": f"Bearer {place.token}"},
        trust_env=False,
    )
    json.loads(raw.text, parse_constant=pytest.fail)


async def test_a_result_nested_20_000_deep_fails_the_job(place: Place) -> None:
    async def handler() -> Any:
        nested: list[Any] = []
        for _ in range(20_000):
            nested = [nested]
        return nested

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        assert (await place.until(job.id)).status == "failed"


@pytest.mark.parametrize(
    ("text", "kept"), [("bad \ud800 text", "\\ud800"), ("a\x00b", "a"), ("x" * 100_000, "x" * 1_000)]
)
async def test_an_error_with_any_text_ends_the_attempt(place: Place, text: str, kept: str) -> None:
    async def handler() -> None:
        raise ValueError(text)

    task = Task(handler, name=await place.type(), max_retries=0)
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert ended.status == "failed"
    assert kept in (ended.error or "")
    assert len((ended.error or "").encode()) <= 8_192


async def test_an_exception_whose_text_cannot_be_made_ends_the_attempt(place: Place) -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    async def handler() -> None:
        raise Broken

    task = Task(handler, name=await place.type(), max_retries=0)
    job = await task.enqueue(place.client)
    async with place.working(task):
        assert (await place.until(job.id)).status == "failed"


@pytest.mark.parametrize("raised", [SystemExit(3), StopIteration(), asyncio.CancelledError()])
async def test_no_exception_of_a_handler_ends_the_worker(place: Place, raised: BaseException) -> None:
    def in_thread() -> None:
        raise raised

    async def on_loop(fail: bool) -> None:
        if fail:
            raise raised

    sync_task = Task(in_thread, name=await place.type(), max_retries=0)
    async_task = Task(on_loop, name=await place.type(), max_retries=0)
    first = await sync_task.enqueue(place.client)
    second = await async_task.enqueue(place.client, fail=True)
    async with place.working(sync_task, async_task):
        assert (await place.until(first.id)).status == "failed"
        assert (await place.until(second.id)).status == "failed"
        third = await async_task.enqueue(place.client, fail=False)
        assert (await place.until(third.id)).status == "completed"


async def test_each_handler_has_a_context_of_its_own(place: Place) -> None:
    seen: contextvars.ContextVar[int | None] = contextvars.ContextVar("seen", default=None)
    leaked: list[int | None] = []

    async def handler(n: int) -> None:
        leaked.append(seen.get())
        seen.set(n)
        await asyncio.sleep(0)
        assert seen.get() == n

    task = Task(handler, name=await place.type(), max_retries=0)
    jobs = [await task.enqueue(place.client, n) for n in range(5)]
    async with place.working(task, concurrency=1):
        for job in jobs:
            assert (await place.until(job.id)).status == "completed"
    assert leaked == [None] * 5


async def test_timeouts_and_task_groups_work_inside_handlers(place: Place) -> None:
    async def handler() -> str:
        assert asyncio.current_task() is not None
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(10)
        except TimeoutError:
            pass
        async with asyncio.TaskGroup() as group:
            one = group.create_task(asyncio.sleep(0.01, "inside"))
        return one.result()

    task = Task(handler, name=await place.type(), max_retries=0)
    jobs = [await task.enqueue(place.client) for _ in range(3)]
    async with place.working(task, concurrency=1):
        for job in jobs:
            assert (await place.until(job.id)).result == "inside"


async def test_progress_and_log_lines_arrive_before_the_end(place: Place) -> None:
    def handler() -> None:
        job = current_job()
        for step in range(3):
            job.progress(step + 1, 3, f"step {step}")
            job.log(f"line {step}")

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert ended.progress is not None
    assert (ended.progress.current, ended.progress.total, ended.progress.message) == (3, 3, "step 2")
    logged = "\n".join(line.text or "" for line in await place.client.logs(job.id))
    assert logged.split("\n") == ["line 0", "line 1", "line 2"]


async def test_progress_is_seen_while_the_handler_runs(place: Place) -> None:
    seen = asyncio.Event()

    async def handler() -> None:
        current_job().progress(1, 2)
        await seen.wait()

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        running = await place.until_job(job.id, lambda job: job.progress is not None)
        assert running.status == "running"
        seen.set()
        await place.until(job.id)


async def test_odd_text_in_log_and_progress_is_kept_escaped(place: Place) -> None:
    async def handler() -> None:
        current_job().progress(1, message="a\x00\ud800")
        current_job().log("b\x00\ud800")

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        ended = await place.until(job.id)
    assert ended.status == "completed"
    assert ended.progress is not None
    assert "\\ud800" in (ended.progress.message or "")
    assert "\\ud800" in ((await place.client.logs(job.id))[0].text or "")


async def test_endless_logging_is_bounded_and_harms_nothing(place: Place) -> None:
    async def handler() -> None:
        for _ in range(500):
            current_job().log("x" * 4_000)

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    async with place.working(task):
        assert (await place.until(job.id)).status == "completed"
    size = sum(len(line.text or "") for line in await place.client.logs(job.id))
    assert 200_000 < size <= 262_144


async def test_a_job_without_a_handler_is_given_back_uncounted(place: Place) -> None:
    async def handler() -> None: ...

    task = Task(handler, name=await place.type())
    first = await task.enqueue(place.client)
    async with place.working(task) as worker:
        await place.until(first.id)
        del worker._tasks._by_name[task.name]  # as if the server handed out what was not asked for
        job = await task.enqueue(place.client)
        await place.until_job(job.id, lambda job: job.updated_at > job.created_at, seconds=5)
        back = await place.until(job.id, "pending", seconds=5)
    assert back.retry_count == 0
    assert await place.client.attempts(job.id) == []


def test_outside_of_a_handler_there_is_no_current_job() -> None:
    with pytest.raises(LookupError):
        current_job()
