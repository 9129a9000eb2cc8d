"""In-process mode: the client's interface on a data folder or database, without a server.

    async with rota.Local("rota-data") as client:      # an AsyncClient
        await send_mail.enqueue(client, to="ada@example.com")

    with rota.Local("rota-data") as client:            # a Client
        send_mail.enqueue(client, to="ada@example.com")

The queue runs on a thread and event loop of its own, with all its loops: what blocks the application
neither delays recovery nor loses a lease. A call takes the way of a request from the route table on, so
it is judged and answered as the server would; there is no token, since access to the file is access
to everything. Servers and other processes may have the same data open.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar, Unpack

import msgspec
import structlog

from rota.api.call import Call as Request
from rota.api.routes import ROUTES
from rota.api.table import Table
from rota.client.aio import AsyncClient
from rota.client.client import Client
from rota.client.protocol import Answer, Call
from rota.client.tasks import Task, Tasks
from rota.client.worker import Worker, WorkerOptions, loop_factory
from rota.clock import Clock, SystemClock
from rota.compose import opened
from rota.domain.access import ALL_SCOPES, Grant, Principal
from rota.domain.job import PRIORITIES
from rota.errors import InternalError, RotaError, Unavailable
from rota.logs import to_standard_logging
from rota.problems import new_request_id, problem_body
from rota.services.services import Services
from rota.settings import Settings, load
from rota.web import Endpoint

T = TypeVar("T")

log = structlog.get_logger("rota.local")

_TABLE: Final = Table({(route.method, route.path): Endpoint(route) for route in ROUTES})
_encode: Final = msgspec.json.Encoder().encode


class Local:
    """The queue of a data folder, or of ``sqlite:///FILE``, in this process.

    ``data`` is made where it is missing; None means ``ROTA_DATA``, else ``./rota-data``. ``rota.toml`` in the
    folder and ``ROTA_*`` variables are read as by the server. Jobs are enqueued as ``local:<app_name>``,
    by default the setting ``app_name``. Open it with ``async with`` (an AsyncClient) or ``with`` (a Client);
    both may be used from any thread. Raises StartError when the settings or the data cannot be used.
    """

    def __init__(
        self, data: Path | str | None = None, *, app_name: str | None = None, clock: Clock | None = None
    ) -> None:
        flags = {"app_name": app_name}
        if isinstance(data, str) and "://" in data:
            data, flags["database"] = None, data
        self._settings = load(None if data is None else Path(data), None, os.environ, flags)
        self._clock = clock or SystemClock()
        self._home: Home | None = None

    @property
    def home(self) -> Home:
        """Where the queue runs. Raises Unavailable while it is not open."""
        if self._home is None:
            raise _closed()
        return self._home

    def __enter__(self) -> Client:
        self._open()
        return Client(transport=_Carried(self.home))

    def __exit__(self, *exc: object) -> None:
        self._close()

    async def __aenter__(self) -> AsyncClient:
        await asyncio.to_thread(self._open)
        return self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await asyncio.to_thread(self._close)

    def connect(self) -> AsyncClient:
        """A further client of the open queue."""
        return AsyncClient(transport=_AsyncCarried(self.home))

    def worker(self, tasks: Tasks | Iterable[Task[..., Any]], **options: Unpack[WorkerOptions]) -> Worker:
        """A worker on the open queue: ``run()`` it in the main thread, or ``await serve()``."""
        carried = _AsyncCarried(self.home)
        return Worker(None, None, tasks, connect=lambda _: AsyncClient(transport=carried, tries=1), **options)

    def _open(self) -> None:
        if self._home is not None:
            raise RuntimeError("this Local is open already: make another one for the same folder")
        to_standard_logging()
        self._home = Home(self._settings, self._clock)

    def _close(self) -> None:
        home, self._home = self.home, None
        home.close()


class Home:
    """The services of a queue, running on a thread of their own until they are closed."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Raises StartError when the data cannot be opened."""
        self.where = f"the queue in {settings.database_file.parent}"
        self._principal = Principal(
            id=f"local:{settings.app_name}",
            name="local",
            grant=Grant(scopes=ALL_SCOPES, max_priority=PRIORITIES["critical"]),
            kind="local",
        )
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._closed = False
        self._services: concurrent.futures.Future[Services] = concurrent.futures.Future()
        self._thread = threading.Thread(target=self._run, name="rota-local", daemon=True)
        self._thread.start()
        try:
            self.services = self._services.result()
        except RotaError:
            self._thread.join()
            raise

    def close(self) -> None:
        """End the loops, commit what was taken, close the database."""
        with self._lock:
            self._closed = True
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join()

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine beside the services. Raises Unavailable once they are closed."""
        with self._lock:  # nothing may be handed to the loop after its last turn
            if not self._closed:
                return asyncio.run_coroutine_threadsafe(work, self._loop)
        work.close()
        raise _closed()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        try:
            async with opened(self._settings, os.environ, self._clock) as services:
                self._services.set_result(services)
                await self._over.wait()
        except Exception as fault:
            if self._services.done():
                raise
            self._services.set_exception(fault)

    async def answer(self, call: Call[Any], body: bytes | None) -> Answer:
        """What the server would answer to this call."""
        request_id = new_request_id()
        try:
            return await self._served(call, body or b"", request_id)
        except RotaError as fault:
            return _refusal(fault, request_id)
        except Exception as error:
            # The class alone: messages may hold what a database said.
            log.error("call_failed", request_id=request_id, error=type(error).__name__)
            return _refusal(InternalError(), request_id)

    async def _served(self, call: Call[Any], body: bytes, request_id: str) -> Answer:
        path, _, query = call.path.partition("?")
        name = ""
        endpoint = _TABLE.literal.get((call.method, path))
        if endpoint is None:
            endpoint, name, missing = _TABLE.find(call.method, path)
            if missing is not None:
                raise missing
        assert endpoint is not None
        asked = endpoint.read_query(query.encode())
        traced = {} if call.traceparent is None else {b"traceparent": call.traceparent.encode()}
        request = Request(self.services, self._principal, traced, asked, name, request_id, "", _never)
        answer = await endpoint.handler(request, endpoint.read(body) if endpoint.read is not None else None)
        value = answer.value
        sent = b"" if value is None else value if isinstance(value, bytes) else _encode(value)
        headers = {header.decode(): text.decode("latin-1") for header, text in answer.headers}
        return Answer(answer.status, headers, sent)


class _Carried:
    """Carries the calls of a Client to a queue in this process."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.where = home.where

    def exchange(self, call: Call[Any], body: bytes | None) -> Answer:
        answering = self._home.start(self._home.answer(call, body))
        try:
            return answering.result()
        except concurrent.futures.CancelledError:
            raise _closed() from None
        except BaseException:
            answering.cancel()  # a KeyboardInterrupt: a claim that waits gives back what it gets
            raise

    def close(self) -> None:
        """The queue is closed by the Local that opened it."""


class _AsyncCarried:
    """Carries the calls of an AsyncClient, from whatever loop, to a queue in this process."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.where = home.where

    async def exchange(self, call: Call[Any], body: bytes | None) -> Answer:
        answering = asyncio.wrap_future(self._home.start(self._home.answer(call, body)))
        try:
            return await answering
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is None or caller.cancelling():
                raise
            raise _closed() from None

    async def close(self) -> None:
        """The queue is closed by the Local that opened it."""


def _refusal(fault: RotaError, request_id: str) -> Answer:
    headers = {} if fault.retry_after is None else {"retry-after": str(fault.retry_after)}
    return Answer(fault.status, headers, problem_body(fault, request_id))


def _closed() -> Unavailable:
    return Unavailable("the queue is not open: use it inside 'with rota.Local(…) as client:'")


async def _never() -> dict[str, Any]:
    """What a caller that cannot go away sends next."""
    await asyncio.get_running_loop().create_future()
    raise AssertionError("nobody sets this future")
