"""Heartbeats from a thread, loop and connection of their own, so that a blocked handler loses no lease.

Each held job is beaten three times in its lease; what is due goes out in one request. A beat also
carries what the handler reports. The answer may say that the job is lost or shall be cancelled; then
the handler is told. A job that was claimed ahead and has not started within one lease is given back
from here, because the loop that should start it may be the one that is blocked.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from rota.client import calls, work
from rota.client.aio import AsyncClient
from rota.client.current import HeldJob, Stop
from rota.client.outbox import released
from rota.domain.job import MAX_LOG_BYTES
from rota.errors import Forbidden, RotaError, Unauthenticated
from rota.wire import BeatRequest, ProgressReport

log = logging.getLogger("rota.worker")

LONGEST_TICK_SECONDS: Final = 0.5
SHORTEST_TICK_SECONDS: Final = 0.02
REPORT_SECONDS: Final = 0.1
"""How long a report waits for more of it."""
FLUSH_TRIES: Final = 3
MOST_BEATS: Final = 1_000
MOST_LOG_CHARACTERS: Final = calls.MOST_BATCH_BYTES // 8
"""Of all log lines in one request; a character takes up to six bytes there."""

Told = Callable[[HeldJob, Stop], None]
Said = tuple[ProgressReport | None, str | None]


class Heart:
    """Beats for the jobs in ``held`` until it is stopped.

    ``told(job, stop)`` is called from the heart's thread when the server wants the handler of a job to
    stop, ``refused(error)`` when the token may not beat at all. ``waiting`` holds the jobs that have not
    started; ``lease_of`` knows the lease a type's task asks for; ``beat_seconds`` shortens the interval
    that the lease gives.
    """

    def __init__(
        self,
        connect: Callable[[], AsyncClient],
        held: dict[int, HeldJob],
        waiting: deque[HeldJob],
        told: Told,
        refused: Callable[[RotaError], None],
        lease_of: Callable[[str], float | None],
        beat_seconds: float | None = None,
    ) -> None:
        self._connect = connect
        self._held = held
        self._waiting = waiting
        self._told = told
        self._refused = refused
        self._lease_of = lease_of
        self._beat_seconds = beat_seconds
        self._flushing: list[tuple[HeldJob, asyncio.Future[None], int]] = []
        self._ended = False
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="rota-heartbeats", daemon=True
        )

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def stop(self) -> None:
        """Stop beating; returns when the thread has ended."""
        self._ended = True
        self._loop.call_soon_threadsafe(self._wake.set)
        self._thread.join()

    def said(self, job: HeldJob) -> None:
        """A handler has reported something; it is sent within a moment. Any thread may call it."""
        self._loop.call_soon_threadsafe(self._soon, job)

    async def flush(self, job: HeldJob) -> None:
        """Send what a job's handler has said and wait until it has arrived; called from the worker's loop."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._flush(job), self._loop))

    async def _flush(self, job: HeldJob) -> None:
        arrived = self._loop.create_future()
        self._flushing.append((job, arrived, FLUSH_TRIES))
        self._wake.set()
        await arrived

    def _soon(self, job: HeldJob) -> None:
        job.beat_due = min(job.beat_due, self._loop.time() + REPORT_SECONDS)
        self._wake.set()

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        async with self._connect() as self._client:
            self._ready.set()
            while not self._ended:
                await self._round()
                try:
                    await asyncio.wait_for(self._wake.wait(), self._tick())
                except TimeoutError:
                    continue
                self._wake.clear()
        for _, arrived, _ in self._flushing:
            arrived.cancel()

    def _tick(self) -> float:
        """Seconds until something is due."""
        if self._flushing:
            return SHORTEST_TICK_SECONDS
        due = min((job.beat_due for job in list(self._held.values()) if job.stop != "lost"), default=0.0)
        wait = due - self._loop.time() if due else LONGEST_TICK_SECONDS
        return min(max(wait, SHORTEST_TICK_SECONDS), LONGEST_TICK_SECONDS)

    async def _round(self) -> None:
        """Send what is due."""
        now = self._loop.time()
        flushing, self._flushing = self._flushing, []
        due = {id(job): job for job, _, _ in flushing}
        forgotten = []
        for job in list(self._held.values()):
            if job.stop == "lost":
                continue
            if not job.started and now >= job.claimed_at + job.lease_seconds:
                forgotten.append(job)
            elif now >= job.beat_due:
                due[id(job)] = job
        jobs = list(due.values())
        arrived_all = True
        for start in range(0, len(jobs), MOST_BEATS):
            arrived_all &= await self._beat(jobs[start : start + MOST_BEATS])
        for job, arrived, tries in flushing:
            left = tries if arrived_all else tries - 1
            if job.report and job.stop != "lost" and left:
                self._flushing.append((job, arrived, left))
            elif not arrived.done():
                arrived.set_result(None)
        if forgotten:
            await self._give_back(forgotten)

    async def _beat(self, jobs: list[HeldJob]) -> bool:
        """Send one heartbeat for each; whether the request arrived."""
        sent = self._loop.time()
        room = MOST_LOG_CHARACTERS
        said: list[Said] = []
        beats: list[BeatRequest] = []
        started: list[bool] = []
        for job in jobs:
            progress, text = job.report.take() if job.report and room > MAX_LOG_BYTES else (None, None)
            room -= len(text or "")
            said.append((progress, text))
            started.append(job.started and not job.beaten)
            beats.append(work.beat(job, self._lease_of(job.type), started[-1], progress, text))
        try:
            answers = await self._client.send(work.heartbeat_batch(beats))
        except RotaError as fault:
            log.debug("%d heartbeats were not accepted: %s", len(jobs), fault)
            if isinstance(fault, Unauthenticated | Forbidden):
                self._refused(fault)
            for job, (progress, text) in zip(jobs, said, strict=True):
                if job.report is not None:
                    job.report.put_back(progress, text)
                job.beat_due = self._loop.time() + min(self._interval(job) / 4, 1.0)
            return False
        for job, answer, told_start in zip(jobs, answers, started, strict=True):
            job.beat_due = sent + self._interval(job)
            if answer.status < 300:
                job.beaten |= told_start
                if answer.cancel_requested and job.stop is None and not job.settled:
                    self._tell(job, "cancelled")
            elif answer.status in {404, 409}:
                if not job.settled:
                    self._tell(job, "lost")
            else:
                log.warning("a heartbeat of job %d was refused with %d", job.id, answer.status)
        return True

    def _interval(self, job: HeldJob) -> float:
        """Seconds between two beats: at most a third of the shortest lease the job may have."""
        seconds = job.heartbeat_seconds
        lease = self._lease_of(job.type)
        if lease is not None:
            seconds = min(seconds, lease / 3)
        return seconds if self._beat_seconds is None else min(seconds, self._beat_seconds)

    def _tell(self, job: HeldJob, stop: Stop) -> None:
        job.stop = stop
        self._told(job, stop)

    async def _give_back(self, forgotten: list[HeldJob]) -> None:
        mine = []
        for job in forgotten:
            try:
                self._waiting.remove(job)  # atomic: whoever takes it out of the queue has it
            except ValueError:
                continue
            job.settled = True
            mine.append(job)
        if not mine:
            return
        try:
            await self._client.send(work.finish_batch([released(job, started=False) for job in mine]))
        except RotaError as fault:
            log.debug("%d jobs could not be given back, their leases will end: %s", len(mine), fault)
        for job in mine:
            if self._held.get(job.id) is job:
                del self._held[job.id]
