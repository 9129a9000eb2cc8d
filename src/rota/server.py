"""The server process: opens the data, serves until it is told to stop, and leaves everything committed."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Final

import structlog
import uvicorn
import uvloop

from rota import compose, logs
from rota.clock import SystemClock
from rota.errors import StartError
from rota.host import ServerAddress, ServerFile, set_umask, warn_if_root
from rota.protocol import FrontProtocol
from rota.services.runner import Runner, Task
from rota.services.waiting import Waiting
from rota.settings import Settings, check_bind
from rota.web import Web, bracketed

KEEP_ALIVE_SECONDS: Final = 60
DRAIN_SECONDS: Final = 30
"""How long requests that have begun may go on after the server was told to stop."""
BACKLOG: Final = 2_048
ADDRESS_SECONDS: Final = 2.0

log = structlog.get_logger("rota.server")


def serve(settings: Settings, environ: Mapping[str, str] | None = None) -> None:
    """Serve until SIGTERM or SIGINT. Raises StartError when the server cannot start.

    Prints ``Rota is ready on http://HOST:PORT`` on standard output when it answers. ``environ`` is
    where the secret key may stand; the process's own environment by default.
    """
    set_umask()
    logs.configure(settings)
    warning = warn_if_root()
    if warning is not None:
        log.warning("runs_as_root", advice=warning)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(settings, os.environ if environ is None else environ, _say_ready))
    log.info("stopped", advice="Everything is on disk.")


async def run(settings: Settings, environ: Mapping[str, str], ready: Callable[[str], None]) -> None:
    """As :func:`serve`, in the running loop; ``ready`` gets the address when the server answers."""
    check_bind(settings)
    clock = SystemClock()
    with _listening(settings) as listener:
        if not settings.data.exists():
            log.info("makes_new_data_folder", path=str(settings.data.absolute()))
        async with compose.opened(settings, environ, clock) as services:
            scheme = "https" if settings.tls_cert else "http"
            url = f"{scheme}://{bracketed(settings.host)}:{listener.getsockname()[1]}"
            address = ServerFile(settings.data.absolute())

            own = ServerAddress(url, os.getpid(), clock.now())

            def answering() -> None:
                gc.collect()
                gc.freeze()  # what was built for the start lives as long as the process
                address.write(own)
                keeping.start()
                ready(url)

            async def found() -> None:
                # Another server on this folder, started later, took the file with it when it stopped.
                if await asyncio.to_thread(address.read) is None:
                    address.write(own)

            keeping = Runner([Task("address", ADDRESS_SECONDS, found)])

            server = _Server(_config(Web(services, settings), settings), services.waiting, answering)
            try:
                await server.serve(sockets=[listener])
            finally:
                await keeping.stop()
                address.remove()


def _say_ready(url: str) -> None:
    # Scripts and tests wait for this line.
    sys.stdout.write(f"Rota is ready on {url}\n")
    sys.stdout.flush()


def _listening(settings: Settings) -> socket.socket:
    """A socket bound to the address of the settings; listening begins when everything is open."""
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, settings.port))
        listener.setblocking(False)
    except OSError as refused:
        listener.close()
        raise StartError(
            f"cannot listen on {bracketed(settings.host)}:{settings.port}: {refused.strerror}; "
            "choose another --port or stop what uses it"
        ) from None
    return listener


def _config(web: Web, settings: Settings) -> uvicorn.Config:
    return uvicorn.Config(
        web,
        http=FrontProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        backlog=BACKLOG,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )


class _Server(uvicorn.Server):
    """uvicorn's server that says when it answers and lets waiting claims go when it stops."""

    def __init__(self, config: uvicorn.Config, waiting: Waiting, answering: Callable[[], None]) -> None:
        super().__init__(config)
        self._waiting = waiting
        self._answering = answering

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._answering()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._waiting.end()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - as uvicorn calls it
        # Unlike uvicorn's own, it does not raise the signal again: an orderly stop is exit code 0.
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.should_exit = True
