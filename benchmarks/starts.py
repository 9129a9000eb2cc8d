"""The driver's side of :mod:`benchmarks.tasks`: a worker that notes when its handlers start."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.processes import Process, Server, running_worker

PATIENCE_SECONDS = 120


class Starts:
    """The handler starts of one worker: (the payload's number, monotonic nanoseconds)."""

    def __init__(self, worker: Process, file: Path) -> None:
        self.worker = worker
        self._file = file

    def wait(self) -> list[tuple[int, int]]:
        """All starts, as soon as there are as many as were expected. Raises when the worker ends before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._file.exists():
            if not self.worker.alive() or time.monotonic() > deadline:
                raise RuntimeError("\n".join(line for _, line in self.worker.lines) or "the worker is silent")
            time.sleep(0.02)
        return msgspec.json.decode(self._file.read_bytes(), type=list[tuple[int, int]])


@contextmanager
def noting_worker(server: Server, file: Path, jobs: int, concurrency: int) -> Iterator[Starts]:
    """A worker that writes its first ``jobs`` handler starts to ``file``."""
    env = {"BENCH_JOBS": str(jobs), "BENCH_STARTS": str(file)}
    options = ("--concurrency", str(concurrency))
    with running_worker(server, "benchmarks.tasks", *options, env=env) as worker:
        yield Starts(worker, file)
