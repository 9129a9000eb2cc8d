"""Idle latency: from before an enqueue over HTTP to the start of its handler in a waiting worker."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Iterator, Sequence

from benchmarks.figures import Figure, figure
from benchmarks.load import Order
from benchmarks.processes import Server, running_server
from benchmarks.scenario import Place, Scale
from benchmarks.scripts import TYPE, head
from benchmarks.starts import noting_worker
from rota import AsyncClient

JOBS = 400
"""With each of the two clients."""
WARM_UP_JOBS = 20
CONCURRENCY = 10
PAUSE_SECONDS = (0.02, 0.06)


class BareClient:
    """A blocking socket that sends a request in one piece: what it costs is next to nothing."""

    def __init__(self, server: Server) -> None:
        self._order = Order(script="", port=server.port, token=server.producer)
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def enqueue(self, n: int) -> None:
        """Hand in one job and wait for the whole answer."""
        body = f'{{"type":"{TYPE}","payload":{{"n":{n}}}}}'.encode()
        self._socket.sendall(head(self._order, "/jobs", len(body)) + body)
        answer = b""
        while not answer.endswith(b"}"):
            answer += self._socket.recv(65_536)
        if not answer.startswith(b"HTTP/1.1 201"):
            raise RuntimeError(answer.decode(errors="replace"))

    def close(self) -> None:
        self._socket.close()


def measure(scale: Scale, place: Place) -> Iterator[Figure]:
    """One job at a time, each enqueued when the last has long been done, by two clients in turns."""
    jobs = WARM_UP_JOBS + scale.jobs(JOBS)
    with (
        running_server(place.sub("rota")) as server,
        noting_worker(server, place.sub("starts.json"), 2 * jobs, CONCURRENCY) as noted,
    ):
        bare, sdk = asyncio.run(_enqueue(server, jobs))
        started = dict(noted.wait())
    yield from _figures("latency", "Idle latency, enqueue → handler start", _waits(bare, started))
    yield from _figures("latency.sdk", "… enqueued by AsyncClient", _waits(sdk, started))


async def _enqueue(server: Server, jobs: int) -> tuple[list[int], list[int]]:
    """The instants of sending, which are also the payloads: by a bare client, by the SDK."""
    sent: tuple[list[int], list[int]] = ([], [])
    bare = BareClient(server)
    async with AsyncClient(server.url, server.producer) as client:
        for i in range(2 * jobs):
            await asyncio.sleep(random.uniform(*PAUSE_SECONDS))
            now = time.monotonic_ns()
            sent[i % 2].append(now)
            if i % 2:
                await client.enqueue(TYPE, {"n": now})
            else:
                bare.enqueue(now)
    bare.close()
    return sent


def _waits(sent: Sequence[int], started: dict[int, int]) -> list[float]:
    """The milliseconds from sending to start, in rising order."""
    return sorted((started[at] - at) / 1e6 for at in sent[WARM_UP_JOBS:])


def _figures(name: str, what: str, waits: Sequence[float]) -> Iterator[Figure]:
    yield figure(f"{name}.p50", f"{what}, p50", waits[len(waits) // 2], "ms")
    yield figure(f"{name}.p99", "… p99", waits[len(waits) * 99 // 100], "ms")
