"""The worker: fetches jobs, runs their tasks and reports how they ended.

    Worker(url, token, tasks, concurrency=20).run()

One loop runs async handlers, threads run sync ones, and heartbeats have a thread of their own.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, TypedDict

from rota.client.aio import AsyncClient
from rota.client.announcing import Announcer
from rota.client.claiming import WAIT_SECONDS, Claimer
from rota.client.current import HeldJob, Stop
from rota.client.heartbeats import Heart
from rota.client.outbox import Outbox, failure, released
from rota.client.running import Slots
from rota.client.tasks import Task, Tasks
from rota.domain.job import DEFAULT_LEASE_SECONDS, MAX_LEASE_SECONDS, MIN_LEASE_SECONDS
from rota.domain.names import LABEL
from rota.errors import RotaError, StartError
from rota.wire import ClaimBatchRequest

log = logging.getLogger("rota.worker")

FLUSH_SECONDS: Final = 10.0
"""How long a worker that ends tries to report what it has done."""
TIMEOUT_SECONDS: Final = 30.0
BEAT_TIMEOUT_SECONDS: Final = 5.0
MOST_TYPES: Final = 100


Connect = Callable[[float], AsyncClient]
"""Makes a client whose tries take at most so many seconds; called once by each of the worker's loops."""


class WorkerOptions(TypedDict, total=False):
    """What a :class:`Worker` takes beside its tasks and the way to the server."""

    concurrency: int
    prefetch: int | None
    queues: list[str] | None
    instance: str | None
    lease_seconds: float | None
    heartbeat_seconds: float | None
    grace_seconds: float


