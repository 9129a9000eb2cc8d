"""The course of the demo, from an empty folder to a verified sum."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, Protocol, Self

import msgspec

from rota.client.aio import AsyncClient
from rota.client.jobs import JobInfo, JobSpec
from rota.demo import tasks
from rota.demo.access import Access, read_admin_token
from rota.demo.files import Measure, Survey, measure, survey
from rota.demo.processes import Child
from rota.demo.verdict import Outcome, Plan, Verdict, verify
from rota.errors import RotaError, StartError
from rota.host import write_private

MOST_SECONDS: Final = 55.0
"""After this the demo gives up, so that it ends within a minute whatever happens."""
BATCH: Final = 250
FIRST_PART: Final = 0.6
"""How much is enqueued before a worker is killed; the rest comes while it is."""
KILL_AFTER: Final = 0.25
KILL_TRIES: Final = 6
STUMBLING: Final = 20
MISSING: Final = 5
MISSING_RETRIES: Final = 1
LOOK_SECONDS: Final = 0.25
WORKER_CONCURRENCY: Final = 4
PAGE: Final = 200


class Progress(msgspec.Struct, frozen=True):
    """How far it is. ``total`` counts all jobs of the demo, ``per_second`` the jobs done since the start."""

    total: int
    done: int
    failed: int
    retried: int
    per_second: float


class Summary(msgspec.Struct, frozen=True):
    """The end of the demo. ``killed_pid`` is the killed worker's, ``held`` the jobs it held then."""

    verdict: Verdict
    jobs: int
    killed_pid: int
    held: int
    seconds: float
    jobs_per_second: float


class Reporter(Protocol):
    """Who tells the audience."""

    def stage(self, title: str, text: str) -> None: ...

    def progress(self, now: Progress) -> None: ...


