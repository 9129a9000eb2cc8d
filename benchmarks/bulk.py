"""POST /jobs/batch: many jobs a request."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks.figures import Figure, figure
from benchmarks.load import Order, run_load
from benchmarks.processes import running_server
from benchmarks.scenario import Place, Scale

JOBS = 100_000
SIZE = 1_000
CONNECTIONS = 2


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """Jobs a second in batches of 1,000 over two connections, stored and answered."""
    order = Order(script="enqueue-batches", port=0, connections=CONNECTIONS, size=SIZE, jobs=scale.jobs(JOBS))
    with running_server(place.sub("rota")) as server:
        order.port, order.token = server.port, server.producer
        rates = [run_load(order)[0].rate * SIZE for _ in range(scale.repeats + 1)][1:]
    yield figure("bulk.rate", f"POST /jobs/batch, {SIZE:,} jobs each", median(rates), "jobs/s", rates)
