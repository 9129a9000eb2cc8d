"""POST /jobs, one job a request, beside the bare endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from benchmarks.figures import Figure, figure
from benchmarks.load import Order, Sample, run_load
from benchmarks.processes import Process, running_bare, running_server
from benchmarks.scenario import Place, Scale, alternating

CONNECTIONS = (1, 16, 64, 256)
WARM_UP_SECONDS = 0.5


class Measured:
    """A load sample with the CPU time that the server took for it."""

    def __init__(self, sample: Sample, server_cpu: float) -> None:
        self.rate = sample.rate
        self.p50_ms = sample.p50_ms
        self.p99_ms = sample.p99_ms
        self.server_us = server_cpu / sample.requests * 1e6
        self.load_us = sample.cpu_seconds / sample.requests * 1e6


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """Rates at 1, 16, 64 and 256 connections, Rota and bare in turns; their ratio."""
    with running_server(place.sub("rota")) as server, running_bare(place.sub("bare")) as (bare, bare_port):
        for n in CONNECTIONS:
            rota, plain = alternating(
                [
                    lambda n=n: _run(scale, server.process, server.port, server.producer, n),  # type: ignore[misc]
                    lambda n=n: _run(scale, bare, bare_port, "", n),  # type: ignore[misc]
                ],
                scale.repeats,
            )
            yield from _figures(n, rota, plain)


def _run(scale: Scale, process: Process, port: int, token: str, connections: int) -> Measured:
    order = Order(
        script="enqueue",
        port=port,
        token=token,
        connections=connections,
        seconds=scale.seconds,
        warm_up=WARM_UP_SECONDS,
    )
    before = process.cpu_seconds()
    (sample,) = run_load(order)
    spent = (process.cpu_seconds() - before) * scale.seconds / (scale.seconds + WARM_UP_SECONDS)
    return Measured(sample, spent)


def _figures(n: int, rota: list[Measured], plain: list[Measured]) -> Iterator[Figure]:
    many = f"{n} connection{'s' if n > 1 else ''}"
    rates, bare_rates = [each.rate for each in rota], [each.rate for each in plain]
    ratios = [ours / theirs for ours, theirs in zip(rates, bare_rates, strict=True)]
    name = f"enqueue.{n}"
    yield figure(f"{name}.rate", f"POST /jobs, {many}", median(rates), "/s", rates)
    yield figure(f"{name}.bare", "… the bare endpoint", median(bare_rates), "/s", bare_rates)
    yield figure(f"{name}.ratio", "… ratio to it", median(ratios), "", ratios)
    yield figure(f"{name}.p50", "… latency p50", median(each.p50_ms for each in rota), "ms")
    yield figure(f"{name}.p99", "… latency p99", median(each.p99_ms for each in rota), "ms")
    yield figure(
        f"{name}.server_cpu", "… CPU of the server a request", median(e.server_us for e in rota), "µs"
    )
    yield figure(f"{name}.bare_cpu", "… CPU of the bare endpoint", median(e.server_us for e in plain), "µs")
    yield figure(f"{name}.load_cpu", "… CPU of the load generator", median(e.load_us for e in rota), "µs")
