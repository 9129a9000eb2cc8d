"""What the measured worker runs: a task that notes when it was started and does nothing else.

After ``BENCH_JOBS`` starts the notes are written to the file ``BENCH_STARTS``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from rota import task

EXPECTED = int(os.environ.get("BENCH_JOBS", "0"))
FILE = Path(os.environ.get("BENCH_STARTS", os.devnull))

starts: list[tuple[int, int]] = []


@task(name="bench.noop")
async def noop(n: int) -> None:
    """Note the payload's number and the nanoseconds of the machine's monotonic clock."""
    starts.append((n, time.monotonic_ns()))
    if len(starts) == EXPECTED:
        whole = FILE.with_suffix(".new")
        whole.write_bytes(msgspec.json.encode(starts))
        whole.replace(FILE)
