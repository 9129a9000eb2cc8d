"""``rota.testing``: the queue in a test, and the fixtures that come with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from rota import Fail, Retry, Snooze, Task, current_job, task
from rota.testing import Queue, queue

pytest_plugins = ["pytester"]

sent: list[str] = []


@task
def send_mail(to: str, subject: str = "Hello") -> str:
    current_job().log(f"to {to}")
    sent.append(to)
    return f"sent {subject}"


@task
async def import_users(names: list[str]) -> int:
    await asyncio.sleep(0)
    return len(names)


@task
def fragile(do: str) -> None:
    match do:
        case "retry":
            raise Retry("later", after=60)
        case "fail":
            raise Fail("no")
        case "snooze":
            raise Snooze(30)
    raise ValueError(do)


@pytest.fixture
def rota_tasks() -> Iterable[Task[..., Any]]:
    sent.clear()
    return [send_mail, import_users, fragile]


def test_what_was_enqueued_is_found_by_its_arguments(rota_queue: Queue) -> None:
    send_mail.enqueue(rota_queue.client, to="ada")
    send_mail.enqueue(rota_queue.client, to="bob", subject="Bye")
    assert rota_queue.assert_enqueued(send_mail, to="bob").payload == {"to": "bob", "subject": "Bye"}
    assert [job.payload["to"] for job in rota_queue.enqueued(send_mail)] == ["ada", "bob"]
    assert rota_queue.enqueued("import_users") == []


def test_what_was_not_enqueued_is_told_beside_what_was(rota_queue: Queue) -> None:
    send_mail.enqueue(rota_queue.client, to="ada")
    with pytest.raises(AssertionError) as told:
        rota_queue.assert_enqueued(send_mail, to="bob")
    assert str(told.value) == (
        'No job of type send_mail with {"to":"bob"} was enqueued. These were:\n'
        '  send_mail with {"to":"ada"} (pending)'
    )
    rota_queue.declare("other.service")
    with pytest.raises(AssertionError, match=r"No job of type other\.service was enqueued"):
        rota_queue.assert_enqueued("other.service")


def test_draining_runs_sync_and_async_handlers(rota_queue: Queue) -> None:
    send_mail.enqueue(rota_queue.client, to="ada")
    import_users.enqueue(rota_queue.client, names=["ann", "ben"])
    mailed, imported = rota_queue.drain()
    assert (mailed.status, mailed.result) == ("completed", "sent Hello")
    assert imported.result == 2
    assert sent == ["ada"]
    assert [line.text for line in rota_queue.client.logs(mailed.id)] == ["to ada"]
    assert rota_queue.drain() == []


async def test_an_async_test_drains_in_its_own_loop(rota_queue: Queue) -> None:
    seen = []

    @task
    async def look() -> None:
        seen.append(asyncio.get_running_loop())

    rota_queue.declare(look)
    await look.enqueue(rota_queue.async_client)
    await send_mail.enqueue(rota_queue.async_client, to="ada")
    assert {job.status for job in await rota_queue.adrain()} == {"completed"}
    assert seen == [asyncio.get_running_loop()]
    assert sent == ["ada"]
    with pytest.raises(RuntimeError, match="await adrain"):
        rota_queue.drain()


def test_retries_wait_until_the_time_has_come(rota_queue: Queue) -> None:
    job = fragile.enqueue(rota_queue.client, do="break")
    (failed,) = rota_queue.drain()
    assert (failed.status, failed.retry_count, failed.has_error) == ("pending", 1, True)
    assert rota_queue.drain() == []
    rota_queue.advance(3_600)
    assert [one.id for one in rota_queue.drain()] == [job.id]
    for _ in range(2):
        rota_queue.advance(3_600)
        rota_queue.drain()
    assert rota_queue.client.get(job.id).status == "failed"
    assert rota_queue.client.get(job.id).error == "ValueError: break"


@pytest.mark.parametrize(
    ("do", "status", "counted", "seconds"),
    [("retry", "pending", 1, 60), ("snooze", "pending", 0, 30), ("fail", "failed", 0, None)],
)
def test_a_handlers_own_words_count(
    rota_queue: Queue, do: str, status: str, counted: int, seconds: int | None
) -> None:
    fragile.enqueue(rota_queue.client, do=do)
    (job,) = rota_queue.run_pending()
    assert job.status == status
    if seconds is not None:
        assert job.retry_count == counted
        rota_queue.advance(seconds - 1)
        assert rota_queue.run_pending() == []
        rota_queue.advance(1.5)
        assert len(rota_queue.run_pending()) == 1


def test_pending_jobs_run_once_and_draining_runs_what_they_enqueue(rota_queue: Queue) -> None:
    @task
    def count(n: int) -> None:
        if n:
            count.enqueue(rota_queue.client, n=n - 1)

    rota_queue.declare(count)
    count.enqueue(rota_queue.client, n=3)
    assert [job.payload["n"] for job in rota_queue.run_pending()] == [3]
    assert [job.payload["n"] for job in rota_queue.drain()] == [2, 1, 0]


def test_a_handler_that_enqueues_itself_for_ever_is_told(rota_queue: Queue) -> None:
    @task
    def again() -> None:
        again.enqueue(rota_queue.client)

    rota_queue.declare(again)
    again.enqueue(rota_queue.client)
    with pytest.raises(AssertionError, match="20 jobs ran and more wait"):
        rota_queue.drain(limit=20)


def test_only_the_tasks_that_are_named_run(rota_queue: Queue) -> None:
    send_mail.enqueue(rota_queue.client, to="ada")
    import_users.enqueue(rota_queue.client, names=[])
    assert [job.type for job in rota_queue.drain(import_users)] == ["import_users"]
    assert sent == []


def test_urgent_jobs_run_first(rota_queue: Queue) -> None:
    for to, priority in (("low", "low"), ("high", "high"), ("medium", "medium")):
        rota_queue.client.enqueue("send_mail", {"to": to}, priority=priority)
    rota_queue.drain()
    assert sent == ["high", "medium", "low"]


def test_without_pytest_it_is_a_context_manager(tmp_path: Path) -> None:
    with queue(tmp_path / "queue", [send_mail]) as opened:
        send_mail.enqueue(opened.client, to="ada")
        assert len(opened.drain()) == 1


def test_the_fixture_comes_with_an_installation(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest, rota

        @rota.task
        def greet(name: str) -> str:
            return f"Hello {name}"

        @pytest.fixture
        def rota_tasks():
            return [greet]

        def test_greeting(rota_queue):
            greet.enqueue(rota_queue.client, name="Ada")
            assert [job.result for job in rota_queue.drain()] == ["Hello Ada"]
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider", "-q").assert_outcomes(passed=1)
