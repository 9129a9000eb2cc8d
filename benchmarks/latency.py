"""Idle latency: from before an enqueue over HTTP to the start of its handler in a waiting worker."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

from benchmarks.figures import Figure, figure
from benchmarks.processes import Server, running_server
from benchmarks.scenario import Place, Scale
from benchmarks.scripts import TYPE
from benchmarks.starts import noting_worker

JOBS = 400
WARM_UP_JOBS = 20
CONCURRENCY = 10
PAUSE_SECONDS = (0.02, 0.06)


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """One job at a time, each enqueued when the last has long been done."""
    jobs = max(scale.jobs(JOBS), 2 * WARM_UP_JOBS)
    with (
        running_server(place.sub("rota")) as server,
        noting_worker(server, place.sub("starts.json"), jobs, CONCURRENCY) as noted,
    ):
        answered = [_enqueue(server) for _ in range(jobs)][WARM_UP_JOBS:]
        waited = [(at - sent) / 1e6 for sent, at in noted.wait()][WARM_UP_JOBS:]
    waited.sort()
    answered.sort()
    n = len(waited)
    yield figure("latency.p50", "Idle latency, enqueue → handler start, p50", waited[n // 2], "ms")
    yield figure("latency.p99", "… p99", waited[n * 99 // 100], "ms")
    yield figure("latency.enqueue", "… the enqueue itself, p50", answered[n // 2], "ms")


def _enqueue(server: Server) -> float:
    """Enqueue one job that carries the time; returns the milliseconds until the answer."""
    time.sleep(random.uniform(*PAUSE_SECONDS))
    sent = time.monotonic_ns()
    server.call("POST", "/jobs", {"type": TYPE, "payload": {"n": sent}}, token=server.producer)
    return (time.monotonic_ns() - sent) / 1e6
