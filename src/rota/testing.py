"""Tests with a real queue: a temporary SQLite file, a clock that the test moves, no server, no worker.

    def test_signing_up_sends_a_mail(rota_queue):
        sign_up("ada@example.com", queue=rota_queue.client)
        rota_queue.assert_enqueued(send_mail, to="ada@example.com")
        rota_queue.drain()

The fixture ``rota_queue`` comes with Rota; a fixture ``rota_tasks`` of yours returns the tasks it declares.
Without pytest, use :func:`queue`.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from rota.client import documents
from rota.client.aio import AsyncClient
from rota.client.client import Client
from rota.client.current import HeldJob
from rota.client.endings import call, called, completed, failed
from rota.client.jobs import ClaimedJob, JobInfo
from rota.client.tasks import Task, Tasks
from rota.clock import FakeClock
from rota.local import Local
from rota.services.recovery import Recovery
from rota.wire import OutcomeRequest

__all__ = ["FakeClock", "Queue", "queue"]

AT_ONCE: Final = 1_000
"""How many jobs ``run_pending`` takes."""


@contextmanager
def queue(
    folder: Path, tasks: Tasks | Iterable[Task[..., Any]] = (), *, clock: FakeClock | None = None
) -> Iterator[Queue]:
    """A queue in ``folder``, which is made; the tasks are declared as types and are those that run."""
    clock = clock or FakeClock()
    local = Local(folder, clock=clock)
    with local as client:
        opened = Queue(local, client, clock)
        opened.declare(*tasks)
        yield opened


class Queue:
    """The queue of a test.

    ``client`` and ``async_client`` are for the code under test. Handlers run in the test, when it says so:
    ``drain`` and ``run_pending``, and in async tests ``await adrain()``, ``await arun_pending()``. They run
    one after the other, in the order in which a worker would get them, without their time limits. What a
    handler raises ends its attempt as in a worker, and is logged: look at the job's ``status`` and ``error``.
    """

    def __init__(self, local: Local, client: Client, clock: FakeClock) -> None:
        self.client = client
        self.async_client: AsyncClient = local.connect()
        self.clock = clock
        self._local = local
        self._tasks = Tasks()

    def declare(self, *tasks: Task[..., Any] | str) -> None:
        """Take jobs of these tasks, or of types by name, which have no handler here."""
        for one in tasks:
            if isinstance(one, str):
                self.client.types.put(one)
            elif self._tasks.get(one.name) is not one:
                self._tasks.add(one)
                self.client.types.put(one.name)

    def advance(self, seconds: float) -> None:
        """Let time pass: delayed jobs become ready, leases lapse."""
        self.clock.advance(seconds)
        home = self._local.home
        home.start(Recovery(home.services.store).run_once()).result()

    # --- what was enqueued ------------------------------------------------------------------------

    def enqueued(self, task: Task[..., Any] | str | None = None, /, **arguments: Any) -> list[JobInfo]:
        """The jobs of a task or type, oldest first, in whatever state; only those with these arguments."""
        name = task.name if isinstance(task, Task) else task
        wanted = msgspec.json.decode(documents.encode(arguments, "arguments"))
        jobs = self.client.list() if name is None else self.client.list(type=name)
        return [job for job in jobs if _holds(job.payload, wanted)][::-1]

    def assert_enqueued(self, task: Task[..., Any] | str, /, **arguments: Any) -> JobInfo:
        """The first job of the task or type with these arguments. Raises AssertionError without one."""
        found = self.enqueued(task, **arguments)
        if not found:
            name = task.name if isinstance(task, Task) else task
            wanted = f" with {_shown(arguments)}" if arguments else ""
            there = [f"  {job.type} with {_shown(job.payload)} ({job.status})" for job in self.enqueued()]
            raise AssertionError(
                f"No job of type {name}{wanted} was enqueued. "
                + ("\n".join(["These were:", *there]) if there else "None was.")
            )
        return found[0]

    # --- running ----------------------------------------------------------------------------------

    def run_pending(self, *tasks: Task[..., Any]) -> list[JobInfo]:
        """Run what is ready now, once, at most 1,000 jobs; what handlers enqueue waits. The jobs that ran."""
        return self._run(self._attempts(tasks, once=True))

    def drain(self, *tasks: Task[..., Any], limit: int = AT_ONCE) -> list[JobInfo]:
        """Run until nothing of these tasks (none given: of all) is ready. The jobs, once per attempt.

        Raises AssertionError after ``limit`` attempts.
        """
        return self._run(self._attempts(tasks, limit=limit))

    async def arun_pending(self, *tasks: Task[..., Any]) -> list[JobInfo]:
        """As ``run_pending``, in the loop of an async test."""
        return [await one.arun() for one in self._attempts(tasks, once=True)]

    async def adrain(self, *tasks: Task[..., Any], limit: int = AT_ONCE) -> list[JobInfo]:
        """As ``drain``, in the loop of an async test."""
        return [await one.arun() for one in self._attempts(tasks, limit=limit)]

    def _run(self, attempts: Iterator[_Attempt]) -> list[JobInfo]:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return [one.run() for one in attempts]
        raise RuntimeError("an event loop is running: use 'await adrain()' or 'await arun_pending()'")

    def _attempts(
        self, tasks: Iterable[Task[..., Any]], *, once: bool = False, limit: int = AT_ONCE
    ) -> Iterator[_Attempt]:
        """Claims job after job; the caller runs each before it asks for the next."""
        chosen = Tasks(tasks)
        self.declare(*chosen)
        served = chosen if len(chosen) else self._tasks
        names = [one.name for one in served]
        ran = 0
        while names and (batch := self.client.claim_many(limit if once else 1, types=names)):
            for claimed in batch:
                ran += 1
                if ran > limit:
                    self.client.release(claimed, started=False)
                    raise AssertionError(
                        f"{limit} jobs ran and more wait. Does a handler enqueue itself? Else raise limit."
                    )
                task = served.get(claimed.type)
                assert task is not None
                yield _Attempt(self.client, task, claimed)
            if once:
                return


class _Attempt:
    """One run of a handler, reported when it has ended."""

    def __init__(self, client: Client, task: Task[..., Any], claimed: ClaimedJob) -> None:
        self._client = client
        self._task = task
        self._held = HeldJob(
            claimed.id,
            claimed.type,
            claimed.payload_json,
            claimed.lease_token,
            claimed.lease_seconds,
            claimed.heartbeat_seconds,
            claimed.timeout_seconds,
            claimed.retry_count,
            time.monotonic(),
            lambda _: None,
            claimed.queue,
            claimed.max_retries,
            claimed.traceparent,
        )

    def run(self) -> JobInfo:
        """Run the handler, report, and return the job as it is then."""
        context = contextvars.copy_context()
        try:
            if self._task.is_async:
                answer = context.run(asyncio.run, called(self._task, self._held))
            else:
                answer = context.run(call, self._task, self._held)
        except (Exception, asyncio.CancelledError) as error:
            return self._end(failed(self._held, error))
        return self._end(completed(self._held, answer))

    async def arun(self) -> JobInfo:
        """As ``run``, in the running loop; a sync handler runs in a thread."""
        try:
            if self._task.is_async:
                answer = await asyncio.create_task(called(self._task, self._held))
            else:
                answer = await asyncio.to_thread(call, self._task, self._held)
        except Exception as error:
            return self._end(failed(self._held, error))
        return self._end(completed(self._held, answer))

    def _end(self, outcome: OutcomeRequest) -> JobInfo:
        report = self._held.report
        while report:
            progress, text = report.take()
            self._client.heartbeat(self._held, started=True, progress=progress, log=text)
        (refused,) = self._client.finish_many([outcome])
        if refused is not None:
            raise refused
        return self._client.get(self._held.id)


def _holds(payload: Any, wanted: dict[str, Any]) -> bool:
    return not wanted or (isinstance(payload, dict) and wanted.items() <= payload.items())


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value, enc_hook=str).decode()
    return text if len(text) <= 200 else f"{text[:199]}…"
