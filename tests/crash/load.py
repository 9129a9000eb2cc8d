"""Many producers and workers on one or more servers for a while, and what they saw."""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tests.crash.deadline import until
from tests.crash.ledger import Ledger
from tests.crash.producer import Producer
from tests.crash.server_process import ServerProcess
from tests.crash.worker import Worker

TYPE = "crash.load"
LEASE_SECONDS = 7.0
"""The shortest lease against which no outage counts."""
HOLD_SECONDS = 9.0
"""Longer than the lease, so that only heartbeats keep the job."""
DRAIN_SECONDS = 60.0
KNOWN_SECONDS = 5.0
"""What one process has stored is known to the others within a second or so."""


@dataclass(frozen=True)
class Seen:
    """What the drivers saw of a run."""

    stored: int
    finished: int
    statuses: Counter[int]
    refused: list[int]
    server_errors: list[str]
    p50_ms: float
    p99_ms: float
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.stored} jobs stored in {self.seconds:.0f} s, POST p50 {self.p50_ms:.1f} ms, "
            f"p99 {self.p99_ms:.1f} ms; {self.finished} finished; answers by status: "
            f"{dict(sorted(self.statuses.items()))}"
        )


async def run_load(
    servers: Sequence[ServerProcess], ledger: Ledger, *, producers: int, workers: int, seconds: float
) -> Seen:
    """Spread the drivers over the servers, stop the producers after ``seconds``, work until all has ended.

    Every fourth worker keeps what it claims for longer than its lease and lives by its heartbeats.
    """
    await servers[0].ask("PUT", f"/types/{TYPE}", {"lease_seconds": LEASE_SECONDS})
    producing = await servers[0].token("producers", "producer")
    working = await servers[0].token("workers", "worker")
    for server in servers:
        for token in (producing, working):
            await until(partial(_knows, server, token), KNOWN_SECONDS)
    makers = [Producer(_nth(servers, n).connect(producing), ledger, TYPE) for n in range(producers)]
    hands = [
        Worker(
            _nth(servers, n).connect(working),
            ledger,
            instance=f"w{n}",
            lease_seconds=LEASE_SECONDS,
            limit=1 if n % 4 == 1 else 50,
            hold_seconds=HOLD_SECONDS if n % 4 == 0 else 0.0,
        )
        for n in range(workers)
    ]
    enough, empty = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    began = loop.time()
    loop.call_later(seconds, enough.set)
    async with asyncio.TaskGroup() as group:
        for hand in hands:
            group.create_task(hand.work(empty))
        await asyncio.gather(*(maker.produce(enough) for maker in makers))
        took = loop.time() - began
        await servers[0].until_all_ended(DRAIN_SECONDS)
        empty.set()
    latencies = statistics.quantiles([each for maker in makers for each in maker.latencies], n=100)
    return Seen(
        stored=sum(maker.statuses[200] + maker.statuses[201] for maker in makers),
        finished=sum(hand.finished for hand in hands),
        statuses=sum([*(each.statuses for each in makers), *(each.statuses for each in hands)], Counter()),
        refused=[id for hand in hands for id in hand.refused],
        server_errors=[
            *(error for maker in makers for error in maker.server_errors),
            *(error for hand in hands for error in hand.server_errors),
        ],
        p50_ms=latencies[49] * 1000,
        p99_ms=latencies[98] * 1000,
        seconds=took,
    )


async def _knows(server: ServerProcess, token: str) -> bool:
    """Whether the server has heard of the token and the type that another one has stored."""
    connection = server.connect(token)
    reply = await connection.call("GET", "/types")
    connection.close()
    return reply.status == 200 and TYPE in [each["name"] for each in reply.json()["items"]]


def _nth(servers: Sequence[ServerProcess], n: int) -> ServerProcess:
    return servers[n % len(servers)]
