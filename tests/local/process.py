"""An in-process worker for the tests: ``python -m tests.local.process FOLDER NOTES [COMMAND]``.

It runs the jobs of the type ``note``, whose handler writes the job's number to NOTES. With the COMMAND
``enqueue`` it stores such jobs, one by one, and prints each number once it is stored, until it is killed.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

import rota

FOLDER, NOTES = Path(sys.argv[1]), Path(sys.argv[2])
NOTED: Final = NOTES.open("a", buffering=1)


@rota.task
async def note(n: int) -> None:
    NOTED.write(f"{n}\n")


def say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def work(local: rota.Local) -> None:
    worker = local.worker([note], concurrency=20, grace_seconds=1)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    say("ready")
    await worker.serve()


def enqueue(client: rota.Client) -> None:
    n = 0
    while True:
        note.enqueue(client, n=n)
        say(n)
        n += 1


def main() -> None:
    local = rota.Local(FOLDER)
    with local as client:
        if sys.argv[3:] == ["enqueue"]:
            enqueue(client)
        else:
            asyncio.run(work(local))


if __name__ == "__main__":
    main()
