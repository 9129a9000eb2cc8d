"""Reading connections for an event loop: a few threads, each with a connection of its own."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from rota.errors import Unavailable
from rota.store.sqlite.connection import open_reader

READERS = 2
STEPS_BETWEEN_LOOKS = 1000
"""After so many steps of SQLite's virtual machine (some 10 µs) the deadline is looked at."""

T = TypeVar("T")


class ReadTimedOut(Unavailable):
    """A read was cut short by its deadline and had no part of its answer to give."""


class ReaderPool:
    """Runs reads off the event loop, at most ``size`` at once; others wait in the order they came."""

    def __init__(self, path: Path, *, size: int = READERS) -> None:
        """Open nothing yet: each thread opens its connection with its first read."""
        self._path = path
        self._own = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._executor = ThreadPoolExecutor(size, thread_name_prefix="rota-reader")

    async def run(self, read: Callable[[sqlite3.Connection], T], *, deadline_ms: int | None = None) -> T:
        """Call ``read`` with a connection that can only read, and return its answer.

        It must fetch what it wants: neither cursor nor transaction outlives the call, since an open one
        would keep the WAL from being checkpointed. ``deadline_ms`` counts from when the read starts, for
        all its statements together. Raises ``ReadTimedOut`` after that, ``StartError`` when the
        database cannot be opened, ``Unavailable`` when the pool is closed.
        """
        loop = asyncio.get_running_loop()
        try:
            answer = loop.run_in_executor(self._executor, partial(self._read, read, deadline_ms))
        except RuntimeError as error:
            raise Unavailable("the server is stopping: try again", retry_after=1) from error
        return await answer

    async def close(self) -> None:
        """Let the reads that were asked for finish, end the threads and close their connections."""
        await asyncio.to_thread(self._executor.shutdown)
        while self._opened:
            self._opened.pop().close()

    def _read(self, read: Callable[[sqlite3.Connection], T], deadline_ms: int | None) -> T:
        connection = self._connection()
        if deadline_ms is not None:
            deadline = time.monotonic() + deadline_ms / 1000
            connection.set_progress_handler(lambda: time.monotonic() > deadline, STEPS_BETWEEN_LOOKS)
        try:
            return read(connection)
        except sqlite3.OperationalError as error:
            if not interrupted(error):
                raise
            raise ReadTimedOut("the search took too long: narrow it down", retry_after=1) from error
        finally:
            connection.set_progress_handler(None, 0)
            connection.rollback()

    def _connection(self) -> sqlite3.Connection:
        own: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if own is None:
            own = self._own.connection = open_reader(self._path)
            self._opened.append(own)
        return own


def interrupted(error: sqlite3.Error) -> bool:
    """Whether a read was cut short by its deadline."""
    return getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_INTERRUPT
