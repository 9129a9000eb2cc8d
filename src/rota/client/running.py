"""Slots: each runs one handler at a time, in its own context, to an ending.

A slot is an asyncio task that takes job after job, so a short handler costs no task of its own, and
``asyncio.current_task``, timeouts and task groups work inside handlers as anywhere. Each handler
gets a fresh contextvars context: its steps are driven through it.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Final

from rota.client import attempt_log
from rota.client.current import HeldJob, Stop
from rota.client.endings import call, called, completed, failed
from rota.client.heartbeats import Heart
from rota.client.outbox import Outbox, failure
from rota.client.tasks import Tasks
from rota.client.threads import HandlerThreads

TURN_SECONDS: Final = 0.005
"""How long slots run handlers that never wait before the loop gets a turn for its other work."""
MEAN_WEIGHT: Final = 0.05
CLOSE_SECONDS: Final = 1.0


class Slot:
    """One place for a running handler."""

    __slots__ = ("job", "task")

    def __init__(self) -> None:
        self.job: HeldJob | None = None
        """The job whose async handler runs here; None when there is nothing to cancel."""
        self.task: asyncio.Task[None]


class Slots:
    """Runs what is in ``waiting`` in at most ``concurrency`` slots.

    ``moved`` is called when a waiting job has started and when a running one has ended.
    """

    def __init__(
        self,
        tasks: Tasks,
        concurrency: int,
        outbox: Outbox,
        waiting: deque[HeldJob],
        moved: Callable[[], None],
    ) -> None:
        self.heart: Heart
        self.running: set[HeldJob] = set()
        self.mean_seconds: float | None = None
        """How long handlers take, a moving mean; None before the first has ended."""
        self._tasks = tasks
        self._concurrency = concurrency
        self._outbox = outbox
        self._waiting = waiting
        self._moved = moved
        self._slots: list[Slot] = []
        self._idle: list[asyncio.Future[None]] = []
        self._loop = asyncio.get_running_loop()
        self._threads = HandlerThreads(self._loop)
        self._turn_ends = 0.0
        self._closed = False

    def wake(self) -> None:
        """See to it that somebody takes the next waiting job. A slot that has to wait wakes the next one."""
        while self._idle:
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)
                return
        if len(self._slots) < self._concurrency:
            slot = Slot()
            self._slots.append(slot)
            slot.task = self._loop.create_task(self._serve(slot))

    def stop(self, job: HeldJob, why: Stop) -> None:
        """Tell a handler to stop: an async one is cancelled, a sync one asks ``current_job().cancelled``."""
        job.stop = why
        for slot in self._slots:
            if slot.job is job:
                slot.task.cancel()

    async def close(self) -> None:
        """End all slots; handlers that do not stop are left behind."""
        self._closed = True
        for slot in self._slots:
            slot.task.cancel()
        if self._slots:
            await asyncio.wait([slot.task for slot in self._slots], timeout=CLOSE_SECONDS)
        self._threads.close()

    async def _serve(self, slot: Slot) -> None:
        waiting = self._waiting
        while not self._closed:
            try:
                job = waiting.popleft()
            except IndexError:
                idle = self._loop.create_future()
                self._idle.append(idle)
                await idle
                continue
            job.started = True
            attempt_log.started(job)
            self.running.add(job)
            self._moved()
            began = time.monotonic()
            try:
                await self._run(slot, job)
            finally:
                self.running.discard(job)
            now = time.monotonic()
            mean = self.mean_seconds
            took = now - began
            self.mean_seconds = took if mean is None else mean + (took - mean) * MEAN_WEIGHT
            self._moved()
            if now >= self._turn_ends:
                await asyncio.sleep(0)
                self._turn_ends = time.monotonic() + TURN_SECONDS

    async def _run(self, slot: Slot, job: HeldJob) -> None:
        task = self._tasks.get(job.type)
        assert task is not None, "jobs without a handler are given back before they wait"
        timer = None
        seconds = _shorter(task.timeout, job.timeout_seconds)
        if seconds is not None:
            timer = self._loop.call_later(seconds, self._expire, job)
        context = contextvars.copy_context()
        try:
            if task.is_async:
                slot.job = job
                try:
                    answer = await stepped(called(task, job), context, self._suspending)
                finally:
                    slot.job = None
            else:
                self._suspending()
                answer = await self._threads.run(lambda: context.run(call, task, job))
            cause: BaseException | None = None
            ending = completed(job, answer)
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # whatever a handler raises is its outcome
            if isinstance(error, asyncio.CancelledError) and job.stop is None and slot.task.cancelling():
                raise  # the slot itself is ended
            ending, cause = failed(job, error), error
        finally:
            if timer is not None:
                timer.cancel()
        while slot.task.cancelling():
            slot.task.uncancel()
        if job.stop == "timeout":
            ending, cause = failure(job, "timeout"), None
        if job.report and job.stop != "lost":
            await self.heart.flush(job)
        if job.stop != "lost":
            self._outbox.put(job, ending, cause)

    def _suspending(self) -> None:
        if self._waiting:
            self.wake()

    def _expire(self, job: HeldJob) -> None:
        if job.stop is not None:
            return
        task = self._tasks.get(job.type)
        if task is not None and not task.is_async:
            # The thread cannot be stopped. Its slot stays taken, the attempt is over.
            self._outbox.put(job, failure(job, "timeout"))
        self.stop(job, "timeout")


@types.coroutine
def stepped(
    coroutine: Coroutine[Any, Any, Any], context: contextvars.Context, suspending: Callable[[], None]
) -> Generator[Any, Any, Any]:
    """Await a coroutine, each step in ``context``; ``suspending`` is called before it first waits."""
    run = context.run
    try:
        waits_for = run(coroutine.send, None)
        suspending()
        while True:
            try:
                value = yield waits_for
            except BaseException as raised:  # a cancellation, most of all: the handler's to see
                waits_for = run(coroutine.throw, raised)
            else:
                waits_for = run(coroutine.send, value)
    except StopIteration as end:
        return end.value


def _shorter(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
