"""What the worker's own log says about attempts."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest

from rota import Fail, Retry, Task, Worker
from rota.errors import Unauthenticated
from tests.worker.conftest import Place


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[tuple[str, str]]]:
    """The levels and texts about attempts that were logged so far."""
    caplog.set_level(logging.DEBUG, logger="rota.worker")
    return lambda: [
        (record.levelname, record.getMessage()) for record in caplog.records if " attempt " in record.msg
    ]


async def ended(place: Place, handler: Callable[..., Any], payload: Any = None, **options: Any) -> str:
    """Run one job to its end; how its lines begin."""
    task = Task(handler, name=await place.type(), **options)
    job = await place.client.enqueue(task.name, payload or {}, max_retries=options.get("max_retries", 0))
    async with place.working(task):
        await place.until(job.id)
    return f"job {job.id} ({task.name}) attempt"


async def test_each_failure_tells_its_attempt_and_the_last_one_is_an_error(
    place: Place, lines: Callable[[], list[tuple[str, str]]]
) -> None:
    async def handler() -> None:
        raise ConnectionError("no route")

    which = await ended(place, handler, max_retries=1)
    (first, again), (second, last) = [line for line in lines() if "failed" in line[1]]
    assert (first, second) == ("WARNING", "ERROR")
    assert again.startswith(f"{which} 1 of 2 failed, it will be tried again: ConnectionError: no route\n")
    assert last.startswith(f"{which} 2 of 2 failed, for good: ConnectionError: no route\n")


@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_stack_trace_begins_with_the_handler(
    place: Place, lines: Callable[[], list[tuple[str, str]]], kind: str
) -> None:
    def handler() -> None:
        raise ValueError("here")

    async def later() -> None:
        handler()

    await ended(place, later if kind == "async" else handler)
    text = lines()[-1][1]
    assert "test_attempt_log.py" in text.split("\n")[2]
    assert "rota/client" not in text


async def test_retry_tells_when(place: Place, lines: Callable[[], list[tuple[str, str]]]) -> None:
    runs = 0

    async def handler() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise Retry("busy", after=0.25)

    which = await ended(place, handler, max_retries=3)
    warning = ("WARNING", f"{which} 1 of 4 failed, it will be tried again in 0.25 s: Retry: busy")
    assert warning in lines()
    assert ("DEBUG", f"{which} 2 of 4 begins") in lines()
    assert lines()[-1] == ("DEBUG", f"{which} 2 of 4 is complete")


async def test_end_refused_after_revocation_promises_the_job_to_another_worker(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()
    go_on = asyncio.Event()

    async def handler() -> None:
        begun.set()
        await go_on.wait()

    task = Task(handler, name=await place.type())
    job = await task.enqueue(place.client)
    made = await place.client.tokens.create(task.name, preset="worker")
    serving = asyncio.create_task(Worker(place.url, made.token, [task]).serve())
    await begun.wait()
    await place.client.tokens.revoke(made.key_id)
    go_on.set()
    with pytest.raises(Unauthenticated):
        await serving
    assert f"the end of job {job.id} was refused; another worker will get the job" in caplog.text
    assert (await place.client.get(job.id)).status == "pending"


async def test_what_the_worker_itself_decides_is_told_as_well(
    place: Place, lines: Callable[[], list[tuple[str, str]]]
) -> None:
    async def gives_up() -> None:
        raise Fail("no such shop")

    async def never_ends() -> None:
        await asyncio.sleep(60)

    def blocks() -> None:
        time.sleep(0.2)

    async def returns() -> object:
        return object()

    async def takes(n: int) -> None: ...

    for handler, payload, options, says in (
        (gives_up, {}, {}, "no such shop"),
        (never_ends, {}, {"timeout": 0.1}, "timeout"),
        (blocks, {}, {"timeout": 0.1}, "timeout"),
        (returns, {}, {}, "result-not-storable"),
        (takes, {"n": "one"}, {}, "bad-payload"),
    ):
        which = await ended(place, handler, payload, **options)
        level, text = next(line for line in lines() if line[1].startswith(which) and "failed" in line[1])
        assert level == "ERROR"
        assert f"failed, for good: {says}" in text
        assert "Traceback" not in text
