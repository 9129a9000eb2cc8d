"""A worker process for the tests: ``python -m tests.worker.process``, told by its environment what to do.

Each handler writes a line to ``TEST_NOTES`` when it starts and when it ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from pathlib import Path

from rota import Snooze, Task, Worker, current_job
from rota.client import announcing

NOTES = Path(os.environ["TEST_NOTES"])


def note(word: str) -> None:
    with NOTES.open("a") as notes:
        notes.write(f"{word} {current_job().id} {os.getpid()}\n")


async def handle(do: str = "return", seconds: float = 0.0) -> str:
    note("start")
    match do:
        case "sleep":
            await asyncio.sleep(seconds)
        case "hang once":
            await asyncio.sleep(0 if current_job().retry_count else 60)
        case "block":
            time.sleep(seconds)  # noqa: ASYNC251  # the case: a handler that blocks the loop
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "snooze":
            raise Snooze(seconds)
    note("end")
    return "done"


def main() -> None:
    logging.basicConfig(level=logging.WARNING)
    announcing.EVERY_SECONDS = 0.2  # type: ignore[misc]  # so that a drain is heard of soon
    tasks = [Task(handle, name=os.environ["TEST_TYPE"])]
    Worker(
        None,
        None,
        tasks,
        concurrency=int(os.environ.get("TEST_CONCURRENCY", "4")),
        prefetch=int(os.environ["TEST_PREFETCH"]) if "TEST_PREFETCH" in os.environ else None,
        instance=os.environ.get("TEST_INSTANCE"),
        grace_seconds=float(os.environ.get("TEST_GRACE", "10")),
    ).run()


if __name__ == "__main__":
    main()
