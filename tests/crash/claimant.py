"""One claiming process of the race: claims and completes until its standard input is closed.

    python -m tests.crash.claimant PORT LEDGER INSTANCE LIMIT        (the token stands in CRASH_TOKEN)

It says ``ready`` on standard output when its first claim is about to go out.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from tests.crash.connection import Connection
from tests.crash.ledger import Ledger
from tests.crash.worker import Worker

LEASE_SECONDS = 30.0


async def claim_all(port: int, ledger: Path, instance: str, limit: int) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), over.set)
    worker = Worker(
        Connection(port, os.environ["CRASH_TOKEN"]),
        Ledger(ledger),
        instance=instance,
        lease_seconds=LEASE_SECONDS,
        limit=limit,
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await worker.work(over)
    if worker.refused:
        sys.exit(f"{instance}: {len(worker.refused)} completes were refused")


if __name__ == "__main__":
    asyncio.run(claim_all(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
