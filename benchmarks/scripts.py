"""What the load generator can send: single enqueues, batches of them, claims and finishes."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import msgspec

from benchmarks.load import Feed, Load, Order, Sample

TYPE: Final = "bench.noop"
HELD_AT_ONCE: Final = 5_000
"""A token may hold so many jobs: claims and finishes alternate in rounds of this."""


class Held(msgspec.Struct):
    """What a finish needs to know of a claimed job."""

    id: int
    lease_token: str


class HeldItems(msgspec.Struct):
    items: list[Held]


class Unexpected(Exception):
    """The server gave another answer than the benchmark is about."""

    def __init__(self, name: str, status: int, body: bytes) -> None:
        super().__init__(f"{name}: {status} {body[:300].decode(errors='replace')}")


class Uids:
    """The text of UUIDs of version 7, as the SDK sends them; of ever the same length."""

    def __init__(self) -> None:
        stamp = f"{time.time_ns() // 1_000_000:012x}"
        noise = os.urandom(4).hex()
        self._head = f"{stamp[:8]}-{stamp[8:]}-7{noise[:3]}-8{noise[3:6]}-"
        self._count = itertools.count(int.from_bytes(os.urandom(3)) << 20)

    def __call__(self) -> str:
        return f"{self._head}{next(self._count):012x}"


class Enqueues:
    """Enqueues of one job each, with one small dict as its payload."""

    name = "enqueue"

    def __init__(self, order: Order) -> None:
        self._uid = Uids()
        self._numbers = itertools.count(100_000_000)
        body = self._body()
        self._head = head(order, "/jobs", len(body))

    def _body(self) -> bytes:
        number = next(self._numbers)
        return f'{{"type":"{TYPE}","payload":{{"n":{number}}},"request_uid":"{self._uid()}"}}'.encode()

    def next(self) -> bytes | None:
        return self._head + self._body()

    def took(self, status: int, body: bytes) -> None:
        if status != 201:
            raise Unexpected(self.name, status, body)


class BatchEnqueues:
    """Enqueues of ``size`` jobs each, until there are ``jobs``. The bodies are made before the clock runs."""

    name = "enqueue batches"

    def __init__(self, order: Order) -> None:
        uid = Uids()
        self._requests = []
        for first in range(0, order.jobs, order.size):
            jobs = ",".join(
                f'{{"type":"{TYPE}","payload":{{"n":{first + i}}},"request_uid":"{uid()}"}}'
                for i in range(order.size)
            )
            body = f'{{"jobs":[{jobs}]}}'.encode()
            self._requests.append(head(order, "/jobs/batch", len(body)) + body)
        self._size = order.size

    def next(self) -> bytes | None:
        return self._requests.pop() if self._requests else None

    def took(self, status: int, body: bytes) -> None:
        if status // 100 != 2 or body.count(b'"status":201') < self._size:
            raise Unexpected(self.name, status, body)


class Claims:
    """Claims of ``size`` jobs, one or a batch; collects what it got."""

    name = "claim"

    def __init__(self, order: Order, jobs: int, held: list[Held]) -> None:
        self._left = jobs // order.size
        self._size = order.size
        self._held = held
        if order.size == 1:
            body = f'{{"types":["{TYPE}"]}}'.encode()
            self._request = head(order, "/jobs/claim", len(body)) + body
        else:
            body = f'{{"types":["{TYPE}"],"limit":{order.size}}}'.encode()
            self._request = head(order, "/jobs/batch/claim", len(body)) + body

    def next(self) -> bytes | None:
        if not self._left:
            return None
        self._left -= 1
        return self._request

    def took(self, status: int, body: bytes) -> None:
        if status != 200:
            raise Unexpected(self.name, status, body)
        if self._size == 1:
            self._held.append(msgspec.json.decode(body, type=Held))
            return
        items = msgspec.json.decode(body, type=HeldItems).items
        if len(items) != self._size:
            raise Unexpected(f"{self.name} found {len(items)} of {self._size}", status, b"")
        self._held += items


class Finishes:
    """Completes what was claimed, one by one or ``size`` at a time."""

    name = "finish"

    def __init__(self, order: Order, held: Sequence[Held]) -> None:
        self._size = order.size
        self._requests: list[bytes] = []
        for first in range(0, len(held), order.size):
            share = held[first : first + order.size]
            if order.size == 1:
                path = f"/jobs/{share[0].id}/complete"
                body = f'{{"lease_token":"{share[0].lease_token}"}}'.encode()
            else:
                path = "/jobs/batch/finish"
                outcomes = ",".join(
                    f'{{"id":{job.id},"lease_token":"{job.lease_token}","outcome":"complete"}}'
                    for job in share
                )
                body = f'{{"outcomes":[{outcomes}]}}'.encode()
            self._requests.append(head(order, path, len(body)) + body)

    def next(self) -> bytes | None:
        return self._requests.pop() if self._requests else None

    def took(self, status: int, body: bytes) -> None:
        if status != 200 or (self._size > 1 and body.count(b'"status":200') != self._size):
            raise Unexpected(self.name, status, body)


async def enqueue(order: Order) -> list[Sample]:
    """Single enqueues for a time."""
    load = await Load.open(order.port, order.connections)
    sample = await load.run(Enqueues(order), seconds=order.seconds, warm_up=order.warm_up)
    load.close()
    return [sample]


async def enqueue_batches(order: Order) -> list[Sample]:
    """Batches of enqueues until all jobs are stored."""
    load = await Load.open(order.port, order.connections)
    sample = await load.run(BatchEnqueues(order))
    load.close()
    return [sample]


async def claim_and_finish(order: Order) -> list[Sample]:
    """Claims and finishes of all jobs, which must be queued, in rounds; one sample each."""
    load = await Load.open(order.port, order.connections)
    claimed: list[Sample] = []
    finished: list[Sample] = []
    for first in range(0, order.jobs, HELD_AT_ONCE):
        held: list[Held] = []
        claimed.append(await load.run(Claims(order, min(HELD_AT_ONCE, order.jobs - first), held)))
        finished.append(await load.run(Finishes(order, held)))
    load.close()
    return [_together(claimed), _together(finished)]


SCRIPTS: Final[dict[str, Callable[[Order], Coroutine[Any, Any, list[Sample]]]]] = {
    "enqueue": enqueue,
    "enqueue-batches": enqueue_batches,
    "claim-and-finish": claim_and_finish,
}


def head(order: Order, path: str, length: int) -> bytes:
    """The head of a POST with a JSON body of so many bytes."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{order.port}\r\nAuthorization: Bearer {order.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def _together(samples: Sequence[Sample]) -> Sample:
    """Many rounds as one: sums of counts and times, the median round's latencies."""
    requests = sum(each.requests for each in samples)
    seconds = sum(each.seconds for each in samples)
    return Sample(
        name=samples[0].name,
        requests=requests,
        seconds=seconds,
        rate=requests / seconds,
        p50_ms=sorted(each.p50_ms for each in samples)[len(samples) // 2],
        p99_ms=sorted(each.p99_ms for each in samples)[len(samples) // 2],
        cpu_seconds=sum(each.cpu_seconds for each in samples),
    )


_: Sequence[type[Feed]] = (Enqueues, BatchEnqueues, Claims, Finishes)
