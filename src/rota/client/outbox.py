"""How attempts ended, on its way to the server: one request at a time carries all that has gathered."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable
from typing import Final

from rota.client import attempt_log, calls, work
from rota.client.aio import AsyncClient
from rota.client.current import HeldJob
from rota.client.protocol import FIRST_DELAY_SECONDS, backoff
from rota.errors import Conflict, Forbidden, RateLimited, RotaError, Unauthenticated, Unavailable
from rota.wire import OutcomeRequest

log = logging.getLogger("rota.worker")

Ending = tuple[HeldJob, OutcomeRequest]
NOT_STORABLE: Final = "result-not-storable"


class Outbox:
    """Reports endings in batches. While the server is away they wait here.

    ``held`` loses a job when its end has been reported. ``refused(error)`` is called when the token may
    not report at all.
    """

    def __init__(
        self,
        client: AsyncClient,
        held: dict[int, HeldJob],
        reached: Callable[[bool], None],
        refused: Callable[[RotaError], None],
    ) -> None:
        self._client = client
        self._held = held
        self._reached = reached
        self._refused = refused
        self._endings: deque[Ending] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self._endings)

    def put(self, job: HeldJob, outcome: OutcomeRequest, cause: BaseException | None = None) -> None:
        """Report how the attempt at a job ended, and what was raised; only its first ending counts."""
        if job.settled:
            return
        job.settled = True
        attempt_log.ended(job, outcome, cause)
        self._endings.append((job, outcome))
        self._empty.clear()
        self._filled.set()

    async def empty(self) -> None:
        """Return when everything has been reported."""
        await self._empty.wait()

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            await self._filled.wait()
            self._filled.clear()
            while self._endings:
                await self._report(self._next())
            self._empty.set()

    def _next(self) -> list[Ending]:
        batch: list[Ending] = []
        size = 0
        while self._endings and len(batch) < work.MOST_OUTCOMES_PER_BATCH:
            size += work.outcome_bytes(self._endings[0][1])
            if batch and size > calls.MOST_BATCH_BYTES:
                break
            batch.append(self._endings.popleft())
        return batch

    async def _report(self, batch: list[Ending]) -> None:
        try:
            verdicts = await self._sent(batch)
        except (Unauthenticated, Forbidden) as fault:
            self._refused(fault)
            verdicts = [fault] * len(batch)
        except RotaError as fault:
            if len(batch) > 1:  # one of them is at fault: the halves find it
                middle = len(batch) // 2
                await self._report(batch[:middle])
                await self._report(batch[middle:])
                return
            verdicts = [fault]
        waiting = len(self._endings)
        for (job, outcome), verdict in zip(batch, verdicts, strict=True):
            if verdict is None:
                self._forget(job)
            else:
                self._not_accepted(job, outcome, verdict)
        if len(self._endings) > waiting:  # some are to be sent again: not at once
            await asyncio.sleep(FIRST_DELAY_SECONDS)

    async def _sent(self, batch: list[Ending]) -> list[RotaError | None]:
        """The verdicts; tries for as long as it takes to reach the server."""
        call = work.finish_batch([outcome for _, outcome in batch])
        failures = 0
        while True:
            try:
                verdicts = await self._client.send(call)
            except (Unavailable, RateLimited) as fault:
                self._reached(False)
                await asyncio.sleep(max(backoff(failures, random.random()), fault.retry_after or 0))  # noqa: S311
                failures += 1
            else:
                self._reached(True)
                return verdicts

    def _not_accepted(self, job: HeldJob, outcome: OutcomeRequest, why: RotaError) -> None:
        if isinstance(why, Unavailable | RateLimited):
            self._endings.append((job, outcome))
            return
        if outcome.outcome == "complete" and why.status in {413, 422}:
            failed = failure(job, f"{NOT_STORABLE}: {why}", retryable=False)
            attempt_log.ended(job, failed, None)
            self._endings.append((job, failed))
            return
        if not isinstance(why, Conflict):
            log.error("the end of job %d was refused; another worker will get the job: %s", job.id, why)
        self._forget(job)

    def _forget(self, job: HeldJob) -> None:
        if self._held.get(job.id) is job:
            del self._held[job.id]


def failure(
    job: HeldJob, error: str, *, retryable: bool = True, retry_in_seconds: float | None = None
) -> OutcomeRequest:
    """A failed attempt; ``error`` may hold any text."""
    return work.outcome(
        job,
        error=error,
        retryable=retryable,
        retry_in_seconds=retry_in_seconds,
    )


def released(job: HeldJob, *, started: bool, snooze_seconds: float | None = None) -> OutcomeRequest:
    """An attempt that does not count."""
    return OutcomeRequest(job.id, job.lease_token, "release", snooze_seconds=snooze_seconds, started=started)
