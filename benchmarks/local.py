"""In-process mode: how fast one process stores jobs in its own queue and empties it, without a server.

``python -m benchmarks.local FOLDER JOBS`` is that process: it prints one line of JSON.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.figures import Figure, figure
from benchmarks.scenario import Place, Scale
from rota import Local, Worker, task

JOBS = 20_000
ONE_BY_ONE = 500
CONCURRENCY = 500
START_SECONDS = 120


class Run(msgspec.Struct):
    """What one process measured: jobs a second, and CPU in microseconds a job."""

    one_by_one: float
    bulk: float
    drain: float
    drain_cpu: float


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """Enqueues one by one and in bulk, then the drain from the first to the last handler start."""
    jobs = scale.jobs(JOBS)
    runs = [_run_apart(place.sub(f"local-{i}"), jobs) for i in range(scale.repeats)]
    rows = (
        ("local.enqueue", "In-process: enqueue one by one", [each.one_by_one for each in runs], "jobs/s"),
        ("local.bulk", f"In-process: enqueue {jobs:,} at once", [each.bulk for each in runs], "jobs/s"),
        ("local.drain", f"In-process: drain of {jobs:,} no-op jobs", [each.drain for each in runs], "jobs/s"),
        ("local.drain_cpu", "… CPU of the process a job", [each.drain_cpu for each in runs], "µs"),
    )
    for name, what, samples, unit in rows:
        yield figure(name, what, median(samples), unit, samples)


def _run_apart(folder: Path, jobs: int) -> Run:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.local", str(folder), str(jobs)],
        stdout=subprocess.PIPE,
        check=True,
        timeout=START_SECONDS,
    )
    return msgspec.json.decode(ran.stdout, type=Run)


def run(folder: Path, jobs: int) -> Run:
    """Measure in this process."""
    starts: list[float] = []
    worker: Worker

    @task(name="bench.noop")
    async def noop(n: int) -> None:
        starts.append(time.perf_counter())
        if n == jobs - 1:
            worker.stop()

    local = Local(folder)
    with local as client:
        client.types.put("bench.noop")
        began = time.perf_counter()
        for _ in range(ONE_BY_ONE):
            noop.enqueue(client, n=-1)
        one_by_one = ONE_BY_ONE / (time.perf_counter() - began)
        specs = [noop.job(n=n) for n in range(jobs)]
        began = time.perf_counter()
        client.enqueue_many(specs)
        bulk = jobs / (time.perf_counter() - began)
        worker = local.worker([noop], concurrency=CONCURRENCY)
        cpu = time.process_time()
        worker.run()
        cpu = time.process_time() - cpu
    return Run(
        one_by_one=one_by_one,
        bulk=bulk,
        drain=(len(starts) - 1) / (starts[-1] - starts[0]),
        drain_cpu=cpu / len(starts) * 1e6,
    )


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(run(Path(sys.argv[1]), int(sys.argv[2]))))