class Worker:
    """Runs tasks for the jobs that the server hands out.

    ``concurrency``: handlers at once. ``prefetch``: jobs fetched ahead of a free slot, at most
    ``concurrency``; None fetches ahead only while handlers are short. ``instance``: what this worker is
    called beside its token's name; host and process id by default. ``lease_seconds`` (2 to 86,400) asks for
    a lease other than the type's; ``heartbeat_seconds`` beats more often than three times in a lease.
    ``grace_seconds``: how long a stopping worker lets its running handlers go on. ``connect``: how the worker
    of a :class:`rota.Local` reaches its queue.

    Raises StartError when the settings contradict each other or an argument of a task cannot be read.
    """

    def __init__(
        self,
        url: str | None,
        token: str | None,
        tasks: Tasks | Iterable[Task[..., Any]],
        *,
        concurrency: int = 10,
        prefetch: int | None = None,
        queues: list[str] | None = None,
        instance: str | None = None,
        lease_seconds: float | None = None,
        heartbeat_seconds: float | None = None,
        grace_seconds: float = 30.0,
        insecure_http: bool = False,
        connect: Connect | None = None,
    ) -> None:
        self._connect = connect or partial(_connected, url, token, insecure_http)
        self._tasks = tasks if isinstance(tasks, Tasks) else Tasks(tasks)
        self._concurrency = concurrency
        self._prefetch = prefetch
        self._lease_seconds = lease_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._grace_seconds = grace_seconds
        self._queues = queues
        self._instance = instance or _own_name()
        self._check()
        self._leases = {one.name: one.lease for one in self._tasks}
        self._held: dict[int, HeldJob] = {}
        self._waiting: deque[HeldJob] = deque()
        self._fatal: RotaError | None = None
        self._reachable = True
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self) -> None:
        """Work until SIGTERM or SIGINT, then drain; a second signal ends the grace at once.

        Call it in the main thread. Raises the error that made going on pointless: a token that is not
        accepted, a type the server does not know.
        """
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._serve_with_signals())

    async def serve(self) -> None:
        """Work until ``stop`` is called, then drain. Raises as ``run`` does."""
        self._loop = asyncio.get_running_loop()
        self._draining = asyncio.Event()
        self._hurry = asyncio.Event()
        self._ended = asyncio.Event()
        async with self._connect(TIMEOUT_SECONDS) as client:
            outbox = Outbox(client, self._held, self._reached, self._refused)
            slots = Slots(self._tasks, self._concurrency, outbox, self._waiting, self._job_moved)
            heart = Heart(
                lambda: self._connect(BEAT_TIMEOUT_SECONDS),
                self._held,
                self._waiting,
                self._told,
                self._beats_refused,
                self._leases.get,
                self._heartbeat_seconds,
            )
            slots.heart = heart
            self._slots, self._outbox = slots, outbox
            self._claimer = self._make_claimer(client, heart)
            heart.start()
            reporting = asyncio.create_task(outbox.run())
            claiming = asyncio.create_task(self._claimer.run())
            announcing = asyncio.create_task(self._announcer(client).run())
            try:
                told = asyncio.create_task(self._draining.wait())
                await asyncio.wait({claiming, told, reporting}, return_when=asyncio.FIRST_COMPLETED)
                told.cancel()
                if claiming.done() or self._fatal is not None:
                    self._hurry.set()  # nothing that still runs could be reported
                await self._drain(claiming)
            finally:
                for task in (claiming, reporting, announcing):
                    task.cancel()
                await slots.close()
                await asyncio.to_thread(heart.stop)
        for task in (claiming, reporting):
            if task.done() and not task.cancelled() and (raised := task.exception()) is not None:
                raise raised
        if self._fatal is not None:
            raise self._fatal

    def stop(self) -> None:
        """Drain; called again: end the grace at once. Any thread may call it."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._draining.is_set():
            self._hurry.set()
        else:
            log.info("stopping: %d jobs are still running", len(self._slots.running))
            self._draining.set()

    async def _serve_with_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        await self.serve()

    async def _drain(self, claiming: asyncio.Task[None]) -> None:
        """Start nothing more, give back what has not started, let the rest end within the grace."""
        claiming.cancel()
        await asyncio.wait({claiming})
        while self._waiting:
            job = self._waiting.popleft()
            self._outbox.put(job, released(job, started=False))
        await self._claimer.give_back()
        if not await self._all_ended():
            for job in list(self._slots.running):
                self._outbox.put(job, failure(job, "worker stopped"))
                self._slots.stop(job, "stopped")
        try:
            await asyncio.wait_for(self._outbox.empty(), FLUSH_SECONDS)
        except TimeoutError:
            log.error("%d jobs could not be reported; their leases will run out", len(self._held))

    async def _all_ended(self) -> bool:
        """Wait for running handlers; False when the grace is over first."""
        hurry = asyncio.create_task(self._hurry.wait())
        timer = asyncio.create_task(asyncio.sleep(self._grace_seconds))
        try:
            while self._slots.running and not (hurry.done() or timer.done()):
                self._ended.clear()
                ended = asyncio.create_task(self._ended.wait())
                await asyncio.wait({ended, hurry, timer}, return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
            return not self._slots.running
        finally:
            hurry.cancel()
            timer.cancel()

    def _make_claimer(self, client: AsyncClient, heart: Heart) -> Claimer:
        request = ClaimBatchRequest(
            types=[one.name for one in self._tasks],
            queues=self._queues,
            wait_seconds=WAIT_SECONDS,
            lease_seconds=self._lease_seconds,
            instance=self._instance,
            limit=1,
        )
        return Claimer(
            client,
            request,
            self._tasks,
            self._slots,
            self._outbox,
            self._held,
            self._waiting,
            heart.said,
            self._reached,
            concurrency=self._concurrency,
            prefetch=self._prefetch,
        )

    def _announcer(self, client: AsyncClient) -> Announcer:
        return Announcer(client, self._instance, self._tasks, self._concurrency, self._draining.set)

    def _job_moved(self) -> None:
        self._claimer.room_made()
        if self._draining.is_set():
            self._ended.set()

    def _told(self, job: HeldJob, stop: Stop) -> None:
        """From the heart's thread: the server wants a handler to stop."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._stop_job, job, stop)

    def _beats_refused(self, fault: RotaError) -> None:
        """From the heart's thread: the token is not accepted any more."""
        assert self._loop is not None
        self._loop.call_soon_threadsafe(self._refused, fault)

    def _stop_job(self, job: HeldJob, stop: Stop) -> None:
        try:
            self._waiting.remove(job)
        except ValueError:
            self._slots.stop(job, stop)
        else:
            if stop != "lost":
                self._outbox.put(job, released(job, started=False))
        if stop == "lost":
            log.warning("job %d (%s) was lost to the server: what it does is not reported", job.id, job.type)
            job.settled = True
            if self._held.get(job.id) is job:
                del self._held[job.id]

    def _reached(self, reached: bool) -> None:
        """Say once that the server is away, and once that it is back."""
        if reached != self._reachable:
            self._reachable = reached
            if reached:
                log.info("the server answers again")
            else:
                log.warning("the server does not answer; trying on")

    def _refused(self, fault: RotaError) -> None:
        if self._fatal is None:
            self._fatal = fault
            self._draining.set()

    def _check(self) -> None:
        if not 1 <= len(self._tasks) <= MOST_TYPES:
            raise StartError(f"A worker serves 1 to {MOST_TYPES} tasks, not {len(self._tasks)}.")
        if self._concurrency < 1:
            raise StartError("concurrency must be at least 1.")
        if self._prefetch is not None and not 0 <= self._prefetch <= self._concurrency:
            raise StartError(f"prefetch must be 0 to {self._concurrency}, the concurrency.")
        if not LABEL.fullmatch(self._instance):
            raise StartError("instance must be 1 to 64 letters, digits, dots, hyphens or underscores.")
        if self._grace_seconds < 0:
            raise StartError("grace_seconds must not be negative.")
        for one in self._tasks:
            one.check()
        leases = [self._lease_seconds, *(one.lease for one in self._tasks)]
        asked = [lease for lease in leases if lease is not None]
        for lease in asked:
            if not MIN_LEASE_SECONDS <= lease <= MAX_LEASE_SECONDS:
                raise StartError(f"A lease is {MIN_LEASE_SECONDS} to {MAX_LEASE_SECONDS} s, not {lease:g} s.")
        shortest = min(asked, default=DEFAULT_LEASE_SECONDS)
        beat = self._heartbeat_seconds
        if beat is not None and not 0 < beat <= shortest / 3:
            raise StartError(
                f"A heartbeat every {beat:g} s cannot keep a lease of {shortest:g} s: "
                f"heartbeat_seconds must be at most {shortest / 3:g}."
            )


def _own_name() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:48] or "worker"
    return f"{host}.{os.getpid()}"


def _connected(url: str | None, token: str | None, insecure_http: bool, timeout: float) -> AsyncClient:
    return AsyncClient(url, token, timeout=timeout, insecure_http=insecure_http, tries=1)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes the fastest event loop there is here; None for the standard one."""
    try:
        import uvloop  # noqa: PLC0415  # installed with the server; a worker does without
    except ImportError:
        return None
    return uvloop.new_event_loop
