"""Claims and finishes over HTTP, one job a request and in batches."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.figures import Figure, figure
from benchmarks.load import Order, run_load
from benchmarks.processes import Server, running_server
from benchmarks.scenario import Place, Scale

SINGLE_JOBS = 20_000
BATCH_JOBS = 100_000
SIZE = 100


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """Rates of claims and of finishes, measured apart: rounds of 5,000 claims, then their finishes."""
    with running_server(place.sub("rota")) as server:
        for connections in (1, 64):
            jobs = scale.jobs(SINGLE_JOBS)
            claimed, finished = _run(server, connections, 1, jobs)
            many = f"{connections} connection{'s' if connections > 1 else ''}"
            yield figure(f"claim.{connections}.rate", f"POST /jobs/claim, {many}", claimed, "/s")
            yield figure(f"finish.{connections}.rate", f"POST /jobs/…/complete, {many}", finished, "/s")
        claimed, finished = _run(server, 2, SIZE, scale.jobs(BATCH_JOBS))
        yield figure("claim.batch.rate", f"POST /jobs/batch/claim, {SIZE} jobs each", claimed, "jobs/s")
        yield figure("finish.batch.rate", f"POST /jobs/batch/finish, {SIZE} jobs each", finished, "jobs/s")


def _run(server: Server, connections: int, size: int, jobs: int) -> tuple[float, float]:
    queue_jobs(server, jobs)
    order = Order(
        script="claim-and-finish",
        port=server.port,
        token=server.worker,
        connections=connections,
        size=size,
        jobs=jobs,
    )
    claimed, finished = run_load(order)
    return claimed.rate * size, finished.rate * size


def queue_jobs(server: Server, jobs: int) -> None:
    """Put no-op jobs into the queue, by the thousand."""
    order = Order(
        script="enqueue-batches",
        port=server.port,
        token=server.producer,
        connections=1,
        size=min(1_000, jobs),
        jobs=jobs,
    )
    run_load(order)
