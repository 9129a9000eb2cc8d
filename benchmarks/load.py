"""The load generator: keep-alive HTTP/1.1 on bare asyncio protocols, in a process of its own.

``python -m benchmarks.load`` reads an :class:`Order` as JSON from its standard input and writes a list of
:class:`Sample` to its standard output. It is kept cheap, since it shares the machine with the server: a
request is two pieces of bytes around a number, an answer is read as far as its status and length.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from typing import Final, Protocol, cast

import msgspec
import uvloop

LAST_RESORT_SECONDS: Final = 120
"""However long it was told to run, a load generator ends after this."""


class Order(msgspec.Struct, kw_only=True):
    """What to send, over how many connections, for how long."""

    script: str
    """A name in :data:`benchmarks.scripts.SCRIPTS`."""
    port: int
    token: str = ""
    connections: int = 1
    seconds: float = 0
    """0: until the script has nothing more to send."""
    warm_up: float = 0
    """Seconds at the start that are not counted."""
    size: int = 1
    """Jobs a request."""
    jobs: int = 0
    """Jobs in all, for scripts that end by themselves."""


class Sample(msgspec.Struct, kw_only=True):
    """What one phase of a script came to."""

    name: str
    requests: int
    seconds: float
    rate: float
    """Requests a second."""
    p50_ms: float
    p99_ms: float
    cpu_seconds: float
    """Of the load generator itself."""


class Feed(Protocol):
    """Where the requests of a phase come from and its answers go."""

    name: str

    def next(self) -> bytes | None:
        """The next request as it goes over the wire; None when there is none left."""
        ...

    def took(self, status: int, body: bytes) -> None:
        """One answer. Raises when it is not the one that was hoped for."""
        ...


class Phase:
    """One feed, being sent: the clock, the latencies and the connections that are still busy."""

    def __init__(self, feed: Feed) -> None:
        self.feed = feed
        self.stopping = False
        self.busy = 0
        self.done = asyncio.Event()
        self.trouble: BaseException | None = None
        self.latencies: list[int] = []
        self.begin()

    def begin(self) -> None:
        self.latencies.clear()
        self.began = time.perf_counter()
        self.cpu = _cpu_seconds()

    def stop(self) -> None:
        self.stopping = True

    def fail(self, trouble: BaseException) -> None:
        self.trouble = self.trouble or trouble
        self.stopping = True
        self.done.set()

    def sample(self) -> Sample:
        if self.trouble is not None:
            raise self.trouble
        seconds = time.perf_counter() - self.began
        sorted_ns = sorted(self.latencies)
        n = len(sorted_ns)
        return Sample(
            name=self.feed.name,
            requests=n,
            seconds=seconds,
            rate=n / seconds,
            p50_ms=sorted_ns[n // 2] / 1e6 if n else 0,
            p99_ms=sorted_ns[n * 99 // 100] / 1e6 if n else 0,
            cpu_seconds=_cpu_seconds() - self.cpu,
        )


class Connection(asyncio.Protocol):
    """Sends one request at a time and waits for its answer."""

    def __init__(self) -> None:
        self._phase: Phase | None = None
        self._sent = 0
        self._chunks: list[bytes] = []
        self._missing = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._phase is not None:
            self._phase.fail(exc or ConnectionResetError("the server closed a connection"))

    def serve(self, phase: Phase) -> None:
        """Send what the phase's feed gives, until it ends."""
        self._phase = phase
        phase.busy += 1
        self._send(phase)

    def close(self) -> None:
        self._transport.close()

    def _send(self, phase: Phase) -> None:
        request = None if phase.stopping else phase.feed.next()
        if request is None:
            self._phase = None
            phase.busy -= 1
            if not phase.busy:
                phase.done.set()
            return
        self._sent = time.perf_counter_ns()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._chunks.append(data)
        if self._missing:
            self._missing -= len(data)
            if self._missing > 0:
                return
        if len(self._chunks) > 1:
            data = b"".join(self._chunks)
        head_ends = data.find(b"\r\n\r\n")
        if head_ends < 0:
            return
        body_starts = head_ends + 4
        if not self._missing:
            self._missing = body_starts + _content_length(data[:body_starts]) - len(data)
            if self._missing > 0:
                return
        self._chunks = []
        self._missing = 0
        phase = self._phase
        if phase is None:
            return
        phase.latencies.append(time.perf_counter_ns() - self._sent)
        try:
            phase.feed.took(int(data[9:12]), data[body_starts:])
        except Exception as unexpected:
            phase.fail(unexpected)
        self._send(phase)


class Load:
    """Open connections to one port, on which phases run one after the other."""

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections

    @classmethod
    async def open(cls, port: int, connections: int) -> Load:
        loop = asyncio.get_running_loop()
        made = [await loop.create_connection(Connection, "127.0.0.1", port) for _ in range(connections)]
        return cls([connection for _, connection in made])

    async def run(self, feed: Feed, *, seconds: float = 0, warm_up: float = 0) -> Sample:
        """Send a feed to its end, or for ``seconds`` after ``warm_up``."""
        loop = asyncio.get_running_loop()
        phase = Phase(feed)
        if warm_up:
            loop.call_later(warm_up, phase.begin)
        if seconds:
            loop.call_later(warm_up + seconds, phase.stop)
        for connection in self._connections:
            connection.serve(phase)
        await asyncio.wait_for(phase.done.wait(), LAST_RESORT_SECONDS)
        return phase.sample()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


def run_load(order: Order) -> list[Sample]:
    """Run an order in a process of its own and wait for its samples, one a phase."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load"],
        input=msgspec.json.encode(order),
        stdout=subprocess.PIPE,
        timeout=LAST_RESORT_SECONDS + 10,
        check=True,
    )
    return msgspec.json.decode(done.stdout, type=list[Sample])


def _content_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.find(b"\r\ncontent-length:")
    if at < 0:
        if lowered[9:12] == b"204":
            return 0
        raise ValueError(f"an answer without a length: {head[:200]!r}")
    return int(lowered[at + 17 : lowered.index(b"\r\n", at + 17)])


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run the order on standard input."""
    from benchmarks.scripts import SCRIPTS  # noqa: PLC0415 - scripts import this module

    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    samples = uvloop.run(SCRIPTS[order.script](order))
    sys.stdout.buffer.write(msgspec.json.encode(samples))


if __name__ == "__main__":
    main()
