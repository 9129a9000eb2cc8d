"""A worker tells the server that it is there and what it runs, and learns whether to drain."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import socket
import unicodedata
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from rota import __version__
from rota.client import workers
from rota.client.aio import AsyncClient
from rota.client.tasks import Task
from rota.errors import RotaError, Unavailable
from rota.wire_admin import AnnouncedHandler, AnnounceRequest

log = logging.getLogger("rota.worker")

EVERY_SECONDS: Final = 30.0
MOST_DESCRIPTION: Final = 200
MOST_SCHEMA_BYTES: Final = 8_192
MOST_SCHEMAS_BYTES: Final = 131_072
_UNPRINTABLE: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Announcer:
    """Announces one worker until it is told to drain, or for ever. What goes wrong stops no work."""

    def __init__(
        self,
        client: AsyncClient,
        instance: str,
        tasks: Iterable[Task[..., Any]],
        concurrency: int,
        drain: Callable[[], None],
    ) -> None:
        self._client = client
        self._instance = instance
        self._drain = drain
        self._request = AnnounceRequest(
            host=_one_line(socket.gethostname())[:255],
            pid=os.getpid(),
            version=__version__,
            concurrency=concurrency,
            handlers=described(tasks),
            run=uuid.uuid4(),
        )
        self._refused = False

    async def run(self) -> None:
        while True:
            try:
                answer = await self._client.send(workers.announce(self._instance, self._request))
            except RotaError as fault:
                self._say(fault)
            else:
                self._refused = False
                if answer.drain_requested:
                    log.info("the server asks this worker to drain")
                    self._drain()
                    return
            await asyncio.sleep(EVERY_SECONDS)

    def _say(self, fault: RotaError) -> None:
        """An outage is told where jobs are fetched; a refusal once."""
        if not isinstance(fault, Unavailable) and not self._refused:
            self._refused = True
            log.warning("this worker is not listed by the server: %s", fault)


def described(tasks: Iterable[Task[..., Any]]) -> list[AnnouncedHandler]:
    """Each task with the first line of its docstring and the schema of its arguments.

    A schema that is too long, alone or together with those before it, is left out.
    """
    handlers, size = [], 0
    for one in tasks:
        schema = one.argument_schema()
        text = None if schema is None else msgspec.json.encode(schema)
        if text is not None and (len(text) > MOST_SCHEMA_BYTES or size + len(text) > MOST_SCHEMAS_BYTES):
            text = None
        size += len(text or b"")
        handlers.append(
            AnnouncedHandler(
                name=one.name,
                description=_first_line(one.function),
                schema=UNSET if text is None else Raw(text),
            )
        )
    return handlers


def _first_line(function: Callable[..., Any]) -> str:
    line = _one_line((inspect.getdoc(function) or "").strip().partition("\n")[0])
    return line if len(line) <= MOST_DESCRIPTION else line[: MOST_DESCRIPTION - 1] + "…"


def _one_line(text: str) -> str:
    """Without control and text-direction characters, which no description may hold."""
    return "".join(char for char in text if unicodedata.category(char) not in _UNPRINTABLE)
