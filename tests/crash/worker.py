"""A worker that keeps a ledger: it claims, notes each start, and insists until each outcome is answered."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from tests.crash.connection import Connection, Reply
from tests.crash.ledger import Ledger, Outcome

PAUSE_SECONDS = 0.05
WAIT_SECONDS = 1.0

Decide = Callable[[Any], Outcome | None]
"""Job to outcome; None walks away from it, as a worker does that dies."""


def complete(job: Any) -> Outcome:
    return "complete"


class Worker:
    """Works over one connection. ``hold_seconds`` is how long it keeps what it claimed, beating meanwhile."""

    def __init__(
        self,
        connection: Connection,
        ledger: Ledger,
        *,
        instance: str,
        lease_seconds: float,
        limit: int = 1,
        hold_seconds: float = 0.0,
        decide: Decide = complete,
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._asked = {"instance": instance, "lease_seconds": lease_seconds, "wait_seconds": WAIT_SECONDS}
        self._lease_seconds = lease_seconds
        self._limit = limit
        self._hold_seconds = hold_seconds
        self._decide = decide
        self.statuses: Counter[int] = Counter()
        self.server_errors: list[str] = []
        """What answers of 500 and above said."""
        self.refused: list[int] = []
        """Jobs that were no longer its own when it beat for them or ended them."""
        self.finished = 0

    async def work(self, over: asyncio.Event) -> None:
        """Claim and finish until ``over`` is set; what is held then is finished first."""
        try:
            while not over.is_set():
                jobs = await self._claim()
                for job in jobs:
                    self._ledger.started(job["id"], job["retry_count"])
                if jobs and self._hold_seconds:
                    await self._hold(jobs, over)
                endings = [(job, self._decide(job)) for job in jobs]
                await self._finish([(job, outcome) for job, outcome in endings if outcome is not None])
        finally:
            self._connection.close()

    async def _claim(self) -> list[Any]:
        asked: dict[str, Any] = self._asked | {"claim_id": str(uuid.uuid4())}
        path = "/jobs/claim"
        if self._limit > 1:
            path = "/jobs/batch/claim"
            asked["limit"] = self._limit
        reply = await self._insist(path, asked, repeat=asked | {"repeat": True})
        if reply.status == 204:
            return []
        assert reply.status == 200, reply
        found = reply.json()
        return list(found["items"]) if self._limit > 1 else [found]

    async def _hold(self, jobs: list[Any], over: asyncio.Event) -> None:
        until = time.monotonic() + self._hold_seconds
        beats = {"beats": [{"id": job["id"], "lease_token": job["lease_token"]} for job in jobs]}
        while not over.is_set() and (left := until - time.monotonic()) > 0:
            try:
                async with asyncio.timeout(min(left, self._lease_seconds / 3)):
                    await over.wait()
            except TimeoutError:
                reply = await self._insist("/jobs/batch/heartbeat", beats)
                self.refused += _refused([job["id"] for job in jobs], reply)

    async def _finish(self, endings: list[tuple[Any, Outcome]]) -> None:
        if not endings:
            return
        outcomes = [_outcome(job, outcome) for job, outcome in endings]
        if self._limit > 1:
            troubled, reply = await self._until_answered("/jobs/batch/finish", {"outcomes": outcomes})
            refused = set(_refused([job["id"] for job, _ in endings], reply))
        else:
            ((job, outcome),) = endings
            body = {name: value for name, value in outcomes[0].items() if name not in ("id", "outcome")}
            troubled, reply = await self._until_answered(f"/jobs/{job['id']}/{outcome}", body)
            assert reply.status in (200, 409), reply
            refused = {job["id"]} if reply.status == 409 else set()
        for job, outcome in endings:
            if job["id"] not in refused:
                self._ledger.finished(job["id"], outcome)
                self.finished += 1
                continue
            self.refused.append(job["id"])
            if troubled:
                # An earlier try may have been accepted and the job claimed again since.
                self._ledger.unsure(job["id"], outcome)

    async def _insist(self, path: str, body: Any, *, repeat: Any = None) -> Reply:
        return (await self._until_answered(path, body, repeat=repeat))[1]

    async def _until_answered(self, path: str, body: Any, *, repeat: Any = None) -> tuple[bool, Reply]:
        """The answer, and whether earlier tries got none."""
        troubled = False
        while True:
            try:
                reply = await self._connection.call("POST", path, msgspec.json.encode(body))
            except ConnectionError:
                reply = None
            if reply is not None:
                self.statuses[reply.status] += 1
                if reply.status < 500:
                    return troubled, reply
                self.server_errors.append(f"POST {path}: {reply.body.decode()}")
            troubled = True
            body = repeat or body
            await asyncio.sleep(PAUSE_SECONDS)


def _outcome(job: Any, outcome: Outcome) -> dict[str, Any]:
    told: dict[str, Any] = {"id": job["id"], "lease_token": job["lease_token"], "outcome": outcome}
    if outcome == "fail":
        told |= {"error": "failed on purpose", "retry_in_seconds": 0}
    return told


def _refused(ids: list[int], reply: Reply) -> list[int]:
    assert reply.status == 200, reply
    items = reply.json()["items"]
    assert all(item["status"] in (200, 409) for item in items), items
    return [id for id, item in zip(ids, items, strict=True) if item["status"] == 409]
