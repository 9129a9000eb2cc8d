"""Tasks that die, freeze or linger, and the worker process that runs them.

    python -m tests.crash.handlers INSTANCE CONCURRENCY        (ROTA_URL, ROTA_TOKEN and CRASH_LEDGER are set)

Each task notes its start in the ledger.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from rota.client.current import current_job
from rota.client.tasks import Tasks
from rota.client.worker import Worker
from tests.crash.ledger import Ledger

LEASE_SECONDS = 2.0

tasks = Tasks()


def note_start() -> None:
    job = current_job()
    ledger = Ledger(Path(os.environ["CRASH_LEDGER"]))
    ledger.started(job.id, job.retry_count)
    ledger.close()


@tasks.task(name="crash.steady")
async def steady(uid: str) -> None:
    note_start()


@tasks.task(name="crash.lingering")
async def lingering(uid: str) -> int:
    """Stays for ever at its first attempt and leaves a file ``stopped-ID`` when it is told to stop."""
    note_start()
    job = current_job()
    if job.retry_count == 0:
        try:
            await asyncio.Event().wait()
        finally:
            Path(os.environ["CRASH_LEDGER"]).with_name(f"stopped-{job.id}").touch()
    return os.getpid()


@tasks.task(name="crash.deadly")
def deadly(uid: str) -> None:
    note_start()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    Worker(
        os.environ["ROTA_URL"],
        os.environ["ROTA_TOKEN"],
        tasks,
        concurrency=int(sys.argv[2]),
        instance=sys.argv[1],
        grace_seconds=1,
    ).run()
