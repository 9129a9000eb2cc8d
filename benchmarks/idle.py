"""What a server costs that has nothing to do, and how soon it is there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median

from benchmarks.figures import Figure, figure
from benchmarks.processes import Process, running_server, start_server
from benchmarks.scenario import Place, Scale
from benchmarks.starts import noting_worker

WATCHED_SECONDS = 20
QUICK_SECONDS = 4
SETTLE_SECONDS = 1.5
STARTS = 5


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """Starts on existing data; CPU and memory without and with a waiting worker."""
    seconds = QUICK_SECONDS if scale.quick else WATCHED_SECONDS
    with running_server(place.sub("rota")) as server:
        (alone,) = _watch(seconds, server.process)
        memory = server.process.rss_mb()
        with noting_worker(server, place.sub("starts.json"), 0, 10) as noted:
            attended, worker = _watch(seconds, server.process, noted.worker)
            worker_memory = noted.worker.rss_mb()
    ready, answers = [], []
    for _ in range(1 if scale.quick else STARTS):
        server, spawned_to_line = start_server(place.sub("rota"))
        ready.append(spawned_to_line)
        answers.append(server.first_answer() - server.process.began)
        server.process.stop()
    yield figure("idle.cpu", "Idle server, share of a core", alone, "%")
    yield figure("idle.memory", "… resident memory", memory, "MB")
    yield figure("idle.attended", "… with a waiting worker, share of a core", attended, "%")
    yield figure("idle.worker_cpu", "Waiting worker, share of a core", worker, "%")
    yield figure("idle.worker_memory", "… resident memory", worker_memory, "MB")
    yield figure("start.ready", "Server start to its ready line", median(ready), "s", ready)
    yield figure("start.answer", "… to the first 200 of /health/ready", median(answers), "s", answers)


def _watch(seconds: float, *processes: Process) -> list[float]:
    """The share of a core, in per cent, that each takes for so long."""
    time.sleep(SETTLE_SECONDS)
    before = [process.cpu_seconds() for process in processes]
    began = time.perf_counter()
    time.sleep(seconds)
    took = time.perf_counter() - began
    return [
        (process.cpu_seconds() - then) / took * 100 for process, then in zip(processes, before, strict=True)
    ]
