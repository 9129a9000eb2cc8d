"""How Rota opens a SQLite file, and what it promises by that.

One connection of a process writes, in WAL mode with ``synchronous=FULL``: a commit that returned is on
the disk. It belongs to one thread. Others read (see ``readers.py``) and never hold up the writer.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from rota.errors import StartError, Unavailable

OLDEST_SQLITE = (3, 37, 0)
"""STRICT tables came with it."""

BUSY_SECONDS = 30.0
"""How long to wait for another connection's lock."""

CACHED_STATEMENTS = 256
WRITER_CACHE_KIB = 32 * 1024
READER_CACHE_KIB = 8 * 1024
CHECKPOINT_PAGES = 4000
"""The writer copies the WAL back when it has grown to this (16 MiB with pages of 4 KiB)."""

WAL_LIMIT_BYTES = 64 * 1024 * 1024
"""A WAL that a long read has let grow beyond this is cut back after the next checkpoint."""

_BOTH: Mapping[str, int | str] = {
    "busy_timeout": int(BUSY_SECONDS * 1000),
    "foreign_keys": "ON",
    "temp_store": "MEMORY",
    # A memory-mapped file turns an input/output error into a signal that kills the process.
    "mmap_size": 0,
}
_WRITER: Mapping[str, int | str] = {
    "synchronous": "FULL",
    "cache_size": -WRITER_CACHE_KIB,
    "wal_autocheckpoint": CHECKPOINT_PAGES,
    "journal_size_limit": WAL_LIMIT_BYTES,
    # Overwrites deleted rows where that costs no additional write. Some builds default to ON, which writes
    # every freed page once more; OFF would leave purged payloads readable in the pages still in use.
    "secure_delete": "FAST",
}
_READER: Mapping[str, int | str] = {
    "cache_size": -READER_CACHE_KIB,
    "query_only": "ON",
}
_COPY: Mapping[str, int | str] = {
    "synchronous": "OFF",
    "journal_mode": "MEMORY",
}

_PAUSE_SECONDS = (0.0005, 0.004)
_CONSTRAINT = re.compile(r"[A-Z ]+ constraint failed: (?P<name>[\w., ]{1,200})")

T = TypeVar("T")


def open_writer(path: Path) -> sqlite3.Connection:
    """The connection that writes; creates the file (mode 0600) if there is none.

    It commits nothing by itself and opens no transaction by itself: begin with :func:`immediate`. It may
    be opened and closed by any thread, but between these one thread alone uses it: two would share a
    transaction. Raises ``StartError`` when SQLite is too old or the file cannot be opened durably.
    """
    _require_sqlite()
    _create(path)
    connection = _open(path, {**_BOTH, **_WRITER}, ensure=_ensure_durable)
    # From here on `immediate` does the waiting; nothing else that a writer does meets a lock.
    _set(connection, "busy_timeout", 0)
    return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A connection that can only read a file which :func:`open_writer` has opened before.

    Used by one thread at a time. Raises ``StartError`` when SQLite is too old or there is no database.
    """
    _require_sqlite()
    return _open(path, {**_BOTH, **_READER})


def open_copy(path: Path) -> sqlite3.Connection:
    """A connection to a new file (mode 0600) for a copy of a whole database.

    Nothing of it is durable until the caller has closed it and synced the file. Raises ``StartError`` when
    the file cannot be made or there is one.
    """
    _require_sqlite()
    if path.exists():
        raise StartError("the copy's file exists already: name another one")
    _create(path)
    return _open(path, {**_BOTH, **_COPY})


def immediate(connection: sqlite3.Connection, *, seconds: float = BUSY_SECONDS) -> None:
    """Begin a transaction that holds the write lock.

    While others hold the lock it tries again for ``seconds``, every few milliseconds at random: SQLite's
    own waiting backs off to 100 ms, in step, and lets one of many processes starve. Raises
    ``Unavailable`` when the time is over.
    """
    try:
        _while_busy(partial(connection.execute, "BEGIN IMMEDIATE"), seconds)
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
        raise Unavailable("the database is busy: try again", retry_after=1) from error


def data_version(connection: sqlite3.Connection) -> int:
    """A number that differs from the last answer when another connection has committed in between."""
    (version,) = connection.execute("PRAGMA data_version").fetchone()
    return int(version)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another connection's lock was in the way (SQLITE_BUSY and its kinds)."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def describe(error: sqlite3.Error) -> str:
    """An error as it may be logged: class, SQLite's code and the constraint; never SQL text or a value."""
    words = [type(error).__name__, getattr(error, "sqlite_errorname", "")]
    if match := _CONSTRAINT.fullmatch(str(error)):
        words.append(match["name"])
    return " ".join(word for word in words if word)


def _require_sqlite() -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise StartError(
            f"SQLite {sqlite3.sqlite_version} is too old: use a Python built with SQLite 3.37 or newer"
        )


def _create(path: Path) -> None:
    """Make an empty file that only its owner may read; SQLite gives the same mode to its sidecars."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600))
    except FileExistsError:
        if not path.exists():
            raise StartError("the database is a symbolic link to nothing: remove or mend it") from None
    except OSError as error:
        raise StartError(
            f"the database file cannot be created ({error.strerror}): is its folder there and ours?"
        ) from error


def _open(
    path: Path,
    settings: Mapping[str, int | str],
    *,
    ensure: Callable[[sqlite3.Connection], None] | None = None,
) -> sqlite3.Connection:
    connection: sqlite3.Connection | None = None
    try:
        # mode=rw: SQLite must never create the file itself, with whatever mode the umask leaves.
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode=rw",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
        )
        for name, value in settings.items():
            _set(connection, name, value)
        if ensure is not None:
            ensure(connection)
        # The first look into the file: only now would a file of another kind be noticed.
        _while_busy(partial(connection.execute, "PRAGMA schema_version"), BUSY_SECONDS)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            reason = f"{describe(error)}: {_advice(error)}"
            raise StartError(f"the database cannot be opened, {reason}") from error
        raise
    return connection


def _set(connection: sqlite3.Connection, name: str, value: int | str) -> None:
    connection.execute(f"PRAGMA {name} = {value}")  # PRAGMA takes no parameters


def _ensure_durable(connection: sqlite3.Connection) -> None:
    # Of processes that open a new file at once, one switches it; SQLite refuses the others at once.
    answer = _while_busy(partial(connection.execute, "PRAGMA journal_mode = WAL"), BUSY_SECONDS)
    (mode,) = answer.fetchone()
    if mode != "wal":
        raise StartError(
            f"the database cannot use a write-ahead log (journal mode {mode}): it must lie on a local disk, "
            "network file systems cannot share the log's memory"
        )
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    if synchronous != 2:
        raise StartError(f"SQLite answers synchronous={synchronous}, not 2: use a build that can sync")


def _advice(error: sqlite3.Error) -> str:
    if is_busy(error):
        return "another process holds it; stop that or wait"
    if getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
        return "the file is no SQLite database or is damaged; name another or restore a backup"
    return "check that the file exists, is ours to write and lies on a local disk"


def _while_busy(attempt: Callable[[], T], seconds: float) -> T:
    """Try until another connection's lock is gone; after ``seconds`` its SQLITE_BUSY goes to the caller."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            pause = random.uniform(*_PAUSE_SECONDS)  # noqa: S311 - spreads processes, guards nothing
            if not is_busy(error) or time.monotonic() + pause > deadline:
                raise
            time.sleep(pause)