class Demo:
    """Use it as ``async with Demo(…) as demo``: at the end its processes are ended and its folder is removed.

    With ``keep`` the folder stays. Raises StartError when a process does not start.
    """

    def __init__(self, path: Path | None, reporter: Reporter, *, keep: bool = False) -> None:
        self.found: Survey = survey(path)
        self._reporter = reporter
        self._keep = keep
        self._stack = AsyncExitStack()
        self._workers: list[Child] = []
        self._done = 0
        self._retried: set[int] = set()
        self._failed = 0
        self._began = 0.0

    async def __aenter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="rota-demo-"))  # mode 0700
        if not self._keep:
            self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def data(self) -> Path:
        """The server's data folder."""
        return self.folder / "data"

    async def _start(self) -> None:
        server = await Child.start("server", ("serve", "--data", str(self.data), "--port", "0"), self.folder)
        self._stack.push_async_callback(server.stop)
        self.url = await server.ready_url()
        server.drain()
        self._reporter.stage("Server", f"{self.url} on an empty data folder, {self.data} (mode 0700)")

        async with AsyncClient(self.url, read_admin_token(self.data)) as admin:
            access = await Access.grant(admin, missing_retries=MISSING_RETRIES)
        self._reporter.stage("Types", ", ".join(access.types) + ": the server takes nothing else")
        self._reporter.stage("Tokens", "one hands jobs in, one runs them, one looks: no one may do more")
        self._producer = await self._stack.enter_async_context(AsyncClient(self.url, access.producer))
        self._observer = await self._stack.enter_async_context(AsyncClient(self.url, access.observer))
        self._worker_token = self.folder / "worker.token"
        write_private(self._worker_token, access.worker.encode("ascii") + b"\n")

        first, second = await self._start_worker(), await self._start_worker()
        self._reporter.stage("Workers", f"two processes, {first.pid} and {second.pid}")

    async def _start_worker(self) -> Child:
        name = f"w{len(self._workers) + 1}"
        worker = await Child.start(
            name,
            (
                *("worker", "rota.demo.tasks", "--url", self.url, "--token-file", str(self._worker_token)),
                *("--instance", name, "--concurrency", str(WORKER_CONCURRENCY)),
            ),
            self.folder,
        )
        self._stack.push_async_callback(worker.stop)
        worker.drain()
        self._workers.append(worker)
        return worker

    async def run(self) -> Summary:
        """Enqueue, watch, kill a worker, watch on, verify. Raises RotaError when it takes too long."""
        plan, specs = self._plan()
        more = f" (the first {len(self.found.files):,})" if self.found.is_cut else ""
        self._reporter.stage(
            "Files",
            f"{len(self.found.files):,} in {self.found.root}{more}, a job each; {len(plan.stumbling)} will "
            f"fail once, {len(plan.missing)} more jobs are for files that do not exist",
        )
        try:
            async with asyncio.timeout(MOST_SECONDS):
                return await self._run(plan, specs)
        except TimeoutError:
            raise RotaError(
                f"Only {self._done:,} of {len(specs):,} jobs had ended after {MOST_SECONDS:g} s. "
                "Is the machine very busy? A smaller folder takes less: rota demo --path FOLDER"
            ) from None

    def _plan(self) -> tuple[Plan, list[JobSpec]]:
        files = self.found.files
        stumbling = frozenset(files[:: max(1, len(files) // STUMBLING)][:STUMBLING])
        missing = [str(self.found.root / f"rota-demo-no-such-file-{n}") for n in range(1, MISSING + 1)]
        specs = [
            (tasks.stumble_then_measure if path in stumbling else tasks.measure_file).job(path=path)
            for path in files
        ]
        for n, path in enumerate(missing):
            specs.insert((n + 1) * len(specs) // (MISSING + 1), tasks.measure_missing.job(path=path))
        return Plan(frozenset(files), stumbling, frozenset(missing), MISSING_RETRIES), specs

    async def _run(self, plan: Plan, specs: Sequence[JobSpec]) -> Summary:
        self._began = time.monotonic()
        first = max(1, round(len(specs) * FIRST_PART))
        await self._enqueue(specs[:first])
        await self._watch(len(specs), first, until=round(len(specs) * KILL_AFTER))
        victim = self._workers[1]
        orphans = await self._kill(victim, specs[first:])
        self._reporter.stage(
            "Killed", f"worker {victim.name} (SIGKILL, pid {victim.pid}) with {len(orphans)} jobs in hand"
        )
        replacement = await self._start_worker()
        self._reporter.stage("Replaced", f"by worker {replacement.name}, pid {replacement.pid}")
        await self._watch(len(specs), len(specs), until=len(specs))
        seconds = time.monotonic() - self._began

        outcomes = await self._outcomes()
        self._retried = {one.id for one in outcomes if one.errors}
        self._report(len(specs))
        counted = await asyncio.to_thread(_count, self.found.files)
        return Summary(
            verdict=verify(plan, outcomes, counted, orphans),
            jobs=len(outcomes),
            killed_pid=victim.pid,
            held=len(orphans),
            seconds=round(seconds, 2),
            jobs_per_second=round(len(outcomes) / seconds, 1),
        )

    async def _enqueue(self, specs: Sequence[JobSpec]) -> None:
        for start in range(0, len(specs), BATCH):
            for entry in await self._producer.enqueue_many(specs[start : start + BATCH]):
                if isinstance(entry, RotaError):
                    raise entry

    async def _watch(self, total: int, enqueued: int, *, until: int) -> None:
        """Look on until so many of the jobs enqueued have ended."""
        while True:
            waiting = 0
            async for job in self._observer.list(status="pending,running", page_size=PAGE):
                waiting += 1
                if job.retry_count:
                    self._retried.add(job.id)
            self._failed = len([1 async for _ in self._observer.list(status="failed", page_size=PAGE)])
            self._done = enqueued - waiting
            self._report(total)
            if self._done >= until:
                return
            if all(worker.has_ended for worker in self._workers):
                raise StartError(f"The demo's workers have ended: {self._workers[-1].last_words()}")
            await asyncio.sleep(LOOK_SECONDS)

    def _report(self, total: int) -> None:
        rate = self._done / max(time.monotonic() - self._began, 0.001)
        self._reporter.progress(Progress(total, self._done, self._failed, len(self._retried), round(rate, 1)))

    async def _kill(self, victim: Child, rest: Sequence[JobSpec]) -> frozenset[int]:
        """Kill a worker while it holds jobs, and enqueue the rest; the jobs that it held.

        It is frozen first, so that what it holds can be read before it dies. Should it hold nothing just
        then, it goes on and the next part of the rest is tried.
        """
        part = len(rest) // KILL_TRIES + 1
        for start in range(0, len(rest), part):
            victim.send(signal.SIGSTOP)
            await self._enqueue(rest[start : start + part])
            await asyncio.sleep(LOOK_SECONDS)
            if await self._held_by(victim):
                await self._enqueue(rest[start + part :])
                break
            victim.send(signal.SIGCONT)
            await asyncio.sleep(LOOK_SECONDS)
        await victim.kill()
        await asyncio.sleep(LOOK_SECONDS)  # what it had sent before it was frozen may still be counted
        return await self._held_by(victim)

    async def _held_by(self, worker: Child) -> frozenset[int]:
        running = self._observer.list(status="running", page_size=PAGE)
        return frozenset(
            [job.id async for job in running if (job.worker_id or "").endswith(f"/{worker.name}")]
        )

    async def _outcomes(self) -> list[Outcome]:
        return [await self._outcome(job) async for job in self._observer.list(page_size=PAGE)]

    async def _outcome(self, job: JobInfo) -> Outcome:
        errors: tuple[str, ...] = ()
        if job.retry_count or job.has_error:
            errors = tuple(one.error or "" for one in await self._observer.attempts(job.id))
        result = None if job.result is None else msgspec.convert(job.result, Measure)
        return Outcome(job.id, job.payload["path"], job.status, result, errors)


def _count(files: Sequence[str]) -> dict[str, Measure]:
    return {path: measure(Path(path)) for path in files}
