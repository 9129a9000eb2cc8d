"""Fetching jobs: one long poll at a time, each for as many jobs as there is room for."""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from rota.client import work
from rota.client.aio import AsyncClient
from rota.client.answers import items_reader
from rota.client.current import HeldJob
from rota.client.outbox import Outbox, released
from rota.client.protocol import backoff
from rota.client.running import Slots
from rota.client.tasks import Tasks
from rota.errors import InternalError, RateLimited, RotaError, Unavailable, ValidationFailed
from rota.wire import ClaimBatchRequest

log = logging.getLogger("rota.worker")

WAIT_SECONDS: Final = 30.0
MOST_UNREPORTED: Final = 2_000
"""With more endings than this on their way, nothing new is fetched."""
SHORT_SECONDS: Final = 1.0
"""Handlers that take less on average are worth fetching ahead for, unless ``prefetch`` says how many."""
SORRY_SECONDS: Final = 5.0


class Claimed(msgspec.Struct):
    """Of a claimed job only what the worker needs."""

    id: int
    type: str
    lease_token: str
    lease_seconds: float
    heartbeat_seconds: float
    payload: Raw = Raw(b"{}")
    timeout_seconds: float | None = None
    retry_count: int = 0
    queue: str = "default"
    max_retries: int = 0
    traceparent: str | None = None


_read = items_reader(Claimed)


class Claimer:
    """Fetches jobs into ``waiting`` until it is cancelled; then ``give_back`` returns what came too late."""

    def __init__(
        self,
        client: AsyncClient,
        request: ClaimBatchRequest,
        tasks: Tasks,
        slots: Slots,
        outbox: Outbox,
        held: dict[int, HeldJob],
        waiting: deque[HeldJob],
        said: Callable[[HeldJob], None],
        reached: Callable[[bool], None],
        *,
        concurrency: int,
        prefetch: int | None,
    ) -> None:
        self._client = client
        self._request = request
        self._tasks = tasks
        self._slots = slots
        self._outbox = outbox
        self._held = held
        self._waiting = waiting
        self._said = said
        self._reached = reached
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._room_made = asyncio.Event()
        self._open: ClaimBatchRequest | None = None
        self._welcome = False
        self._unknown: set[str] = set()

    def room_made(self) -> None:
        """A waiting job has started, or a running one has ended."""
        if not self._room_made.is_set():
            self._room_made.set()

    async def run(self) -> None:
        """Fetch for ever. Raises the error that no waiting will mend: token, rights, unknown types."""
        failures = 0
        while True:
            while (room := self._room()) < 1:
                self._room_made.clear()
                await self._room_made.wait()
            if self._open is None:
                self._open = replace(self._request, limit=room, claim_id=uuid.uuid4())
            try:
                claimed = await self._client.send(work.claim_batch(self._open, _read))
            except RotaError as fault:
                await asyncio.sleep(self._pause(fault, failures))
                failures += 1
                self._open = replace(self._open, repeat=True)
                continue
            self._open = None
            self._welcome = True
            self._reached(True)
            failures = 0
            self._take(claimed)

    async def give_back(self) -> None:
        """Return the jobs of a claim whose answer was not waited for."""
        if self._open is None:
            return
        asked = replace(self._open, repeat=True, wait_seconds=0, limit=1)
        try:
            claimed = await self._client.send(work.claim_batch(asked, _read))
        except RotaError as fault:
            log.debug("the last claim's jobs could not be asked for: %s", fault)
            return
        for one in claimed:
            job = self._hold(one)
            self._outbox.put(job, released(job, started=False))

    def _pause(self, fault: RotaError, failures: int) -> float:
        """Seconds before the next try; raises what no waiting will mend."""
        if isinstance(fault, Unavailable | InternalError):
            self._reached(False)
        elif isinstance(fault, ValidationFailed) and self._welcome:
            log.error("claims are refused, trying on: %s", fault)
            return SORRY_SECONDS
        elif not isinstance(fault, RateLimited):
            raise fault
        return max(backoff(failures, random.random()), fault.retry_after or 0.0)  # noqa: S311

    def _room(self) -> int:
        """How many jobs to ask for now; 0 while enough are waiting."""
        waiting = len(self._waiting)
        ahead = self._prefetch
        if ahead is None:
            mean = self._slots.mean_seconds
            ahead = self._concurrency if mean is not None and mean < SHORT_SECONDS else 0
        if waiting > ahead // 2 or len(self._outbox) > MOST_UNREPORTED:
            return 0
        return min(self._concurrency + ahead - len(self._slots.running) - waiting, work.MOST_CLAIMS)

    def _take(self, claimed: Sequence[Claimed]) -> None:
        for one in claimed:
            job = self._hold(one)
            if self._tasks.get(one.type) is None:
                if one.type not in self._unknown:
                    self._unknown.add(one.type)
                    log.warning("jobs of type %r are given back: there is no task for them", one.type)
                self._outbox.put(job, released(job, started=False))
            else:
                self._waiting.append(job)
        if self._waiting:
            self._slots.wake()

    def _hold(self, one: Claimed) -> HeldJob:
        job = self._held[one.id] = HeldJob(
            one.id,
            one.type,
            one.payload,
            one.lease_token,
            one.lease_seconds,
            one.heartbeat_seconds,
            one.timeout_seconds,
            one.retry_count,
            time.monotonic(),
            self._said,
            one.queue,
            one.max_retries,
            one.traceparent,
        )
        return job
