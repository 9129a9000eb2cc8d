"""A producer that insists: it sends a job again under the same request_uid until it is stored."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter

from tests.crash.connection import Connection, Reply
from tests.crash.ledger import Ledger

PAUSE_SECONDS = 0.05


class Producer:
    """Stores one job after the other over one connection."""

    def __init__(self, connection: Connection, ledger: Ledger, type: str) -> None:
        self._connection = connection
        self._ledger = ledger
        self._type = type
        self.statuses: Counter[int] = Counter()
        self.latencies: list[float] = []
        """Seconds from sending to the answer, of every answered request."""
        self.server_errors: list[str] = []
        """What answers of 500 and above said."""

    async def produce(self, over: asyncio.Event, *, pause_seconds: float = 0.0) -> None:
        """Store jobs until ``over`` is set; the last one is stored before it returns."""
        try:
            while not over.is_set():
                await self.store(str(uuid.uuid4()))
                if pause_seconds:
                    await asyncio.sleep(pause_seconds)
        finally:
            self.close()

    def close(self) -> None:
        self._connection.close()

    async def store(self, uid: str) -> int:
        """Store one job whose payload names its uid; its id."""
        body = f'{{"type":"{self._type}","request_uid":"{uid}","payload":{{"uid":"{uid}"}}}}'.encode()
        while True:
            reply = await self._send(body)
            if reply is not None and reply.status in (200, 201):
                id = int(reply.json()["id"])
                self._ledger.stored(id, uid)
                return id
            await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, body: bytes) -> Reply | None:
        began = time.perf_counter()
        try:
            reply = await self._connection.call("POST", "/jobs", body)
        except ConnectionError:
            return None
        self.latencies.append(time.perf_counter() - began)
        self.statuses[reply.status] += 1
        if reply.status >= 500:
            self.server_errors.append(f"POST /jobs: {reply.body.decode()}")
        else:
            assert reply.status < 400 or reply.status == 429, reply
        return reply
