"""The runner repeats its tasks whatever happens in them."""

from __future__ import annotations

import asyncio

from rota.services.runner import Runner, Task


async def test_a_failing_task_is_tried_again_and_disturbs_no_other() -> None:
    enough = asyncio.Event()
    runs = {"failing": 0, "fine": 0}

    async def failing() -> None:
        runs["failing"] += 1
        raise RuntimeError("broken")

    async def fine() -> None:
        runs["fine"] += 1
        if min(runs.values()) >= 3:
            enough.set()

    runner = Runner([Task("failing", 0, failing), Task("fine", 0, fine)])
    runner.start()
    async with asyncio.timeout(10):
        await enough.wait()
    await runner.stop()


async def test_stopping_ends_a_task_in_the_middle_of_its_work() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def endless() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    runner = Runner([Task("endless", 0, endless)])
    runner.start()
    async with asyncio.timeout(10):
        await begun.wait()
        await runner.stop()
    assert ended.is_set()
