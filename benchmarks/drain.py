"""How fast one worker process empties a queue of no-op jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.claims import queue_jobs
from benchmarks.figures import Figure, figure
from benchmarks.processes import Server, running_server
from benchmarks.scenario import Place, Scale
from benchmarks.starts import noting_worker

JOBS = 20_000
CONCURRENCY = 500


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """Jobs by the time from the first to the last handler start; all queued before the worker starts."""
    jobs = scale.jobs(JOBS)
    with running_server(place.sub("rota")) as server:
        drained = [
            drain(server, place.sub(f"starts-{i}.json"), jobs, CONCURRENCY) for i in range(scale.repeats)
        ]
    rates = [each[0] for each in drained]
    yield figure("drain.rate", f"Drain of {jobs:,} no-op jobs, one worker", median(rates), "jobs/s", rates)
    yield figure("drain.worker_cpu", "… CPU of the worker a job", median(e[1] for e in drained), "µs")
    yield figure("drain.server_cpu", "… CPU of the server a job", median(e[2] for e in drained), "µs")


def drain(server: Server, file: Path, jobs: int, concurrency: int) -> tuple[float, float, float]:
    """Jobs a second, and CPU of worker (its start included) and server in microseconds a job."""
    queue_jobs(server, jobs)
    before = server.process.cpu_seconds()
    with noting_worker(server, file, jobs, concurrency) as noted:
        started = [at for _, at in noted.wait()]
        worker_cpu = noted.worker.cpu_seconds()
        server_cpu = server.process.cpu_seconds() - before
    seconds = (max(started) - min(started)) / 1e9
    return jobs / seconds, worker_cpu / jobs * 1e6, server_cpu / jobs * 1e6
